// SPDX-License-Identifier: Apache-2.0
//
// Building a child graph from a callback: loops, branches, functions, replicas.
#ifndef LS_GRAPH_REGION_H_
#define LS_GRAPH_REGION_H_

#include "graph/context.h"
#include "lockstep/ops.h"
#include "lockstep/variable.h"

// The graph whose regions these are: where random streams are counted.
static inline ls_graph *ls_graph_whole(ls_graph *graph) {
  while (graph->kind == LS_GRAPH_REGION)
    graph = graph->parent;
  return graph;
}

// Runs `callback` with `graph` current. `*out_result` is the nest it returned
// (the caller's), whose tensor leaves are values of `graph`: its results, in
// the order of flattening. Host scalars and arrays among the leaves have become
// constants; other leaves stay. On failure (the callback's, or an op maker's
// inside) the status is returned and the result is none.
ls_status ls_region_trace(ls_graph *graph, ls_flow_callback callback,
                          ls_nest args, void *user, ls_nest *out_result);

// A nest like `like` whose leaves are new declared parameters of `graph`, one
// for each type.
ls_status ls_region_parameters(ls_graph *graph, ls_nest like,
                               const ls_type *types, size_t count,
                               ls_nest *out_args);

// Turns a leaf into a tensor of the current graph: scalars and arrays become
// constants. Fails for other kinds.
ls_status ls_region_tensor(ls_nest leaf, ls_tensor *out_tensor);

#endif  // LS_GRAPH_REGION_H_
