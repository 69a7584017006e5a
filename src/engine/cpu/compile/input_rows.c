// SPDX-License-Identifier: Apache-2.0
//
// Finds results whose rows are those of one of the program's inputs, such as a
// batch: follows rows back through ops, replicas, loops and branches.
#include "engine/cpu/compile/batching.h"

typedef struct search {
  const ls_program *program;
  int budget;  // Number of ops to look at.
} search;

static bool follow_rows(search *s, const ls_graph *graph, uint64_t ref);

static size_t count_of(const ls_node *node, uint32_t attribute) {
  return (size_t)ls_node_int(node, attribute);
}

static size_t index_of(const ls_graph *graph, uint64_t parameter) {
  size_t index = 0;
  while (graph->parameters[index] != parameter)
    ++index;
  return index;
}

// Returns the operand of a node that a region has as parameter `index`.
static uint64_t operand_of(const ls_node *node, uint32_t region, size_t index) {
  const size_t declared = node->regions[region]->num_declared;
  if (index >= declared)
    return node->inputs[ls_node_captures(node, region) + index - declared];
  if (node->type != LS_OP_REPLICATE) return node->inputs[index];
  const size_t replicas = count_of(node, LS_ATTR_ID_REPLICAS);
  const size_t split = count_of(node, LS_ATTR_ID_NUM_SPLIT);
  return node->inputs[index < split ? index * replicas
                                    : split * replicas + index - split];
}

// A parameter of the program's body is an input or a variable, that of a region
// a value of the graph around it.
static bool follow_parameter(search *s, const ls_graph *graph, uint64_t ref) {
  const size_t index = index_of(graph, ref);
  const ls_graph *parent = graph->parent;
  if (graph == s->program->body) return index < s->program->num_inputs;
  for (size_t i = 0; i < parent->num_nodes; ++i) {
    const ls_node *node = parent->nodes[i];
    const bool gives_arguments =
        node->type == LS_OP_REPLICATE || node->type == LS_OP_WHILE;
    for (uint32_t r = 0; r < node->num_regions; ++r)
      if (node->regions[r] == graph)
        return (gives_arguments || index >= graph->num_declared) &&
               follow_rows(s, parent, operand_of(node, r, index));
  }
  return false;
}

// A result of replicas or of a branch is one of a region.
static bool follow_region(search *s, const ls_node *node, size_t output) {
  if (node->type == LS_OP_REPLICATE) {
    const size_t replicas = count_of(node, LS_ATTR_ID_REPLICAS);
    const size_t gathered = count_of(node, LS_ATTR_ID_NUM_GATHERED);
    output = output < gathered * replicas
                 ? output / replicas
                 : gathered + output - gathered * replicas;
  }
  return follow_rows(s, node->regions[0], node->regions[0]->results[output]);
}

static bool follow_op(search *s, const ls_graph *graph, const ls_node *node,
                      ls_shape shape) {
  ls_cpu_rows rows = ls_cpu_find_rows(graph, node);
  if (node->type == LS_OP_RESHAPE || node->type == LS_OP_SLICE)
    rows = (ls_cpu_rows){0, 1};
  for (uint32_t i = rows.first; i < rows.first + rows.count; ++i) {
    const ls_shape from = ls_graph_type(graph, node->inputs[i]).shape;
    if (from.rank > 0 && from.dim[0] == shape.dim[0] &&
        follow_rows(s, graph, node->inputs[i]))
      return true;
  }
  return false;
}

static bool follow_rows(search *s, const ls_graph *graph, uint64_t ref) {
  const ls_node *node = ls_graph_node_of(graph, ref);
  const ls_shape shape = ls_graph_type(graph, ref).shape;
  if (node == NULL || shape.rank < 1 || --s->budget < 0) return false;
  switch (node->type) {
  case LS_OP_PARAMETER:
    return follow_parameter(s, graph, ref);
  case LS_OP_REPLICATE:
  case LS_OP_COND:
    return follow_region(s, node, ls_ref_output(ref));
  case LS_OP_WHILE:  // Rows stay where they begin.
    return follow_rows(s, graph, node->inputs[ls_ref_output(ref)]);
  default:
    return follow_op(s, graph, node, shape);
  }
}

bool ls_cpu_has_input_rows(const ls_program *program, const ls_graph *graph,
                           uint64_t ref) {
  search s = {program, 1000};
  return follow_rows(&s, graph, ref);
}
