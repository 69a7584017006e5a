// SPDX-License-Identifier: Apache-2.0
//
// Finds steps in loops and branches, and refuses what cannot be taken apart.
#include "graph/gather/gather.h"
#include "graph/walk.h"
#include "lower/apart_graph.h"

bool ls_is_step(const ls_node *node) {
  return node->type == LS_OP_MERGE_CALL &&
         ls_node_mark(node, LS_MARK_OUTSIDE) != NULL;
}

bool ls_holds_step(const ls_node *node) {
  return ls_node_any(node, ls_is_step);
}

bool ls_condition_writes(const ls_node *loop) {
  return ls_graph_any(loop->regions[0], ls_node_assigns);
}

ls_status ls_apart_refuse(ls_graph *graph, ls_node *node, const char *why) {
  char text[LS_MAX_FULL_NAME];
  ls_node_describe(graph, node, text, sizeof(text));
  return ls_invalid_argument("%s is %s", text, why);
}

static bool merges(const ls_node *node) {
  switch (node->type) {
  case LS_OP_REDUCE_SCATTER:
  case LS_OP_ALL_TO_ALL:
  case LS_OP_PERMUTE:
  case LS_OP_REPLICA_BROADCAST:
  case LS_OP_CROSS_REPLICA_SUM:
    return true;
  case LS_OP_MERGE_CALL:
    return !ls_is_step(node);
  default:
    return (ls_node_info(node)->traits & LS_OP_MERGE) != 0;
  }
}

ls_status ls_apart_check_node(const ls_apart_level *l, const ls_node *node) {
  if (l->mask == 0) return ls_ok();
  ls_graph_walk walk;
  for (ls_graph_walk_begin_at(&walk, node); ls_graph_walk_next(&walk);) {
    if (merges(walk.node))
      return ls_apart_refuse(
          walk.graph == NULL ? l->c.from : walk.graph, walk.node,
          "what replicas put together, in a loop or branch through "
          "which they may go in ways of their own and in which outside "
          "compiled ops write variables: make the condition the same "
          "on all, for instance with ls_all_reduce");
    if (ls_is_step(walk.node)) ls_graph_walk_skip_regions(&walk);
  }
  return ls_ok();
}

ls_status ls_apart_check_loop(const ls_apart *a, const ls_node *loop) {
  const ls_graph *condition = ls_graph_resolve(loop->regions[0]);
  bool draws = false;
  for (size_t i = 0; i < condition->num_nodes; ++i)
    draws = draws || ls_node_any_trait(condition->nodes[i], LS_OP_RANDOM);
  if (ls_node_attr(loop, LS_ATTR_ID_NUM_SAVED) == NULL && !draws)
    return ls_ok();
  return ls_unimplemented(
      "a loop %s %s",
      draws ? "draws random numbers in its condition and"
            : "has a gradient and",
      a->together ? "writes a variable in its condition"
                  : "holds outside compiled ops that write a variable, and "
                    "replicas make numbers of trips of their own");
}
