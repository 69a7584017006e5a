// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Hooks of an estimator's loops on the device: the variable with the number of
// steps per run, hooks that set it, and ops next to the loop.
//
// Threads: as for hooks and graphs.
#ifndef LOCKSTEP_ESTIMATOR_HOOKS_H_
#define LOCKSTEP_ESTIMATOR_HOOKS_H_

#include "lockstep/estimator_config.h"
#include "lockstep/hook.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_TPU_ESTIMATOR "tpu_estimator"
#define LS_ITERATIONS_PER_LOOP "iterations_per_loop"
#define LS_COLLECTION_ITERATIONS_PER_LOOP                                      \
  LS_TPU_ESTIMATOR "_" LS_ITERATIONS_PER_LOOP
// Initial values of a training loop's loss, and of an evaluation's sum.
#define LS_INITIAL_LOSS 1e7
#define LS_ZERO_LOSS 0.0

// ---- Steps of a run --------------------------------------------------------
// Returns the variable 'tpu_estimator/iterations_per_loop' of a build graph,
// created if missing: an i32 scalar with initial value 0, colocated with the
// global step, in "local_variables" and a collection of its own. Lent.
//   LS_FAILED_PRECONDITION  no global step, or several such variables.
LS_API LS_MUST_USE ls_status ls_iterations_per_loop(ls_graph *graph,
                                                    ls_variable **out_variable);

// Makes a hook that stops at a step, and before each run sets the number of its
// steps: as many as `length` gives, or as fit into its seconds, and not past
// the last step. Give one of the two steps; `num_steps` counts from the first
// session on.
LS_API LS_MUST_USE ls_status ls_tpu_stop_hook(ls_loop_length length,
                                              ls_opt num_steps,
                                              ls_opt last_step,
                                              ls_hook **out_hook);
// Makes a hook that sets the number of steps of an evaluation's run.
LS_API LS_MUST_USE ls_status ls_eval_iterations_hook(int64_t steps,
                                                     ls_hook **out_hook);
// Makes a hook that stops after this many evaluation steps (0: never) and logs
// the count.
LS_API LS_MUST_USE ls_status ls_stop_after_evals_hook(int64_t num_evals,
                                                      ls_hook **out_hook);
// Makes a hook that sets one step per run of a prediction, and ends it with
// OUT_OF_RANGE at a run whose `stopping`, a bool scalar, is true.
LS_API LS_MUST_USE ls_status ls_predict_stop_hook(ls_tensor stopping,
                                                  ls_hook **out_hook);

// ---- Ops beside the loop ---------------------------------------------------
// Makes an op for each trainable float variable, after the ops of the current
// control scope, that fails when the variable is not finite
// (LS_INVALID_ARGUMENT, "Gradient for w:0 is NaN"). With `broadcast` makes one
// op that does nothing. The caller owns `*out_ops`, a list.
LS_API LS_MUST_USE ls_status ls_tpu_sync_ops(ls_graph *graph, bool broadcast,
                                             ls_nest *out_ops);
// Adds to the evaluation step the steps of a run beyond the first.
LS_API LS_MUST_USE ls_status ls_increase_eval_step(ls_tensor iterations,
                                                   ls_op *out_op);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_HOOKS_H_
