// SPDX-License-Identifier: Apache-2.0
//
// Walks over the ops of a graph and of its regions, at any depth: each op
// before the ops of its regions, in order.
//
//   ls_graph_walk walk;
//   for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);)
//     if (walk.node->type == LS_OP_HOST) return true;
//
// A walk allocates nothing and can be abandoned at any op. Ops may be changed
// on the way, but none may be added to or removed from the graphs that enclose
// the current op.
#ifndef LS_GRAPH_WALK_H_
#define LS_GRAPH_WALK_H_

#include "graph/graph.h"

// A graph that encloses the current op.
typedef struct ls_graph_walk_level {
  ls_graph *graph;
  ls_node *holder;  // Op whose region the graph is; NULL for the outermost.
  uint32_t region;  // Index of the region among the op's.
  size_t next;      // Position of the next op.
} ls_graph_walk_level;

typedef struct ls_graph_walk {
  ls_graph *graph;  // Graph of `node`. NULL: the walk began at the node.
  ls_node *node;    // The current op.
  bool began, enters;
  size_t num_levels;
  ls_graph_walk_level levels[LS_MAX_GRAPH_DEPTH + 1];
} ls_graph_walk;

// Begins before the first op of a graph.
void ls_graph_walk_begin(ls_graph_walk *walk, const ls_graph *graph);
// Begins before an op: the walk visits the op first, then the ops of its
// regions.
void ls_graph_walk_begin_at(ls_graph_walk *walk, const ls_node *node);
// Advances to the next op. Returns false if there is none.
bool ls_graph_walk_next(ls_graph_walk *walk);
// Skips the regions of the current op.
static inline void ls_graph_walk_skip_regions(ls_graph_walk *walk) {
  walk->enters = false;
}

// Calls `visit` with a graph, then with the regions of the graph's ops (also
// regions that `visit` has added), until a call fails.
ls_status ls_graph_each(ls_graph *graph,
                        ls_status (*visit)(ls_graph *graph, void *user),
                        void *user);

// Returns true if `test` is true for an op of the graph, or, with ls_node_any,
// for the op or an op in its regions.
bool ls_graph_any(const ls_graph *graph, bool (*test)(const ls_node *node));
bool ls_node_any(const ls_node *node, bool (*test)(const ls_node *node));
// Returns true if the op or one in its regions has one of these traits.
bool ls_node_any_trait(const ls_node *node, unsigned traits);
// Returns true if the graph or one of its regions has an op of this type.
bool ls_graph_any_type(const ls_graph *graph, uint16_t type);

#endif  // LS_GRAPH_WALK_H_
