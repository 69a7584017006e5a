// SPDX-License-Identifier: Apache-2.0
//
// Brings values of other graphs into a graph: by captures, and eager values as
// constants.
#include "graph/graph.h"
#include "graph/layers.h"

// Finds the constant made for `key`, if it still holds this array.
static bool find_constant(const ls_graph *graph, const ls_capture_key *key,
                          const ls_array *array, uint64_t *out_ref) {
  *out_ref = ls_ref(
      (uintptr_t)ls_map_find(&graph->capture_index, key, sizeof(*key)), 0);
  const ls_node *node = ls_graph_node_of(graph, *out_ref);
  return node != NULL && node->type == LS_OP_CONSTANT &&
         ls_node_attr(node, LS_ATTR_ID_VALUE)->as.array == array;
}

// Makes an eager value a constant of a function: a trace keeps the value it
// read. All uses share one constant, so that replicas' traces are equal.
static ls_status import_eager(ls_graph *graph, ls_tensor value,
                              uint64_t *out_ref) {
  ls_node *node = ls_graph_node_of(value.graph, value.ref);
  ls_library_layers.eager->catch_up(value.graph, node);
  if (node->failure != NULL) return ls_status_clone(node->failure);
  ls_array *array = node->values[ls_ref_output(value.ref)];
  const ls_capture_key key = {value.graph, value.ref};
  if (find_constant(graph, &key, array, out_ref)) return ls_ok();
  const ls_attr attrs[] = {LS_OWN_A(VALUE, array)};
  ls_node *constant = ls_graph_append(
      graph,
      &(ls_op_spec){.type = LS_OP_CONSTANT, .attrs = attrs, .num_attrs = 1},
      NULL, 1);
  if (constant == NULL) return ls_out_of_memory();
  constant->outputs[0] = node->outputs[ls_ref_output(value.ref)];
  *out_ref = ls_ref(constant->id, 0);
  if (!ls_map_insert(&graph->capture_index, &key, sizeof(key),
                     (void *)(uintptr_t)constant->id))
    return ls_out_of_memory();
  return ls_graph_name_node(graph, constant, NULL, "captured");
}

ls_status ls_graph_import(ls_graph *graph, ls_tensor value, uint64_t *out_ref) {
  graph = ls_graph_resolve(graph);
  value.graph = ls_graph_resolve(value.graph);
  const ls_node *node = ls_graph_node_of(value.graph, value.ref);
  if (node == NULL || ls_ref_output(value.ref) >= node->num_outputs)
    return ls_invalid_argument(
        "a stale handle was used in graph '%s': its op %llu has gone with its "
        "frame or graph; keep values in ls_frame_end or fetch them before",
        graph->name, (unsigned long long)ls_ref_id(value.ref));
  if (value.graph == graph) {
    *out_ref = value.ref;
    return ls_ok();
  }
  const ls_graph *around = graph->parent;
  while (around != NULL && around != value.graph)
    around = around->parent;
  if (around == NULL)
    return ls_invalid_argument(
        "value '%s' belongs to graph '%s', but the op is being added to graph "
        "'%s', which is not inside it",
        ls_tensor_name(value), value.graph->name, graph->name);
  if (graph->parent != value.graph) {
    uint64_t outer = 0;  // Capture it in each graph on the way in.
    LS_RETURN_IF_ERROR(ls_graph_import(graph->parent, value, &outer));
    return ls_graph_add_capture(graph, (ls_tensor){graph->parent, outer},
                                out_ref);
  }
  if (value.graph->kind == LS_GRAPH_EAGER)
    return import_eager(graph, value, out_ref);
  return ls_graph_add_capture(graph, value, out_ref);
}
