// SPDX-License-Identifier: Apache-2.0
// Slices part by part.
#ifndef LS_GRAPH_SLICES_H_
#define LS_GRAPH_SLICES_H_

#include "lockstep/slices.h"

// Returns true for a leaf of slices, or of slices for each replica.
bool ls_leaf_is_slices(ls_nest leaf);
// Maps the parts of such a leaf: its indices, its values and its dense shape if
// there is one. Makes slices of what `map` returns: tensors, or a tensor for
// each replica. Returns none if `map` returns none.
//   LS_UNIMPLEMENTED  slices of slices, or components that differ in form
ls_nest ls_slices_map(ls_nest leaf, ls_leaf_function map, void *user);
// Calls `note`, which returns its leaf or a failure, for each part of a leaf of
// slices; the values may be slices, too. Returns the leaf or the failure.
ls_nest ls_slices_note(ls_nest leaf, ls_leaf_function note, void *user);

#endif  // LS_GRAPH_SLICES_H_
