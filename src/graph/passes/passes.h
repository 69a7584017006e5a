// SPDX-License-Identifier: Apache-2.0
//
// General passes over lowered graphs, and the debug switches that watch passes.
#ifndef LS_GRAPH_PASSES_PASSES_H_
#define LS_GRAPH_PASSES_PASSES_H_

#include "graph/graph.h"

// Removes unused nodes, loop values, results of branches, and captures.
// Parameters stay.
ls_status ls_drop_unused(ls_graph *graph);

// Logs, dumps and verifies the graph after a pass, as debug switches demand.
// `is_last`: no pass follows.
ls_status ls_watch_pass(ls_runtime *runtime, const ls_graph *graph,
                        const char *pass, bool is_last);

// ---- passes.c ---------------------------------------------------------------
// Finds common nodes of two bodies of one replicate op.
//
// Replicas whose arguments have different shapes run different bodies, lowered
// from one source. Nodes that depend on no argument compute the same in all
// bodies and should run once for all: such nodes are twins. Twins are found by
// what they compute, because lowering may have dropped or merged different
// nodes in the two bodies.
enum { LS_NO_TWIN = UINT32_MAX };

// For each node of `body` finds the index of its twin in `first`, a node with
// the same value on all replicas, or LS_NO_TWIN; `twins` has room for all. A
// node of `first` that varies by replica has no twin. Merges correspond in
// order, and so do their results.
//   LS_INTERNAL  the bodies have different merges
ls_status ls_find_twins(ls_graph *first, ls_graph *body, uint32_t *twins);

#endif  // LS_GRAPH_PASSES_PASSES_H_
