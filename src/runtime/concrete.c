// SPDX-License-Identifier: Apache-2.0
//
// Concrete functions: one graph, recorded or read from a text, copied at each
// call. To the rest of the library it is an ordinary function whose callback
// copies the graph.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "graph/copy.h"
#include "graph/region.h"
#include "graph/variables/variable.h"
#include "graph/walk.h"
#include "lockstep/function.h"
#include "lockstep/function_plan.h"
#include "lockstep/shape_rules.h"
#include "runtime/function.h"
#include "runtime/signature.h"

typedef struct concrete {
  ls_allocator *allocator;
  ls_function *original;  // Retained; gives name and parameters.
  ls_signature signature;
  ls_graph *graph;
  ls_nest results;  // Tensors of the graph, and other leaves.
} concrete;

static void destroy_concrete(void *user) {
  concrete *c = user;
  ls_nest_release(c->results);
  ls_graph_free(c->graph);
  ls_signature_deinit(&c->signature);
  ls_function_release(c->original);
  ls_release(c->allocator, c);
}
LS_OWNED_POINTER(concrete, destroy_concrete)

// ---- Recording -------------------------------------------------------------
static ls_status concrete_trace(concrete *c, ls_nest parameters) {
  const ls_function_options *options = ls_function_options_of(c->original);
  LS_RETURN_IF_ERROR(ls_nest_status(parameters));
  ls_runtime_begin_callback(c->graph->runtime);
  const ls_status status = ls_region_trace(c->graph, options->call, parameters,
                                           options->user, &c->results);
  ls_runtime_end_callback(c->graph->runtime);
  return status;
}

static ls_status concrete_record(concrete *c, ls_nest args) {
  const ls_function_options *options = ls_function_options_of(c->original);
  LS_RETURN_IF_ERROR(ls_signature_init(&c->signature, c->allocator, args));
  for (size_t i = 0; i < c->signature.num_leaves; ++i)
    if (c->signature.keys[i].kind == LS_KIND_DISTRIBUTED)
      return ls_invalid_argument(
          "leaf %zu of the arguments is distributed: a concrete function needs "
          "the value of one replica",
          i);
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_FUNCTION, options->name,
                                   ls_runtime_current(), ls_graph_current(),
                                   &c->graph));
  LS_OWN(ls_nest, parameters) =
      ls_trace_parameters(c->graph, &c->signature, args);
  return ls_status_annotate(concrete_trace(c, parameters),
                            "while tracing function '%s'", options->name);
}

// ---- Calling ---------------------------------------------------------------
// State of copying the graph for one call.
typedef struct copying {
  const concrete *function;
  ls_tensor *args;     // One per slot of the signature.
  ls_tensor *results;  // One per result of the graph;
  size_t next;         // index of the next one.
} copying;

static ls_status refuse_argument(const concrete *c, size_t leaf,
                                 ls_nest given) {
  const ls_leaf_key *key = &c->signature.keys[leaf];
  const char *name = ls_function_options_of(c->original)->name;
  char got[160];
  ls_nest_print(given, got, sizeof(got));
  if (key->kind == LS_KIND_ARRAY)
    return ls_invalid_argument(
        "concrete function '%s' takes %s as leaf %zu of its arguments, got %s",
        name, LS_SHAPE_TEXT(key->type.dtype, key->type.shape), leaf, got);
  return ls_invalid_argument("concrete function '%s' was recorded with another "
                             "value of leaf %zu of its arguments than %s",
                             name, leaf, got);
}

static ls_status take_argument(copying *copy, size_t leaf, size_t *slot,
                               ls_nest given) {
  const concrete *c = copy->function;
  const ls_leaf_key *key = &c->signature.keys[leaf];
  if (key->kind == LS_KIND_ARRAY) {
    ls_tensor tensor;
    if (given.kind != LS_KIND_TENSOR && given.kind != LS_KIND_ARRAY &&
        given.kind != LS_KIND_VARIABLE)
      return refuse_argument(c, leaf, given);
    LS_RETURN_IF_ERROR(ls_region_tensor(given, &tensor));
    if (!ls_signature_same_type(key->type, (ls_type){ls_tensor_dtype(tensor),
                                                     ls_tensor_shape(tensor)}))
      return refuse_argument(c, leaf, given);
    copy->args[(*slot)++] = tensor;
    return ls_ok();
  }
  const uint64_t bits = given.kind == LS_KIND_SCALAR ? given.as.bits
                        : given.kind == LS_KIND_NONE
                            ? 0
                            : (uint64_t)(uintptr_t)given.as.ref;
  return given.kind == key->kind && bits == key->bits &&
                 (given.kind != LS_KIND_SCALAR ||
                  given.dtype == key->type.dtype)
             ? ls_ok()
             : refuse_argument(c, leaf, given);
}

static ls_status concrete_take_arguments(copying *copy, ls_nest args,
                                         ls_arena *memory) {
  const concrete *c = copy->function;
  const size_t count = c->signature.num_leaves;
  const ls_status same = ls_nest_same_structure(c->signature.structure, args);
  if (!ls_status_is_ok(same))
    return ls_status_annotate(same, "in a call of concrete function '%s'",
                              ls_function_options_of(c->original)->name);
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_nest, leaves, count);
  ls_nest_flatten(args, leaves, count);
  size_t slot = 0;
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(take_argument(copy, i, &slot, leaves[i]));
  return ls_ok();
}

static ls_nest result_of(ls_nest leaf, void *user) {
  copying *copy = user;
  if (leaf.kind == LS_KIND_DISTRIBUTED)
    return ls_distributed_map_components(leaf, result_of, user);
  return leaf.kind == LS_KIND_TENSOR ? ls_leaf(copy->results[copy->next++])
                                     : ls_nest_retain(leaf);
}

static ls_status copy_graph(const concrete *c, ls_nest args, ls_arena *memory,
                            ls_nest *out_results) {
  copying copy = {
      .function = c,
      .args = ls_arena_new_array(memory, ls_tensor, c->signature.num_slots),
      .results = ls_arena_new_array(memory, ls_tensor, c->graph->num_results)};
  if (copy.args == NULL || copy.results == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(concrete_take_arguments(&copy, args, memory));
  LS_RETURN_IF_ERROR(ls_graph_inline(c->graph, copy.args,
                                     c->signature.num_slots, copy.results));
  *out_results = ls_nest_map(c->results, result_of, &copy);
  return ls_nest_status(*out_results);
}

static ls_nest call_concrete(ls_nest args, void *user) {
  const concrete *c = user;
  LS_OWN(ls_arena, memory) = {.allocator = c->allocator};
  ls_nest results = ls_none();
  return ls_made_nest(copy_graph(c, args, &memory, &results), &results);
}

// ---- Making ----------------------------------------------------------------
static ls_status concrete_make(concrete *c, ls_nest args,
                               ls_function **out_function) {
  const ls_function_options *options = ls_function_options_of(c->original);
  LS_OWN(ls_nest, bound) = ls_none();
  LS_RETURN_IF_ERROR(ls_parameters_bind(options->parameters, options->name,
                                        args, ls_none(), &bound));
  LS_RETURN_IF_ERROR(concrete_record(c, bound));
  return ls_function_create(
      &(ls_function_options){.call = call_concrete,
                             .user = c,
                             .name = options->name,
                             .release = destroy_concrete,
                             .seed = options->seed,
                             .parameters = options->parameters},
      out_function);
}

ls_status ls_function_make_concrete(ls_function *function, ls_nest args,
                                    ls_function **out_function) {
  LS_REQUIRE_OUT(out_function, function);
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(ls_graph_find_current(&graph));
  if (graph->kind != LS_GRAPH_EAGER)
    return ls_failed_precondition("a concrete function is made in eager, not "
                                  "while graph '%s' is being built",
                                  graph->name);
  ls_allocator *allocator = ls_runtime_allocator(ls_runtime_current());
  LS_OWN_NEW_OR_RETURN(allocator, concrete, c);
  c->allocator = allocator;
  c->original = ls_function_retain(function);
  LS_RETURN_IF_ERROR(concrete_make(c, args, out_function));
  c = NULL;  // Owned by the function now.
  return ls_ok();
}

// ---- Functions from texts --------------------------------------------------
// The callback data of a loaded function: the callback copies the graph that
// the text describes.
typedef struct loaded {
  ls_allocator *allocator;
  ls_graph *graph;
} loaded;

static void loaded_destroy(void *user) {
  loaded *l = user;
  ls_graph_free(l->graph);
  ls_release(l->allocator, l);
}
LS_OWNED_POINTER(loaded, loaded_destroy)

// ---- Calling ---------------------------------------------------------------
static ls_status loaded_take_arguments(const loaded *l, ls_nest args,
                                       ls_tensor *tensors) {
  const ls_graph *graph = l->graph;
  const size_t count = graph->num_declared;
  if (ls_nest_count(args) != count)
    return ls_invalid_argument(
        "loaded function '%s' takes %zu arguments, got %zu", graph->name, count,
        ls_nest_count(args));
  for (size_t i = 0; i < count; ++i) {
    const ls_type want = ls_graph_type(graph, graph->parameters[i]);
    LS_RETURN_IF_ERROR(ls_status_annotate(
        ls_region_tensor(ls_nest_item(args, i), &tensors[i]),
        "argument %zu of loaded function '%s'", i, graph->name));
    const ls_shape shape = ls_tensor_shape(tensors[i]);
    if (ls_tensor_dtype(tensors[i]) != want.dtype ||
        !ls_shape_compatible(shape, want.shape))
      return ls_invalid_argument(
          "loaded function '%s' takes %s as argument %zu, got %s", graph->name,
          LS_SHAPE_TEXT(want.dtype, want.shape), i,
          LS_SHAPE_TEXT(ls_tensor_dtype(tensors[i]), shape));
  }
  return ls_ok();
}

static ls_nest loaded_call(ls_nest args, void *user) {
  const loaded *l = user;
  LS_OWN(ls_arena, memory) = {.allocator = l->allocator};
  const size_t count = l->graph->num_results;
  ls_tensor *tensors =
      ls_arena_new_array(&memory, ls_tensor, l->graph->num_declared + 1);
  ls_tensor *results = ls_arena_new_array(&memory, ls_tensor, count + 1);
  if (tensors == NULL || results == NULL) return ls_fail(ls_out_of_memory());
  ls_status status = loaded_take_arguments(l, args, tensors);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  status = ls_graph_inline(l->graph, tensors, l->graph->num_declared, results);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  LS_OWN(ls_nest_builder, leaves) = {0};
  for (size_t i = 0; i < count; ++i)
    ls_nest_builder_append(&leaves, ls_leaf(results[i]));
  return ls_nest_builder_finish(&leaves, LS_KIND_LIST);
}

// ---- Loading ---------------------------------------------------------------
// Returns a variable that an op uses, at any depth, or NULL.
static const ls_variable *find_variable(const ls_graph *graph) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    const ls_variable *variable = ls_node_named_variable(walk.node);
    if (variable != NULL) return variable;
  }
  return NULL;
}

static ls_status loaded_check(const ls_graph *graph) {
  if (graph->kind != LS_GRAPH_FUNCTION)
    return ls_invalid_argument("graph '%s' is no function's: a function is "
                               "loaded from the text of one",
                               graph->name);
  if (graph->num_captures > 0)
    return ls_invalid_argument(
        "the graph of function '%s' uses %zu values that are not in its text",
        graph->name, graph->num_captures);
  const ls_variable *variable = find_variable(graph);
  return variable == NULL
             ? ls_ok()
             : ls_unimplemented("loading function '%s', which uses variable "
                                "'%s': values of variables are not in its text",
                                graph->name, variable->name);
}

ls_status ls_function_load(const char *text,
                           const ls_host_kernel *const *kernels,
                           size_t num_kernels, ls_function **out_function) {
  LS_REQUIRE_OUT(out_function, text);
  LS_REQUIRE_ITEMS(kernels, num_kernels);
  LS_OWN(ls_held_graph, graph) = NULL;
  LS_RETURN_IF_ERROR(ls_graph_parse(text, kernels, num_kernels, &graph));
  LS_RETURN_IF_ERROR(loaded_check(graph));
  LS_OWN_NEW_OR_RETURN(graph->allocator, loaded, l);
  l->allocator = graph->allocator;
  l->graph = ls_give(&graph);
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = loaded_call,
                                                .user = l,
                                                .name = l->graph->name,
                                                .release = loaded_destroy},
                         out_function));
  l = NULL;  // Owned by the function now.
  return ls_ok();
}
