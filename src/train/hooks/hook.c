// SPDX-License-Identifier: Apache-2.0
#include "train/hooks/hook.h"

#include <string.h>

#include "base/require.h"
#include "base/status_cause.h"
#include "base/values/nest_internal.h"
#include "graph/region.h"
#include "lockstep/ops.h"
#include "lockstep/train.h"
#include "lockstep/training_parts.h"

// ---- Hooks -----------------------------------------------------------------
static void hook_destroy(ls_object *object) {
  ls_hook *hook = (ls_hook *)object;
  ls_runtime *before = ls_runtime_make_current(hook->runtime);
  ls_allocator *allocator = ls_current_allocator();
  if (hook->type->destroy != NULL) hook->type->destroy(hook->state);
  if (hook->type->size > 0) ls_release(allocator, hook->state);
  ls_release(allocator, hook->users.name);
  (void)ls_runtime_make_current(before);
  ls_runtime_release(hook->runtime, LS_MADE_HOOK, hook);
}

static const ls_object_type object_type = {.name = "hook",
                                           .destroy = hook_destroy};

ls_status ls_hook_lend(const ls_hook_type *type, void *state,
                       ls_hook **out_hook) {
  LS_NEW_OR_RETURN(ls_current_allocator(), ls_hook, hook);
  ls_object_init(&hook->object, &object_type);
  hook->runtime = ls_runtime_current();
  ls_runtime_note_made(hook->runtime, LS_MADE_HOOK);
  hook->type = type;
  hook->state = state;
  hook->needs_session = type->needs_session;
  *out_hook = hook;
  return ls_ok();
}

static ls_status make_state(const ls_hook_type *type, const void *initial,
                            ls_hook **out_hook) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY_OR_RETURN(allocator, char, state, type->size);
  LS_RETURN_IF_ERROR(ls_hook_lend(type, state, out_hook));
  if (initial != NULL) memcpy(state, initial, type->size);
  state = NULL;  // Owned by the hook now.
  return ls_ok();
}

ls_status ls_hook_make(const ls_hook_type *type, const void *initial,
                       ls_hook **out_hook) {
  const ls_status status = make_state(type, initial, out_hook);
  if (!ls_status_is_ok(status) && initial != NULL && type->destroy != NULL)
    type->destroy((void *)(uintptr_t)initial);
  return status;
}

ls_status ls_hook_create(const ls_hook_options *options, ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook, options);
  static const ls_hook_type nothing;
  const char *name = options->name != NULL ? options->name : "hook";
  ls_hook *hook = NULL;
  LS_RETURN_IF_ERROR(ls_hook_lend(&nothing, options->user, &hook));
  char *copy = ls_copy_text(ls_current_allocator(), name, strlen(name));
  if (copy == NULL) {
    ls_hook_release(hook);
    return ls_out_of_memory();
  }
  hook->users =
      (ls_hook_type){.name = copy,
                     .begin = options->begin,
                     .after_create_session = options->after_create_session,
                     .session_lost = options->session_lost,
                     .before_run = options->before_run,
                     .after_run = options->after_run,
                     .run_failed = options->run_failed,
                     .end = options->end,
                     .destroy = options->destroy};
  hook->type = &hook->users;
  *out_hook = hook;
  return ls_ok();
}

LS_COUNTED(ls_hook)

const char *ls_hook_name(const ls_hook *hook) { return hook->type->name; }

ls_status ls_hooks_check(const char *field, ls_hook *const *hooks,
                         size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (hooks == NULL || hooks[i] == NULL)
      return ls_invalid_argument("All hooks must be hooks: %s[%zu] is NULL",
                                 field, i);
  return ls_ok();
}

// ---- Contexts --------------------------------------------------------------
ls_session *ls_run_context_session(const ls_run_context *context) {
  return context->session;
}

ls_graph *ls_run_context_graph(const ls_run_context *context) {
  return context->graph;
}

void ls_run_context_request_stop(ls_run_context *context) {
  __atomic_store_n(&context->stopped, true, __ATOMIC_RELAXED);
}

bool ls_run_context_stop_requested(const ls_run_context *context) {
  return __atomic_load_n(&context->stopped, __ATOMIC_RELAXED);
}

ls_nest ls_run_context_results(const ls_run_context *context) {
  return context->results;
}

ls_nest ls_run_context_args(const ls_run_context *context) {
  return context->called.args;
}

ls_status ls_run_context_examples(const ls_run_context *context,
                                  int64_t *examples, size_t capacity,
                                  size_t *out_count) {
  LS_REQUIRE_OUT(out_count, context);
  const ls_called_step *called = &context->called;
  return called->examples != NULL
             ? called->examples(called->user, examples, capacity, out_count)
             : ls_unimplemented("numbers of examples outside of ls_train");
}

ls_status ls_run_context_number(const ls_run_context *context, const char *name,
                                double *out_number) {
  LS_REQUIRE_OUT(out_number, context, name);
  return ls_named_result_number(&(ls_named_result){.name = name}, context,
                                out_number);
}

// ---- Results by name -------------------------------------------------------
static ls_status no_such_result(const char *name, ls_nest results) {
  if (results.kind == LS_KIND_NONE)
    return ls_not_found("there is no result \"%s\" yet: no run was made", name);
  return ls_not_found("there is no result \"%s\" in the results of a run: %s",
                      name, LS_NEST_TEXT(results));
}

bool ls_named_result_has(ls_named_result *result, ls_nest results,
                         ls_nest *out_leaf) {
  const char *key = ls_nest_key(results, result->index);
  if (key == NULL || strcmp(key, result->name) != 0) {
    const size_t count = ls_nest_count(results);
    size_t i = 0;
    for (; i < count; ++i) {
      key = ls_nest_key(results, i);
      if (key != NULL && strcmp(key, result->name) == 0) break;
    }
    if (i == count) return false;
    result->index = i;
  }
  *out_leaf = ls_nest_item(results, result->index);
  return true;
}

ls_status ls_named_result_find(ls_named_result *result, ls_nest results,
                               ls_nest *out_leaf) {
  return ls_named_result_has(result, results, out_leaf)
             ? ls_ok()
             : no_such_result(result->name, results);
}

ls_status ls_result_number(ls_nest leaf, const ls_run_context *context,
                           double *out_number) {
  if (leaf.kind == LS_KIND_DISTRIBUTED && context->session == NULL)
    return ls_train_mean(context->called.args, leaf, out_number);
  const ls_array *array = ls_nest_as_array(leaf);
  if (array == NULL || ls_array_num_elements(array) != 1 ||
      ls_array_dtype(array) == LS_DTYPE_STRING)
    return ls_invalid_argument("a run's result is no number");
  *out_number = ls_array_f64(array, 0);
  return ls_ok();
}

ls_status ls_named_result_number(ls_named_result *result,
                                 const ls_run_context *context,
                                 double *out_number) {
  ls_nest leaf = ls_none();
  LS_RETURN_IF_ERROR(ls_named_result_find(result, context->results, &leaf));
  const ls_status status = ls_result_number(leaf, context, out_number);
  return ls_status_is_ok(status)
             ? status
             : ls_status_annotate(status, "of result \"%s\"", result->name);
}

// ---- Lost sessions ---------------------------------------------------------
bool ls_loses_session(ls_status status) {
  return (ls_status_code(status) == LS_ABORTED ||
          ls_status_code(status) == LS_UNAVAILABLE) &&
         ls_status_cause(status) != LS_CAUSE_FILES;
}

ls_status ls_keep_session(ls_status status, const char *text) {
  if (!ls_loses_session(status)) return status;
  LS_OWN(ls_status, cause) = status;
  const ls_status kept = LS_STATUS(ls_status_code(cause), "%s: %s", text,
                                   ls_status_message(cause));
  return ls_status_of_rank(ls_status_because(kept, LS_CAUSE_FILES),
                           ls_status_rank(cause));
}

// ---- Steps -----------------------------------------------------------------
ls_status ls_run_context_steps(const ls_run_context *context,
                               int64_t *out_steps) {
  LS_REQUIRE_OUT(out_steps, context);
  *out_steps = context->steps;
  if (context->session == NULL) return ls_ok();
  if (!context->has_step)
    return ls_failed_precondition("no hook of this session counts steps");
  // Reads the global step in the session, in a run of its own.
  LS_OWN(ls_nest, result) = ls_none();
  LS_RETURN_IF_ERROR(ls_session_run(context->session, ls_leaf(context->step),
                                    NULL, 0, &result));
  *out_steps = ls_result_count(result);
  return ls_ok();
}

int64_t ls_result_count(ls_nest result) {
  const ls_array *array = ls_nest_as_array(result);
  return array == NULL ? 0 : (int64_t)ls_array_f64(array, 0);
}

ls_status ls_global_step_read(ls_tensor *out_step) {
  ls_variable *variable = NULL;
  ls_graph *graph = ls_graph_current();
  LS_RETURN_IF_ERROR(ls_global_step_get(graph, &variable));
  LS_NAME_SCOPE("");
  *out_step = ls_variable_read(variable);
  return ls_tensor_is_failed(*out_step) ? ls_graph_take_error(graph) : ls_ok();
}

// ---- Variables that count steps --------------------------------------------
// Makes an i64 scalar that begins at 0, in the root scope; the graph holds it.
static ls_status make_step(ls_graph *graph, const char *name,
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

// Finds the step variables in a collection: returns 0, 1, or 2 for several.
static size_t find_steps(const ls_graph *graph, const char *collection,
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
  if (find_steps(graph, LS_COLLECTION_GLOBAL_STEP, &there) > 0)
    return ls_failed_precondition("\"global_step\" already exists in graph "
                                  "'%s': '%s'",
                                  ls_graph_name(graph),
                                  there ? ls_variable_name(there) : "?");
  return make_step(graph, "global_step", collections, 2, out_step);
}

ls_status ls_global_step_get(ls_graph *graph, ls_variable **out_step) {
  LS_REQUIRE_OUT(out_step, graph);
  const size_t count =
      find_steps(ls_graph_whole(graph), LS_COLLECTION_GLOBAL_STEP, out_step);
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
  const size_t count = find_steps(graph, LS_COLLECTION_EVAL_STEP, out_step);
  if (count == 0)
    return make_step(graph, "eval_step", collections, 2, out_step);
  if (count == 1) return ls_ok();
  *out_step = NULL;
  return ls_failed_precondition("graph '%s' has several eval steps in "
                                "collection '" LS_COLLECTION_EVAL_STEP "'",
                                ls_graph_name(graph));
}
