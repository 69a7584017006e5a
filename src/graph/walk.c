// SPDX-License-Identifier: Apache-2.0
#include "graph/walk.h"

static void enter_graph(ls_graph_walk *walk, const ls_graph *graph,
                        ls_node *holder) {
  LS_ASSERT(walk->num_levels < LS_COUNT_OF(walk->levels));
  walk->levels[walk->num_levels++] = (ls_graph_walk_level){
      .graph = ls_graph_resolve((ls_graph *)(uintptr_t)graph),
      .holder = holder};
}

// Begins a walk. Levels are initialized only when they are entered, because
// there is room for many, and few are used.
void ls_graph_walk_begin(ls_graph_walk *walk, const ls_graph *graph) {
  walk->graph = NULL;
  walk->node = NULL;
  walk->began = true;
  walk->enters = false;
  walk->num_levels = 0;
  enter_graph(walk, graph, NULL);
}

void ls_graph_walk_begin_at(ls_graph_walk *walk, const ls_node *node) {
  walk->graph = NULL;
  walk->node = (ls_node *)(uintptr_t)node;
  walk->began = walk->enters = false;
  walk->num_levels = 0;
}

static bool stand_at(ls_graph_walk *walk, ls_node *node) {
  walk->node = node;
  walk->enters = node->num_regions > 0;
  return true;
}

bool ls_graph_walk_next(ls_graph_walk *walk) {
  if (!walk->began) {
    walk->began = true;
    return stand_at(walk, walk->node);
  }
  if (walk->enters) enter_graph(walk, walk->node->regions[0], walk->node);
  for (; walk->num_levels > 0; --walk->num_levels) {
    ls_graph_walk_level *level = &walk->levels[walk->num_levels - 1];
    for (;;) {
      walk->graph = level->graph;
      if (level->next < level->graph->num_nodes)
        return stand_at(walk, level->graph->nodes[level->next++]);
      if (level->holder == NULL ||
          ++level->region == level->holder->num_regions)
        break;
      level->graph = ls_graph_resolve(level->holder->regions[level->region]);
      level->next = 0;
    }
  }
  return false;
}

ls_status ls_graph_each(ls_graph *graph,
                        ls_status (*visit)(ls_graph *graph, void *user),
                        void *user) {
  graph = ls_graph_resolve(graph);
  LS_RETURN_IF_ERROR(visit(graph, user));
  for (size_t i = 0; i < graph->num_nodes; ++i)
    for (uint32_t r = 0; r < graph->nodes[i]->num_regions; ++r)
      LS_RETURN_IF_ERROR(
          ls_graph_each(graph->nodes[i]->regions[r], visit, user));
  return ls_ok();
}

// ---- Queries ---------------------------------------------------------------
bool ls_graph_any(const ls_graph *graph, bool (*test)(const ls_node *node)) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);)
    if (test(walk.node)) return true;
  return false;
}

bool ls_node_any(const ls_node *node, bool (*test)(const ls_node *node)) {
  if (node->num_regions == 0) return test(node);
  ls_graph_walk walk;
  for (ls_graph_walk_begin_at(&walk, node); ls_graph_walk_next(&walk);)
    if (test(walk.node)) return true;
  return false;
}

bool ls_node_any_trait(const ls_node *node, unsigned traits) {
  if (node->num_regions == 0) return (ls_node_info(node)->traits & traits) != 0;
  ls_graph_walk walk;
  for (ls_graph_walk_begin_at(&walk, node); ls_graph_walk_next(&walk);)
    if ((ls_node_info(walk.node)->traits & traits) != 0) return true;
  return false;
}

bool ls_graph_any_type(const ls_graph *graph, uint16_t type) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);)
    if (walk.node->type == type) return true;
  return false;
}
