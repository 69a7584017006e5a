// SPDX-License-Identifier: Apache-2.0
//
// Walks over the ops of a graph and of its regions, at any depth: each op
// before what its regions hold, in the order in which they stand.
//
//   ls_graph_walk walk;
//   for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);)
//     if (walk.node->type == LS_OP_HOST) return true;
//
// A walk holds no memory and can be left at any op. Ops may change on the way,
// but none may come or go in the graphs around the one it stands at.
#ifndef LS_GRAPH_WALK_H_
#define LS_GRAPH_WALK_H_

#include "graph/graph.h"

// A graph that the walk is in.
typedef struct ls_graph_walk_level {
  ls_graph *graph;
  ls_node *holder;  // The op whose region it is; NULL: where it began.
  uint32_t region;  // ... and which.
  size_t next;      // The position of the op that comes next.
} ls_graph_walk_level;

typedef struct ls_graph_walk {
  ls_graph *graph;  // Holds `node`. NULL: the walk began at the node.
  ls_node *node;    // Where the walk stands.
  bool began, enters;
  size_t num_levels;
  ls_graph_walk_level levels[LS_MAX_GRAPH_DEPTH + 1];
} ls_graph_walk;

// Begins in front of the first op of a graph.
void ls_graph_walk_begin(ls_graph_walk *walk, const ls_graph *graph);
// Begins in front of an op: it comes first, then what its regions hold.
void ls_graph_walk_begin_at(ls_graph_walk *walk, const ls_node *node);
// Goes to the next op. False: there is none.
bool ls_graph_walk_next(ls_graph_walk *walk);
// Leaves out the regions of the op that the walk stands at.
static inline void ls_graph_walk_skip_regions(ls_graph_walk *walk) {
  walk->enters = false;
}

// Calls `visit` with a graph, then with the regions of the ops that are in it
// by then, until it fails.
ls_status ls_graph_each(ls_graph *graph,
                        ls_status (*visit)(ls_graph *graph, void *user),
                        void *user);

// Returns true if `test` is true of an op of the graph, or of the op, or of one
// in the regions.
bool ls_graph_any(const ls_graph *graph, bool (*test)(const ls_node *node));
bool ls_node_any(const ls_node *node, bool (*test)(const ls_node *node));
// Returns true if the op, or one in its regions, has one of these traits.
bool ls_node_any_trait(const ls_node *node, unsigned traits);
// Returns true if the graph, or one of its regions, has an op of this type.
bool ls_graph_any_type(const ls_graph *graph, uint16_t type);

#endif  // LS_GRAPH_WALK_H_
