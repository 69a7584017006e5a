// SPDX-License-Identifier: Apache-2.0
// Implements ls_gradients: checks the request, starts the walk, and returns its
// results.
#include <stdio.h>

#include "base/require.h"
#include "base/values/nest_internal.h"
#include "grad/walk.h"
#include "graph/context.h"
#include "graph/infer/infer.h"
#include "graph/make/make.h"
#include "graph/trial.h"
#include "lockstep/shape_rules.h"

// One call of ls_gradients.
typedef struct request {
  ls_graph *graph;    // Graph of the ops to differentiate.
  ls_graph *current;  // Graph to which gradient ops are added.
  const ls_nest *ys, *xs;
  size_t num_ys, num_xs;
  uint64_t first_id, end_id;
  ls_gradient_options options;
  ls_arena arena;
  ls_gradient_context context;
  ls_gradient_walk walk;
  ls_gradient_span *spans;
  ls_tensor *y_values;
  ls_gradient_seed *seeds;
  ls_gradient_goal *goals;
  ls_op *stops;
} request;

// ---- Checks ----------------------------------------------------------------
static ls_status check_aggregation(int aggregation) {
  if (aggregation >= 0 && aggregation <= 2) return ls_ok();
  return ls_invalid_argument(
      "gradients: aggregation %d is none of 0 (add_n), 1 (tree), 2 "
      "(accumulate_n)",
      aggregation);
}

// Returns why `what` number `index` is not a tensor: the failure of its op in
// eager mode, else the error of its graph.
static ls_status gradient_why_failed(ls_tensor tensor, const char *what,
                                     size_t index) {
  ls_graph *current = ls_graph_resolve(ls_graph_current());
  const ls_node *node =
      tensor.graph == NULL ? NULL : ls_graph_node_of(tensor.graph, tensor.ref);
  if (node != NULL && node->failure != NULL)
    return ls_status_clone(node->failure);
  const ls_status status = current->kind == LS_GRAPH_EAGER
                               ? ls_graph_take_error(current)
                               : ls_graph_error(current);
  return !ls_status_is_ok(status)
             ? status
             : ls_invalid_argument("gradients: %s %zu is a failed tensor", what,
                                   index);
}

// Returns the tensor of a leaf, if the walk covers its graph.
static ls_status take_tensor(const request *r, ls_nest leaf, const char *what,
                             size_t index, ls_tensor *out_tensor) {
  if (leaf.kind != LS_KIND_TENSOR)
    return ls_invalid_argument(
        "gradients: %s %zu must be a tensor or a variable, is %s", what, index,
        LS_NEST_TEXT(leaf));
  ls_tensor tensor = leaf.as.tensor;
  if (ls_tensor_is_failed(tensor))
    return gradient_why_failed(tensor, what, index);
  tensor.graph = ls_graph_resolve(tensor.graph);
  if (ls_graph_node_of(tensor.graph, tensor.ref) == NULL)
    return ls_invalid_argument("gradients: %s %zu is a stale handle", what,
                               index);
  for (size_t i = 0; i < r->walk.num_spans; ++i)
    if (r->spans[i].graph == tensor.graph) {
      *out_tensor = tensor;
      return ls_ok();
    }
  return ls_invalid_argument(
      "gradients: %s %zu, '%s', belongs to graph '%s'; gradients are taken in "
      "graph '%s' and can reach only that and the graphs around it",
      what, index, ls_tensor_name(tensor), ls_graph_name(tensor.graph),
      ls_graph_name(r->graph));
}

// Lists the graph and its enclosing graphs, outermost first. Eager values are
// constants in the graphs that capture them.
static ls_status list_spans(request *r) {
  size_t count = 1;
  const ls_graph *around = r->first_id == 0 ? r->graph->parent : NULL;
  for (; around != NULL && around->kind != LS_GRAPH_EAGER;
       around = around->parent)
    ++count;
  LS_ARENA_SET_OR_RETURN(&r->arena, ls_gradient_span, r->spans, count);
  ls_graph *graph = r->graph;
  for (size_t i = count; i > 0; --i, graph = graph->parent)
    r->spans[i - 1].graph = graph;
  r->walk.spans = r->spans;
  r->walk.num_spans = count;
  return ls_ok();
}

// Ends each span at the newest op, and numbers the spans' ops.
static void close_spans(request *r) {
  size_t base = 0;
  for (size_t i = 0; i < r->walk.num_spans; ++i) {
    ls_gradient_span *span = &r->spans[i];
    span->begin = ls_graph_first_position(span->graph, r->first_id);
    span->end = r->end_id != 0 ? ls_graph_first_position(span->graph, r->end_id)
                               : span->graph->num_nodes;
    span->base = base;
    base += span->end - span->begin;
  }
}

static ls_status list_goals(request *r) {
  LS_ARENA_SET_OR_RETURN(&r->arena, ls_gradient_goal, r->goals, r->num_xs);
  LS_ARENA_SET_OR_RETURN(&r->arena, ls_op, r->stops,
                         r->options.num_stop_gradients);
  for (size_t i = 0; i < r->num_xs; ++i) {
    r->goals[i].variable = ls_nest_as_variable(r->xs[i]);
    if (r->goals[i].variable == NULL)
      LS_RETURN_IF_ERROR(take_tensor(r, r->xs[i], "x", i, &r->goals[i].tensor));
  }
  for (size_t i = 0; i < r->options.num_stop_gradients; ++i) {
    ls_tensor stop;
    LS_RETURN_IF_ERROR(take_tensor(r, r->options.stop_gradients[i],
                                   "stop_gradients", i, &stop));
    r->stops[i] = ls_tensor_op(stop);
  }
  r->walk.goals = r->goals;
  r->walk.num_goals = r->num_xs;
  r->walk.stops = r->stops;
  r->walk.num_stops = r->options.num_stop_gradients;
  return ls_ok();
}

// Checks the ys that are tensors. Variables among the ys are read later, inside
// the name scope.
static ls_status check_ys(request *r) {
  LS_ARENA_SET_OR_RETURN(&r->arena, ls_tensor, r->y_values, r->num_ys);
  for (size_t i = 0; i < r->num_ys; ++i)
    if (ls_nest_as_variable(r->ys[i]) == NULL)
      LS_RETURN_IF_ERROR(take_tensor(r, r->ys[i], "y", i, &r->y_values[i]));
  return ls_ok();
}

// ---- Start of the walk -----------------------------------------------------
static ls_status make_seeds(request *r) {
  ls_tensor *gradients = ls_arena_new_array(&r->arena, ls_tensor, r->num_ys);
  r->seeds = ls_arena_new_array(&r->arena, ls_gradient_seed, r->num_ys);
  if (r->seeds == NULL || gradients == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_gradient_fill(&r->context, r->options.grad_ys,
                                      r->y_values, r->num_ys, gradients));
  for (size_t i = 0; i < r->num_ys; ++i)
    r->seeds[i] = (ls_gradient_seed){r->y_values[i], gradients[i]};
  r->walk.seeds = r->seeds;
  r->walk.num_seeds = r->num_ys;
  return ls_graph_error(r->current);
}

// ---- The call --------------------------------------------------------------
// Reserves the name `uid` in the scope: it identifies this call's gradient ops.
static ls_status take_uid(request *r) {
  if (r->current->kind == LS_GRAPH_EAGER) return ls_ok();
  ls_node name = {.type = LS_OP_NO_OP};
  LS_RETURN_IF_ERROR(ls_graph_name_node(
      r->current, &name, ls_context_current()->scoped.names, "uid"));
  r->context.uid = ls_arena_string(&r->arena, ls_node_name(r->current, &name));
  return ls_memory_status(r->context.uid != NULL);
}

static ls_status read_ys(request *r) {
  for (size_t i = 0; i < r->num_ys; ++i) {
    ls_variable *variable = ls_nest_as_variable(r->ys[i]);
    if (variable != NULL) r->y_values[i] = ls_variable_read(variable);
  }
  return ls_graph_error(r->current);
}

static ls_tensor gradient_filled(ls_tensor like, double value) {
  return ls_broadcast_like(ls_scalar(ls_tensor_dtype(like), value), like);
}

static ls_status walk_in_scope(request *r) {
  LS_RETURN_IF_ERROR(take_uid(r));
  LS_RETURN_IF_ERROR(read_ys(r));
  close_spans(r);
  LS_RETURN_IF_ERROR(make_seeds(r));
  LS_RETURN_IF_ERROR(ls_gradient_walk_run(&r->walk));
  for (size_t i = 0; r->options.unconnected_zero && i < r->num_xs; ++i) {
    ls_gradient_goal *goal = &r->goals[i];
    if (goal->gradient.ref != 0) continue;
    goal->gradient = goal->variable == NULL
                         ? gradient_filled(goal->tensor, 0)
                         : ls_fill(ls_variable_dtype(goal->variable),
                                   ls_variable_shape(goal->variable), 0);
  }
  return ls_graph_error(r->current);
}

static ls_status walk_in_graph(request *r) {
  ls_graph *graph = r->current;
  // Replicas that run in turn in one graph share the graph's error.
  if (ls_context_current()->hooks != NULL)
    LS_RETURN_IF_ERROR(ls_graph_error(graph));
  ls_trial trial;
  ls_trial_begin(&trial);
  ls_scope names = {0};
  if (graph->kind != LS_GRAPH_EAGER)
    ls_name_scope_begin(&names, r->options.name != NULL ? r->options.name
                                                        : "gradients");
  ls_status status = walk_in_scope(r);
  ls_scope_end(&names);
  ls_status_free(r->walk.failure);
  return ls_trial_end(&trial, status);
}

static ls_status check_lengths(const request *r) {
  const size_t count = r->options.num_grad_ys;
  if (r->options.grad_ys == NULL || count == 0 || count == r->num_ys)
    return ls_ok();
  return ls_invalid_argument("Length mismatch: %zu ys and %zu grad_ys",
                             r->num_ys, count);
}

static ls_status run_request(request *r) {
  LS_RETURN_IF_ERROR(check_aggregation(r->options.aggregation));
  LS_RETURN_IF_ERROR(check_lengths(r));
  LS_RETURN_IF_ERROR(list_spans(r));
  LS_RETURN_IF_ERROR(list_goals(r));
  LS_RETURN_IF_ERROR(check_ys(r));
  r->context = (ls_gradient_context){
      .arena = &r->arena,
      .runtime = r->current->runtime,
      .aggregation = r->options.aggregation,
      .gate = r->options.gate,
      .colocate = r->options.colocate_with_ops,
      .in_replica = ls_context_replicas_here() > 0,
  };
  r->walk.context = &r->context;
  r->walk.forward = ls_forward_plain(&r->arena);
  if (r->walk.forward == NULL) return ls_out_of_memory();
  return walk_in_graph(r);
}

ls_status ls_gradients_walk(ls_graph *graph, uint64_t first_id, uint64_t end_id,
                            const ls_nest *ys, size_t num_ys, const ls_nest *xs,
                            size_t num_xs, const ls_gradient_options *options,
                            ls_nest *grads) {
  request r = {.graph = ls_graph_resolve(graph),
               .current = ls_graph_resolve(ls_graph_current()),
               .ys = ys,
               .xs = xs,
               .num_ys = num_ys,
               .num_xs = num_xs,
               .first_id = first_id,
               .end_id = end_id};
  if (options != NULL) r.options = *options;
  ls_status status = ls_out_of_memory();
  if (r.graph != NULL && r.current != NULL) {
    ls_arena_init(&r.arena, r.graph->allocator);
    status = run_request(&r);
  }
  // Writes results last, because ys and grads may be the same array.
  for (size_t i = 0; i < num_xs; ++i)
    grads[i] = ls_status_is_ok(status) && r.goals[i].gradient.ref != 0
                   ? ls_leaf(r.goals[i].gradient)
                   : ls_none();
  ls_arena_deinit(&r.arena);
  return status;
}

static ls_status check_call(const ls_graph *graph, const ls_nest *ys,
                            size_t num_ys, const ls_nest *xs, size_t num_xs,
                            const ls_gradient_options *options) {
  if (ys == NULL && num_ys > 0) return ls_null_argument("ls_gradients", "ys");
  if (xs == NULL && num_xs > 0) return ls_null_argument("ls_gradients", "xs");
  if (options != NULL && options->grad_ys == NULL && options->num_grad_ys > 0)
    return ls_null_argument("ls_gradients", "options->grad_ys");
  if (options != NULL && options->stop_gradients == NULL &&
      options->num_stop_gradients > 0)
    return ls_null_argument("ls_gradients", "options->stop_gradients");
  if (graph == NULL || graph->kind != LS_GRAPH_EAGER) return ls_ok();
  return ls_failed_precondition(
      "gradients are not taken in an eager graph; record a tape and use "
      "ls_tape_gradients, or call this inside a function or build graph");
}

ls_status ls_gradients(const ls_nest *ys, size_t num_ys, const ls_nest *xs,
                       size_t num_xs, const ls_gradient_options *options,
                       ls_nest *grads) {
  LS_REQUIRE(grads);
  ls_graph *graph = ls_graph_resolve(ls_graph_current());
  const ls_status status = check_call(graph, ys, num_ys, xs, num_xs, options);
  if (ls_status_is_ok(status))
    return ls_gradients_walk(graph, 0, 0, ys, num_ys, xs, num_xs, options,
                             grads);
  for (size_t i = 0; i < num_xs; ++i)
    grads[i] = ls_none();
  return status;
}

// Computes a gradient with respect to a tensor; if no path leads to a read of a
// variable, with respect to the variable, of which y may use another read.
static ls_status one_gradient(ls_nest y, ls_nest x, ls_nest *out_gradient) {
  static const ls_gradient_options options = {.unconnected_zero = true};
  const ls_node *node = ls_graph_node_of(x.as.tensor.graph, x.as.tensor.ref);
  ls_variable *variable = node != NULL && node->type == LS_OP_READ
                              ? ls_node_named_variable(node)
                              : NULL;
  if (variable != NULL) {
    LS_RETURN_IF_ERROR(ls_gradients(&y, 1, &x, 1, NULL, out_gradient));
    if (out_gradient->kind != LS_KIND_NONE) return ls_ok();
    x = (ls_nest){.kind = LS_KIND_VARIABLE, .as.ref = variable};
  }
  return ls_gradients(&y, 1, &x, 1, &options, out_gradient);
}

ls_tensor ls_gradient(ls_tensor y, ls_tensor x) {
  if (ls_tensor_is_failed(y) || ls_tensor_is_failed(x))
    return ls_identity(ls_tensor_is_failed(y) ? y : x);
  ls_nest made = ls_none();
  const ls_status status = one_gradient(ls_leaf(y), ls_leaf(x), &made);
  return ls_status_is_ok(status) ? made.as.tensor
                                 : ls_make_failed("gradient", status);
}

// ---- Start values ----------------------------------------------------------
// The gradients with which a walk starts: the given ones, else ones.

static ls_status grad_ys_check_types(ls_tensor y, size_t i, ls_dtype given) {
  const ls_dtype dtype = ls_tensor_dtype(y);
  const char *wanted = NULL;
  if (ls_infer_is_number(dtype))
    wanted = ls_infer_is_number(given) ? NULL : "real or integer";
  else if (ls_dtype_is_complex(dtype))
    wanted = ls_dtype_is_complex(given) ? NULL : "complex";
  else if (dtype == LS_DTYPE_VARIANT)
    wanted = given == LS_DTYPE_VARIANT ? NULL : "variant";
  else if (dtype == LS_DTYPE_RESOURCE)
    wanted = given == LS_DTYPE_RESOURCE ? "no resource" : NULL;
  else
    return ls_invalid_argument(
        "gradients: y %zu, '%s', is %s, its grad_ys %s: it must be numeric", i,
        ls_tensor_name(y), ls_dtype_name(dtype), ls_dtype_name(given));
  if (wanted == NULL) return ls_ok();
  return ls_invalid_argument(
      "gradients: y %zu, '%s', is %s, its grad_ys %s: it must be %s", i,
      ls_tensor_name(y), ls_dtype_name(dtype), ls_dtype_name(given), wanted);
}

// Makes a given gradient one of y's type.
static ls_status fit_gradient(ls_tensor y, size_t i, ls_tensor *gradient) {
  const ls_dtype dtype = ls_tensor_dtype(y), given = ls_tensor_dtype(*gradient);
  LS_RETURN_IF_ERROR(grad_ys_check_types(y, i, given));
  if (!ls_dtype_is_float(dtype)) return ls_ok();
  const ls_shape shape = ls_tensor_shape(y);
  if (!ls_shape_compatible(ls_tensor_shape(*gradient), shape))
    return ls_invalid_argument(
        "Incompatible shapes: y %zu, '%s', is %s, its grad_ys %s", i,
        ls_tensor_name(y), LS_SHAPE_TEXT(dtype, shape),
        LS_SHAPE_TEXT(given, ls_tensor_shape(*gradient)));
  if (given != dtype) *gradient = ls_convert(*gradient, dtype);
  return ls_ok();
}

// Returns the given gradient of y number i, or ones.
static ls_status make_gradient(ls_tensor y, ls_nest given, size_t i,
                               ls_tensor *out_gradient) {
  switch (given.kind) {
  case LS_KIND_NONE:
    if (ls_dtype_is_complex(ls_tensor_dtype(y)) ||
        ls_tensor_dtype(y) == LS_DTYPE_VARIANT)
      return ls_invalid_argument(
          "Gradients of %s tensors must set grad_ys: y %zu, '%s', is %s",
          ls_tensor_dtype(y) == LS_DTYPE_VARIANT ? "variant" : "complex", i,
          ls_tensor_name(y), ls_dtype_name(ls_tensor_dtype(y)));
    *out_gradient = gradient_filled(y, 1);
    return ls_ok();
  case LS_KIND_TENSOR:
    *out_gradient = given.as.tensor;
    break;
  case LS_KIND_ARRAY:
    *out_gradient = ls_constant(ls_nest_as_array(given));
    break;
  case LS_KIND_SCALAR:
    *out_gradient = gradient_filled(y, ls_dtype_is_float(given.dtype)
                                           ? given.as.f64
                                           : (double)given.as.i64);
    return ls_ok();
  case LS_KIND_SLICES:
    return ls_unimplemented("gradients: grad_ys %zu is sparse slices", i);
  default: {
    return ls_invalid_argument(
        "gradients: grad_ys %zu must be a tensor, an array or a number, is "
        "%s",
        i, LS_NEST_TEXT(given));
  }
  }
  if (ls_tensor_is_failed(*out_gradient))
    return gradient_why_failed(*out_gradient, "grad_ys", i);
  return fit_gradient(y, i, out_gradient);
}

// Makes the gradient of one y, colocated with the y, and notifies enclosing
// flows.
static ls_status fill_one(const ls_gradient_context *context, ls_nest given,
                          ls_tensor y, size_t i, ls_tensor *out_gradient) {
  ls_scope beside = {0};
  char name[40];
  snprintf(name, sizeof(name), "grad_ys_%zu", i);
  ls_gradient_begin_beside(context, &beside, ls_tensor_op(y));
  const ls_status refusal = ls_scope_status();
  *out_gradient = ls_failed_tensor();
  const ls_status status = ls_status_is_ok(refusal)
                               ? make_gradient(y, given, i, out_gradient)
                               : refusal;
  if (ls_status_is_ok(status))
    *out_gradient = ls_identity_named(*out_gradient, name);
  ls_scope_end(&beside);
  return status;
}

ls_status ls_gradient_fill(const ls_gradient_context *context,
                           const ls_nest *grad_ys, const ls_tensor *ys,
                           size_t count, ls_tensor *gradients) {
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(fill_one(context,
                                grad_ys != NULL ? grad_ys[i] : ls_none(), ys[i],
                                i, &gradients[i]));
  return ls_ok();
}
