// SPDX-License-Identifier: Apache-2.0
// Layer: data
//
// Sparse and ragged leaves of elements: specs, components, batches and the way
// to dense arrays, which is what programs take.
//
// Threads: such a leaf never changes and is counted atomically, as an array.
#ifndef LOCKSTEP_SPARSE_H_
#define LOCKSTEP_SPARSE_H_

#include "lockstep/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

// An array of `dense_shape` in which all is zero but `values` [n], which stand
// at `indices`, i64 [n, rank], in row order, none twice. Takes over both.
//   LS_INVALID_ARGUMENT  other types or sizes, an index outside of the shape or
//                        before another: a failed nest.
LS_API ls_nest ls_nest_sparse(ls_array *indices, ls_array *values,
                              ls_shape dense_shape);
// Rows of different lengths: row i is `values` from row_splits[i] to before
// row_splits[i + 1], i64 [rows + 1]. With several splits the first is the
// outermost, and its rows are rows of the next. Takes over all arrays.
//   LS_INVALID_ARGUMENT  splits that do not begin with 0, fall, or do not end
//                        where what they split does: a failed nest.
LS_API ls_nest ls_nest_ragged(ls_array *values, ls_array *const *row_splits,
                              size_t num_splits);

// What a leaf is: an array's type, or that of the dense array with -1 for
// ragged dimensions.
//   LS_INVALID_ARGUMENT  neither an array nor of the above.
LS_API LS_MUST_USE ls_status ls_nest_leaf_spec(ls_nest leaf,
                                               ls_leaf_spec *out_spec);
// A new nest with the arrays of each such leaf in its place: (indices, values,
// dense shape i64[rank]), or (values, splits ...), the outermost first.
LS_API ls_nest ls_nest_components(ls_nest nest);

// A dense array of the leaf's values, `padding` elsewhere, as large as it is,
// or of `shape` (NULL: none is given; -1: as large as it is), which must have
// room for all. Of an array itself: the same array.
LS_API ls_nest ls_nest_to_dense(ls_nest leaf, double padding,
                                const ls_shape *shape);
// The same of leaf number `leaf` of each element.
//   LS_INVALID_ARGUMENT  no such leaf, or a shape of another rank.
LS_API ls_dataset *ls_dataset_to_dense(ls_dataset *dataset, int leaf,
                                       double padding, const ls_shape *shape);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SPARSE_H_
