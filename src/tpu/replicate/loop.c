// SPDX-License-Identifier: Apache-2.0
//
// Training loops: an ls_step_while whose condition also asks whether there is a
// tuple for each replica. So the end of data is the end of the loop, and what a
// trip changes is untouched then.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "graph/make/make.h"
#include "graph/region.h"
#include "lockstep/flow.h"
#include "lockstep/replicate.h"
#include "lockstep/training_loop.h"
#include "tpu/feeds/infeed_queue.h"
#include "tpu/replicate/arity.h"

// What goes round: a counter if it is counted, then the inputs; a zero alone if
// there is nothing else.
typedef struct building {
  const ls_training_loop *loop;
  ls_infeed_queue *queue;
  ls_allocator *allocator;
  bool is_counted;
  int64_t times;
  size_t num_inputs;
  ls_tensor *inputs;
} building;

// ---- What goes round -------------------------------------------------------
static ls_status take_inputs(building *b, ls_nest inputs) {
  char text[200];
  if (inputs.kind != LS_KIND_NONE && !ls_nest_is_node(inputs))
    return ls_invalid_argument("the inputs of a training loop are a list, is "
                               "given %s",
                               ls_nest_print(inputs, text, sizeof(text)));
  b->num_inputs = ls_nest_count(inputs);
  b->inputs = ls_new_array(b->allocator, ls_tensor, b->num_inputs + 1);
  if (b->inputs == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < b->num_inputs; ++i)
    LS_RETURN_IF_ERROR(ls_status_annotate(
        ls_region_tensor(ls_nest_item(inputs, i), &b->inputs[i]),
        "input %zu of a training loop", i));
  return ls_ok();
}

// A tuple of `count` items, behind one that goes first if there is one.
static ls_nest tuple_of(const ls_tensor *first, const ls_tensor *tensors,
                        size_t count) {
  LS_OWN(ls_nest_builder, items) = {0};
  if (first != NULL) ls_nest_builder_append(&items, ls_leaf(*first));
  for (size_t i = 0; i < count; ++i)
    ls_nest_builder_append(&items, ls_leaf(tensors[i]));
  return ls_nest_builder_finish(&items, LS_KIND_TUPLE);
}

static ls_nest initial_values(const building *b) {
  const ls_tensor zero =
      ls_scalar(b->is_counted ? LS_DTYPE_I64 : LS_DTYPE_I32, 0);
  const bool has_zero = b->is_counted || b->num_inputs == 0;
  return tuple_of(has_zero ? &zero : NULL, b->inputs, b->num_inputs);
}

// The user's part of what goes round, and the elements of the infeed.
static ls_nest arguments(const building *b, ls_nest values, ls_nest elements) {
  const size_t skipped = ls_nest_count(values) - b->num_inputs;
  const size_t count = b->num_inputs + ls_nest_count(elements);
  LS_OWN(ls_nest_builder, items) = {0};
  for (size_t i = 0; i < count; ++i)
    ls_nest_builder_append(
        &items, i < b->num_inputs ? ls_nest_item(values, skipped + i)
                                  : ls_nest_item(elements, i - b->num_inputs));
  return ls_nest_builder_finish(&items, LS_KIND_TUPLE);
}

// Calls the user. The result is the caller's.
static ls_status loop_call(const building *b, ls_callback fn,
                           const ls_parameters *parameters, const char *what,
                           ls_nest values, ls_nest elements,
                           ls_nest *out_made) {
  LS_OWN(ls_nest, given) = arguments(b, values, elements);
  LS_OWN(ls_nest, bound) = ls_none();
  LS_RETURN_IF_ERROR(ls_nest_status(given));
  LS_RETURN_IF_ERROR(
      ls_parameters_bind(parameters, what, given, ls_none(), &bound));
  *out_made = fn(bound, b->loop->user);
  return ls_nest_status(*out_made);
}

// ---- The condition ---------------------------------------------------------
static ls_status loop_holds(const building *b, ls_nest values, ls_tensor *out) {
  if (b->is_counted) {
    *out = ls_less(ls_nest_tensor(values, 0),
                   ls_scalar(LS_DTYPE_I64, (double)b->times));
    return ls_ok();
  }
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(
      loop_call(b, b->loop->condition, b->loop->condition_parameters,
                "the condition of a training loop", values, ls_none(), &made));
  const ls_nest leaf = ls_nest_is_node(made) ? ls_nest_item(made, 0) : made;
  ls_status status = ls_region_tensor(leaf, out);
  return ls_status_annotate(status, "the condition of a training loop");
}

// Each replica asks for all; that they have the same answer is known once it
// has been put together.
static ls_status loop_is_ready(const building *b, ls_tensor condition,
                               ls_tensor *out) {
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
                      &condition, 1);
  *out = ls_greater(ls_all_reduce(LS_REDUCE_MIN, ls_op_output(op, 0)),
                    ls_scalar(LS_DTYPE_I32, 0));
  return ls_ok();
}

static ls_nest condition_of(ls_nest values, void *user) {
  const building *b = user;
  ls_tensor condition;
  ls_status status = loop_holds(b, values, &condition);
  if (ls_status_is_ok(status) && b->queue != NULL)
    status = loop_is_ready(b, condition, &condition);
  return ls_status_is_ok(status) ? ls_leaf(condition) : ls_fail(status);
}

// ---- The body --------------------------------------------------------------
// What the body has returned: tensors, then ops.
typedef struct returned {
  ls_tensor *tensors;
  ls_op *ops;
  size_t num_tensors, num_ops;
} returned;

static ls_status add_returned(returned *r, ls_nest item) {
  if (item.kind == LS_KIND_OP) {
    r->ops[r->num_ops++] = item.as.op;
    return ls_ok();
  }
  if (r->num_ops > 0)
    return ls_invalid_argument(
        "the body of a training loop must return zero or more Tensor values "
        "followed by zero or more Operations");
  const size_t at = r->num_tensors++;
  return ls_status_annotate(ls_region_tensor(item, &r->tensors[at]),
                            "result %zu of a training loop's body", at);
}

// Room for those and the ops of a dequeue.
static ls_status take_returned(const building *b, ls_nest made, returned *r) {
  const bool is_list = made.kind == LS_KIND_LIST || made.kind == LS_KIND_TUPLE;
  const size_t count = made.kind == LS_KIND_NONE ? 0
                       : is_list                 ? ls_nest_count(made)
                                                 : 1;
  r->tensors = ls_new_array(b->allocator, ls_tensor, count + 1);
  r->ops = ls_new_array(b->allocator, ls_op, count + 1);
  if (r->tensors == NULL || r->ops == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(add_returned(r, is_list ? ls_nest_item(made, i) : made));
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

static ls_status loop_check_types(const building *b, const returned *r) {
  bool same = r->num_tensors == b->num_inputs;
  for (size_t i = 0; same && i < b->num_inputs; ++i)
    same = ls_tensor_is_failed(r->tensors[i]) ||
           ls_tensor_dtype(r->tensors[i]) == ls_tensor_dtype(b->inputs[i]);
  if (same) return ls_ok();
  LS_OWN(ls_text, text) = {0};
  ls_text_init(&text, b->allocator);
  append_types(&text, b->inputs, b->num_inputs);
  ls_text_append(&text, " and ");
  append_types(&text, r->tensors, r->num_tensors);
  return ls_invalid_argument(
      "Mismatch between input types and output types of a "
      "training loop's body: %s",
      ls_text_data(&text));
}

// The values of the next trip, which wait for the ops.
static ls_nest next_values(const building *b, ls_nest values, returned *r) {
  LS_CONTROL_SCOPE(r->ops, r->num_ops);
  for (size_t i = 0; i < r->num_tensors && r->num_ops > 0; ++i)
    r->tensors[i] = ls_identity(r->tensors[i]);
  const ls_tensor before = ls_nest_tensor(values, 0);
  const ls_tensor first = b->is_counted
                              ? ls_add(before, ls_scalar(LS_DTYPE_I64, 1))
                              : ls_identity(before);
  const bool has_first = b->is_counted || b->num_inputs == 0;
  return tuple_of(has_first ? &first : NULL, r->tensors, r->num_tensors);
}

static ls_status dequeue(const building *b, ls_nest *out_elements) {
  return b->queue == NULL ? ls_ok()
                          : ls_infeed_queue_dequeue(b->queue, 0, out_elements);
}

static ls_nest body_of(ls_nest values, void *user) {
  const building *b = user;
  LS_OWN(ls_nest, elements) = ls_none();
  LS_OWN(ls_nest, made) = ls_none();
  ls_nest next = ls_none();
  returned r = {0};
  LS_OWN_FIELD(b->allocator, r.ops);
  LS_OWN_FIELD(b->allocator, r.tensors);
  ls_status status = dequeue(b, &elements);
  if (ls_status_is_ok(status))
    status = loop_call(b, b->loop->body, b->loop->body_parameters,
                       "the body of a training loop", values, elements, &made);
  if (ls_status_is_ok(status)) status = take_returned(b, made, &r);
  if (ls_status_is_ok(status)) status = loop_check_types(b, &r);
  if (ls_status_is_ok(status) && ls_nest_count(elements) > 0)
    r.ops[r.num_ops++] = b->queue->dequeue;
  if (ls_status_is_ok(status)) next = next_values(b, values, &r);
  return ls_status_is_ok(status) ? next : ls_fail(status);
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

static ls_status give_outputs(const building *b, ls_nest made,
                              ls_nest *outputs) {
  const size_t skipped = ls_nest_count(made) - b->num_inputs;
  if (b->num_inputs == 0) {
    *outputs = ls_nest_op(ls_tensor_op(ls_nest_tensor(made, 0)));
    return ls_ok();
  }
  LS_OWN(ls_nest_builder, items) = {0};
  for (size_t i = 0; i < b->num_inputs; ++i)
    ls_nest_builder_append(&items, ls_nest_item(made, skipped + i));
  return ls_take_nest(ls_nest_builder_finish(&items, LS_KIND_LIST), outputs);
}

static ls_status build_here(building *b, ls_nest inputs, ls_nest *outputs) {
  const ls_training_loop *loop = b->loop;
  if (!b->is_counted)
    LS_RETURN_IF_ERROR(ls_check_arity(loop->condition_parameters,
                                      "the condition of a training loop",
                                      inputs, loop->infeed, false));
  LS_RETURN_IF_ERROR(ls_check_arity(loop->body_parameters,
                                    "the body of a training loop", inputs,
                                    loop->infeed, true));
  LS_RETURN_IF_ERROR(take_inputs(b, inputs));
  LS_RETURN_IF_ERROR(prepare_infeed(b));
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(ls_take_nest(initial_values(b), &made));
  made = ls_step_while(condition_of, body_of, b, made, 0);
  LS_RETURN_IF_ERROR(ls_nest_status(made));
  return give_outputs(b, made, outputs);
}

static ls_status loop_build(building *b, ls_nest inputs, ls_nest *outputs) {
  ls_infeed_attempt attempt;
  *outputs = ls_none();
  LS_RETURN_IF_ERROR(ls_nest_status(inputs));
  LS_RETURN_IF_ERROR(ls_scope_status());
  b->queue = b->loop->infeed;
  b->allocator = ls_current_allocator();
  LS_RETURN_IF_ERROR(ls_infeed_attempt_begin(&attempt, b->queue));
  const ls_status status =
      ls_infeed_attempt_end(&attempt, build_here(b, inputs, outputs), outputs);
  ls_release(b->allocator, b->inputs);
  return status;
}

ls_status ls_training_while(const ls_training_loop *loop, ls_nest inputs,
                            ls_nest *outputs) {
  LS_REQUIRE_OUT(outputs);
  LS_REQUIRE(loop);
  LS_REQUIRE(loop->condition);
  LS_REQUIRE(loop->body);
  building b = {.loop = loop};
  return loop_build(&b, inputs, outputs);
}

ls_status ls_training_repeat(int64_t times, const ls_training_loop *loop,
                             ls_nest inputs, ls_nest *outputs) {
  LS_REQUIRE_OUT(outputs);
  LS_REQUIRE(loop);
  LS_REQUIRE(loop->body);
  building b = {.loop = loop, .is_counted = true, .times = times};
  return loop_build(&b, inputs, outputs);
}
