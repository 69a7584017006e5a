// SPDX-License-Identifier: Apache-2.0
//
// Predictions: the signals of their batches, and which rows are not padding
// (the first ones).
#ifndef LS_ESTIMATOR_INPUT_PREDICTION_ROWS_H_
#define LS_ESTIMATOR_INPUT_PREDICTION_ROWS_H_

#include "distribute/input/feed.h"
#include "lockstep/ops.h"

// Returns the stop signal of a batch: stopping[0][0] of [batch, 1], a bool
// scalar in the current graph.
ls_tensor ls_stopping_signal(ls_nest signals);
// Returns if a signal says stop: for a tensor as an op, for a scalar or array
// as a bool.
//   failed  the signal is not a bool
ls_nest ls_should_stop(ls_nest signal);

// Checks that predictions, a dict of tensors or arrays, have a row for each
// element of their batch's mask; tensors as far as sizes are known.
//   LS_INVALID_ARGUMENT  names the key of a prediction that has not
LS_MUST_USE ls_status ls_predictions_check(ls_nest predictions, int64_t rows);

// Counts the rows that `padding`, an i32 array of 0 and 1, does not mark.
// Without padding (none) counts the rows of the first leaf, if it has rows.
//   LS_INVALID_ARGUMENT  a prediction lacks rows; a row follows padding
LS_MUST_USE ls_status ls_predictions_keep(ls_nest predictions, ls_nest padding,
                                          int64_t *out_rows);
// Returns views of each leaf without padding; the leaves unchanged if nothing
// is padded or the batch says stop. The caller releases them.
LS_MUST_USE ls_status ls_predictions_rows(ls_nest predictions, ls_nest padding,
                                          bool stops, ls_nest *out_rows);

#endif  // LS_ESTIMATOR_INPUT_PREDICTION_ROWS_H_
