// SPDX-License-Identifier: Apache-2.0
//
// Passes over lowered graphs that are nobody's in particular, and what the
// debug switches make of each pass.
#ifndef LS_GRAPH_PASSES_PASSES_H_
#define LS_GRAPH_PASSES_PASSES_H_

#include "graph/graph.h"

// Removes nodes that nothing uses, values that go round in loops for nobody,
// results of branches, captures. Parameters stay.
ls_status ls_drop_unused(ls_graph *graph);

// A pass over a program's graph is done: logs, writes down and checks what is
// there now, as far as debug switches ask for it. `is_last`: no other follows.
ls_status ls_watch_pass(ls_runtime *runtime, const ls_graph *graph,
                        const char *pass, bool is_last);

// ---- twins.c ----------------------------------------------------------------
// Finds what two bodies of one replicate op have in common.
//
// Replicas whose arguments have other shapes run other bodies, which were
// lowered from one source. What depends on no argument is the same in all of
// them and shall be computed once, for all: such nodes are twins. They are
// found by what they compute, as lowering may have dropped or joined others.
enum { LS_NO_TWIN = UINT32_MAX };

// For each node of `body` the place of the node of `first` that is worth the
// same on all replicas, or LS_NO_TWIN; `twins` has room for all. What varies in
// `first` is no twin. Merges are twins in the order they stand in, and so their
// results are.
//   LS_INTERNAL  other merges in the one than in the other.
ls_status ls_find_twins(ls_graph *first, ls_graph *body, uint32_t *twins);

#endif  // LS_GRAPH_PASSES_PASSES_H_
