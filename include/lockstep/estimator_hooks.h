// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// What an estimator's loops on the device stand on: the variable that says how
// many steps a run makes, hooks that set it, and ops beside the loop.
//
// Threads: as of hooks and graphs.
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
// What a training loop's loss begins with, and an evaluation's sum.
#define LS_INITIAL_LOSS 1e7
#define LS_ZERO_LOSS 0.0

// ---- Steps of a run --------------------------------------------------------
// The variable 'tpu_estimator/iterations_per_loop' of a build graph, made if
// there is none: an i32 scalar that begins at 0, beside the global step, in
// "local_variables" and a collection of its own. Lent.
//   LS_FAILED_PRECONDITION  no global step, or several such variables.
LS_API LS_MUST_USE ls_status ls_iterations_per_loop(ls_graph *graph,
                                                    ls_variable **out_variable);

// Stops at a step, and says before each run how many steps it makes: as many
// as `length` has, or fit into its seconds, and not beyond the last. One of the
// two steps; `num_steps` counts from the first session on.
LS_API LS_MUST_USE ls_status ls_tpu_stop_hook(ls_loop_length length,
                                              ls_opt num_steps,
                                              ls_opt last_step,
                                              ls_hook **out_hook);
// A run of an evaluation makes so many steps.
LS_API LS_MUST_USE ls_status ls_eval_iterations_hook(int64_t steps,
                                                     ls_hook **out_hook);
// Stops behind so many evaluation steps (0: never); the log counts.
LS_API LS_MUST_USE ls_status ls_stop_after_evals_hook(int64_t num_evals,
                                                      ls_hook **out_hook);
// A run of a prediction makes one step; one whose `stopping`, a bool scalar, is
// true ends with OUT_OF_RANGE.
LS_API LS_MUST_USE ls_status ls_predict_stop_hook(ls_tensor stopping,
                                                  ls_hook **out_hook);

// ---- Ops beside the loop ---------------------------------------------------
// Behind the ops in whose control scope it is called: an op for each trainable
// variable of floats, that fails when it is not finite (LS_INVALID_ARGUMENT,
// "Gradient for w:0 is NaN"). With `broadcast` one op that does nothing.
// `*out_ops` is a list of the caller's.
LS_API LS_MUST_USE ls_status ls_tpu_sync_ops(ls_graph *graph, bool broadcast,
                                             ls_nest *out_ops);
// Adds to the evaluation step what a run makes more than one step.
LS_API LS_MUST_USE ls_status ls_increase_eval_step(ls_tensor iterations,
                                                   ls_op *out_op);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_HOOKS_H_
