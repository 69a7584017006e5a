// SPDX-License-Identifier: Apache-2.0
// Judges of the evaluations between the parts of a training: which checkpoint
// is the best, and if the training ends early, as in ls_train.
#ifndef LS_ESTIMATOR_CALLS_JUDGES_H_
#define LS_ESTIMATOR_CALLS_JUDGES_H_

#include "estimator/calls/estimator.h"
#include "train/early_stop.h"

// A metric, and what its evaluations were so far.
typedef struct ls_judge {
  ls_stop_metric metric;
  ls_early_stop state;
} ls_judge;

// Zeroed: judge nothing.
typedef struct ls_judges {
  ls_judge stop, keep;
} ls_judges;

// Reads the rules of an evaluation.
//   LS_INVALID_ARGUMENT  names the field that is wrong.
LS_MUST_USE ls_status ls_judges_init(ls_judges *self, const ls_eval_spec *eval);
static inline bool ls_judges_any(const ls_judges *self) {
  return self->keep.metric.name[0] != '\0';  // Stopping keeps the best.
}
// Recalls earlier evaluations, up to `step`, from their event files.
LS_MUST_USE ls_status ls_judges_recall(ls_judges *self, const ls_estimator *of,
                                       const char *evaluation, int64_t step);
// Counts an evaluation.
//   LS_INVALID_ARGUMENT  it has no such metric: names those that it has.
LS_MUST_USE ls_status ls_judges_count(ls_judges *self, ls_nest metrics,
                                      int64_t step);

#endif  // LS_ESTIMATOR_CALLS_JUDGES_H_
