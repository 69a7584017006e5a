// SPDX-License-Identifier: Apache-2.0
// Input of a run: examples and labels as a model takes them, and evaluations.
#ifndef LS_TRAIN_INPUT_H_
#define LS_TRAIN_INPUT_H_

#include "lockstep/train.h"
#include "lockstep/training_parts.h"

// Makes batches of at most `batch_size` from ls_train_examples.
ls_dataset *ls_train_batches(const ls_model_type *type, ls_dataset *dataset,
                             int64_t batch_size, bool shuffle);

// Checks that the labels of a batch are classes of the model.
//   LS_INVALID_ARGUMENT  names the first that is not.
LS_MUST_USE ls_status ls_train_check_labels(const ls_model_type *type,
                                            ls_nest batch);

// ls_train_stop_requested in the form that ls_iterator_wait needs.
bool ls_train_stop_asked(void *stop);

// Returns the number of examples in a batch.
int64_t ls_train_batch_size(ls_nest batch);

// Returns (lends) the function that an evaluator calls.
ls_function *ls_evaluator_function(const ls_evaluator *evaluator);

#endif  // LS_TRAIN_INPUT_H_
