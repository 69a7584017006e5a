// SPDX-License-Identifier: Apache-2.0
//
// What an export changes in graphs: which variable an access means, and that
// what was traced outside of one may not be fit for it.
#include "graph/context.h"
#include "graph/variables/variable.h"
#include "graph/walk.h"

static bool is_packed_handle(const ls_variable *variable) {
  const ls_variable *container =
      variable->num_targets > 0 ? variable->targets[0]->container : NULL;
  return container != NULL && container->packed == variable;
}

ls_variable *ls_variable_meant(const ls_variable *variable) {
  if (ls_context_current()->scoped.primaries_only) {
    if (variable->num_components > 0) return variable->components[0];
    if (is_packed_handle(variable)) return variable->targets[0];
  }
  return (ls_variable *)(uintptr_t)variable;
}

ls_status ls_graph_note_unsaveable(ls_graph *graph, const char *why) {
  graph = ls_graph_resolve(graph);
  if (ls_context_current()->scoped.exporting != 0 ||
      graph->kind == LS_GRAPH_EAGER || graph->unsaveable != NULL)
    return ls_ok();
  graph->unsaveable = ls_graph_intern(graph, why);
  return graph->unsaveable != NULL ? ls_ok() : ls_out_of_memory();
}

const char *ls_graph_unsaveable(const ls_graph *graph) {
  graph = ls_graph_resolve((ls_graph *)(uintptr_t)graph);
  const char *why = graph->unsaveable;
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph);
       why == NULL && ls_graph_walk_next(&walk);)
    why = walk.graph->unsaveable;
  return why;
}
