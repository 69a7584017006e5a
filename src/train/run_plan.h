// SPDX-License-Identifier: Apache-2.0
// Plan of a run: the options with defaults filled in, and values computed from
// them.
#ifndef LS_TRAIN_RUN_PLAN_H_
#define LS_TRAIN_RUN_PLAN_H_

#include "base/runtime_internal.h"
#include "base/text.h"
#include "io/json.h"
#include "lockstep/train.h"
#include "train/early_stop.h"

typedef struct ls_run_plan {
  ls_train_options options;  // Completed with defaults.
  ls_train_config config;    // The same, for config.json.
  int64_t examples;          // Examples per epoch.
  int64_t steps_per_epoch, num_steps;
  ls_stop_metric stop;  // Metric of `stop_early`; no name: none.
} ls_run_plan;

// Makes a plan.
//   LS_INVALID_ARGUMENT  invalid options: names them.
LS_MUST_USE ls_status ls_run_plan_make(const ls_train_options *options,
                                       ls_runtime *runtime, ls_run_plan *out);

// ---- config.json -----------------------------------------------------------
// config.json is written and read by one table of entries, with a checksum at
// its end. Checkpoints keep a copy of the text, which is used if the file is
// damaged; a file without a checksum was written by hand and is used as it is.
//
// Names of the checkpoint state and entry that keep the text.
#define LS_CONFIG_STATE "run"
#define LS_CONFIG_ENTRY "config"
#define LS_CONFIG_FILE "config.json"

// Appends the text of config.json.
void ls_train_config_print(const ls_train_config *config, ls_text *text);
// Verifies the checksum of a text read as `json`. One without a checksum was
// written by hand and is accepted.
//   LS_DATA_LOSS  it does not match.
LS_MUST_USE ls_status ls_train_config_check_sum(const char *path,
                                                const ls_json *json,
                                                const char *bytes, size_t size);

#endif  // LS_TRAIN_RUN_PLAN_H_
