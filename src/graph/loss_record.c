// SPDX-License-Identifier: Apache-2.0
//
// What a graph knows of the losses in it: how the last one was reduced, whether
// an optimizer has scaled it, and whether one takes a step. Replicas that share
// a graph, in eager or in one that is built, each have a record of their own:
// it is changed with the fiber (distribute/replicas/rounds.c). What a region
// says, the graph around it says too. In eager a tape begins without one.
#include "graph/graph.h"

#include "base/memory/allocator.h"
#include "base/require.h"

ls_status ls_graph_record_loss_reduction(ls_graph *graph,
                                         const char *reduction) {
  LS_REQUIRE(graph);
  LS_REQUIRE(reduction);
  graph = ls_graph_resolve(graph);
  const char *kept = ls_graph_intern(graph, reduction);
  if (kept == NULL) return ls_out_of_memory();
  graph->losses.reduction = kept;
  return ls_ok();
}

const char *ls_graph_loss_reduction(const ls_graph *graph) {
  graph = ls_graph_resolve((ls_graph *)(uintptr_t)graph);
  return graph->losses.reduction != NULL ? graph->losses.reduction : "";
}

void ls_graph_set_loss_scaled(ls_graph *graph, bool scaled) {
  ls_graph_resolve(graph)->losses.scaled = scaled;
}

bool ls_graph_is_loss_scaled(const ls_graph *graph) {
  return ls_graph_resolve((ls_graph *)(uintptr_t)graph)->losses.scaled;
}

void ls_graph_set_gradients_summed(ls_graph *graph, bool summed) {
  ls_graph_resolve(graph)->losses.summed = summed;
}

bool ls_graph_sums_gradients(const ls_graph *graph) {
  return ls_graph_resolve((ls_graph *)(uintptr_t)graph)->losses.summed;
}

void ls_graph_note_training(ls_graph *graph) {
  for (; graph != NULL; graph = graph->parent) {
    graph = ls_graph_resolve(graph);
    graph->trains = true;
  }
}
