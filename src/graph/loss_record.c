// SPDX-License-Identifier: Apache-2.0
//
// What a graph knows of the losses in it: how the last one was reduced, and
// whether an optimizer has scaled it.
#include "graph/graph.h"

#include "base/allocator.h"

ls_status ls_graph_record_loss_reduction(ls_graph *graph,
                                         const char *reduction) {
  graph = ls_graph_resolve(graph);
  const char *kept = ls_graph_intern(graph, reduction);
  if (kept == NULL) return ls_out_of_memory();
  graph->loss_reduction = kept;
  return ls_ok();
}

const char *ls_graph_loss_reduction(const ls_graph *graph) {
  graph = ls_graph_resolve((ls_graph *)(uintptr_t)graph);
  return graph->loss_reduction != NULL ? graph->loss_reduction : "";
}

void ls_graph_set_loss_scaled(ls_graph *graph, bool scaled) {
  ls_graph_resolve(graph)->loss_scaled = scaled;
}

bool ls_graph_is_loss_scaled(const ls_graph *graph) {
  return ls_graph_resolve((ls_graph *)(uintptr_t)graph)->loss_scaled;
}
