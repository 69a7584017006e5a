// SPDX-License-Identifier: Apache-2.0
#include "grad/forward.h"

#include <stdio.h>

#include "base/memory/own.h"
#include "graph/copy.h"
#include "graph/make/make.h"
#include "graph/trial.h"
#include "graph/variables/variable.h"
#include "graph/walk.h"

// An entry of the forward values found so far: the graph in which it is used,
// and the output for which it stands.
struct ls_forward_value_list {
  ls_forward_value_list *next;
  const ls_graph *in;
  unsigned output;
  ls_tensor value;
};

const char *ls_gradient_op_text(ls_op op, const char *kind, const char *by,
                                char *buffer, size_t size) {
  const char *name = ls_op_name(op), *link = by[0] != '\0' ? " by " : "";
  if (name[0] == '\0')
    snprintf(buffer, size, "%s%s%s", kind, link, by);
  else
    snprintf(buffer, size, "'%s' (%s%s%s)", name, kind, link, by);
  return buffer;
}

ls_forward *ls_forward_plain(ls_arena *arena) {
  ls_forward *forward = ls_arena_new(arena, ls_forward);
  if (forward != NULL) forward->arena = arena;
  return forward;
}

static ls_status init_loop(ls_forward *f);

ls_forward *ls_forward_region(ls_forward *outer, ls_op op, size_t region,
                              ls_graph *home) {
  const ls_node *node = ls_graph_node(op.graph, op.id);
  ls_arena *arena = outer->arena;
  ls_forward *forward = ls_arena_new(arena, ls_forward);
  if (forward == NULL) return NULL;
  forward->outer = outer;
  forward->graph = ls_graph_resolve(node->regions[region]);
  forward->op = op;
  forward->region = region;
  forward->arena = arena;
  forward->recompute = node->type == LS_OP_COND || outer->recompute;
  forward->in_loop = outer->in_loop;
  forward->first_input =
      ls_node_captures(node, (uint32_t)region) - forward->graph->num_declared;
  forward->num_nodes = forward->graph->num_nodes;
  forward->made =
      ls_arena_new_array(arena, ls_forward_value_list *, forward->num_nodes);
  forward->calls = ls_arena_new_array(arena, ls_forward *, forward->num_nodes);
  if (forward->made == NULL || forward->calls == NULL) return NULL;
  forward->home = home;
  const ls_context *context = ls_context_current();
  if (home != ls_graph_resolve(ls_graph_current()))
    forward->around =
        (ls_forward_scopes){context->scoped.names, context->scoped.device,
                            context->scoped.control, context->scoped.colocate};
  if (node->type == LS_OP_WHILE && init_loop(forward) != NULL)
    return NULL;  // Only memory can lack, so that no status is lost.
  return forward;
}

// Enters the graph that contains `home`. Ends with ls_scope_end.
static void enter_around(const ls_forward *f, ls_scope *scope) {
  ls_context_enter_graph(scope, f->home->parent);
  ls_context *context = ls_context_current();
  context->scoped.names = f->around.names;
  context->scoped.device = f->around.device;
  context->scoped.control = f->around.control;
  context->scoped.colocate = f->around.colocate;
}

static void enter_home(const ls_forward *f, ls_scope *scope) {
  ls_context_enter_graph(scope, f->home);
}

// ---- Found values ----------------------------------------------------------
// Looks up a value found earlier for use in graph `in`.
static bool recall_in(const ls_forward *f, const ls_graph *in, ls_tensor value,
                      ls_tensor *out_value) {
  const size_t at_node = ls_graph_position(f->graph, ls_ref_id(value.ref));
  if (at_node >= f->num_nodes) return false;
  for (const ls_forward_value_list *at = f->made[at_node]; at != NULL;
       at = at->next)
    if (at->in == in && at->output == ls_ref_output(value.ref)) {
      *out_value = at->value;
      return true;
    }
  return false;
}

static ls_status remember_in(ls_forward *f, const ls_graph *in, ls_tensor value,
                             ls_tensor found) {
  const size_t at_node = ls_graph_position(f->graph, ls_ref_id(value.ref));
  if (at_node >= f->num_nodes) return ls_ok();
  LS_ARENA_NEW_OR_RETURN(f->arena, ls_forward_value_list, at);
  *at = (ls_forward_value_list){f->made[at_node], in, ls_ref_output(value.ref),
                                found};
  f->made[at_node] = at;
  return ls_ok();
}

// Looks up a value found earlier for use in the current graph; the next records
// it.
static bool recall_value(const ls_forward *f, ls_tensor value,
                         ls_tensor *out_value) {
  return recall_in(f, ls_graph_resolve(ls_graph_current()), value, out_value);
}

static ls_status remember_value(ls_forward *f, ls_tensor value,
                                ls_tensor found) {
  return remember_in(f, ls_graph_resolve(ls_graph_current()), value, found);
}

// ---- Values returned as results --------------------------------------------
// Makes a value without meaning, which a branch returns where the other branch
// returns `value`: the variable's value, an empty stack, or zeros.
static ls_status add_filler(ls_graph *branch, ls_tensor value,
                            uint64_t *out_ref) {
  const ls_node *node = ls_graph_node_of(value.graph, value.ref);
  const ls_type type = node->outputs[ls_ref_output(value.ref)];
  const ls_attr *variable = ls_node_attr(node, LS_ATTR_ID_VARIABLE);
  ls_tensor filler = ls_failed_tensor();
  LS_RETURN_IF_ERROR(ls_trial_join(branch));
  ls_scope scope = {0};
  ls_context_enter_graph(&scope, branch);
  if (variable != NULL && variable->kind == LS_ATTR_OBJECT)
    filler = ls_make(LS_OP_READ, NULL, 0, variable, 1);
  else if (type.dtype == LS_DTYPE_VARIANT)
    filler = ls_stack_new(LS_DTYPE_NONE, LS_SCALAR);
  else if (ls_shape_is_known(type.shape) &&
           (ls_dtype_is_float(type.dtype) || ls_dtype_is_integer(type.dtype) ||
            type.dtype == LS_DTYPE_BOOL))
    filler = ls_fill(type.dtype, type.shape, 0);
  ls_scope_end(&scope);
  if (filler.ref != 0) return ls_graph_import(branch, filler, out_ref);
  return ls_unimplemented("a gradient needs '%s', %s, outside its branch: only "
                          "variables and values of known shapes can leave one",
                          ls_tensor_name(value),
                          LS_SHAPE_TEXT(type.dtype, type.shape));
}

// Makes `ref` a further result of the graph.
static ls_status add_result(ls_graph *graph, uint64_t ref) {
  const size_t count = graph->num_results;
  LS_RETURN_IF_ERROR(ls_trial_add_result(graph));
  LS_OWN_ARRAY_OR_RETURN(graph->allocator, uint64_t, results, count + 1);
  if (count != 0) memcpy(results, graph->results, count * sizeof(*results));
  results[count] = ref;
  return ls_graph_set_results(graph, results, count + 1);
}

static ls_status add_output(ls_forward *f, ls_type type) {
  ls_graph *graph = ls_graph_resolve(f->op.graph);
  ls_node *node = ls_graph_node(graph, f->op.id);
  LS_ARENA_ARRAY_OR_RETURN(&graph->arena, ls_type, outputs,
                           node->num_outputs + 1u);
  if (node->num_outputs == LS_MAX_OUTPUTS)
    return ls_unimplemented("%s has more than %d results",
                            ls_node_info(node)->name, LS_MAX_OUTPUTS);
  LS_RETURN_IF_ERROR(ls_trial_add_output(graph, node));
  memcpy(outputs, node->outputs, node->num_outputs * sizeof(*outputs));
  outputs[node->num_outputs] = type;
  node->outputs = outputs;
  ++node->num_outputs;
  return ls_ok();
}

// Makes `value` a further result of the op, and returns that result.
static ls_status extend_op(ls_forward *f, ls_tensor value,
                           ls_tensor *out_result) {
  ls_node *node = ls_graph_node(f->op.graph, f->op.id);
  if (ls_graph_resolve(f->op.graph)->kind == LS_GRAPH_EAGER ||
      (node->type != LS_OP_CALL && node->type != LS_OP_COND))
    return ls_unimplemented(
        "a gradient needs '%s' out of %s, which has already run",
        ls_tensor_name(value), LS_OP_TEXT(f->op));
  for (size_t i = 0; i < f->graph->num_results; ++i)
    if (f->graph->results[i] == value.ref) {
      *out_result = ls_op_output(f->op, (unsigned)i);
      return ls_ok();
    }
  uint64_t filler = 0;
  ls_graph *other = NULL;
  if (node->type == LS_OP_COND) {
    other = ls_graph_resolve(node->regions[1 - f->region]);
    LS_RETURN_IF_ERROR(add_filler(other, value, &filler));
  }
  const ls_type type = ls_graph_type(value.graph, value.ref);
  LS_RETURN_IF_ERROR(add_result(f->graph, value.ref));
  if (other != NULL) LS_RETURN_IF_ERROR(add_result(other, filler));
  LS_RETURN_IF_ERROR(add_output(f, type));
  *out_result = ls_op_output(f->op, node->num_outputs - 1u);
  return ls_ok();
}

// Returns a value of unknown size on a stack. The stack is empty if the other
// branch runs.
static ls_status forward_wrap(ls_graph *branch, ls_tensor value,
                              ls_tensor *out_stack) {
  LS_RETURN_IF_ERROR(ls_trial_join(branch));
  ls_scope scope = {0};
  ls_context_enter_graph(&scope, branch);
  const ls_tensor empty =
      ls_stack_new(ls_tensor_dtype(value), ls_tensor_shape(value));
  *out_stack = ls_stack_push(empty, value);
  ls_scope_end(&scope);
  return ls_graph_error(branch);
}

// Finds a value that the op returns on a stack: pops a copy and records it.
static ls_status unstack_value(ls_forward *f, ls_tensor stack, ls_tensor value,
                               ls_tensor *out_value) {
  ls_scope scope = {0};
  enter_around(f, &scope);
  const ls_status status = ls_forward_value(f->outer, stack, &stack);
  ls_scope_end(&scope);
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_forward_take(
      f, stack, ls_graph_type(value.graph, value.ref), out_value));
  return remember_in(f, f->home, value, *out_value);
}

static ls_status bring_out_on_stack(ls_forward *f, ls_tensor value,
                                    ls_tensor *out_value) {
  ls_tensor stack;
  LS_RETURN_IF_ERROR(forward_wrap(f->graph, value, &stack));
  LS_RETURN_IF_ERROR(extend_op(f, stack, &stack));
  return unstack_value(f, stack, value, out_value);
}

// Makes a value a result of its op, and finds that result in the current graph.
static ls_status bring_out(ls_forward *f, ls_tensor value,
                           ls_tensor *out_value) {
  const ls_node *node = ls_graph_node_of(value.graph, value.ref);
  const ls_node *op = ls_graph_node(f->op.graph, f->op.id);
  if (op->type == LS_OP_COND && f->home != NULL && node->type != LS_OP_READ &&
      !ls_shape_is_known(node->outputs[ls_ref_output(value.ref)].shape))
    return bring_out_on_stack(f, value, out_value);
  LS_RETURN_IF_ERROR(extend_op(f, value, &value));
  return ls_forward_value(f->outer, value, out_value);
}

// ---- Values computed again -------------------------------------------------
// Returns true if a value is computed again instead of being returned as a
// result. A loop is run again only if its value cannot be returned.
static bool is_computed_again(const ls_forward *f, const ls_node *node,
                              ls_type type) {
  if (!f->recompute || type.dtype == LS_DTYPE_VARIANT) return false;
  if (node->type == LS_OP_CALL) return true;
  if (node->type == LS_OP_WHILE && ls_shape_is_known(type.shape)) return false;
  return ls_node_is_repeatable(node) &&
         !(f->in_loop && ls_node_any_trait(node, LS_OP_RANDOM));
}

static ls_status find_same(ls_forward *f, ls_tensor value, bool *out_found,
                           ls_tensor *out_value);

// Finds the value if no operand must be computed for that; else `*out_found` is
// false.
static ls_status find_at_once(ls_forward *f, ls_tensor value, bool *out_found,
                              ls_tensor *out_value) {
  *out_found = true;
  if (recall_value(f, value, out_value)) return ls_ok();
  if (f->home != NULL && recall_in(f, f->home, value, out_value))
    return ls_ok();
  const ls_node *node = ls_graph_node_of(f->graph, value.ref);
  ls_status status = ls_ok();
  if (f->loop != NULL) {
    status = find_same(f, value, out_found, out_value);
    if (ls_status_is_ok(status) && !*out_found) return ls_ok();
  } else if (node->type == LS_OP_PARAMETER) {
    const size_t index = (size_t)ls_node_int(node, LS_ATTR_ID_INDEX);
    status = ls_forward_value(
        f->outer, ls_op_input(f->op, f->first_input + index), out_value);
  } else if (!is_computed_again(f, node,
                                node->outputs[ls_ref_output(value.ref)])) {
    status = bring_out(f, value, out_value);
  } else {
    *out_found = false;
    return ls_ok();
  }
  return ls_status_is_ok(status) ? remember_value(f, value, *out_value)
                                 : status;
}

// Finds a call's value inside its body, which is computed again op by op.
static ls_status find_in_call(ls_forward *f, ls_tensor value,
                              ls_tensor *out_value) {
  const size_t at_node = ls_graph_position(f->graph, ls_ref_id(value.ref));
  ls_forward *body = f->calls[at_node];
  if (body == NULL) body = ls_forward_region(f, ls_tensor_op(value), 0, NULL);
  if (body == NULL) return ls_out_of_memory();
  f->calls[at_node] = body;
  const uint64_t ref = body->graph->results[ls_ref_output(value.ref)];
  return ls_forward_value(body, (ls_tensor){body->graph, ref}, out_value);
}

static ls_status compute_node(ls_forward *f, const ls_node *node,
                              ls_tensor value, const ls_tensor *inputs) {
  if (node->type == LS_OP_CALL) {
    ls_tensor found;
    LS_RETURN_IF_ERROR(find_in_call(f, value, &found));
    return remember_value(f, value, found);
  }
  ls_op copy;
  LS_RETURN_IF_ERROR(ls_graph_copy_op(f->graph, node, inputs, NULL, 0, &copy));
  for (unsigned i = 0; i < node->num_outputs; ++i)
    LS_RETURN_IF_ERROR(remember_value(
        f, (ls_tensor){f->graph, ls_ref(node->id, i)}, ls_op_output(copy, i)));
  return ls_ok();
}

// The values still to be computed, innermost last. This stack replaces
// recursion, because branches may be long and fiber stacks are small.
typedef struct agenda {
  ls_tensor *items;
  size_t count, capacity;
} agenda;

static bool forward_push(agenda *todo, ls_allocator *allocator,
                         ls_tensor value) {
  if (!LS_GROW(allocator, todo->items, todo->capacity, todo->count + 1))
    return false;
  todo->items[todo->count++] = value;
  return true;
}

// Computes the last value in the agenda, or adds the operands that it needs.
static ls_status advance(ls_forward *f, agenda *todo) {
  const ls_tensor value = todo->items[todo->count - 1];
  ls_tensor found;
  if (recall_value(f, value, &found)) {
    --todo->count;
    return ls_ok();
  }
  const ls_node *node = ls_graph_node_of(f->graph, value.ref);
  LS_ARENA_ARRAY_OR_RETURN(f->arena, ls_tensor, inputs, node->num_inputs);
  bool ready = true;
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    const ls_tensor input = {f->graph, node->inputs[i]};
    bool at_once = false;
    LS_RETURN_IF_ERROR(find_at_once(f, input, &at_once, &inputs[i]));
    if (at_once) continue;
    ready = false;
    if (!forward_push(todo, f->graph->allocator, input))
      return ls_out_of_memory();
  }
  if (!ready) return ls_ok();
  --todo->count;
  return compute_node(f, node, value, inputs);
}

static ls_status compute_again(ls_forward *forward, ls_tensor value,
                               ls_tensor *out_value);

static ls_status loop_value(ls_forward *f, ls_tensor value,
                            ls_tensor *out_value);

ls_status ls_forward_value(ls_forward *forward, ls_tensor value,
                           ls_tensor *out_value) {
  *out_value = value;
  if (forward->graph == NULL) return ls_ok();
  return forward->loop != NULL ? loop_value(forward, value, out_value)
                               : compute_again(forward, value, out_value);
}

static ls_status compute_with_operands(ls_forward *forward, ls_tensor value,
                                       ls_tensor *out_value) {
  bool found = false;
  LS_RETURN_IF_ERROR(find_at_once(forward, value, &found, out_value));
  if (found) return ls_ok();
  agenda todo = {0};
  LS_OWN_FIELD(forward->graph->allocator, todo.items);
  LS_RETURN_IF_NO_MEMORY(forward_push(&todo, forward->graph->allocator, value));
  while (todo.count != 0)
    LS_RETURN_IF_ERROR(advance(forward, &todo));
  return recall_value(forward, value, out_value)
             ? ls_ok()
             : ls_internal("'%s' was computed again and not found",
                           ls_tensor_name(value));
}

// Computes `value` again in the current graph, and first the operands that it
// needs.
static ls_status compute_again(ls_forward *forward, ls_tensor value,
                               ls_tensor *out_value) {
  ls_scope_state *scoped = &ls_context_current()->scoped;
  const bool around = scoped->makes_forward;
  scoped->makes_forward = true;
  const ls_status status = compute_with_operands(forward, value, out_value);
  scoped->makes_forward = around;
  return status;
}

// ---- Loops ------------------------------------------------------------------
// Finds values of a loop's body for the loop's gradient.

// ---- Same in every iteration -----------------------------------------------
// Returns true if a variable has the same value in each iteration and after the
// loop.
static bool is_settled(const ls_forward *f, const ls_variable *variable) {
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
    return is_settled(f, ls_node_named_variable(node));
  if ((traits & other) != 0 || node->num_regions != 0 ||
      node->type == LS_OP_PLACEHOLDER)
    return false;
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    if (!f->loop->same[ls_graph_position(f->graph, ls_ref_id(node->inputs[i]))])
      return false;
  return true;
}

static ls_status init_loop(ls_forward *f) {
  f->recompute = false;
  f->in_loop = true;
  LS_ARENA_SET_OR_RETURN(f->arena, ls_forward_loop, f->loop, 1);
  LS_ARENA_SET_OR_RETURN(f->arena, bool, f->loop->same, f->num_nodes);
  for (size_t i = 0; i < f->num_nodes; ++i)
    f->loop->same[i] = is_node_same(f, f->graph->nodes[i]);
  return ls_ok();
}

// Returns true if a value is the same in every iteration. find_same then finds
// it outside of the loop, if it is an operand of the loop or a variable.
static bool is_same(const ls_forward *f, ls_tensor value) {
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

static ls_status find_same(ls_forward *f, ls_tensor value, bool *out_found,
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
    return ls_unimplemented("a gradient needs the trips of %s, which has "
                            "already run",
                            LS_OP_TEXT(f->op));
  if (ls_node_attr(node, LS_ATTR_ID_NUM_SAVED) != NULL) return ls_ok();
  const ls_attr saved = LS_OWN_I(NUM_SAVED, 0);
  LS_RETURN_IF_ERROR(ls_trial_set_attr(graph, node, &saved));
  return add_output(f, (ls_type){LS_DTYPE_I64, LS_SCALAR});
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
  LS_RETURN_IF_ERROR(add_result(f->graph, value.ref));
  LS_RETURN_IF_ERROR(add_output(f, (ls_type){LS_DTYPE_VARIANT, LS_SCALAR}));
  LS_RETURN_IF_ERROR(ls_trial_set_attr(graph, node, &saved));
  *out_stack = ls_op_output(f->op, node->num_outputs - 1u);
  return ls_ok();
}

ls_status ls_forward_take(ls_forward *f, ls_tensor stack, ls_type type,
                          ls_tensor *out_value) {
  ls_scope home = {0}, beside = {0};
  enter_home(f, &home);
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
  return unstack_value(f, stack, value, out_value);
}

// Finds the value of an iteration for a value of a loop's body.
static ls_status loop_value(ls_forward *f, ls_tensor value,
                            ls_tensor *out_value) {
  if (recall_in(f, f->home, value, out_value)) return ls_ok();
  if (!is_same(f, value)) return find_saved(f, value, out_value);
  ls_scope scope = {0};
  enter_around(f, &scope);
  const ls_status status = compute_again(f, value, out_value);
  ls_scope_end(&scope);
  return status;
}
