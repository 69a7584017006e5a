// SPDX-License-Identifier: Apache-2.0
#include "graph/context.h"

typedef struct gathering {
  const ls_graph *graph;
  const ls_op_info *info;
  ls_op *ops;
  size_t count;
} gathering;

static bool is_around(const ls_graph *outer, const ls_graph *graph) {
  while (graph != NULL && graph != outer)
    graph = ls_graph_resolve(graph->parent);
  return graph != NULL;
}

static ls_status control_add(gathering *g, ls_op op) {
  op.graph = ls_graph_resolve(op.graph);
  if (op.id == 0 || op.graph == NULL)
    return ls_invalid_argument("a control input of %s is a failed op",
                               g->info->name);
  if (op.graph->kind == LS_GRAPH_EAGER && g->graph->kind != LS_GRAPH_EAGER) {
    const ls_node *node = ls_graph_node(op.graph, op.id);
    return node == NULL ? ls_ok() : ls_status_clone(node->failure);
  }
  if (!is_around(op.graph, g->graph))
    return ls_invalid_argument(
        "control input '%s' belongs to graph '%s', but the op is being added "
        "to graph '%s', which is not inside it",
        ls_op_name(op), op.graph->name, g->graph->name);
  for (size_t i = 0; i < g->count; ++i)
    if (g->ops[i].id == op.id && g->ops[i].graph == op.graph) return ls_ok();
  g->ops[g->count++] = op;
  return ls_ok();
}

static size_t count_most(const ls_open_scope *scope, const ls_op_spec *spec) {
  size_t count = spec->num_control;
  for (size_t r = 0; r < spec->num_regions; ++r)
    count += ls_graph_resolve(spec->regions[r])->num_waits_outside;
  for (; scope != NULL; scope = scope->before.control)
    count += scope->own.control.count;
  return count;
}

static const ls_node *operand(const gathering *g, ls_tensor input) {
  return ls_graph_resolve(input.graph) == g->graph
             ? ls_graph_node_of(g->graph, input.ref)
             : NULL;
}

// Returns true if one of the operands was made in the scope.
static bool is_implied(const gathering *g, const ls_op_spec *spec,
                       const ls_control_group *group) {
  for (size_t i = 0; i < spec->num_inputs; ++i) {
    const ls_node *node = operand(g, spec->inputs[i]);
    const ls_control_group *in = node == NULL ? NULL : node->made_in;
    while (in != NULL && in != group)
      in = in->outer;
    if (in != NULL) return true;
  }
  return false;
}

static bool is_operand(const gathering *g, const ls_op_spec *spec, ls_op op) {
  for (size_t i = 0; i < spec->num_inputs; ++i)
    if (ls_ref_id(spec->inputs[i].ref) == op.id &&
        operand(g, spec->inputs[i]) != NULL &&
        ls_graph_resolve(op.graph) == g->graph)
      return true;
  return false;
}

static ls_status add_scope(gathering *g, const ls_open_scope *scope,
                           const ls_op_spec *spec) {
  if (is_implied(g, spec, scope->own.control.group)) return ls_ok();
  for (size_t i = 0; i < scope->own.control.count; ++i)
    if (!is_operand(g, spec, scope->own.control.ops[i]))
      LS_RETURN_IF_ERROR(control_add(g, scope->own.control.ops[i]));
  return ls_ok();
}

ls_status ls_control_gather(const ls_graph *graph, const ls_op_info *info,
                            const ls_open_scope *innermost, ls_op_spec *spec,
                            ls_arena *memory) {
  const size_t most = count_most(innermost, spec);
  if (most == 0) return ls_ok();
  gathering g = {graph, info, ls_arena_new_array(memory, ls_op, most), 0};
  if (g.ops == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < spec->num_control; ++i)
    LS_RETURN_IF_ERROR(control_add(&g, spec->control[i]));
  for (size_t r = 0; r < spec->num_regions; ++r) {
    const ls_graph *region = ls_graph_resolve(spec->regions[r]);
    for (size_t i = 0; i < region->num_waits_outside; ++i)
      LS_RETURN_IF_ERROR(control_add(&g, region->waits_outside[i].outer));
  }
  for (const ls_open_scope *s = innermost; s != NULL; s = s->before.control)
    LS_RETURN_IF_ERROR(add_scope(&g, s, spec));
  spec->control = g.ops;
  spec->num_control = g.count;
  return ls_ok();
}

ls_status ls_control_split(const ls_graph *graph, ls_op_spec *spec,
                           ls_arena *memory, const ls_op **out_outside,
                           size_t *out_count) {
  size_t outside = 0, here = 0;
  *out_outside = NULL;
  *out_count = 0;
  for (size_t i = 0; i < spec->num_control; ++i)
    outside += ls_graph_resolve(spec->control[i].graph) != graph;
  if (outside == 0) return ls_ok();
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_op, ops, spec->num_control);
  const size_t behind = spec->num_control - outside;
  for (size_t i = 0; i < spec->num_control; ++i) {
    const ls_op op = spec->control[i];
    if (ls_graph_resolve(op.graph) == graph)
      ops[here++] = op;
    else
      ops[behind + (*out_count)++] = op;
  }
  spec->control = ops;
  spec->num_control = here;
  *out_outside = ops + behind;
  return ls_ok();
}
