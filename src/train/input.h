// SPDX-License-Identifier: Apache-2.0
// The data of a run: examples and labels as a model takes them.
#ifndef LS_TRAIN_INPUT_H_
#define LS_TRAIN_INPUT_H_

#include "lockstep/train.h"

// Batches of at most `batch_size` of ls_train_examples.
ls_dataset *ls_train_batches(const ls_model_type *type, ls_dataset *dataset,
                             int64_t batch_size, bool shuffle);

// Whether the labels of a batch are some that the model has.
//   LS_INVALID_ARGUMENT  names the first that is not.
LS_MUST_USE ls_status ls_train_check_labels(const ls_model_type *type,
                                            ls_nest batch);

// ls_train_stop_requested, for who waits for a batch (ls_iterator_wait).
bool ls_train_stop_asked(void *stop);

// Examples in a batch.
int64_t ls_train_batch_size(ls_nest batch);

#endif  // LS_TRAIN_INPUT_H_
