// SPDX-License-Identifier: Apache-2.0
//
// Calls of functions with a user's arguments, effects of calls in a graph being
// built, and queries about a function's newest trace.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/nest_internal.h"
#include "graph/slices.h"
#include "graph/variables/variable.h"
#include "lockstep/function_plan.h"
#include "runtime/function.h"

bool ls_arguments_are_bound(const ls_parameters *parameters, ls_nest args,
                            ls_nest named) {
  if (ls_nest_count(named) != 0 || named.kind == LS_KIND_FAILED) return false;
  if (parameters == NULL) return true;
  return !parameters->variadic && !parameters->any_names &&
         args.kind == LS_KIND_TUPLE && ls_nest_count(args) == parameters->count;
}

// Calls a function with arguments in the form that a callback gets.
static ls_status call_bound(ls_function *function, ls_nest args, ls_nest named,
                            ls_nest *results) {
  static const ls_tracer alone;
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  LS_RETURN_IF_ERROR(ls_nest_status(named));
  const ls_function_options *options = ls_function_options_of(function);
  if (ls_arguments_are_bound(options->parameters, args, named))
    return ls_function_call_by(function, &alone, args, results);
  LS_OWN(ls_nest, bound) = ls_none();
  LS_RETURN_IF_ERROR(ls_parameters_bind(options->parameters, options->name,
                                        args, named, &bound));
  return ls_function_call_by(function, &alone, bound, results);
}

ls_status ls_function_call(ls_function *function, ls_nest args,
                           ls_nest *results) {
  LS_REQUIRE(function, results);
  return call_bound(function, args, ls_none(), results);
}

ls_status ls_function_call_named(ls_function *function, ls_nest args,
                                 ls_nest named, ls_nest *results) {
  LS_REQUIRE(function, results);
  return call_bound(function, args, named, results);
}

// ---- Effects ---------------------------------------------------------------
// Returns true for initializers. A session runs only what is fetched: fetching
// a result of a call made in a graph being built runs the call's effects,
// except that a variable made in the call gets its first value only when its
// initializer is run.
static bool is_initializer(const ls_node *node) {
  return ls_node_assigns(node) &&
         ls_node_named_variable(node)->initializer.id == node->id;
}

// Groups the effects among the nodes from `first` on in one op; id 0 if there
// are none.
static ls_status group_effects(const ls_graph *graph, size_t first,
                               ls_op *out_group) {
  ls_allocator *allocator = graph->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_op, ops, graph->num_nodes - first);
  size_t count = 0;
  for (size_t i = first; i < graph->num_nodes; ++i)
    if (ls_node_has_effects(graph->nodes[i]) &&
        !is_initializer(graph->nodes[i]))
      ops[count++] = (ls_op){(ls_graph *)graph, graph->nodes[i]->id};
  if (count > 0) *out_group = ls_group(ops, count, NULL);
  return ls_ok();
}

static ls_nest with_effects(ls_nest leaf, void *user) {
  const ls_op *effects = user;
  if (leaf.kind == LS_KIND_SLICES) return ls_slices_map(leaf, with_effects, user);
  if (leaf.kind == LS_KIND_DISTRIBUTED)
    return ls_distributed_map_components(leaf, with_effects, user);
  if (leaf.kind == LS_KIND_OP)
    return ls_nest_op(ls_group((ls_op[]){leaf.as.op, *effects}, 2, NULL));
  if (leaf.kind != LS_KIND_TENSOR) return ls_nest_retain(leaf);
  LS_CONTROL_SCOPE(effects, 1);
  return ls_leaf(ls_identity(leaf.as.tensor));
}

ls_nest ls_bring_effects(const ls_graph *graph, size_t first, ls_nest made) {
  ls_op effects = {0};
  if (graph->kind != LS_GRAPH_BUILD || ls_nest_is_failed(made)) return made;
  const ls_status status = group_effects(graph, first, &effects);
  if (ls_status_is_ok(status) && effects.id == 0) return made;
  const ls_nest ordered = ls_status_is_ok(status)
                              ? ls_nest_map(made, with_effects, &effects)
                              : ls_fail(status);
  ls_nest_release(made);
  return ordered;
}

// ---- Print and measure -----------------------------------------------------
static ls_status print_lowered(ls_compiled *compiled, ls_store *store,
                               void *out_text) {
  (void)store;
  return ls_graph_print(ls_compiled_program(compiled)->body, out_text);
}

ls_status ls_function_print_lowered(const ls_function *function,
                                    char **out_text) {
  LS_REQUIRE_OUT(out_text, function);
  return ls_function_look(function, print_lowered, out_text);
}

static ls_status print_plan(ls_compiled *compiled, ls_store *store,
                            void *out_text) {
  (void)store;
  return ls_compiled_print_plan(compiled, out_text);
}

ls_status ls_function_print_plan(const ls_function *function, char **out_text) {
  LS_REQUIRE_OUT(out_text, function);
  return ls_function_look(function, print_plan, out_text);
}

static ls_status get_figures(ls_compiled *compiled, ls_store *store,
                             void *out_figures) {
  (void)store;
  *(ls_program_figures *)out_figures = ls_compiled_figures(compiled);
  return ls_ok();
}

ls_status ls_function_describe_program(const ls_function *function,
                                       ls_program_figures *out_figures) {
  LS_REQUIRE_OUT(out_figures, function);
  return ls_function_look(function, get_figures, out_figures);
}

typedef struct instruction_list {
  ls_instruction_figures *items;
  size_t capacity, *out_count;
} instruction_list;

static ls_status list_instructions(ls_compiled *compiled, ls_store *store,
                                   void *user) {
  const instruction_list *list = user;
  (void)store;
  return ls_compiled_list_instructions(compiled, list->items, list->capacity,
                                       list->out_count);
}

ls_status ls_function_list_instructions(const ls_function *function,
                                        ls_instruction_figures *instructions,
                                        size_t capacity, size_t *out_count) {
  LS_REQUIRE_OUT(out_count, function);
  if (capacity > 0) LS_REQUIRE(instructions);
  return ls_function_look(
      function, list_instructions,
      &(instruction_list){instructions, capacity, out_count});
}

// ---- Measuring -------------------------------------------------------------
static ls_status measure(ls_compiled *compiled, ls_store *store, void *on) {
  return ls_compiled_measure(compiled, store, *(const bool *)on);
}

ls_status ls_function_measure(ls_function *function, bool on) {
  LS_REQUIRE(function);
  return ls_function_look(function, measure, &on);
}

static ls_status print_cost(ls_compiled *compiled, ls_store *store,
                            void *out_text) {
  return ls_compiled_print_cost(compiled, store, out_text);
}

ls_status ls_function_print_cost(const ls_function *function, char **out_text) {
  LS_REQUIRE_OUT(out_text, function);
  return ls_function_look(function, print_cost, out_text);
}
