// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Early stopping: ends a training by its evaluations, or by a function of the
// caller's.
//
//   ls_hook *hook = NULL;
//   ls_status status = ls_early_stopping_hook(
//       &(ls_early_stopping_options){.config = config,
//                                    .rule = LS_STOP_IF_NO_DECREASE,
//                                    .metric = "loss",
//                                    .max_steps = 10000},
//       &hook);
//
// Threads: as for hooks.
#ifndef LOCKSTEP_EARLY_STOPPING_H_
#define LOCKSTEP_EARLY_STOPPING_H_

#include "lockstep/estimator_config.h"
#include "lockstep/hook.h"

#ifdef __cplusplus
extern "C" {
#endif

// Name of the bool scalar variable by which the chief tells the workers to
// stop.
#define LS_STOP_VARIABLE "signal_early_stopping/STOP"

// Rules by the metrics that evaluations wrote, from step `min_steps` on. Values
// are compared as they were written, in 32 bits.
typedef enum ls_stop_rule {
  LS_STOP_BY_FUNCTION,  // `should_stop` returns true.
  LS_STOP_IF_HIGHER,    // The metric was once higher than `threshold`.
  LS_STOP_IF_LOWER,     // The metric was once lower than `threshold`.
  // The metric has not reached a new highest value for `max_steps` steps or
  // more.
  LS_STOP_IF_NO_INCREASE,
  LS_STOP_IF_NO_DECREASE,  // The same for a new lowest value.
} ls_stop_rule;

// Zero in a field means its default.
typedef struct ls_early_stopping_options {
  ls_stop_rule rule;

  // For LS_STOP_BY_FUNCTION: decides about stopping. Called by the chief's
  // thread, between runs.
  ls_status (*should_stop)(void *user, bool *out_stop);
  void *user;

  // For the other rules.
  const char *metric;  // The metric's tag. Required.
  double threshold;
  int64_t max_steps;  // Required.
  int64_t min_steps;
  // Folder of the evaluations' event files. Default: the configuration's
  // <model_dir>/eval; with an evaluation's name <model_dir>/eval_<name>.
  const char *folder, *evaluation;

  // Role of this process: the chief checks, the others read its decision. Lent
  // for the call. Default: the chief.
  const ls_run_config *config;
  ls_opt run_every_secs;  // Interval of the chief's checks. Default 60 seconds.
  ls_opt run_every_steps;  // Alternative interval, in steps.
} ls_early_stopping_options;

// Makes the hook of a training. The chief's sets the variable to stop; it is a
// local variable, in no checkpoint. The caller owns the hook.
//   LS_INVALID_ARGUMENT  both run_every_secs and run_every_steps; a rule
//                        without its fields, or with fields of another: names
//                        the field.
LS_API LS_MUST_USE ls_status ls_early_stopping_hook(
    const ls_early_stopping_options *options, ls_hook **out_hook);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_EARLY_STOPPING_H_
