// SPDX-License-Identifier: Apache-2.0
//
// Builds loops of steps. A loop is an ls_step_while whose condition also checks
// that each replica has a tuple, so that the loop ends with the data before a
// step has changed anything.
#include "tpu/steps/steps.h"

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "graph/region.h"
#include "lockstep/flow.h"
#include "lockstep/replicate.h"
#include "tpu/feeds/feed.h"
#include "tpu/replicate/replicate.h"

// The loop being built. Its loop values are the count (if the loop counts),
// then the state; without count and state, a single zero.
typedef struct building {
  const ls_step_loop *loop;
  ls_infeed_queue *queue;
  ls_allocator *allocator;
  bool is_counted;
  size_t num_state;
  const ls_tensor *initial;
} building;

// ---- The loop's values -----------------------------------------------------
static bool has_first(const building *b) {
  return b->is_counted || b->num_state == 0;
}

static ls_nest list_values(ls_kind kind, const ls_tensor *first,
                           const ls_tensor *state, size_t num_state) {
  LS_OWN(ls_nest_builder, items) = {0};
  if (first != NULL) ls_nest_builder_append(&items, ls_leaf(*first));
  for (size_t i = 0; i < num_state; ++i)
    ls_nest_builder_append(&items, ls_leaf(state[i]));
  return ls_nest_builder_finish(&items, kind);
}

static ls_nest initial_values(const building *b) {
  if (!has_first(b))
    return list_values(LS_KIND_TUPLE, NULL, b->initial, b->num_state);
  const ls_tensor zero =
      ls_scalar(b->is_counted ? LS_DTYPE_I64 : LS_DTYPE_I32, 0);
  return list_values(LS_KIND_TUPLE, &zero, b->initial, b->num_state);
}

// Fills a step with the loop's values; step->state has room for them.
static void read_values(const building *b, ls_nest values, ls_step *step) {
  const size_t skipped = has_first(b);
  step->index = b->is_counted ? ls_nest_tensor(values, 0) : ls_failed_tensor();
  step->num_state = b->num_state;
  for (size_t i = 0; i < b->num_state; ++i)
    step->state[i] = ls_nest_tensor(values, skipped + i);
}

// ---- The condition ---------------------------------------------------------
static ls_status find_goes_on(const building *b, const ls_step *step,
                              ls_tensor *out_goes_on) {
  const ls_step_loop *loop = b->loop;
  if (loop->goes_on != NULL)
    return loop->goes_on(step, loop->user, out_goes_on);
  *out_goes_on =
      ls_less(step->index, loop->limit.graph != NULL
                               ? loop->limit
                               : ls_scalar(LS_DTYPE_I64, (double)loop->times));
  return ls_ok();
}

// Builds the check that every replica has a tuple. The result is one value, the
// same for all replicas.
static ls_status find_ready(const building *b, ls_tensor goes_on,
                            ls_tensor *out_is_ready) {
  const ls_infeed_queue *queue = b->queue;
  LS_OWN_ARRAY_OR_RETURN(b->allocator, ls_type, types, queue->count);
  LS_RETURN_IF_ERROR(ls_infeed_queue_dequeue_types(queue, types));
  LS_DEVICE_SCOPE("/device:TPU_REPLICATED_CORE:0");
  const ls_op op =
      ls_feed_dequeue(LS_INFEED_READY, NULL,
                      &(ls_feed_options){.assignment = queue->assignment,
                                         .types = types,
                                         .parts = queue->parts,
                                         .count = queue->count},
                      &goes_on, 1);
  const ls_tensor zero = ls_scalar(LS_DTYPE_I32, 0);
  *out_is_ready =
      ls_greater(ls_all_reduce(LS_REDUCE_MIN, ls_op_output(op, 0)), zero);
  return ls_ok();
}

static ls_status build_condition(const building *b, ls_nest values,
                                 ls_tensor *out_goes_on) {
  ls_step step = {.elements = ls_none()};
  LS_OWN_FIELD(b->allocator, step.state);
  LS_SET_ARRAY_OR_RETURN(b->allocator, ls_tensor, step.state, b->num_state + 1);
  read_values(b, values, &step);
  LS_RETURN_IF_ERROR(find_goes_on(b, &step, out_goes_on));
  return b->queue != NULL ? find_ready(b, *out_goes_on, out_goes_on) : ls_ok();
}

static ls_nest condition_of(ls_nest values, void *user) {
  ls_tensor goes_on;
  LS_RETURN_FAILED_IF_ERROR(build_condition(user, values, &goes_on));
  return ls_leaf(goes_on);
}

// ---- A step ----------------------------------------------------------------
static ls_status add_op(ls_step *step, ls_op op) {
  LS_PUSH_OR_RETURN(ls_current_allocator(), step->ops, step->num_ops,
                    step->ops_capacity, op);
  return ls_ok();
}

static void append_types(ls_text *text, const ls_tensor *tensors,
                         size_t count) {
  ls_text_append(text, "(");
  for (size_t i = 0; i < count; ++i)
    ls_text_append_format(text, i == 0 ? "%s" : ", %s",
                          ls_dtype_name(ls_tensor_dtype(tensors[i])));
  ls_text_append(text, ")");
}

static ls_status check_types(const ls_step *step, const ls_tensor *values,
                             size_t count) {
  bool is_same = count == step->num_state;
  for (size_t i = 0; is_same && i < count; ++i)
    is_same = ls_tensor_is_failed(values[i]) ||
              ls_tensor_dtype(values[i]) == ls_tensor_dtype(step->state[i]);
  if (is_same) return ls_ok();
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  append_types(&text, step->state, step->num_state);
  ls_text_append(&text, " and ");
  append_types(&text, values, count);
  return ls_invalid_argument("Mismatch between input types and output types of "
                             "a training loop's body: %s",
                             ls_text_data(&text));
}

ls_status ls_step_take(ls_step *step, ls_nest made) {
  const bool is_list = made.kind == LS_KIND_LIST || made.kind == LS_KIND_TUPLE;
  const size_t count = made.kind == LS_KIND_NONE ? 0
                       : is_list                 ? ls_nest_count(made)
                                                 : 1;
  LS_OWN_ARRAY_OR_RETURN(ls_current_allocator(), ls_tensor, values, count + 1);
  size_t num_values = 0;
  for (size_t i = 0; i < count; ++i) {
    const ls_nest item = is_list ? ls_nest_item(made, i) : made;
    if (item.kind == LS_KIND_OP)
      LS_RETURN_IF_ERROR(add_op(step, item.as.op));
    else if (step->num_ops > 0)
      return ls_invalid_argument(
          "the body of a training loop must return zero or more Tensor values "
          "followed by zero or more Operations");
    else
      LS_RETURN_IF_ERROR(
          ls_status_annotate(ls_region_tensor(item, &values[num_values++]),
                             "result %zu of a training loop's body", i));
  }
  LS_RETURN_IF_ERROR(check_types(step, values, num_values));
  for (size_t i = 0; i < num_values; ++i)
    step->state[i] = values[i];
  return ls_ok();
}

// Returns the values of the next step, after the step's ops.
static ls_nest next_values(const building *b, ls_nest values, ls_step *step) {
  LS_CONTROL_SCOPE(step->ops, step->num_ops);
  for (size_t i = 0; i < step->num_state && step->num_ops > 0; ++i)
    step->state[i] = ls_identity(step->state[i]);
  if (!has_first(b))
    return list_values(LS_KIND_TUPLE, NULL, step->state, step->num_state);
  const ls_tensor before = ls_nest_tensor(values, 0);
  const ls_tensor first = b->is_counted
                              ? ls_add(before, ls_scalar(LS_DTYPE_I64, 1))
                              : ls_identity(before);
  return list_values(LS_KIND_TUPLE, &first, step->state, step->num_state);
}

static ls_status build_body(const building *b, ls_nest values,
                            ls_nest *out_next) {
  LS_OWN(ls_nest, elements) = ls_none();
  ls_step step = {.num_state = b->num_state};
  LS_OWN_FIELD(b->allocator, step.state);
  LS_OWN_FIELD(b->allocator, step.ops);
  LS_SET_ARRAY_OR_RETURN(b->allocator, ls_tensor, step.state, b->num_state + 1);
  read_values(b, values, &step);
  if (b->queue != NULL)
    LS_RETURN_IF_ERROR(ls_infeed_queue_dequeue(b->queue, 0, &elements));
  step.elements = elements;
  LS_RETURN_IF_ERROR(b->loop->step(&step, b->loop->user));
  if (ls_nest_count(elements) > 0)
    LS_RETURN_IF_ERROR(add_op(&step, b->queue->dequeue));
  *out_next = next_values(b, values, &step);
  return ls_ok();
}

static ls_nest body_of(ls_nest values, void *user) {
  ls_nest next = ls_none();
  return ls_made_nest(build_body(user, values, &next), &next);
}

// ---- The loop --------------------------------------------------------------
static ls_status prepare_infeed(const building *b) {
  if (b->queue == NULL) return ls_ok();
  const int32_t shards = ls_num_shards();
  if (shards == 0)
    return ls_failed_precondition(
        "a training loop with an infeed cannot be built where there is no "
        "tpu_shard_context: is it built directly, rather than inside of "
        "rewrite, batch_parallel, shard or replicate?");
  LS_RETURN_IF_ERROR(ls_infeed_queue_set_num_shards(b->queue, shards));
  return ls_infeed_queue_freeze(b->queue);
}

static ls_status build_here(const ls_step_loop *loop, ls_tensor *state,
                            size_t num_state, ls_tensor *out_count) {
  building b = {.loop = loop,
                .queue = loop->infeed,
                .allocator = ls_current_allocator(),
                .is_counted = loop->counts || loop->goes_on == NULL,
                .num_state = num_state,
                .initial = state};
  LS_RETURN_IF_ERROR(prepare_infeed(&b));
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(ls_take_nest(initial_values(&b), &made));
  made = ls_step_while(condition_of, body_of, &b, made, 0);
  LS_RETURN_IF_ERROR(ls_nest_status(made));
  ls_step last = {.state = state};
  read_values(&b, made, &last);
  if (out_count != NULL) *out_count = ls_nest_tensor(made, 0);
  return ls_ok();
}

ls_status ls_step_loop_build(const ls_step_loop *loop, ls_tensor *state,
                             size_t num_state, ls_tensor *out_count) {
  ls_infeed_attempt attempt;
  ls_nest none = ls_none();
  LS_RETURN_IF_ERROR(ls_infeed_attempt_begin(&attempt, loop->infeed));
  return ls_infeed_attempt_end(
      &attempt, build_here(loop, state, num_state, out_count), &none);
}

static ls_status build_over(const ls_step_loop *loop, ls_nest inputs,
                            ls_nest *outputs) {
  ls_tensor first;
  const size_t count = ls_nest_count(inputs);
  if (inputs.kind != LS_KIND_NONE && !ls_nest_is_node(inputs))
    return ls_invalid_argument(
        "the inputs of a training loop are a list, is given %s",
        LS_NEST_TEXT(inputs));
  LS_OWN_ARRAY_OR_RETURN(ls_current_allocator(), ls_tensor, state, count + 1);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        ls_status_annotate(ls_region_tensor(ls_nest_item(inputs, i), &state[i]),
                           "input %zu of a training loop", i));
  LS_RETURN_IF_ERROR(build_here(loop, state, count, &first));
  if (count > 0)
    return ls_take_nest(list_values(LS_KIND_LIST, NULL, state, count), outputs);
  *outputs = ls_nest_op(ls_tensor_op(first));
  return ls_ok();
}

ls_status ls_step_loop_build_nest(const ls_step_loop *loop, ls_nest inputs,
                                  ls_nest *outputs) {
  ls_infeed_attempt attempt;
  *outputs = ls_none();
  LS_RETURN_IF_ERROR(ls_nest_status(inputs));
  LS_RETURN_IF_ERROR(ls_scope_status());
  LS_RETURN_IF_ERROR(ls_infeed_attempt_begin(&attempt, loop->infeed));
  return ls_infeed_attempt_end(&attempt, build_over(loop, inputs, outputs),
                               outputs);
}

// ---- Training loops --------------------------------------------------------
// Calls the user's function with the state, then the elements.
static ls_status call_user(const ls_step *step, ls_callback call, void *user,
                           const ls_parameters *parameters, const char *name,
                           ls_nest *out_made) {
  LS_OWN(ls_nest_builder, items) = {0};
  LS_OWN(ls_nest, given) = ls_none();
  LS_OWN(ls_nest, bound) = ls_none();
  for (size_t i = 0; i < step->num_state; ++i)
    ls_nest_builder_append(&items, ls_leaf(step->state[i]));
  for (size_t i = 0; i < ls_nest_count(step->elements); ++i)
    ls_nest_builder_append(&items,
                           ls_nest_retain(ls_nest_item(step->elements, i)));
  LS_RETURN_IF_ERROR(
      ls_take_nest(ls_nest_builder_finish(&items, LS_KIND_TUPLE), &given));
  LS_RETURN_IF_ERROR(
      ls_parameters_bind(parameters, name, given, ls_none(), &bound));
  *out_made = call(bound, user);
  return ls_nest_status(*out_made);
}

static const char condition_name[] = "the condition of a training loop";
static const char body_name[] = "the body of a training loop";

static ls_status training_goes_on(const ls_step *step, void *user,
                                  ls_tensor *out_goes_on) {
  const ls_training_loop *loop = user;
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(call_user(step, loop->condition, loop->user,
                               loop->condition_parameters, condition_name,
                               &made));
  return ls_status_annotate(
      ls_region_tensor(ls_nest_is_node(made) ? ls_nest_item(made, 0) : made,
                       out_goes_on),
      "%s", condition_name);
}

static ls_status training_step(ls_step *step, void *user) {
  const ls_training_loop *loop = user;
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(call_user(step, loop->body, loop->user,
                               loop->body_parameters, body_name, &made));
  return ls_step_take(step, made);
}

static ls_status training_build(const ls_training_loop *loop, bool is_counted,
                                int64_t times, ls_nest inputs,
                                ls_nest *outputs) {
  LS_RETURN_IF_ERROR(ls_nest_status(inputs));
  LS_RETURN_IF_ERROR(ls_scope_status());
  if (!is_counted)
    LS_RETURN_IF_ERROR(ls_check_arity(loop->condition_parameters,
                                      condition_name, inputs, loop->infeed,
                                      false));
  LS_RETURN_IF_ERROR(ls_check_arity(loop->body_parameters, body_name, inputs,
                                    loop->infeed, true));
  return ls_step_loop_build_nest(
      &(ls_step_loop){.step = training_step,
                      .goes_on = is_counted ? NULL : training_goes_on,
                      .times = times,
                      .user = (void *)(uintptr_t)loop,
                      .infeed = loop->infeed},
      inputs, outputs);
}

ls_status ls_training_while(const ls_training_loop *loop, ls_nest inputs,
                            ls_nest *outputs) {
  LS_REQUIRE_OUT(outputs, loop, loop->condition, loop->body);
  return training_build(loop, false, 0, inputs, outputs);
}

ls_status ls_training_repeat(int64_t times, const ls_training_loop *loop,
                             ls_nest inputs, ls_nest *outputs) {
  LS_REQUIRE_OUT(outputs, loop, loop->body);
  return training_build(loop, true, times, inputs, outputs);
}
