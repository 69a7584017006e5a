// SPDX-License-Identifier: Apache-2.0
// Plan of a run: the options with defaults filled in, and values computed from
// them.
#ifndef LS_TRAIN_RUN_PLAN_H_
#define LS_TRAIN_RUN_PLAN_H_

#include "base/runtime_internal.h"
#include "base/text.h"
#include "io/json.h"
#include "lockstep/record.h"
#include "lockstep/train.h"

// ---- Early stopping --------------------------------------------------------
// Early stopping: a run ends once its evaluations have not become better for
// so many epochs, that of an estimator for so many evaluations.

// State of the rule. Zeroed: has seen no evaluation.
typedef struct ls_early_stop {
  int64_t step;       // Step of the last evaluation that was counted.
  int64_t best_step;  // 0: none.
  int64_t waited;     // Evaluations since then that were no better.
  double best;
  bool is_over;  // The run ends.
} ls_early_stop;

// Metric of a rule, "test_loss" or "test_accuracy:max". No name: no rule.
typedef struct ls_stop_metric {
  char name[256];
  bool is_high;  // Higher values are better.
  int64_t patience;
  double min_delta;
} ls_stop_metric;
// Parses the rule of the options; NULL and "": none. Without a task it is about
// any metric of an estimator's evaluations: "loss", "f1:max".
//   LS_INVALID_ARGUMENT  another metric, a long name, or another word after the
//                        colon; numbers below 0, or without a metric.
LS_MUST_USE ls_status ls_stop_metric_parse(const char *text, int64_t patience,
                                           double min_delta,
                                           const ls_task *task,
                                           ls_stop_metric *out);

// Counts the value of an evaluation, unless it is that of a step which was
// counted.
void ls_early_stop_count(ls_early_stop *self, const ls_stop_metric *metric,
                         int64_t step, double value);

// Save the state in a checkpoint, and restore it. A state of another metric,
// or none, leaves `self` as it is.
LS_MUST_USE ls_status ls_early_stop_save(const ls_early_stop *self,
                                         const char *rule, ls_record *record);
LS_MUST_USE ls_status ls_early_stop_restore(ls_early_stop *self,
                                            const char *rule,
                                            const ls_record *record);

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
