// SPDX-License-Identifier: Apache-2.0
// Loops on hosts that feed cores. Each iteration reads and feeds an element for
// each host of the loop. Also makes the variable with the number of iterations.
#include "estimator/input/input.h"

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "base/values/nest_internal.h"
#include "lockstep/communicator.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/graph_ops.h"
#include "lockstep/host.h"
#include "lockstep/variable_parts.h"
#include "net/waiting.h"

// ---- The loop variable -----------------------------------------------------
// Marks the variable as colocated with the global step.
static ls_status mark_beside(const ls_variable *variable,
                             const ls_variable *step) {
  LS_OWN(ls_text, place) = {.allocator = ls_current_allocator()};
  ls_text_append_format(&place, "loc:@%s", ls_variable_name(step));
  LS_RETURN_IF_ERROR(ls_text_status(&place));
  const char *places[] = {ls_text_data(&place)};
  return ls_op_set_attr(ls_variable_initializer(variable),
                        &(ls_attr){.name = "_class",
                                   .kind = LS_ATTR_STRINGS,
                                   .as.strings = {places, 1}});
}

static ls_status loop_steps_make(ls_graph *graph, ls_variable *step,
                                 ls_variable **out_variable) {
  static const char *const collections[] = {LS_COLLECTION_ITERATIONS_PER_LOOP,
                                            LS_COLLECTION_LOCAL_VARIABLES};
  LS_GRAPH_SCOPE(graph);
  LS_NAME_SCOPE("");
  LS_NAME_SCOPE(LS_TPU_ESTIMATOR "/");
  LS_DEVICE_SCOPE(ls_op_device(ls_variable_initializer(step)));
  LS_RETURN_IF_ERROR(
      ls_variable_create(&(ls_variable_options){.name = LS_ITERATIONS_PER_LOOP,
                                                .dtype = LS_DTYPE_I32,
                                                .shape = LS_SCALAR,
                                                .trainable = LS_FLAG_OFF,
                                                .collections = collections,
                                                .num_collections = 2},
                         out_variable));
  ls_variable_release(*out_variable);  // The graph holds a reference.
  return mark_beside(*out_variable, step);
}

ls_status ls_iterations_per_loop(ls_graph *graph, ls_variable **out_variable) {
  LS_REQUIRE_OUT(out_variable, graph);
  ls_variable *step = NULL;
  ls_nest there[2] = {ls_none(), ls_none()};
  const size_t count =
      ls_graph_collection(graph, LS_COLLECTION_ITERATIONS_PER_LOOP, there, 2);
  if (count > 1)
    return ls_failed_precondition("Multiple iterations_per_loop_var in "
                                  "collection '%s' of graph '%s': %zu",
                                  LS_COLLECTION_ITERATIONS_PER_LOOP,
                                  ls_graph_name(graph), count);
  *out_variable = count == 1 ? ls_nest_as_variable(there[0]) : NULL;
  if (*out_variable != NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_global_step_get(graph, &step));
  return loop_steps_make(graph, step, out_variable);
}

ls_status ls_load_iterations(const ls_run_context *context,
                             ls_variable *variable, int64_t count) {
  LS_OWN(ls_array, value) = NULL;
  const int32_t number = count < INT32_MAX ? (int32_t)count : INT32_MAX;
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_I32, LS_SCALAR, &number, &value));
  return ls_session_set_variable_value(ls_run_context_session(context),
                                       variable, value);
}

// ---- A loop ----------------------------------------------------------------
typedef struct looping {
  ls_enqueue *enqueues;
  size_t count;
  bool predicts;
  ls_tensor iterations;
  ls_allocator *allocator;
} looping;

static ls_nest enqueue_loop_goes_on(ls_nest values, void *user) {
  const looping *l = user;
  const ls_tensor last = ls_nest_tensor(values, 0);
  if (!l->predicts) return ls_leaf(ls_less(last, l->iterations));
  const ls_nest stops = ls_should_stop(ls_leaf(last));
  return ls_leaf(ls_not(ls_nest_tensor(stops, 0)));
}

// ---- Several hosts ---------------------------------------------------------
// Finds out if the data of all ranks' hosts have ended.
static ls_status ask_ranks(const ls_host_call *call, bool *has_ended) {
  static const char text[] = "the data of all hosts";
  ls_communicator *ranks = ls_runtime_communicator(call->runtime);
  if (ranks == NULL || ranks->ranks == 1) return ls_ok();
  LS_OWN_ARRAY_OR_RETURN(ls_runtime_allocator(call->runtime), bool, all,
                         (size_t)ranks->ranks);
  const ls_exchange_name name = {.program = {ls_hash(text, sizeof(text), 0)},
                                 .merge = UINT32_MAX - 7};
  all[ranks->rank] = *has_ended;
  const ls_exchange_piece piece = {all, sizeof(*all), LS_EACH_RANK,
                                   LS_EACH_RANK};
  LS_RETURN_IF_ERROR(
      ls_communicator_exchange_in_background(ranks, &name, &piece, 1));
  for (int32_t k = 0; k < ranks->ranks; ++k)
    *has_ended &= all[k];
  return ls_ok();
}

// Fails with OUT_OF_RANGE when the data of all hosts have ended. The inputs are
// one bool for each host, true for those of other ranks.
static ls_status start_rendezvous(ls_host_call *call) {
  bool has_ended = true;
  for (size_t i = 0; i < call->num_inputs; ++i)
    has_ended = has_ended && *(const bool *)call->inputs[i];
  LS_RETURN_IF_ERROR(ask_ranks(call, &has_ended));
  ls_host_done(call, has_ended ? LS_STATUS(LS_OUT_OF_RANGE,
                                           "the data of all hosts have ended")
                               : ls_ok());
  return ls_ok();
}

static const ls_host_kernel rendezvous = {
    .name = "end_of_all_hosts",
    .start = start_rendezvous,
    .flags = LS_HOST_INLINE | LS_HOST_ENDS,
};

// Makes an op that runs after the elements of a host were read.
static ls_status join_reads(const looping *l, ls_nest values, ls_op *out_op) {
  const size_t count = ls_nest_num_leaves(values);
  LS_OWN_ARRAY_OR_RETURN(l->allocator, ls_nest, leaves, count + 1);
  LS_OWN_ARRAY_OR_RETURN(l->allocator, ls_op, reads, count + 1);
  ls_nest_flatten(values, leaves, count);
  for (size_t k = 0; k < count; ++k)
    reads[k] = ls_tensor_op(leaves[k].as.tensor);
  *out_op = ls_group(reads, count, NULL);
  return ls_ok();
}

// Reads an element for each host, one after the other, so that the first host
// whose data end or fail is the same in all runs.
static ls_status read_hosts(const looping *l, ls_op *out_met) {
  size_t count = 0;
  for (size_t i = 0; i < l->count; ++i) {
    ls_enqueue *enqueue = &l->enqueues[i];
    const ls_op earlier = *out_met;
    LS_NAME_SCOPE(enqueue->names);
    LS_DEVICE_SCOPE(enqueue->place.text);
    LS_CONTROL_SCOPE(&earlier, i > 0);
    LS_RETURN_IF_ERROR(ls_enqueue_read(enqueue));
    LS_RETURN_IF_ERROR(join_reads(l, enqueue->read.values, out_met));
    count += ls_nest_count(enqueue->read.ended);
  }
  LS_OWN_ARRAY_OR_RETURN(l->allocator, ls_tensor, ended, count + 1);
  count = 0;
  for (size_t i = 0; i < l->count; ++i) {
    const ls_nest scalars = l->enqueues[i].read.ended;
    for (size_t k = 0; k < ls_nest_count(scalars); ++k)
      ended[count++] = ls_nest_tensor(scalars, k);
  }
  if (count > 0) *out_met = ls_host_call_add(&rendezvous, NULL, ended, count);
  return ls_op_is_failed(*out_met) ? ls_graph_take_error(ls_graph_current())
                                   : ls_ok();
}

static ls_status feed_hosts(const looping *l, ls_nest *out_ops) {
  ls_op met = {0};
  LS_OWN(ls_nest_builder, all) = {0};
  LS_RETURN_IF_ERROR(read_hosts(l, &met));
  LS_CONTROL_SCOPE(&met, 1);
  for (size_t i = 0; i < l->count; ++i) {
    LS_OWN(ls_nest, ops) = ls_none();
    LS_NAME_SCOPE(l->enqueues[i].names);
    LS_DEVICE_SCOPE(l->enqueues[i].place.text);
    LS_RETURN_IF_ERROR(ls_enqueue_feed(&l->enqueues[i], &ops));
    ls_append_ops(&all, ops);
  }
  return ls_take_nest(ls_nest_builder_finish(&all, LS_KIND_LIST), out_ops);
}

// ---- The loop --------------------------------------------------------------
static ls_status feed_trip(const looping *l, ls_tensor last,
                           ls_nest *out_next) {
  LS_OWN(ls_nest, ops) = ls_none();
  LS_OWN(ls_nest, signals) = ls_none();
  LS_RETURN_IF_ERROR(l->count == 1
                         ? ls_enqueue_build(l->enqueues, &ops, &signals)
                         : feed_hosts(l, &ops));
  // Makes the loop's next value, after this iteration's tuples are in the
  // queues.
  const size_t count = ls_nest_count(ops);
  LS_OWN_ARRAY_OR_RETURN(l->allocator, ls_op, fed, count + 1);
  for (size_t i = 0; i < count; ++i)
    fed[i] = ls_nest_item(ops, i).as.op;
  LS_CONTROL_SCOPE(fed, count);
  const ls_tensor next = l->predicts ? ls_stopping_signal(signals)
                                     : ls_add(last, ls_scalar(LS_DTYPE_I32, 1));
  return ls_take_nest(LS_LIST(ls_leaf(next)), out_next);
}

static ls_nest feed_once(ls_nest values, void *user) {
  ls_nest next = ls_none();
  return ls_made_nest(feed_trip(user, ls_nest_tensor(values, 0), &next), &next);
}

ls_status ls_enqueue_loop(ls_enqueue *enqueues, size_t count,
                          ls_tensor *out_last) {
  looping l = {.enqueues = enqueues,
               .count = count,
               .predicts = enqueues->plan->mode == LS_MODE_PREDICT,
               .allocator = ls_current_allocator()};
  *out_last = ls_failed_tensor();
  if (!l.predicts) {
    ls_variable *variable = NULL;
    LS_RETURN_IF_ERROR(ls_iterations_per_loop(ls_graph_current(), &variable));
    l.iterations = ls_identity(ls_variable_read(variable));
  }
  const ls_tensor first =
      ls_scalar(l.predicts ? LS_DTYPE_BOOL : LS_DTYPE_I32, 0);
  // Returns the graph's error here, because the loop's bodies would fail
  // without a reason.
  LS_RETURN_IF_ERROR(ls_graph_error(ls_graph_current()));
  LS_OWN(ls_nest, values) =
      ls_while(enqueue_loop_goes_on, feed_once, &l, LS_LIST(ls_leaf(first)), 0);
  *out_last = ls_nest_tensor(values, 0);
  return ls_nest_status(values);
}
