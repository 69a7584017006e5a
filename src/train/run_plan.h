// SPDX-License-Identifier: Apache-2.0
// Plan of a run: the options with defaults filled in, and values computed from
// them.
#ifndef LS_TRAIN_RUN_PLAN_H_
#define LS_TRAIN_RUN_PLAN_H_

#include "base/runtime_internal.h"
#include "lockstep/train.h"

typedef struct ls_run_plan {
  ls_train_options options;  // Completed with defaults.
  ls_train_config config;    // The same, for config.json.
  int64_t examples;          // Examples per epoch.
  int64_t steps_per_epoch, num_steps;
} ls_run_plan;

// Makes a plan.
//   LS_INVALID_ARGUMENT  invalid options: names them.
LS_MUST_USE ls_status ls_run_plan_make(const ls_train_options *options,
                                       ls_runtime *runtime, ls_run_plan *out);

#endif  // LS_TRAIN_RUN_PLAN_H_
