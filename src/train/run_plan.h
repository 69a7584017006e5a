// SPDX-License-Identifier: Apache-2.0
// The plan of a run: its options with their defaults, and what follows.
#ifndef LS_TRAIN_RUN_PLAN_H_
#define LS_TRAIN_RUN_PLAN_H_

#include "base/runtime_internal.h"
#include "lockstep/train.h"

typedef struct ls_run_plan {
  ls_train_options options;  // With defaults.
  ls_train_config config;    // The same, for the run folder.
  int64_t examples;          // In an epoch.
  int64_t steps_per_epoch, num_steps;
} ls_run_plan;

//   LS_INVALID_ARGUMENT  options that cannot be: names them.
LS_MUST_USE ls_status ls_run_plan_make(const ls_train_options *options,
                                       ls_runtime *runtime, ls_run_plan *out);

#endif  // LS_TRAIN_RUN_PLAN_H_
