// SPDX-License-Identifier: Apache-2.0
//
// What two bodies of one replicate op have in common.
//
// Replicas whose arguments have other shapes run other bodies, which were
// lowered from one source. What depends on no argument is the same in all of
// them and shall be computed once, for all: such nodes are twins. They are
// found by what they compute, as lowering may have dropped or joined others.
#ifndef LS_GRAPH_PASSES_TWINS_H_
#define LS_GRAPH_PASSES_TWINS_H_

#include "graph/graph.h"

enum { LS_NO_TWIN = UINT32_MAX };

// For each node of `body` the place of the node of `first` that is worth the
// same on all replicas, or LS_NO_TWIN; `twins` has room for all. What varies in
// `first` is no twin. Merges are twins in the order they stand in, and so their
// results are.
//   LS_INTERNAL  other merges in the one than in the other.
ls_status ls_find_twins(ls_graph *first, ls_graph *body, uint32_t *twins);

#endif  // LS_GRAPH_PASSES_TWINS_H_
