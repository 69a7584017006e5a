// SPDX-License-Identifier: Apache-2.0
//
// Finds values of a loop's body for the loop's gradient.
#include "grad/forward.h"
#include "graph/copy.h"
#include "graph/make/make.h"
#include "graph/trial.h"
#include "lockstep/ops.h"

// ---- Same in every iteration -----------------------------------------------
// Returns true if a variable has the same value in each iteration and after the
// loop.
static bool is_settled(const ls_forward *f, const ls_object *variable) {
  const ls_graph *graph = ls_graph_resolve(f->op.graph);
  size_t at = ls_graph_position(graph, f->op.id);
  for (; at < graph->num_nodes; ++at)
    if (ls_node_writes(graph->nodes[at], variable)) return false;
  return true;
}

static bool is_parameter_same(const ls_forward *f, const ls_node *node) {
  const size_t index = (size_t)ls_node_int(node, LS_ATTR_ID_INDEX);
  return index >= f->graph->num_declared ||
         f->graph->results[index] == f->graph->parameters[index];
}

// Returns true if a node's value is the same in every iteration; `same` is
// known for all earlier nodes.
static bool is_node_same(const ls_forward *f, const ls_node *node) {
  const unsigned traits = ls_node_info(node)->traits;
  const unsigned other =
      LS_OP_EFFECT | LS_OP_ON_HOST | LS_OP_LINEAR | LS_OP_RANDOM | LS_OP_MERGE;
  if (node->type == LS_OP_PARAMETER) return is_parameter_same(f, node);
  if (node->type == LS_OP_READ)
    return is_settled(f, ls_node_attr(node, LS_ATTR_ID_VARIABLE)->as.object);
  if ((traits & other) != 0 || node->num_regions != 0 ||
      node->type == LS_OP_PLACEHOLDER)
    return false;
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    if (!f->loop->same[ls_graph_position(f->graph, ls_ref_id(node->inputs[i]))])
      return false;
  return true;
}

ls_status ls_forward_init_loop(ls_forward *f) {
  f->recompute = false;
  f->in_loop = true;
  f->loop = ls_arena_new(f->arena, ls_forward_loop);
  if (f->loop == NULL) return ls_out_of_memory();
  f->loop->same = ls_arena_new_array(f->arena, bool, f->num_nodes);
  if (f->loop->same == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < f->num_nodes; ++i)
    f->loop->same[i] = is_node_same(f, f->graph->nodes[i]);
  return ls_ok();
}

bool ls_forward_is_same(const ls_forward *f, ls_tensor value) {
  const size_t at = ls_graph_position(f->graph, ls_ref_id(value.ref));
  return at < f->num_nodes
             ? f->loop->same[at]
             : is_node_same(f, ls_graph_node_of(f->graph, value.ref));
}

// Reads a variable after the loop, where it still has its value from the loop.
static ls_status read_outside(ls_forward *f, const ls_node *node,
                              ls_tensor *out_value) {
  ls_graph *graph = ls_graph_resolve(f->op.graph);
  LS_RETURN_IF_ERROR(ls_trial_join(graph));
  ls_scope scope = {0};
  if (ls_graph_resolve(ls_graph_current()) != graph)
    ls_context_enter_graph(&scope, graph);
  const ls_tensor read =
      ls_make(LS_OP_READ, NULL, 0, ls_node_attr(node, LS_ATTR_ID_VARIABLE), 1);
  ls_scope_end(&scope);
  LS_RETURN_IF_ERROR(ls_graph_error(graph));
  return ls_forward_value(f->outer, read, out_value);
}

ls_status ls_forward_find_same(ls_forward *f, ls_tensor value, bool *out_found,
                               ls_tensor *out_value) {
  const ls_node *node = ls_graph_node_of(f->graph, value.ref);
  *out_found = true;
  if (node->type == LS_OP_READ) return read_outside(f, node, out_value);
  *out_found = node->type == LS_OP_PARAMETER;
  if (!*out_found) return ls_ok();
  const size_t index = (size_t)ls_node_int(node, LS_ATTR_ID_INDEX);
  const size_t input =
      index < f->graph->num_declared ? index : f->first_input + index;
  return ls_forward_value(f->outer, ls_op_input(f->op, input), out_value);
}

// ---- Saving ----------------------------------------------------------------
// Makes the loop count its iterations, unless it does so already.
static ls_status start_saving(ls_forward *f) {
  ls_graph *graph = ls_graph_resolve(f->op.graph);
  ls_node *node = ls_graph_node(graph, f->op.id);
  if (graph->kind == LS_GRAPH_EAGER)
    return ls_unimplemented("a gradient needs the trips of '%s' (%s), which "
                            "has already run",
                            ls_op_name(f->op), ls_op_type_name(f->op));
  if (ls_node_attr(node, LS_ATTR_ID_NUM_SAVED) != NULL) return ls_ok();
  const ls_attr saved = LS_OWN_I(NUM_SAVED, 0);
  LS_RETURN_IF_ERROR(ls_trial_set_attr(graph, node, &saved));
  return ls_forward_add_output(f, (ls_type){LS_DTYPE_I64, LS_SCALAR});
}

ls_status ls_forward_trips(ls_forward *f, ls_tensor *out_trips) {
  LS_RETURN_IF_ERROR(start_saving(f));
  const ls_node *node = ls_graph_node(f->op.graph, f->op.id);
  const int64_t carried = ls_node_int(node, LS_ATTR_ID_NUM_CARRIED);
  return ls_forward_value(f->outer, ls_op_output(f->op, (unsigned)carried),
                          out_trips);
}

// Makes the loop return a stack of the value. Each gradient gets its own stack,
// because its pops empty the stack.
static ls_status forward_loop_save(ls_forward *f, ls_tensor value,
                                   ls_tensor *out_stack) {
  LS_RETURN_IF_ERROR(start_saving(f));
  ls_graph *graph = ls_graph_resolve(f->op.graph);
  ls_node *node = ls_graph_node(graph, f->op.id);
  const ls_dtype dtype = ls_tensor_dtype(value);
  if (dtype == LS_DTYPE_STRING || dtype == LS_DTYPE_RESOURCE)
    return ls_unimplemented(
        "the gradient of '%s' needs '%s' of each trip, which is a %s; only "
        "numbers and bools are saved",
        ls_op_name(f->op), ls_tensor_name(value), ls_dtype_name(dtype));
  const ls_attr saved =
      LS_OWN_I(NUM_SAVED, ls_node_int(node, LS_ATTR_ID_NUM_SAVED) + 1);
  LS_RETURN_IF_ERROR(ls_forward_add_result(f->graph, value.ref));
  LS_RETURN_IF_ERROR(
      ls_forward_add_output(f, (ls_type){LS_DTYPE_VARIANT, LS_SCALAR}));
  LS_RETURN_IF_ERROR(ls_trial_set_attr(graph, node, &saved));
  *out_stack = ls_op_output(f->op, node->num_outputs - 1u);
  return ls_ok();
}

ls_status ls_forward_take(ls_forward *f, ls_tensor stack, ls_type type,
                          ls_tensor *out_value) {
  ls_scope home = {0}, beside = {0};
  ls_forward_enter_home(f, &home);
  if (f->around.colocate != NULL) ls_colocate_scope_begin(&beside, f->op);
  const ls_op pop = ls_stack_pop(stack, type.dtype, type.shape);
  ls_scope_end(&beside);
  ls_scope_end(&home);
  if (ls_op_is_failed(pop)) return ls_graph_error(f->home);
  *out_value = ls_op_output(pop, 1);
  if (f->loop == NULL) return ls_ok();
  ls_forward_loop *loop = f->loop;
  if (loop->num_stacks == loop->stacks_capacity) {
    const size_t capacity = loop->stacks_capacity * 2 + 4;
    LS_ARENA_ARRAY_OR_RETURN(f->arena, ls_forward_stack, stacks, capacity);
    if (loop->num_stacks != 0)
      memcpy(stacks, loop->stacks, loop->num_stacks * sizeof(*stacks));
    loop->stacks = stacks;
    loop->stacks_capacity = capacity;
  }
  loop->stacks[loop->num_stacks++] = (ls_forward_stack){
      stack, ls_op_input(pop, 0).ref, ls_op_output(pop, 0).ref};
  return ls_ok();
}

// ---- Values ----------------------------------------------------------------
static ls_status find_saved(ls_forward *f, ls_tensor value,
                            ls_tensor *out_value) {
  ls_tensor stack;
  LS_RETURN_IF_ERROR(forward_loop_save(f, value, &stack));
  return ls_forward_unstack(f, stack, value, out_value);
}

ls_status ls_forward_loop_value(ls_forward *f, ls_tensor value,
                                ls_tensor *out_value) {
  if (ls_forward_recall(f, f->home, value, out_value)) return ls_ok();
  if (!ls_forward_is_same(f, value)) return find_saved(f, value, out_value);
  ls_scope scope = {0};
  ls_forward_enter_around(f, &scope);
  const ls_status status = ls_forward_compute(f, value, out_value);
  ls_scope_end(&scope);
  return status;
}
