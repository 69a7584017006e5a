// SPDX-License-Identifier: Apache-2.0
//
// Predictions: signals that come with their batches, and which rows are real:
// the first ones.
#ifndef LS_ESTIMATOR_INPUT_PREDICTION_ROWS_H_
#define LS_ESTIMATOR_INPUT_PREDICTION_ROWS_H_

#include "distribute/input/feed.h"
#include "lockstep/ops.h"

// The stop signal of a batch: stopping[0][0] of [batch, 1], a bool scalar in
// the current graph.
ls_tensor ls_stopping_signal(ls_nest signals);
// Returns true to stop: of a tensor an op that says it; of a scalar or an array
// the bool.
//   failed  the signal is no bool
ls_nest ls_should_stop(ls_nest signal);

// Checks that predictions, a dict of tensors or arrays, have a row for each
// element of the mask of their batch; of tensors as far as that is known.
//   LS_INVALID_ARGUMENT  names the key of one that has not
LS_MUST_USE ls_status ls_predictions_check(ls_nest predictions, int64_t rows);

// Counts the real rows of arrays: those that `padding`, an i32 array of 0 and
// 1, does not mark. Without one (none) all rows of the first leaf, if it has
// rows.
//   LS_INVALID_ARGUMENT  as above; a real row follows one that is padded
LS_MUST_USE ls_status ls_predictions_keep(ls_nest predictions, ls_nest padding,
                                          int64_t *out_rows);
// The real rows of each leaf, as views; the leaves as they are, if nothing is
// padded, or if it is the batch that says stop. The caller's.
LS_MUST_USE ls_status ls_predictions_rows(ls_nest predictions, ls_nest padding,
                                          bool stops, ls_nest *out_rows);

#endif  // LS_ESTIMATOR_INPUT_PREDICTION_ROWS_H_
