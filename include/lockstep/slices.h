// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Sparse slices as leaves of a nest: some rows of a tensor that is zero
// elsewhere, such as gradients of look-ups. A row may occur more than once; its
// values are then added in order where they are applied.
//
// (ls_indexed_slices makes such a value as a tensor of a graph, which any op
// takes; a leaf of slices passes through reductions without becoming dense.)
//
// A function that replicas trace takes and returns them while a graph is being
// built. In eager its arguments and results are arrays: the parts.
//
// Threads: a value of slices never changes; the rules of its tensors apply to
// it.
#ifndef LOCKSTEP_SLICES_H_
#define LOCKSTEP_SLICES_H_

#include "lockstep/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

// Parts of slices.
typedef struct ls_slices_parts {
  ls_tensor indices;      // [n], integers: the rows.
  ls_tensor values;       // [n, ...]
  ls_tensor dense_shape;  // Integers. Failed (zeroed): not given.
} ls_slices_parts;

// Makes a leaf of slices. `values` (taken over) is a tensor leaf or again
// slices: rows of the rows. Failed if it is neither.
LS_API ls_nest ls_nest_slices(ls_nest values, ls_tensor indices,
                              ls_tensor dense_shape);
// Gets the parts of a leaf of slices; values that are slices themselves are
// flattened into it, by ops of the current graph.
//   LS_INVALID_ARGUMENT  not a leaf of slices.
LS_API LS_MUST_USE ls_status ls_slices_parts_of(ls_nest leaf,
                                                ls_slices_parts *out_parts);
// Returns true if a nest is or holds slices: looks through lists, tuples,
// dicts, distributed values and map outputs. A distributed value holds them
// when all its components do.
LS_API bool ls_nest_has_slices(ls_nest nest);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SLICES_H_
