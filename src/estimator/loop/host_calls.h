// SPDX-License-Identifier: Apache-2.0
//
// Tensors that steps send to their hosts: those of each replica leave its first
// core in one tuple a step, and hosts put them together and call functions with
// them.
#ifndef LS_ESTIMATOR_LOOP_HOST_CALLS_H_
#define LS_ESTIMATOR_LOOP_HOST_CALLS_H_

#include "estimator/config/plan.h"
#include "lockstep/estimator_spec.h"

enum { LS_MOST_HOST_CALLS = 3 };

typedef struct ls_recorded_call {
  const char *name;           // Static.
  ls_host_function function;  // Its tensors are those of a step, counted.
  size_t first, count;        // Which elements of the tuple.
} ls_recorded_call;

typedef struct ls_host_calls {
  ls_allocator *allocator;
  // Replicas' parts are joined; where each has the whole batch they are the
  // same, and one counts.
  const ls_plan *plan;
  ls_recorded_call calls[LS_MOST_HOST_CALLS];
  size_t num_calls;
  ls_tensor *tensors;  // Of a step; then those that the hosts have.
  size_t count, capacity;
  ls_op taken;  // Waits until the hosts have a step's tuples.
} ls_host_calls;

void ls_host_calls_init(ls_host_calls *calls, const ls_plan *plan);
void ls_host_calls_deinit(ls_host_calls *calls);  // Zeroed is fine.

// In a step: one more function, of that name. Without a `call` the tensors are
// what comes of it. A function that is zeroed is none.
//   LS_FAILED_PRECONDITION  a scalar, where replicas' parts are joined.
LS_MUST_USE ls_status ls_host_calls_record(ls_host_calls *calls,
                                           const char *name,
                                           const ls_host_function *function);
// In a step, once all are recorded: where functions are given no tensor, an
// element that no function sees leaves all the same, so that hosts call them
// once a step and hear of the end.
LS_MUST_USE ls_status ls_host_calls_pace(ls_host_calls *calls);
// In a step: all that was recorded leaves. Without any: no op, id 0.
LS_MUST_USE ls_status ls_host_calls_enqueue(const ls_host_calls *calls,
                                            ls_op *out_op);

// On the hosts: takes a tuple of each replica on its host, and joins them on
// the host of replica 0. `*out_ops`: a list of the dequeues.
LS_MUST_USE ls_status ls_host_calls_take(ls_host_calls *calls,
                                         ls_nest *out_ops);
// Closes the replicas' outfeeds. `*out_ops`: a list.
LS_MUST_USE ls_status ls_host_calls_close(const ls_host_calls *calls,
                                          ls_nest *out_ops);
// Calls the function of that name there; none if none was recorded.
LS_MUST_USE ls_status ls_host_calls_call(const ls_host_calls *calls,
                                         const char *name, ls_nest *out_made);

#endif  // LS_ESTIMATOR_LOOP_HOST_CALLS_H_
