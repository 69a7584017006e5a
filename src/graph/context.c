// SPDX-License-Identifier: Apache-2.0
#include "graph/context.h"

#include "base/fiber.h"
#include "graph/eager_hook.h"

static _Thread_local ls_context thread_context;

// What a scope entry keeps in LS_SCOPE_SAVED_FLAGS.
enum { SYNC_ON_READ = 1 << 0, UNRECORDED = 1 << 1 };

ls_context *ls_context_current(void) {
  ls_context *context = ls_thread_state();
  return context != NULL ? context : &thread_context;
}

void ls_context_fork(ls_context *context) {
  *context = *ls_context_current();
  context->top = NULL;
  context->refused = NULL;
  context->refusal = NULL;
}

ls_graph *ls_graph_current(void) {
  const ls_context *context = ls_context_current();
  if (context->graph != NULL) return context->graph;
  ls_runtime *runtime = ls_runtime_current();
  return runtime == NULL ? NULL : ls_eager_graph(runtime);
}

const ls_graph *ls_context_graph(void) {
  const ls_graph *graph = ls_graph_resolve(ls_context_current()->graph);
  return graph == NULL || graph->kind == LS_GRAPH_EAGER ? NULL : graph;
}

bool ls_context_is_inside(const ls_graph *graph) {
  const ls_graph *at = ls_context_graph();
  if (at == NULL) return graph == NULL;
  for (; at != NULL; at = ls_graph_resolve(at->parent)) {
    if (at == graph) return true;
    // Around a function is what was current where it was made.
    if (at->kind == LS_GRAPH_EAGER ||
        (at->parent == NULL && at->kind != LS_GRAPH_BUILD))
      return graph == NULL;
  }
  return false;
}

// ---- Opening and leaving ---------------------------------------------------
// An entry keeps the whole builder state it replaced.
ls_context *ls_context_open(ls_scope *scope, ls_scope_kind kind,
                            const void *data) {
  ls_context *context = ls_context_current();
  scope->outer = context->top;
  scope->kind = (int)kind;
  scope->data = data;
  scope->extra[LS_SCOPE_SAVED_GRAPH] = (uintptr_t)context->graph;
  scope->extra[LS_SCOPE_SAVED_NAMES] = (uintptr_t)context->names;
  scope->extra[LS_SCOPE_SAVED_DEVICE] = (uintptr_t)context->device;
  scope->extra[LS_SCOPE_SAVED_CONTROL] = (uintptr_t)context->control;
  scope->extra[LS_SCOPE_SAVED_COLOCATE] = (uintptr_t)context->colocate;
  scope->extra[LS_SCOPE_SAVED_DISTRIBUTION] = (uintptr_t)context->distribution;
  scope->extra[LS_SCOPE_SAVED_CREATORS] = (uintptr_t)context->creators;
  scope->extra[LS_SCOPE_SAVED_FLAGS] =
      (context->sync_on_read ? SYNC_ON_READ : 0u) |
      (context->unrecorded ? UNRECORDED : 0u);
  scope->extra[LS_SCOPE_SAVED_LOSS_SCALING] = (uintptr_t)context->loss_scaling;
  scope->extra[LS_SCOPE_SAVED_SUMMARY] = (uintptr_t)context->summary_writer;
  context->top = scope;
  return context;
}

void ls_scope_end(ls_scope *scope) {
  if (scope->kind == LS_SCOPE_CLOSED) return;
  ls_context *context = ls_context_current();
  if (scope == context->refused) {
    ls_status_free(context->refusal);
    context->refused = NULL;
    context->refusal = NULL;
  }
  context->graph = (ls_graph *)(uintptr_t)scope->extra[LS_SCOPE_SAVED_GRAPH];
  context->names =
      (const ls_name_scope *)(uintptr_t)scope->extra[LS_SCOPE_SAVED_NAMES];
  context->device =
      (const char *)(uintptr_t)scope->extra[LS_SCOPE_SAVED_DEVICE];
  context->control =
      (const ls_scope *)(uintptr_t)scope->extra[LS_SCOPE_SAVED_CONTROL];
  context->colocate =
      (const ls_scope *)(uintptr_t)scope->extra[LS_SCOPE_SAVED_COLOCATE];
  context->distribution =
      (const void *)(uintptr_t)scope->extra[LS_SCOPE_SAVED_DISTRIBUTION];
  context->creators =
      (const void *)(uintptr_t)scope->extra[LS_SCOPE_SAVED_CREATORS];
  context->loss_scaling =
      (const void *)(uintptr_t)scope->extra[LS_SCOPE_SAVED_LOSS_SCALING];
  context->summary_writer =
      (void *)(uintptr_t)scope->extra[LS_SCOPE_SAVED_SUMMARY];
  const uint64_t flags = scope->extra[LS_SCOPE_SAVED_FLAGS];
  context->sync_on_read = (flags & SYNC_ON_READ) != 0;
  context->unrecorded = (flags & UNRECORDED) != 0;
  if (scope->kind == LS_SCOPE_CACHING) ++context->caching_left;
  context->top = scope->outer;
  scope->kind = LS_SCOPE_CLOSED;
}

ls_status ls_scope_status(void) {
  const ls_context *context = ls_context_current();
  return context->refused == NULL ? ls_ok() : ls_status_clone(context->refusal);
}

void ls_context_refuse(ls_scope *scope, ls_status status) {
  ls_context *context = ls_context_open(scope, LS_SCOPE_REFUSED, NULL);
  if (context->refused == NULL) {
    context->refused = scope;
    context->refusal = status;
  } else {
    ls_status_free(status);
  }
}

void ls_context_enter_graph(ls_scope *scope, ls_graph *graph) {
  ls_context *context = ls_context_open(scope, LS_SCOPE_GRAPH, graph);
  context->graph = graph;
  context->names = NULL;
  context->device = NULL;
  context->control = NULL;
  context->colocate = NULL;
}

void ls_graph_begin(ls_scope *scope, ls_graph *graph) {
  if (graph == NULL || graph->kind != LS_GRAPH_BUILD) {
    ls_context_refuse(
        scope, ls_invalid_argument("ls_graph_begin takes a build graph made by "
                                   "ls_graph_create, got %s",
                                   graph == NULL ? "NULL" : graph->name));
    return;
  }
  ls_context_enter_graph(scope, graph);
}

void ls_name_scope_begin(ls_scope *scope, const char *name) {
  ls_context *context = ls_context_current();
  const ls_name_scope *names = NULL;
  if (name != NULL && name[0] != '\0') {
    ls_graph *graph = ls_graph_current();
    const size_t length = strlen(name);
    const bool again = name[length - 1] == '/';
    ls_status status =
        graph == NULL ? ls_out_of_memory()
        : again       ? ls_graph_name_scope_path(graph, name, &names)
                      : ls_graph_name_scope(graph, context->names, name,
                                            graph->kind != LS_GRAPH_EAGER, &names);
    if (!ls_status_is_ok(status)) {
      ls_context_refuse(scope, status);
      return;
    }
  }
  ls_context_open(scope, LS_SCOPE_NAME, names);
  context->names = names;
}

void ls_device_scope_begin(ls_scope *scope, const char *device) {
  // Kept with the graph's names: the caller's text need not live on.
  const char *kept = device;
  if (device != NULL && ls_graph_current() != NULL)
    kept = ls_graph_intern(ls_graph_current(), device);
  if (kept == NULL && device != NULL)
    ls_context_refuse(scope, ls_out_of_memory());
  else
    ls_context_open(scope, LS_SCOPE_DEVICE, device)->device = kept;
}

void ls_colocate_scope_begin(ls_scope *scope, ls_op op) {
  if (ls_op_is_failed(op)) {
    ls_context_refuse(
        scope, ls_invalid_argument("a colocation scope needs an op to be "
                                   "beside, got a failed one"));
    return;
  }
  ls_context *context = ls_context_open(scope, LS_SCOPE_COLOCATE, op.graph);
  scope->extra[LS_SCOPE_OWN] = op.id;
  context->colocate = scope;
  const ls_node *node = ls_graph_node(op.graph, op.id);
  context->device = node == NULL ? NULL : node->device;
}

void ls_control_scope_begin(ls_scope *scope, const ls_op *ops, size_t count) {
  ls_context *context = ls_context_open(scope, LS_SCOPE_CONTROL, ops);
  scope->extra[LS_SCOPE_OWN] = count;
  context->control = ops == NULL ? NULL : scope;
}

void ls_init_scope_begin(ls_scope *scope) {
  ls_context *context = ls_context_current();
  ls_graph *graph = context->graph;
  while (graph != NULL && graph->kind != LS_GRAPH_BUILD)
    graph = graph->parent;
  const bool leaves = graph != context->graph;
  context = ls_context_open(scope, LS_SCOPE_GRAPH, graph);
  context->graph = graph;
  context->control = NULL;
  context->colocate = NULL;
  if (leaves) context->names = NULL;
}

const char *ls_name_scope_current(void) {
  ls_graph *graph = ls_graph_current();
  if (graph == NULL) return "";
  char text[LS_MAX_FULL_NAME];
  ls_name_scope_print(ls_context_current()->names, text, sizeof(text));
  const char *kept = ls_graph_intern(graph, text);
  return kept != NULL ? kept : "";
}
