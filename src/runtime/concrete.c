// SPDX-License-Identifier: Apache-2.0
//
// Concrete functions: one recorded graph, copied wherever it is called. To the
// rest of the library it is a function like any other, whose callback copies.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "graph/passes/inline.h"
#include "graph/region.h"
#include "lockstep/function_plan.h"
#include "runtime/function.h"
#include "runtime/trace_values.h"

typedef struct concrete {
  ls_allocator *allocator;
  ls_function *original;  // Its name and parameters; what it holds lives on.
  ls_signature signature;
  ls_graph *graph;
  ls_nest results;  // Of the trace: tensors of its graph, and other leaves.
} concrete;

static void destroy_concrete(void *user) {
  concrete *c = user;
  ls_nest_release(c->results);
  ls_graph_free(c->graph);
  ls_signature_deinit(&c->signature);
  ls_function_release(c->original);
  ls_release(c->allocator, c);
}

// ---- Recording -------------------------------------------------------------
static ls_status concrete_record(concrete *c, ls_nest args) {
  const ls_function_options *options = ls_function_options_of(c->original);
  ls_runtime *runtime = ls_runtime_current();
  LS_RETURN_IF_ERROR(ls_signature_init(&c->signature, c->allocator, args));
  for (size_t i = 0; i < c->signature.num_leaves; ++i)
    if (c->signature.keys[i].kind == LS_KIND_DISTRIBUTED)
      return ls_invalid_argument(
          "leaf %zu of the arguments is distributed: a concrete function is "
          "made for the value of one replica",
          i);
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_FUNCTION, options->name, runtime,
                                   ls_graph_current(), &c->graph));
  LS_OWN(ls_nest, parameters) =
      ls_trace_parameters(c->graph, &c->signature, args);
  ls_status status = ls_nest_status(parameters);
  if (ls_status_is_ok(status)) {
    ls_runtime_begin_callback(runtime);
    status = ls_region_trace(c->graph, options->call, parameters, options->user,
                             &c->results);
    ls_runtime_end_callback(runtime);
  }
  return ls_status_annotate(status, "while tracing function '%s'",
                            options->name);
}

// ---- Calling ---------------------------------------------------------------
// What one call copies.
typedef struct copying {
  const concrete *function;
  ls_tensor *args;     // One a slot of the signature.
  ls_tensor *results;  // One a result of the graph,
  size_t next;         //   of which this is the next.
} copying;

static ls_status concrete_refuse(const concrete *c, size_t leaf,
                                 ls_nest given) {
  const ls_leaf_key *key = &c->signature.keys[leaf];
  const char *name = ls_function_options_of(c->original)->name;
  char got[160];
  ls_nest_print(given, got, sizeof(got));
  if (key->kind == LS_KIND_ARRAY)
    return ls_invalid_argument(
        "concrete function '%s' takes %s as leaf %zu of its arguments, got %s",
        name, LS_SHAPE_TEXT(key->type.dtype, key->type.shape), leaf, got);
  return ls_invalid_argument(
      "concrete function '%s' was recorded with another value of leaf %zu of "
      "its arguments than %s",
      name, leaf, got);
}

static bool concrete_fits(ls_type want, ls_type have) {
  return want.dtype == have.dtype && ls_shape_equal(want.shape, have.shape);
}

static ls_status take_argument(copying *copy, size_t leaf, size_t *slot,
                               ls_nest given) {
  const concrete *c = copy->function;
  const ls_leaf_key *key = &c->signature.keys[leaf];
  if (key->kind == LS_KIND_ARRAY) {
    ls_tensor tensor;
    if (given.kind != LS_KIND_TENSOR && given.kind != LS_KIND_ARRAY &&
        given.kind != LS_KIND_VARIABLE)
      return concrete_refuse(c, leaf, given);
    LS_RETURN_IF_ERROR(ls_region_tensor(given, &tensor));
    if (!concrete_fits(key->type, (ls_type){ls_tensor_dtype(tensor),
                                            ls_tensor_shape(tensor)}))
      return concrete_refuse(c, leaf, given);
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
             : concrete_refuse(c, leaf, given);
}

static ls_status concrete_take_arguments(copying *copy, ls_nest args,
                                         ls_arena *memory) {
  const concrete *c = copy->function;
  const size_t count = c->signature.num_leaves;
  const ls_status same = ls_nest_same_structure(c->signature.structure, args);
  if (!ls_status_is_ok(same))
    return ls_status_annotate(same, "in a call of concrete function '%s'",
                              ls_function_options_of(c->original)->name);
  ls_nest *leaves = ls_arena_new_array(memory, ls_nest, count);
  if (leaves == NULL) return ls_out_of_memory();
  ls_nest_flatten(args, leaves, count);
  size_t slot = 0;
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(take_argument(copy, i, &slot, leaves[i]));
  return ls_ok();
}

static ls_nest result_of(ls_nest leaf, void *user) {
  copying *copy = user;
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
  LS_OWN(ls_arena, memory) = {0};
  ls_arena_init(&memory, c->allocator);
  ls_nest results = ls_none();
  const ls_status status = copy_graph(c, args, &memory, &results);
  return ls_status_is_ok(status) ? results : ls_fail(status);
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
  LS_REQUIRE_OUT(out_function);
  LS_REQUIRE(function);
  const ls_graph *graph = ls_graph_current();
  if (graph == NULL) return ls_out_of_memory();
  if (graph->kind != LS_GRAPH_EAGER)
    return ls_failed_precondition(
        "a concrete function is made in eager, not while graph '%s' is being "
        "built",
        graph->name);
  ls_allocator *allocator = ls_runtime_allocator(ls_runtime_current());
  LS_NEW_OR_RETURN(allocator, concrete, c);
  c->allocator = allocator;
  c->original = ls_function_retain(function);
  const ls_status status = concrete_make(c, args, out_function);
  if (!ls_status_is_ok(status)) destroy_concrete(c);
  return status;
}
