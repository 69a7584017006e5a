// SPDX-License-Identifier: Apache-2.0
//
// Prints tensors and ops for nests.
#include <stdio.h>

#include "base/values/array_internal.h"
#include "graph/layers.h"

static ls_node *tensor_print_node_of(ls_graph *graph, uint64_t id) {
  return ls_graph_node(ls_graph_resolve(graph), id);
}

static ls_array *known_value(ls_tensor tensor) {
  ls_node *node = tensor_print_node_of(tensor.graph, ls_ref_id(tensor.ref));
  if (node == NULL || ls_ref_output(tensor.ref) >= node->num_outputs)
    return NULL;
  if (node->type == LS_OP_CONSTANT && node->values == NULL) {
    const ls_attr *value = ls_node_attr(node, LS_ATTR_ID_VALUE);
    return value != NULL ? value->as.array : NULL;
  }
  ls_graph *graph = ls_graph_resolve(tensor.graph);
  if (graph->kind != LS_GRAPH_EAGER) return NULL;
  ls_library_layers.eager->catch_up(graph, node);
  return node->values == NULL ? NULL : node->values[ls_ref_output(tensor.ref)];
}

static void print_tensor(ls_tensor tensor, char *buffer, size_t size) {
  ls_node *node = tensor_print_node_of(tensor.graph, ls_ref_id(tensor.ref));
  const unsigned output = ls_ref_output(tensor.ref);
  if (node == NULL || output >= node->num_outputs) {
    snprintf(buffer, size, "stale tensor %llu:%u",
             (unsigned long long)(ls_ref_id(tensor.ref)), output);
    return;
  }
  ls_graph *graph = ls_graph_resolve(tensor.graph);
  const ls_array *value = known_value(tensor);
  if (node->failure != NULL) {
    snprintf(buffer, size, "failed tensor");
    return;
  }
  char text[160];
  const ls_type type = node->outputs[output];
  if (value != NULL)
    ls_array_print(value, text, sizeof(text));
  else
    ls_shape_print(type.dtype, type.shape, text, sizeof(text));
  const char *name = ls_node_name(graph, node);
  if (graph->kind == LS_GRAPH_EAGER || name[0] == '\0')
    snprintf(buffer, size, "tensor %s", text);
  else
    snprintf(buffer, size, "tensor '%s:%u' %s", name, output, text);
}

static void print_op(ls_op op, char *buffer, size_t size) {
  ls_node *node = tensor_print_node_of(op.graph, op.id);
  if (node == NULL)
    snprintf(buffer, size, "stale op %llu", (unsigned long long)op.id);
  else
    ls_node_describe(ls_graph_resolve(op.graph), node, buffer, size);
}

const ls_tensor_vtable ls_graph_tensors = {
    .print = print_tensor, .print_op = print_op, .known_value = known_value};
