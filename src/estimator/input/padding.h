// SPDX-License-Identifier: Apache-2.0
//
// Batches of any size as batches of one size: zeros stand in for the examples
// that are not there.
#ifndef LS_ESTIMATOR_INPUT_PADDING_H_
#define LS_ESTIMATOR_INPUT_PADDING_H_

#include "lockstep/dataset.h"
#include "lockstep/ops.h"

// What a batch becomes: so many parts, one behind the other, of so many rows
// each. Real rows are shared out evenly, the larger shares first, and stand at
// the beginning of their part.
typedef struct ls_batch_padding {
  int64_t parts, rows;
  // Along which axis the rows of each leaf lie, lent; of the others: 0.
  const int64_t *axes;
  size_t num_axes;
} ls_batch_padding;

static inline int ls_batch_axis(const int64_t *axes, size_t num_axes,
                                size_t leaf) {
  return leaf < num_axes ? (int)axes[leaf] : 0;
}

static inline bool ls_has_axis(ls_shape shape, int axis) {
  return axis >= 0 && axis < shape.rank;
}

// The same for what stands behind so many leaves, such as labels.
static inline ls_batch_padding ls_padding_behind(ls_batch_padding padding,
                                                 size_t leaves) {
  if (leaves > padding.num_axes) leaves = padding.num_axes;
  if (leaves > 0) padding.axes += leaves;
  padding.num_axes -= leaves;
  return padding;
}

static inline int64_t ls_padding_size(ls_batch_padding padding) {
  return padding.parts * padding.rows;
}

// Examples in a batch: the first dimension of the first leaf of its features,
// arrays or tensors, or that along its axis.
//   LS_INVALID_ARGUMENT  there is no leaf, or it has no such dimension; more
//                        than there is room for.
LS_MUST_USE ls_status ls_padding_count(ls_batch_padding padding,
                                       ls_nest features, int64_t *out_count);

// A nest of arrays of `count` rows each, padded. Failed: a leaf is no array of
// so many rows.
ls_nest ls_pad_arrays(ls_batch_padding padding, ls_nest arrays, int64_t count);
// The same of tensors, in the current graph.
ls_nest ls_pad_tensors(ls_batch_padding padding, ls_nest tensors,
                       int64_t count);
// The same of a nest of ls_nest_spec leaves: what becomes of batches of any
// size. Failed: a leaf has no such axis, or is not dense.
ls_nest ls_pad_specs(ls_batch_padding padding, ls_nest specs);

// Where real rows are, 1 for each, as an array; and, i32, where there are none.
ls_nest ls_padding_real(ls_batch_padding padding, int64_t count);
ls_nest ls_padding_mask(ls_batch_padding padding, int64_t count);

#endif  // LS_ESTIMATOR_INPUT_PADDING_H_
