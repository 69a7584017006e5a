// SPDX-License-Identifier: Apache-2.0
// Layer: data
//
// Sparse and ragged leaves of elements: specs, components, batches and
// conversion to dense arrays, which programs need.
//
// Threads: such a leaf never changes and is counted atomically, as an array.
#ifndef LOCKSTEP_SPARSE_H_
#define LOCKSTEP_SPARSE_H_

#include "lockstep/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

// Makes a sparse leaf: an array of `dense_shape`, zero except for `values` [n]
// at `indices`, i64 [n, rank], in row order, without duplicates. Takes over
// both.
//   LS_INVALID_ARGUMENT  other types or sizes, an index outside of the shape or
//                        out of order: a failed nest.
LS_API ls_nest ls_nest_sparse(ls_array *indices, ls_array *values,
                              ls_shape dense_shape);
// Makes a ragged leaf, with rows of different lengths: row i is `values` from
// row_splits[i] to before row_splits[i + 1], i64 [rows + 1]. With several
// splits the first is the outermost, and its rows are rows of the next. Takes
// over all arrays.
//   LS_INVALID_ARGUMENT  splits that do not begin with 0, decrease, or do not
//                        end at the length of what they split: a failed nest.
LS_API ls_nest ls_nest_ragged(ls_array *values, ls_array *const *row_splits,
                              size_t num_splits);

// Gets the type of a leaf: an array's, or that of the dense array with -1 for
// ragged dimensions.
//   LS_INVALID_ARGUMENT  neither an array nor such a leaf.
LS_API LS_MUST_USE ls_status ls_nest_leaf_spec(ls_nest leaf,
                                               ls_leaf_spec *out_spec);
// Makes a nest with the arrays of each such leaf in its place: (indices,
// values, dense shape i64[rank]), or (values, splits ...), the outermost first.
// The caller owns it.
LS_API ls_nest ls_nest_components(ls_nest nest);

// Makes a dense array of the leaf's values, with `padding` elsewhere, of the
// leaf's size, or of `shape` (NULL: not given; -1: the leaf's size), which must
// be large enough. An array is returned as it is.
LS_API ls_nest ls_nest_to_dense(ls_nest leaf, double padding,
                                const ls_shape *shape);
// Converts leaf number `leaf` of each element.
//   LS_INVALID_ARGUMENT  no such leaf, or a shape of another rank.
LS_API ls_dataset *ls_dataset_to_dense(ls_dataset *dataset, int leaf,
                                       double padding, const ls_shape *shape);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SPARSE_H_
