// SPDX-License-Identifier: Apache-2.0
#include "graph/region.h"

#include "base/memory/own.h"
#include "base/values/nest_internal.h"
#include "graph/graph.h"
#include "graph/layers.h"
#include "graph/slices.h"

ls_status ls_region_tensor(ls_nest leaf, ls_tensor *out_tensor) {
  *out_tensor = ls_failed_tensor();
  switch (leaf.kind) {
  case LS_KIND_TENSOR:
    *out_tensor = leaf.as.tensor;
    break;
  case LS_KIND_SCALAR:
    *out_tensor =
        ls_dtype_is_float(leaf.dtype)
            ? ls_scalar(LS_DTYPE_F32, leaf.as.f64)
            : ls_scalar_i64(leaf.dtype == LS_DTYPE_BOOL ? LS_DTYPE_BOOL
                                                        : LS_DTYPE_I32,
                            leaf.as.i64);
    break;
  case LS_KIND_ARRAY:
    *out_tensor = ls_constant(leaf.as.ref);
    break;
  case LS_KIND_VARIABLE:
    *out_tensor = ls_variable_as_tensor(leaf.as.ref);
    break;
  default: {
    LS_RETURN_IF_ERROR(ls_nest_status(leaf));
    return ls_invalid_argument("%s was passed where a tensor is needed",
                               LS_NEST_TEXT(leaf));
  }
  }
  if (!ls_tensor_is_failed(*out_tensor)) return ls_ok();
  ls_graph *graph = ls_graph_current();
  const ls_tensor failed = *out_tensor;
  const ls_node *node =
      failed.graph == NULL ? NULL : ls_graph_node_of(failed.graph, failed.ref);
  if (node != NULL && node->failure != NULL)  // A failed eager value.
    return ls_status_clone(node->failure);
  const ls_status status = ls_graph_take_error(graph);
  return !ls_status_is_ok(status)
             ? status
             : ls_invalid_argument(
                   "a failed tensor was passed where a value is needed");
}

ls_status ls_region_parameters(ls_graph *graph, ls_nest like,
                               const ls_type *types, size_t count,
                               ls_nest *out_args) {
  *out_args = ls_none();
  if (count == 0) return ls_ok();
  LS_OWN_ARRAY_OR_RETURN(graph->allocator, ls_nest, leaves, count + 1);
  for (size_t i = 0; i < count; ++i) {
    ls_tensor parameter;
    LS_RETURN_IF_ERROR(
        ls_graph_add_parameter(graph, types[i], NULL, &parameter));
    leaves[i] = ls_leaf(parameter);
  }
  return ls_take_nest(ls_nest_pack(like, leaves, count), out_args);
}

// State of collecting the results of a region.
typedef struct result_state {
  ls_graph *graph;
  uint64_t *refs;
  size_t count, capacity;
} result_state;

static ls_status add_result(result_state *state, ls_nest leaf) {
  ls_tensor tensor;
  uint64_t ref = 0;
  LS_RETURN_IF_ERROR(ls_region_tensor(leaf, &tensor));
  LS_RETURN_IF_ERROR(ls_graph_import(state->graph, tensor, &ref));
  LS_PUSH_OR_RETURN(state->graph->allocator, state->refs, state->count,
                    state->capacity, ref);
  return ls_ok();
}

static ls_nest take_result(ls_nest leaf, void *user) {
  result_state *state = user;
  if (state->graph->is_replica && ls_leaf_is_slices(leaf))
    return ls_slices_map(leaf, take_result, user);
  if (leaf.kind == LS_KIND_DISTRIBUTED)
    return ls_distributed_map_components(leaf, take_result, user);
  if (leaf.kind == LS_KIND_NONE || leaf.kind == LS_KIND_OP ||
      leaf.kind == LS_KIND_OBJECT)
    return ls_nest_retain(leaf);
  if (leaf.kind == LS_KIND_TENSOR && leaf.as.tensor.ref == 0) {
    const ls_status error = ls_graph_take_error(state->graph);
    return ls_fail(error != NULL
                       ? error
                       : ls_invalid_argument("a result is a failed tensor"));
  }
  LS_RETURN_FAILED_IF_ERROR(add_result(state, leaf));
  return ls_leaf((ls_tensor){state->graph, state->refs[state->count - 1]});
}

ls_status ls_region_trace(ls_graph *graph, ls_flow_callback callback,
                          ls_nest args, void *user, ls_nest *out_result) {
  *out_result = ls_none();
  ls_scope scope = {0};
  ls_context_enter_graph(&scope, graph);
  LS_OWN(ls_nest, made) = callback(args, user);
  result_state state = {.graph = graph};
  LS_OWN_FIELD(graph->allocator, state.refs);
  ls_status status = ls_nest_status(made);
  LS_OWN(ls_nest, result) = ls_status_is_ok(status)
                                ? ls_nest_map(made, take_result, &state)
                                : ls_fail(status);
  // If an op maker failed inside the callback, its failure is the root cause.
  status = ls_nest_status(result);
  if (graph->error != NULL) {
    ls_status_free(status);
    status = ls_graph_take_error(graph);
  }
  ls_scope_end(&scope);
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_graph_set_results(graph, state.refs, state.count));
  if (graph->kind == LS_GRAPH_REGION && graph->losses.reduction != NULL)
    LS_RETURN_IF_ERROR(
        ls_graph_record_loss_reduction(graph->parent, graph->losses.reduction));
  return ls_hand_over(&result, out_result);
}

// ---- Values of other graphs ------------------------------------------------
// Brings values of other graphs into a graph: by captures, and eager values as
// constants.

// Finds the constant made for `key`, if it still holds this array.
static bool find_constant(const ls_graph *graph, const ls_capture_key *key,
                          const ls_array *array, uint64_t *out_ref) {
  *out_ref = ls_ref(
      (uintptr_t)ls_map_find(&graph->capture_index, key, sizeof(*key)), 0);
  const ls_node *node = ls_graph_node_of(graph, *out_ref);
  return node != NULL && node->type == LS_OP_CONSTANT &&
         ls_node_attr(node, LS_ATTR_ID_VALUE)->as.array == array;
}

// Makes an eager value a constant of a function, which keeps the value it had
// in the trace. All uses share one constant, so that replicas' traces are
// equal.
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
    // Every graph between the value's graph and this one captures the value.
    uint64_t outer = 0;
    LS_RETURN_IF_ERROR(ls_graph_import(graph->parent, value, &outer));
    return ls_graph_add_capture(graph, (ls_tensor){graph->parent, outer},
                                out_ref);
  }
  if (value.graph->kind == LS_GRAPH_EAGER)
    return import_eager(graph, value, out_ref);
  return ls_graph_add_capture(graph, value, out_ref);
}
