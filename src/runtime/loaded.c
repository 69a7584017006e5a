// SPDX-License-Identifier: Apache-2.0
//
// Functions from the text of their graphs: concrete ones, whose callback copies
// the graph.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "graph/passes/inline.h"
#include "graph/region.h"
#include "graph/variables/variable.h"
#include "graph/walk.h"
#include "lockstep/function.h"
#include "lockstep/function_plan.h"
#include "lockstep/shape_rules.h"

typedef struct loaded {
  ls_allocator *allocator;
  ls_graph *graph;
} loaded;

static void loaded_destroy(void *user) {
  loaded *l = user;
  ls_graph_free(l->graph);
  ls_release(l->allocator, l);
}

// ---- Calling --------------------------------------------------------------
static ls_status loaded_take_arguments(const loaded *l, ls_nest args,
                                       ls_tensor *tensors) {
  const ls_graph *graph = l->graph;
  const size_t count = graph->num_declared;
  if (ls_nest_count(args) != count)
    return ls_invalid_argument("loaded function '%s' takes %zu arguments, got "
                               "%zu",
                               graph->name, count, ls_nest_count(args));
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
  LS_OWN(ls_arena, memory) = {0};
  ls_arena_init(&memory, l->allocator);
  const size_t num_results = l->graph->num_results;
  ls_tensor *tensors =
      ls_arena_new_array(&memory, ls_tensor, l->graph->num_declared + 1);
  ls_tensor *results = ls_arena_new_array(&memory, ls_tensor, num_results + 1);
  ls_nest *leaves = ls_arena_new_array(&memory, ls_nest, num_results + 1);
  ls_status status = ls_out_of_memory();
  if (tensors != NULL && results != NULL && leaves != NULL) {
    ls_status_free(status);
    status = loaded_take_arguments(l, args, tensors);
    if (ls_status_is_ok(status))
      status =
          ls_graph_inline(l->graph, tensors, l->graph->num_declared, results);
  }
  for (size_t i = 0; i < num_results && ls_status_is_ok(status); ++i)
    leaves[i] = ls_leaf(results[i]);
  return ls_status_is_ok(status)
             ? ls_nest_sequence(LS_KIND_LIST, leaves, num_results)
             : ls_fail(status);
}

// ---- Loading --------------------------------------------------------------
// A variable that an op uses, at any depth; NULL: none does.
static const ls_variable *find_variable(const ls_graph *graph) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    const ls_attr *attr = ls_node_attr(walk.node, LS_ATTR_ID_VARIABLE);
    if (attr != NULL) return (const ls_variable *)attr->as.object;
  }
  return NULL;
}

static ls_status loaded_check(const ls_graph *graph) {
  if (graph->kind != LS_GRAPH_FUNCTION)
    return ls_invalid_argument("graph '%s' is no function's: a function is "
                               "loaded from the text of one",
                               graph->name);
  if (graph->num_captures > 0)
    return ls_invalid_argument("the graph of function '%s' uses %zu values "
                               "that are not in its text",
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
  LS_REQUIRE_OUT(out_function);
  LS_REQUIRE(text);
  LS_REQUIRE_ITEMS(kernels, num_kernels);
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(ls_graph_parse(text, kernels, num_kernels, &graph));
  ls_status status = loaded_check(graph);
  loaded *l = NULL;
  if (ls_status_is_ok(status)) {
    l = ls_new(graph->allocator, loaded);
    status = l == NULL ? ls_out_of_memory() : ls_ok();
  }
  if (!ls_status_is_ok(status)) {
    ls_graph_free(graph);
    return status;
  }
  *l = (loaded){.allocator = graph->allocator, .graph = graph};
  status = ls_function_create(&(ls_function_options){.call = loaded_call,
                                                     .user = l,
                                                     .name = graph->name,
                                                     .release = loaded_destroy},
                              out_function);
  if (!ls_status_is_ok(status)) loaded_destroy(l);
  return status;
}
