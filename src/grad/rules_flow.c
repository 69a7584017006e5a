// SPDX-License-Identifier: Apache-2.0
// Rules of ops with regions: each walks a region with a walk of its own.
#include "base/values/nest_internal.h"
#include "grad/rules.h"

#include "base/memory/own.h"
#include "grad/walk.h"
#include "graph/callbacks.h"
#include "graph/region.h"
#include "lockstep/shape_rules.h"

// ---- Inner walk ------------------------------------------------------------
ls_status ls_gradient_walk_inner(const ls_backward *g,
                                 const ls_gradient_inner *inner) {
  ls_graph *graph = inner->forward->graph;
  const ls_gradient_span span = {graph, 0, graph->num_nodes, 0};
  ls_gradient_walk walk = {.context = g->walk->context,
                           .forward = inner->forward,
                           .spans = &span,
                           .num_spans = 1,
                           .seeds = inner->seeds,
                           .num_seeds = inner->num_seeds,
                           .goals = inner->goals,
                           .num_goals = inner->num_goals};
  const ls_status status = ls_gradient_walk_run(&walk);
  ls_status_free(walk.failure);
  return status;
}

// Walks a region from its results, whose gradients are the gradients of the
// op's results.
static ls_status walk_from_results(ls_backward *g, ls_gradient_inner *inner) {
  const ls_graph *graph = inner->forward->graph;
  LS_ARENA_SET_OR_RETURN(g->walk->context->arena, ls_gradient_seed,
                         inner->seeds, g->num_outputs);
  for (size_t i = 0; i < g->num_outputs; ++i)
    if (g->dout[i].ref != 0)
      inner->seeds[inner->num_seeds++] = (ls_gradient_seed){
          {inner->forward->graph, graph->results[i]}, g->dout[i]};
  return ls_gradient_walk_inner(g, inner);
}

// ---- Calls -----------------------------------------------------------------
// Differentiates through the body of a call, and makes the gradient ops in the
// call's graph.
ls_status gradient_call(ls_backward *g) {
  ls_gradient_inner body = {
      .forward = ls_forward_region(g->walk->forward, g->op, 0, NULL)};
  ls_gradient_goal *variables = NULL;
  size_t *sources = NULL, num_variables = 0, num_tensors = 0;
  if (body.forward == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_gradient_walk_variables(g->walk, g->node, &variables,
                                                &sources, &num_variables));
  LS_ARENA_SET_OR_RETURN(g->walk->context->arena, ls_gradient_goal, body.goals,
                         g->num_inputs + num_variables);
  for (size_t i = 0; i < g->num_inputs; ++i)
    if (g->wanted[i])
      body.goals[num_tensors++].tensor = ls_gradient_parameter(body.forward, i);
  for (size_t i = 0; i < num_variables; ++i)
    body.goals[num_tensors + i] = variables[i];
  body.num_goals = num_tensors + num_variables;
  LS_RETURN_IF_ERROR(walk_from_results(g, &body));
  size_t next = 0;
  for (size_t i = 0; i < g->num_inputs; ++i)
    if (g->wanted[i]) g->din[i] = body.goals[next++].gradient;
  for (size_t i = 0; i < num_variables; ++i, ++next)
    if (body.goals[next].gradient.ref != 0)
      LS_RETURN_IF_ERROR(ls_gradient_walk_contribute(
          g->walk, sources[i], body.goals[next].gradient));
  return ls_ok();
}

// ---- Branches --------------------------------------------------------------
// A result of a cond's gradient: the gradient of an operand, or of a variable.
typedef struct branch_result {
  size_t input;  // The operand; 0 (the predicate): a variable.
  const ls_variable *variable;
  size_t source;      // The variable's goal in the outer walk.
  bool has_gradient;  // True if a branch has a gradient for it.
} branch_result;

typedef struct branches {
  ls_backward *g;
  branch_result *results;
  size_t num_results;
} branches;

static ls_status rules_flow_list_results(ls_backward *g, branches *all) {
  ls_gradient_goal *variables = NULL;
  size_t *sources = NULL, num_variables = 0;
  LS_RETURN_IF_ERROR(ls_gradient_walk_variables(g->walk, g->node, &variables,
                                                &sources, &num_variables));
  all->g = g;
  LS_ARENA_SET_OR_RETURN(g->walk->context->arena, branch_result, all->results,
                         g->num_inputs + num_variables);
  for (size_t i = 1; i < g->num_inputs; ++i)
    if (g->wanted[i])
      all->results[all->num_results++] = (branch_result){.input = i};
  for (size_t i = 0; i < num_variables; ++i)
    all->results[all->num_results++] = (branch_result){
        .variable = variables[i].variable, .source = sources[i]};
  return ls_ok();
}

// Returns the index of the branch's parameter for an operand, or -1.
static ptrdiff_t parameter_of(const ls_forward *forward, size_t input) {
  const size_t first = forward->first_input;
  return input >= first && input < first + forward->graph->num_parameters
             ? (ptrdiff_t)(input - first)
             : -1;
}

// Makes zeros of the result's type, for the branch that has no gradient for it.
static ls_tensor zeros_of(const branches *all, const branch_result *result) {
  if (result->variable != NULL)
    return ls_fill(ls_variable_dtype(result->variable),
                   ls_variable_shape(result->variable), 0);
  return ls_gradient_zeros(ls_gradient_input(all->g, result->input));
}

// Builds the gradients of branch `region`, in the current graph.
static ls_status build_branch(const branches *all, size_t region,
                              ls_nest *out_results) {
  ls_backward *g = all->g;
  ls_arena *arena = g->walk->context->arena;
  ls_gradient_inner branch = {
      .forward = ls_forward_region(g->walk->forward, g->op, region,
                                   ls_graph_resolve(ls_graph_current()))};
  branch.goals = ls_arena_new_array(arena, ls_gradient_goal, all->num_results);
  ls_nest *leaves = ls_arena_new_array(arena, ls_nest, all->num_results);
  size_t *goals = ls_arena_new_array(arena, size_t, all->num_results);
  if (branch.forward == NULL || branch.goals == NULL || leaves == NULL ||
      goals == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < all->num_results; ++i) {
    const branch_result *result = &all->results[i];
    const ptrdiff_t number = result->variable != NULL
                                 ? 0
                                 : parameter_of(branch.forward, result->input);
    goals[i] = SIZE_MAX;
    if (number < 0) continue;  // The operand belongs to the other branch.
    goals[i] = branch.num_goals++;
    branch.goals[goals[i]].variable = result->variable;
    if (result->variable == NULL)
      branch.goals[goals[i]].tensor =
          ls_gradient_parameter(branch.forward, (size_t)number);
  }
  LS_RETURN_IF_ERROR(walk_from_results(g, &branch));
  for (size_t i = 0; i < all->num_results; ++i) {
    ls_tensor gradient = ls_failed_tensor();
    if (goals[i] != SIZE_MAX) gradient = branch.goals[goals[i]].gradient;
    if (gradient.ref != 0)
      all->results[i].has_gradient = true;
    else
      gradient = zeros_of(all, &all->results[i]);
    leaves[i] = ls_leaf(gradient);
  }
  *out_results = ls_nest_sequence(LS_KIND_TUPLE, leaves, all->num_results);
  return ls_ok();
}

static ls_nest trace_branch(void *user, size_t region) {
  ls_nest results = ls_none();
  return ls_made_nest(build_branch(user, region, &results), &results);
}

static ls_nest trace_then(ls_nest none, void *user) {
  (void)none;
  return trace_branch(user, 0);
}

static ls_nest trace_else(ls_nest none, void *user) {
  (void)none;
  return trace_branch(user, 1);
}

// Makes a cond on the same predicate, whose branches compute the gradients and
// again the forward values.
ls_status gradient_cond(ls_backward *g) {
  branches all = {0};
  LS_RETURN_IF_ERROR(rules_flow_list_results(g, &all));
  if (all.num_results == 0) return ls_ok();
  LS_OWN(ls_nest, made) =
      ls_cond(ls_gradient_input(g, 0), trace_then, trace_else, &all);
  LS_RETURN_IF_ERROR(ls_nest_status(made));
  for (size_t i = 0; i < all.num_results; ++i) {
    if (!all.results[i].has_gradient) continue;
    const ls_tensor gradient = ls_nest_tensor(made, i);
    if (all.results[i].variable == NULL)
      g->din[all.results[i].input] = gradient;
    else
      LS_RETURN_IF_ERROR(ls_gradient_walk_contribute(
          g->walk, all.results[i].source, gradient));
  }
  return ls_ok();
}

// ---- Custom gradients ------------------------------------------------------
// The rule of custom_gradient: calls the user's callback.

// State of replacing the numbers of a structure by values.
typedef struct filling {
  ls_backward *g;
  size_t next;
} filling;

static ls_nest next_input(ls_nest leaf, void *user) {
  filling *f = user;
  if (leaf.kind != LS_KIND_SCALAR) return ls_nest_retain(leaf);
  return ls_leaf(ls_gradient_input(f->g, f->next++));
}

static ls_nest next_output(ls_nest leaf, void *user) {
  filling *f = user;
  if (leaf.kind != LS_KIND_SCALAR) return ls_nest_retain(leaf);
  return ls_leaf(ls_gradient_output(f->g, f->next++));
}

static ls_nest next_gradient(ls_nest leaf, void *user) {
  filling *f = user;
  if (leaf.kind != LS_KIND_SCALAR) return ls_nest_retain(leaf);
  const size_t i = f->next++;
  if (f->g->dout[i].ref != 0) return ls_leaf(f->g->dout[i]);
  const ls_tensor like = ls_gradient_output(f->g, i);
  if (!ls_dtype_is_trainable(ls_tensor_dtype(like))) return ls_none();
  return ls_leaf(ls_broadcast_like(ls_gradient_number(like, 0), like));
}

static ls_nest rules_custom_fill(ls_backward *g, ls_nest structure,
                                 ls_leaf_function next) {
  filling f = {.g = g};
  return ls_nest_map(structure, next, &f);
}

// Takes the returned gradients, in the order of the inputs.
static ls_status rules_custom_take(ls_backward *g,
                                   const ls_custom_gradient_object *object,
                                   ls_nest made) {
  LS_RETURN_IF_ERROR(ls_nest_status(made));
  ls_arena *arena = g->walk->context->arena;
  const size_t count = ls_nest_num_leaves(object->inputs);
  LS_ARENA_ARRAY_OR_RETURN(arena, ls_nest, inputs, count);
  LS_ARENA_ARRAY_OR_RETURN(arena, ls_nest, leaves, count);
  ls_nest_flatten(object->inputs, inputs, count);
  const size_t given = ls_nest_flatten(made, leaves, count);
  if (given != count)
    return ls_invalid_argument(
        "op %s: its gradient callback gave %zu gradients for %zu inputs",
        LS_OP_TEXT(g->op), given, count);
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    if (inputs[i].kind != LS_KIND_SCALAR) continue;
    const size_t at = next++;
    if (leaves[i].kind == LS_KIND_NONE || !g->wanted[at]) continue;
    LS_RETURN_IF_ERROR(ls_region_tensor(leaves[i], &g->din[at]));
  }
  return ls_ok();
}

ls_status gradient_custom_gradient(ls_backward *g) {
  const ls_attr *attr = ls_node_attr(g->node, LS_ATTR_ID_GRADIENT);
  if (attr->as.object == NULL ||
      attr->as.object->type != &ls_custom_gradient_type)
    return ls_invalid_argument("op %s: its attribute 'gradient' is no callback",
                               LS_OP_TEXT(g->op));
  const ls_custom_gradient_object *object =
      (const ls_custom_gradient_object *)attr->as.object;
  LS_OWN(ls_nest, inputs) = rules_custom_fill(g, object->inputs, next_input);
  LS_OWN(ls_nest, outputs) = rules_custom_fill(g, object->outputs, next_output);
  LS_OWN(ls_nest, gradients) =
      rules_custom_fill(g, object->outputs, next_gradient);
  LS_OWN(ls_nest, made) = ls_none();
  if (g->walk->failure == NULL) {
    made = object->gradient(inputs, outputs, gradients, object->user);
    LS_RETURN_IF_ERROR(rules_custom_take(g, object, made));
  }
  return ls_ok();
}
