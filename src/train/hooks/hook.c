// SPDX-License-Identifier: Apache-2.0
#include "train/hooks/hook.h"

#include <string.h>

#include "base/require.h"
#include "lockstep/ops.h"

// ---- Hooks -----------------------------------------------------------------
static void destroy(ls_object *object) {
  ls_hook *hook = (ls_hook *)object;
  if (hook->is.destroy != NULL) hook->is.destroy(hook->is.user);
  ls_release(ls_current_allocator(), hook->is.name);
  ls_release(ls_current_allocator(), hook);
}

static const ls_object_type type = {.name = "hook", .destroy = destroy};

ls_status ls_hook_create(const ls_hook_options *options, ls_hook **out_hook) {
  LS_REQUIRE(out_hook);
  *out_hook = NULL;
  LS_REQUIRE(options);
  ls_allocator *allocator = ls_current_allocator();
  ls_hook *hook = ls_new(allocator, ls_hook);
  const char *called = options->name != NULL ? options->name : "hook";
  char *name = ls_copy_text(allocator, called, strlen(called));
  if (hook == NULL || name == NULL) {
    ls_release(allocator, hook);
    ls_release(allocator, name);
    return ls_out_of_memory();
  }
  ls_object_init(&hook->object, &type);
  hook->is = *options;
  hook->is.name = name;
  *out_hook = hook;
  return ls_ok();
}

ls_hook *ls_hook_retain(ls_hook *hook) { return ls_object_retain(hook); }

void ls_hook_release(ls_hook *hook) { ls_object_release(hook); }

const char *ls_hook_name(const ls_hook *hook) { return hook->is.name; }

// ---- Ready-made ones -------------------------------------------------------
void *ls_hook_state(size_t size) {
  ls_allocator *allocator = ls_current_allocator();
  return ls_new_array(allocator, char, size);
}

void ls_hook_free(void *state) { ls_release(ls_current_allocator(), state); }

ls_status ls_hook_of_state(const ls_hook_options *options, ls_hook **out_hook) {
  const ls_status status = ls_hook_create(options, out_hook);
  if (!ls_status_is_ok(status)) options->destroy(options->user);
  return status;
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

ls_nest ls_run_context_fetches(const ls_run_context *context) {
  return context->fetches;
}

// ---- Steps -----------------------------------------------------------------
int64_t ls_result_count(ls_nest result) {
  const ls_array *array = ls_nest_as_array(result);
  return array == NULL ? 0 : (int64_t)ls_array_f64(array, 0);
}

ls_status ls_run_context_step(const ls_run_context *context, ls_tensor step,
                              int64_t *out_step) {
  ls_nest result = ls_none();
  LS_RETURN_IF_ERROR(
      ls_session_run(context->session, ls_leaf(step), NULL, 0, &result));
  *out_step = ls_result_count(result);
  ls_nest_release(result);
  return ls_ok();
}

ls_status ls_global_step_read(ls_tensor *out_step) {
  ls_variable *variable = NULL;
  ls_graph *graph = ls_graph_current();
  LS_RETURN_IF_ERROR(ls_global_step_get(graph, &variable));
  LS_NAME_SCOPE("");
  *out_step = ls_variable_read(variable);
  return ls_tensor_is_failed(*out_step) ? ls_graph_take_error(graph) : ls_ok();
}
