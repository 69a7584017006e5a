// SPDX-License-Identifier: Apache-2.0
// Early stopping: a run ends once its evaluations have not become better for
// so many epochs, that of an estimator for so many evaluations.
#ifndef LS_TRAIN_EARLY_STOP_H_
#define LS_TRAIN_EARLY_STOP_H_

#include "lockstep/record.h"
#include "lockstep/train.h"

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
  char name[40];
  bool is_high;  // Higher values are better.
  int64_t patience;
  double min_delta;
} ls_stop_metric;
// Parses the rule of the options; NULL and "": none. Without a task it is about
// any metric of an estimator's evaluations: "loss", "f1:max".
//   LS_INVALID_ARGUMENT  another metric, or another word after the colon;
//                        numbers below 0, or without a metric.
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

#endif  // LS_TRAIN_EARLY_STOP_H_
