// SPDX-License-Identifier: Apache-2.0
#include "nn/layer.h"

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "graph/graph.h"
#include "lockstep/ops.h"
#include "lockstep/variable.h"

void ls_update_ops_add(ls_tensor written) {
  ls_graph *graph = ls_graph_current();
  if (graph->kind != LS_GRAPH_BUILD || ls_tensor_is_failed(written)) return;
  const ls_status status = ls_graph_add_to_collection(
      graph, LS_COLLECTION_UPDATE_OPS, ls_nest_op(ls_tensor_op(written)));
  if (!ls_status_is_ok(status)) ls_graph_fail(graph, status);
}

// ---- Needed ops ------------------------------------------------------------
typedef struct needs {
  const ls_graph *graph;
  // Visitor of each node: `STEP`, or an update's number from 1 on.
  uint32_t *seen;
  size_t *stack;
  size_t depth;
} needs;
enum { STEP = UINT32_MAX };

static void update_ops_push(needs *n, uint64_t id, uint32_t who) {
  const size_t at = ls_graph_position(n->graph, id);
  if (at == SIZE_MAX || n->seen[at] == STEP || n->seen[at] == who) return;
  n->seen[at] = who;
  n->stack[n->depth++] = at;
}

// Walks back from an op, except through nodes that the step needs. Returns
// false if that reaches a placeholder or a host op.
static bool walk(needs *n, uint64_t id, uint32_t who) {
  bool inside = true;
  n->depth = 0;
  update_ops_push(n, id, who);
  while (n->depth > 0) {
    const ls_node *node = n->graph->nodes[n->stack[--n->depth]];
    inside &= node->type != LS_OP_PLACEHOLDER &&
              (ls_node_info(node)->traits & LS_OP_ON_HOST) == 0;
    for (uint32_t i = 0; i < node->num_inputs; ++i)
      update_ops_push(n, ls_ref_id(node->inputs[i]), who);
    for (uint32_t i = 0; i < node->num_control; ++i)
      update_ops_push(n, node->control[i], who);
  }
  return inside;
}

// ---- Join with a step ------------------------------------------------------
// Lists the step, and the updates that can run with it, in `ops`.
static size_t update_ops_choose(needs *n, ls_op step, const ls_nest *updates,
                                size_t count, ls_op *ops) {
  size_t chosen = 0;
  walk(n, step.id, STEP);
  ops[chosen++] = step;
  for (size_t i = 0; i < count; ++i) {
    if (updates[i].kind == LS_KIND_OP &&
        walk(n, updates[i].as.op.id, (uint32_t)i + 1))
      ops[chosen++] = updates[i].as.op;
  }
  return chosen;
}

ls_status ls_update_ops_join(const char *name, ls_op *step) {
  ls_graph *graph = ls_graph_current();
  const size_t count =
      graph->kind != LS_GRAPH_BUILD || ls_op_is_failed(*step)
          ? 0
          : ls_graph_collection(graph, LS_COLLECTION_UPDATE_OPS, NULL, 0);
  if (count == 0) return ls_ok();
  ls_allocator *allocator = graph->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, uint32_t, seen, graph->num_nodes);
  LS_OWN_ARRAY_OR_RETURN(allocator, size_t, stack, graph->num_nodes);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, updates, count);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_op, ops, count + 1);
  needs n = {.graph = graph, .seen = seen, .stack = stack};
  ls_graph_collection(graph, LS_COLLECTION_UPDATE_OPS, updates, count);
  const size_t chosen = update_ops_choose(&n, *step, updates, count, ops);
  if (chosen > 1) *step = ls_group(ops, chosen, name);
  return ls_ok();
}
