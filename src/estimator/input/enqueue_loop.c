// SPDX-License-Identifier: Apache-2.0
// Loops on hosts: an element is read and fed in each trip, one after another;
// or those of all hosts, where one may end before others.
#include "estimator/input/enqueue_loop.h"

#include "base/values/nest_internal.h"
#include "estimator/input/stopping_signals.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/host.h"

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

// What the next trip is told, once this one's tuples are in the queues.
static ls_nest next_value(const looping *l, ls_tensor last, ls_nest ops,
                          ls_nest signals) {
  const size_t count = ls_nest_count(ops);
  ls_op *fed = ls_new_array(l->allocator, ls_op, count + 1);
  if (fed == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    fed[i] = ls_nest_item(ops, i).as.op;
  ls_tensor next;
  {
    LS_CONTROL_SCOPE(fed, count);
    next = l->predicts ? ls_stopping_signal(ls_nest_tensor(
                             ls_nest_find(signals, LS_SIGNAL_STOPPING), 0))
                       : ls_add(last, ls_scalar(LS_DTYPE_I32, 1));
  }
  ls_release(l->allocator, fed);
  return LS_LIST(ls_leaf(next));
}

// ---- Several ---------------------------------------------------------------
// Fails when all hosts have ended; each of its inputs is one that says so.
static ls_status start_meeting(ls_host_call *call) {
  bool has_ended = true;
  for (size_t i = 0; i < call->num_inputs; ++i)
    has_ended = has_ended && *(const bool *)call->inputs[i];
  ls_host_done(call, has_ended ? LS_STATUS(LS_OUT_OF_RANGE,
                                           "the data of all hosts have ended")
                               : ls_ok());
  return ls_ok();
}

static const ls_host_kernel meeting = {
    .name = "end_of_all_hosts",
    .start = start_meeting,
    .flags = LS_HOST_INLINE | LS_HOST_ENDS,
};

// Reads what there is, in order of hosts.
static ls_status enqueue_loop_read_all(const looping *l, ls_op *out_meeting) {
  size_t count = 0;
  for (size_t i = 0; i < l->count; ++i) {
    ls_enqueue *one = &l->enqueues[i];
    LS_NAME_SCOPE(one->names);
    LS_DEVICE_SCOPE(one->place.text);
    LS_RETURN_IF_ERROR(ls_enqueue_read(one));
    count += ls_nest_count(one->read.ended);
  }
  ls_tensor *ended = ls_new_array(l->allocator, ls_tensor, count + 1);
  if (ended == NULL) return ls_out_of_memory();
  count = 0;
  for (size_t i = 0; i < l->count; ++i) {
    const ls_nest some = l->enqueues[i].read.ended;
    for (size_t k = 0; k < ls_nest_count(some); ++k)
      ended[count++] = ls_nest_tensor(some, k);
  }
  *out_meeting = ls_host_call_add(&meeting, NULL, ended, count);
  ls_release(l->allocator, ended);
  return ls_op_is_failed(*out_meeting) ? ls_graph_take_error(ls_graph_current())
                                       : ls_ok();
}

// The ops of all, as a list.
static ls_status feed_all(const looping *l, ls_op met, ls_nest *ops) {
  LS_CONTROL_SCOPE(&met, 1);
  ls_status status = ls_ok();
  for (size_t i = 0; i < l->count && ls_status_is_ok(status); ++i) {
    LS_NAME_SCOPE(l->enqueues[i].names);
    LS_DEVICE_SCOPE(l->enqueues[i].place.text);
    status = ls_enqueue_feed(&l->enqueues[i], &ops[i]);
  }
  return status;
}

static ls_status feed_hosts(const looping *l, ls_nest *out_ops) {
  ls_op met = {0};
  LS_RETURN_IF_ERROR(enqueue_loop_read_all(l, &met));
  ls_nest *ops = ls_new_array(l->allocator, ls_nest, l->count + 1);
  if (ops == NULL) return ls_out_of_memory();
  ls_status status = feed_all(l, met, ops);
  if (ls_status_is_ok(status))
    status = ls_join_op_lists(ops, l->count, out_ops);
  for (size_t i = 0; i < l->count; ++i)
    ls_nest_release(ops[i]);
  ls_release(l->allocator, ops);
  return status;
}

// ---- The loop --------------------------------------------------------------
static ls_nest feed_once(ls_nest values, void *user) {
  const looping *l = user;
  ls_nest ops = ls_none(), signals = ls_none();
  const ls_status status = l->count == 1
                               ? ls_enqueue_build(l->enqueues, &ops, &signals)
                               : feed_hosts(l, &ops);
  const ls_nest next =
      ls_status_is_ok(status)
          ? next_value(l, ls_nest_tensor(values, 0), ops, signals)
          : ls_fail(status);
  ls_nest_release(ops);
  ls_nest_release(signals);
  return next;
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
  // The bodies of the loop would hear of it, and know no reason.
  LS_RETURN_IF_ERROR(ls_graph_error(ls_graph_current()));
  const ls_nest made =
      ls_while(enqueue_loop_goes_on, feed_once, &l, LS_LIST(ls_leaf(first)), 0);
  const ls_status status = ls_nest_status(made);
  *out_last = ls_nest_tensor(made, 0);
  ls_nest_release(made);
  return status;
}
