// SPDX-License-Identifier: Apache-2.0
//
// Which ops of replicated computations may be neither fed nor fetched: all but
// those outside of computations of one replica. Their marks say so, and so a
// graph that is read from its text has the bans of the one that was printed.
#include "graph/gather/gather.h"
#include "graph/walk.h"

bool ls_marks_ban(const ls_node *node, int64_t replicas) {
  return ls_node_mark(node, LS_MARK_REPLICATE) != NULL &&
         (replicas > 1 || ls_node_mark(node, LS_MARK_OUTSIDE) == NULL);
}

bool ls_pads_unseen(const ls_node *node) {
  return node->type == LS_OP_TPU_PADDED_INPUT &&
         ls_node_int(node, LS_ATTR_ID_DYNAMIC_PADDER) != 0;
}

// ---- Of a whole graph ------------------------------------------------------
// The metadata of computations, by name.
typedef struct computations {
  ls_map by_name;
} computations;

static ls_status list_computations(computations *all, const ls_graph *graph) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    const char *name = ls_node_mark(walk.node, LS_MARK_REPLICATE);
    if (walk.node->type == LS_OP_TPU_REPLICATE_METADATA && name != NULL &&
        !ls_map_insert(&all->by_name, name, strlen(name), walk.node))
      return ls_out_of_memory();
  }
  return ls_ok();
}

static void ban(const computations *all, const ls_graph *graph) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    ls_node *node = walk.node;
    const char *name = ls_node_mark(node, LS_MARK_REPLICATE);
    const ls_node *metadata =
        name == NULL ? NULL : ls_map_find(&all->by_name, name, strlen(name));
    if (metadata != NULL)
      node->not_fed = node->not_fetched =
          ls_marks_ban(node, ls_node_int(metadata, LS_ATTR_ID_NUM_REPLICAS));
    if (ls_pads_unseen(node)) node->not_fed = node->not_fetched = true;
  }
}

ls_status ls_graph_ban_by_marks(ls_graph *graph) {
  computations all;
  ls_map_init(&all.by_name, graph->allocator);
  const ls_status status = list_computations(&all, graph);
  if (ls_status_is_ok(status)) ban(&all, graph);
  ls_map_deinit(&all.by_name);
  return status;
}
