// SPDX-License-Identifier: Apache-2.0
//
// Tensors that steps send to their hosts. Each replica's first core sends them
// as one tuple a step; the hosts join them and call functions with them.
#ifndef LS_ESTIMATOR_LOOP_HOST_CALLS_H_
#define LS_ESTIMATOR_LOOP_HOST_CALLS_H_

#include "estimator/config/plan.h"
#include "lockstep/estimator_spec.h"

enum { LS_MOST_HOST_CALLS = 3 };

typedef struct ls_recorded_call {
  const char *name;           // Static text.
  ls_host_function function;  // Holds references to its tensors in the step.
  size_t first, count;        // Range of its elements in the tuple.
} ls_recorded_call;

typedef struct ls_host_calls {
  ls_allocator *allocator;
  // The plan: replicas' parts are joined, or one replica's is taken if each has
  // the whole batch.
  const ls_plan *plan;
  ls_recorded_call calls[LS_MOST_HOST_CALLS];
  size_t num_calls;
  ls_tensor *tensors;  // Tensors of a step; later those on the hosts.
  size_t count, capacity;
  ls_op taken;  // Waits until the hosts have a step's tuples.
} ls_host_calls;

void ls_host_calls_init(ls_host_calls *calls, const ls_plan *plan);
void ls_host_calls_deinit(ls_host_calls *calls);  // May be zeroed.

// In a step: records a function under a name. Without a `call` its result is
// the tensors themselves. A zeroed function is ignored.
//   LS_FAILED_PRECONDITION  a scalar, where replicas' parts are joined
LS_MUST_USE ls_status ls_host_calls_record(ls_host_calls *calls,
                                           const char *name,
                                           const ls_host_function *function);
// In a step, after all functions: if none has tensors, sends an element that no
// function sees, so that hosts call the functions once a step and notice the
// end.
LS_MUST_USE ls_status ls_host_calls_pace(ls_host_calls *calls);
// In a step: sends everything that was recorded; no op (id 0) if that is
// nothing.
LS_MUST_USE ls_status ls_host_calls_enqueue(const ls_host_calls *calls,
                                            ls_op *out_op);

// On the hosts: takes each replica's tuple on its host, and joins them on
// replica 0's host. `*out_ops`: a list of the dequeues.
LS_MUST_USE ls_status ls_host_calls_take(ls_host_calls *calls,
                                         ls_nest *out_ops);
// Closes the replicas' outfeeds. `*out_ops`: a list of ops.
LS_MUST_USE ls_status ls_host_calls_close(const ls_host_calls *calls,
                                          ls_nest *out_ops);
// On the hosts: calls the function of this name; the result is none if none was
// recorded.
LS_MUST_USE ls_status ls_host_calls_call(const ls_host_calls *calls,
                                         const char *name, ls_nest *out_made);

#endif  // LS_ESTIMATOR_LOOP_HOST_CALLS_H_
