// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Early stopping: a training that ends when its evaluations say so, or a
// function of the caller's.
//
//   ls_hook *hook = NULL;
//   ls_status status = ls_early_stopping_hook(
//       &(ls_early_stopping_options){.config = config,
//                                    .rule = LS_STOP_IF_NO_DECREASE,
//                                    .metric = "loss",
//                                    .max_steps = 10000},
//       &hook);
//
// Threads: as of hooks.
#ifndef LOCKSTEP_EARLY_STOPPING_H_
#define LOCKSTEP_EARLY_STOPPING_H_

#include "lockstep/estimator_config.h"
#include "lockstep/hook.h"

#ifdef __cplusplus
extern "C" {
#endif

// The variable by which the chief tells the others, a bool scalar.
#define LS_STOP_VARIABLE "signal_early_stopping/STOP"

// When to stop, by what evaluations have written, from step `min_steps` on.
// Values are compared as they are written, in 32 bits.
typedef enum ls_stop_rule {
  LS_STOP_BY_FUNCTION,     // As `should_stop` says.
  LS_STOP_IF_HIGHER,       // The metric was once higher than `threshold`,
  LS_STOP_IF_LOWER,        // or lower.
  LS_STOP_IF_NO_INCREASE,  // It has not become better, higher, for `max_steps`
  LS_STOP_IF_NO_DECREASE,  // steps or more; or lower.
} ls_stop_rule;

// Zero in a field means its default.
typedef struct ls_early_stopping_options {
  ls_stop_rule rule;

  // Of a function: whether to stop. Called by the chief's thread, between runs.
  ls_status (*should_stop)(void *user, bool *out_stop);
  void *user;

  // Of another rule.
  const char *metric;  // Its tag. Required.
  double threshold;
  int64_t max_steps;  // Required.
  int64_t min_steps;
  // Where the event files of evaluations are. Default: the configuration's
  // <model_dir>/eval, of an evaluation of that name <model_dir>/eval_<name>.
  const char *folder, *evaluation;

  // Who this is: the chief looks, others see what it has found. Lent for the
  // call. Default: the chief.
  const ls_run_config *config;
  ls_opt run_every_secs;   // How often the chief looks. Default 60 seconds.
  ls_opt run_every_steps;  // Instead.
} ls_early_stopping_options;

// Makes the hook of a training. The chief's sets the variable when it stops;
// it is a local one, and in no checkpoint.
//   LS_INVALID_ARGUMENT  both of run_every_secs and run_every_steps; a rule
//                        without its fields, or with fields of another: names
//                        the field.
LS_API LS_MUST_USE ls_status ls_early_stopping_hook(
    const ls_early_stopping_options *options, ls_hook **out_hook);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_EARLY_STOPPING_H_
