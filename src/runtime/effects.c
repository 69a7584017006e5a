// SPDX-License-Identifier: Apache-2.0
//
// Effects of a function that was called in a graph being built: a session runs
// what is fetched, and who fetches a result of the call has called.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "graph/variables/variable.h"
#include "lower/scope.h"
#include "runtime/function.h"

// A variable that was made in the call gets its first value when its
// initializer is run, and not with each call.
static bool is_initializer(const ls_node *node) {
  if (!ls_node_assigns(node)) return false;
  const ls_variable *variable =
      (ls_variable *)ls_node_attr(node, LS_ATTR_ID_VARIABLE)->as.object;
  return variable->initializer.id == node->id;
}

// What has an effect of the nodes from `first` on, in one op; id 0: nothing.
static ls_status group_effects(const ls_graph *graph, size_t first,
                               ls_op *out_group) {
  ls_allocator *allocator = graph->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_op, ops, graph->num_nodes - first);
  size_t count = 0;
  for (size_t i = first; i < graph->num_nodes; ++i)
    if (ls_node_has_effects(graph->nodes[i]) &&
        !is_initializer(graph->nodes[i]))
      ops[count++] = (ls_op){(ls_graph *)graph, graph->nodes[i]->id};
  if (count > 0) *out_group = ls_group(ops, count, NULL);
  return ls_ok();
}

static ls_nest behind_effects(ls_nest leaf, void *user) {
  const ls_op *effects = user;
  if (leaf.kind == LS_KIND_OP)
    return ls_nest_op(ls_group((ls_op[]){leaf.as.op, *effects}, 2, NULL));
  if (leaf.kind != LS_KIND_TENSOR) return ls_nest_retain(leaf);
  LS_CONTROL_SCOPE(effects, 1);
  return ls_leaf(ls_identity(leaf.as.tensor));
}

ls_nest ls_bring_effects(const ls_graph *graph, size_t first, ls_nest made) {
  ls_op effects = {0};
  if (graph->kind != LS_GRAPH_BUILD || ls_nest_is_failed(made)) return made;
  const ls_status status = group_effects(graph, first, &effects);
  if (ls_status_is_ok(status) && effects.id == 0) return made;
  const ls_nest behind = ls_status_is_ok(status)
                             ? ls_nest_map(made, behind_effects, &effects)
                             : ls_fail(status);
  ls_nest_release(made);
  return behind;
}
