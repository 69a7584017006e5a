// SPDX-License-Identifier: Apache-2.0
// Variables that count steps.
#include "base/require.h"
#include "graph/region.h"
#include "lockstep/hook.h"

// An i64 scalar that begins at 0, in the root scope; the graph holds it.
static ls_status global_step_make(ls_graph *graph, const char *name,
                                  const char *const *collections, size_t count,
                                  ls_variable **out_variable) {
  LS_GRAPH_SCOPE(graph);
  LS_NAME_SCOPE("");
  LS_RETURN_IF_ERROR(ls_variable_create(
      &(ls_variable_options){.name = name,
                             .dtype = LS_DTYPE_I64,
                             .shape = LS_SCALAR,
                             .trainable = LS_FLAG_OFF,
                             .aggregation = LS_AGGREGATION_ONLY_FIRST_REPLICA,
                             .collections = collections,
                             .num_collections = count},
      out_variable));
  ls_variable_release(*out_variable);
  return ls_ok();
}

// What is there: none, one, or two and more.
static size_t global_step_look(const ls_graph *graph, const char *collection,
                               ls_variable **out_variable) {
  ls_nest leaves[2] = {ls_none(), ls_none()};
  const size_t count = ls_graph_collection(graph, collection, leaves, 2);
  *out_variable = count > 0 ? ls_nest_as_variable(leaves[0]) : NULL;
  return count;
}

ls_status ls_global_step_create(ls_graph *graph, ls_variable **out_step) {
  LS_REQUIRE_OUT(out_step);
  static const char *const collections[] = {LS_COLLECTION_GLOBAL_VARIABLES,
                                            LS_COLLECTION_GLOBAL_STEP};
  ls_variable *there = NULL;
  LS_REQUIRE(graph);
  if (global_step_look(graph, LS_COLLECTION_GLOBAL_STEP, &there) > 0)
    return ls_failed_precondition("\"global_step\" already exists in graph "
                                  "'%s': '%s'",
                                  ls_graph_name(graph),
                                  there ? ls_variable_name(there) : "?");
  return global_step_make(graph, "global_step", collections, 2, out_step);
}

ls_status ls_global_step_get(ls_graph *graph, ls_variable **out_step) {
  LS_REQUIRE_OUT(out_step);
  LS_REQUIRE(graph);
  const size_t count = global_step_look(ls_graph_whole(graph),
                                        LS_COLLECTION_GLOBAL_STEP, out_step);
  if (count == 1 && *out_step != NULL) return ls_ok();
  *out_step = NULL;
  return ls_failed_precondition(
      count == 0 ? "Global step should be created: graph '%s' has none "
                   "(ls_global_step_create)"
                 : "graph '%s' has several global steps in collection "
                   "'" LS_COLLECTION_GLOBAL_STEP "'",
      ls_graph_name(graph));
}

ls_status ls_eval_step_get(ls_graph *graph, ls_variable **out_step) {
  LS_REQUIRE_OUT(out_step);
  static const char *const collections[] = {LS_COLLECTION_LOCAL_VARIABLES,
                                            LS_COLLECTION_EVAL_STEP};
  LS_REQUIRE(graph);
  const size_t count =
      global_step_look(graph, LS_COLLECTION_EVAL_STEP, out_step);
  if (count == 0)
    return global_step_make(graph, "eval_step", collections, 2, out_step);
  if (count == 1) return ls_ok();
  *out_step = NULL;
  return ls_failed_precondition("graph '%s' has several eval steps in "
                                "collection '" LS_COLLECTION_EVAL_STEP "'",
                                ls_graph_name(graph));
}
