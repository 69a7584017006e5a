// SPDX-License-Identifier: Apache-2.0
//
// Which rows of predictions are real. Those are the first ones.
#ifndef LS_ESTIMATOR_INPUT_PREDICTION_ROWS_H_
#define LS_ESTIMATOR_INPUT_PREDICTION_ROWS_H_

#include "lockstep/nest.h"

// Whether predictions, a dict of tensors or arrays, have a row for each element
// of the mask that came with their batch; of tensors as far as that is known.
//   LS_INVALID_ARGUMENT  names the key of one that has not
LS_MUST_USE ls_status ls_predictions_check(ls_nest predictions, int64_t rows);

// How many rows of arrays are real: those that `padding`, an i32 array of 0 and
// 1, does not mark. Without one (none) all that the first leaf has; 0 of one
// that has none.
//   LS_INVALID_ARGUMENT  as above; a real row stands behind one that is padded
LS_MUST_USE ls_status ls_predictions_keep(ls_nest predictions, ls_nest padding,
                                          int64_t *out_rows);
// The real rows of each leaf, as views; the leaves as they are, if nothing is
// padded, or if it is the batch that says stop. The caller's.
LS_MUST_USE ls_status ls_predictions_rows(ls_nest predictions, ls_nest padding,
                                          bool stops, ls_nest *out_rows);

#endif  // LS_ESTIMATOR_INPUT_PREDICTION_ROWS_H_
