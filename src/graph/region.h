// SPDX-License-Identifier: Apache-2.0
//
// Builds child graphs from callbacks: loops, branches, functions, replicas.
#ifndef LS_GRAPH_REGION_H_
#define LS_GRAPH_REGION_H_

#include "graph/context.h"
#include "lockstep/ops.h"
#include "lockstep/variable.h"

// Returns the graph to which a region belongs, directly or through other
// regions; it numbers random streams.
static inline ls_graph *ls_graph_whole(ls_graph *graph) {
  while (graph->kind == LS_GRAPH_REGION)
    graph = graph->parent;
  return graph;
}

// Runs `callback` with `graph` current. `*out_result` (the caller's) is the
// nest it returned; its tensors become the results of `graph`, in order of
// flattening. Host scalars and arrays among the leaves become constants; other
// leaves are kept. If the callback or an op maker in it fails, returns the
// failure, with no result.
ls_status ls_region_trace(ls_graph *graph, ls_flow_callback callback,
                          ls_nest args, void *user, ls_nest *out_result);

// Makes a nest like `like` whose leaves are new declared parameters of `graph`,
// one per type.
ls_status ls_region_parameters(ls_graph *graph, ls_nest like,
                               const ls_type *types, size_t count,
                               ls_nest *out_args);

// Converts a leaf to a tensor of the current graph: scalars and arrays become
// constants. Fails for other kinds.
ls_status ls_region_tensor(ls_nest leaf, ls_tensor *out_tensor);

#endif  // LS_GRAPH_REGION_H_
