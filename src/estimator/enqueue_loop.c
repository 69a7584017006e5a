// SPDX-License-Identifier: Apache-2.0
// Loops on hosts: an element is read and fed in each trip, one after another.
#include "estimator/enqueue_loop.h"

#include "base/values/nest_internal.h"
#include "estimator/stopping_signals.h"
#include "lockstep/estimator_hooks.h"

typedef struct looping {
  ls_enqueue *enqueue;
  bool predicts;
  ls_tensor iterations;
} looping;

static ls_nest goes_on(ls_nest values, void *user) {
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
  ls_op *fed = ls_new_array(l->enqueue->allocator, ls_op, count + 1);
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
  ls_release(l->enqueue->allocator, fed);
  return LS_LIST(ls_leaf(next));
}

static ls_nest feed_once(ls_nest values, void *user) {
  const looping *l = user;
  ls_nest ops = ls_none(), signals = ls_none();
  const ls_status status = ls_enqueue_build(l->enqueue, &ops, &signals);
  const ls_nest next =
      ls_status_is_ok(status)
          ? next_value(l, ls_nest_tensor(values, 0), ops, signals)
          : ls_fail(status);
  ls_nest_release(ops);
  ls_nest_release(signals);
  return next;
}

ls_status ls_enqueue_loop(ls_enqueue *enqueue, ls_tensor *out_last) {
  looping l = {.enqueue = enqueue,
               .predicts = enqueue->is.calls->context.mode == LS_MODE_PREDICT};
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
      ls_while(goes_on, feed_once, &l, LS_LIST(ls_leaf(first)), 0);
  const ls_status status = ls_nest_status(made);
  *out_last = ls_nest_tensor(made, 0);
  ls_nest_release(made);
  return status;
}
