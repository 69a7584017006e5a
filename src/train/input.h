// SPDX-License-Identifier: Apache-2.0
// Input of a run: examples and labels as a model takes them, and evaluations.
#ifndef LS_TRAIN_INPUT_H_
#define LS_TRAIN_INPUT_H_

#include "lockstep/tasks.h"
#include "lockstep/train.h"
#include "lockstep/training_parts.h"

// Makes batches of at most `batch_size` from ls_train_examples.
ls_dataset *ls_train_batches(const ls_model_type *type, ls_dataset *dataset,
                             int64_t batch_size, bool shuffle);

// Returns the name of the metric of a report.
static inline const char *ls_train_metric_of(const ls_train_report *report) {
  return report->task != NULL ? report->task->metric
                              : ls_task_classification.metric;
}

// Checks that the labels of a batch are those of the model's task: its classes,
// or numbers.
// `*out_row` gets the row of the first that is not; it may be NULL.
//   LS_INVALID_ARGUMENT  names the first that is not.
LS_MUST_USE ls_status ls_train_check_labels(const ls_model_type *type,
                                            ls_nest batch, int64_t *out_row);
// Adds the number of example `index` of an epoch to a failure, if it is known.
ls_status ls_train_name_example(ls_allocator *allocator,
                                const ls_dataset *batches, uint64_t seed,
                                int64_t epoch, int64_t index, ls_status status);

// ls_train_stop_requested in the form that ls_iterator_wait needs.
bool ls_train_stop_asked(void *stop);

// Returns the number of examples in a batch.
int64_t ls_train_batch_size(ls_nest batch);

// Returns (lends) the function that an evaluator calls.
ls_function *ls_evaluator_function(const ls_evaluator *evaluator);

#endif  // LS_TRAIN_INPUT_H_
