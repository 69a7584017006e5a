// SPDX-License-Identifier: Apache-2.0
#include "graph/context.h"

#include "base/threads/thread_state.h"
#include "base/values/nest_internal.h"
#include "graph/flow.h"
#include "graph/layers.h"
#include "lockstep/array.h"

ls_context *ls_context_current(void) {
  ls_context *context = ls_this_thread.work.context;
  return context != NULL ? context : LS_THREAD_PART(ls_context, graph);
}

void ls_context_fork(ls_context *context) {
  *context = *ls_context_current();
  context->top = NULL;
  context->refused = NULL;
  context->refusal = NULL;
}

void ls_failure_begin(ls_first_failure *first) {
  ls_context *context = ls_context_current();
  *first = (ls_first_failure){.outer = context->failure};
  context->failure = first;
}

ls_status ls_failure_end(ls_first_failure *first, ls_status status) {
  ls_context_current()->failure = first->outer;
  if (ls_status_is_ok(status)) return first->status;
  ls_status_free(first->status);
  return status;
}

void ls_failure_hand_over(ls_status status) {
  ls_first_failure *first = ls_context_current()->failure;
  if (first == NULL || first->status == NULL || status == NULL) return;
  // The failure of an op that needed the failed one has more text.
  const char *text = ls_status_message(first->status);
  if (strncmp(ls_status_message(status), text, strlen(text)) != 0) return;
  ls_status_free(first->status);
  *first = (ls_first_failure){.outer = first->outer};
}

ls_status ls_failure_earlier(void) {
  const ls_first_failure *first = ls_context_current()->failure;
  while (first != NULL && first->status == NULL)
    first = first->outer;
  return first == NULL ? ls_ok()
                       : LS_STATUS(ls_status_code(first->status),
                                   "not run, as an earlier op failed: %s",
                                   ls_status_message(first->status));
}

ls_status ls_graph_find_current(ls_graph **out_graph) {
  *out_graph = ls_context_current()->scoped.graph;
  if (*out_graph != NULL) return ls_ok();
  ls_runtime *runtime = ls_runtime_current();
  LS_RETURN_IF_NO_MEMORY(runtime);
  return ls_library_layers.eager->graph(runtime, out_graph);
}

ls_graph *ls_graph_current(void) {
  ls_graph *graph = NULL;
  ls_status_free(ls_graph_find_current(&graph));
  return graph;
}

const ls_graph *ls_context_graph(void) {
  const ls_graph *graph = ls_graph_resolve(ls_context_current()->scoped.graph);
  return graph == NULL || graph->kind == LS_GRAPH_EAGER ? NULL : graph;
}

bool ls_context_is_inside(const ls_graph *graph) {
  const ls_graph *at = ls_context_graph();
  if (at == NULL) return graph == NULL;
  for (; at != NULL; at = ls_graph_resolve(at->parent)) {
    if (at == graph) return true;
    // The root of a function's graphs has no parent: state entered in eager
    // mode applies to it.
    if (at->kind == LS_GRAPH_EAGER ||
        (at->parent == NULL && at->kind != LS_GRAPH_BUILD))
      return graph == NULL;
  }
  return false;
}

// ---- Open and leave --------------------------------------------------------
const ls_scope_types ls_graph_scopes = {
    .graph = {.name = "a graph"},
    .name = {.name = "a name scope"},
    .device = {.name = "a device scope"},
    .colocate = {.name = "a colocation scope"},
    .control = {.name = "a control scope"},
    .creator = {.name = "a variable creator scope"},
    .flow = {.name = "a replicated computation"},
    .refused = {.name = "a scope that was refused"}};

ls_context *ls_context_open(ls_scope *scope, const ls_scope_type *type) {
  ls_context *context = ls_context_current();
  ls_open_scope *opened = ls_scope_opened(scope);
  opened->outer = context->top;
  opened->type = type;
  opened->before = context->scoped;
  context->top = opened;
  return context;
}

static void forget_refusal(ls_context *context) {
  ls_status_free(context->refusal);
  context->refused = NULL;
  context->refusal = NULL;
}

void ls_scope_end(ls_scope *scope) {
  ls_open_scope *opened = ls_scope_opened(scope);
  const ls_scope_type *type = opened->type;
  if (type == NULL) return;
  ls_context *context = ls_context_current();
  if (opened == context->refused) forget_refusal(context);
  if (type == &ls_graph_scopes.colocate && opened->own.colocate.flow != NULL)
    ls_flow_leave_gradient(opened);
  ls_scope_state inside = context->scoped;
  context->scoped = opened->before;
  context->top = opened->outer;
  opened->type = NULL;
  if (type->left != NULL) type->left(&inside);
}

ls_status ls_scope_status(void) {
  const ls_context *context = ls_context_current();
  return context->refused == NULL ? ls_ok() : ls_status_clone(context->refusal);
}

// Frees the reason of a refusal when a thread ends inside a refused scope.
static void leave_scopes(void) {
  forget_refusal(LS_THREAD_PART(ls_context, graph));
}

void ls_context_refuse(ls_scope *scope, ls_status status) {
  ls_context *context = ls_context_open(scope, &ls_graph_scopes.refused);
  if (context->refused == NULL) {
    context->refused = ls_scope_opened(scope);
    context->refusal = status;
    (void)ls_thread_at_end(LS_THREAD_GRAPH, leave_scopes);
  } else {
    ls_status_free(status);
  }
}

void ls_context_enter_graph(ls_scope *scope, ls_graph *graph) {
  ls_context *context = ls_context_open(scope, &ls_graph_scopes.graph);
  context->scoped.graph = graph;
  context->scoped.names = NULL;
  context->scoped.device = NULL;
  context->scoped.control = NULL;
  context->scoped.colocate = NULL;
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
    ls_graph *graph = NULL;
    const size_t length = strlen(name);
    ls_status status = ls_graph_find_current(&graph);
    if (ls_status_is_ok(status))
      status = name[length - 1] == '/'
                   ? ls_graph_name_scope_path(graph, name, &names)
                   : ls_graph_name_scope(graph, context->scoped.names, name,
                                         graph->kind != LS_GRAPH_EAGER, &names);
    if (!ls_status_is_ok(status)) {
      ls_context_refuse(scope, status);
      return;
    }
  }
  ls_context_open(scope, &ls_graph_scopes.name);
  context->scoped.names = names;
}

void ls_device_scope_begin(ls_scope *scope, const char *device) {
  const char *merged = ls_context_current()->scoped.device;
  ls_graph *graph = ls_graph_current();
  ls_status status = ls_ok();
  if (device == NULL)
    merged = NULL;
  else if (graph != NULL)
    status = ls_graph_merge_device(graph, merged, device, &merged);
  if (!ls_status_is_ok(status)) {
    ls_context_refuse(scope, status);
    return;
  }
  ls_context_open(scope, &ls_graph_scopes.device)->scoped.device = merged;
}

// Returns the device of the innermost colocated op that has one; enclosing
// device scopes do not count.
static const char *device_beside(const ls_open_scope *scope) {
  for (; scope != NULL; scope = scope->before.colocate) {
    const ls_op beside = scope->own.colocate.beside;
    const ls_node *node = ls_graph_node(beside.graph, beside.id);
    if (node != NULL && node->device != NULL) return node->device;
  }
  return NULL;
}

void ls_colocate_scope_begin(ls_scope *scope, ls_op op) {
  if (ls_op_is_failed(op)) {
    ls_context_refuse(scope,
                      ls_invalid_argument(
                          "a colocation scope needs an op, got a failed one"));
    return;
  }
  ls_context *context = ls_context_open(scope, &ls_graph_scopes.colocate);
  ls_open_scope *opened = ls_scope_opened(scope);
  opened->own.colocate.beside = op;
  opened->own.colocate.flow = NULL;
  context->scoped.colocate = opened;
  context->scoped.device = device_beside(opened);
}

void ls_control_scope_begin(ls_scope *scope, const ls_op *ops, size_t count) {
  const ls_context *here = ls_context_current();
  ls_graph *graph = ls_graph_resolve(here->scoped.graph);
  ls_control_group *group = NULL;
  if (ops != NULL && graph != NULL && graph->kind != LS_GRAPH_EAGER) {
    group = ls_arena_new(&graph->arena, ls_control_group);
    if (group == NULL) {
      ls_context_refuse(scope, ls_out_of_memory());
      return;
    }
    if (here->scoped.control != NULL)
      group->outer = here->scoped.control->own.control.group;
  }
  ls_context *context = ls_context_open(scope, &ls_graph_scopes.control);
  ls_open_scope *opened = ls_scope_opened(scope);
  opened->own.control.ops = ops;
  opened->own.control.count = count;
  opened->own.control.group = group;
  context->scoped.control = ops == NULL ? NULL : opened;
  if (ops == NULL) context->scoped.flow = NULL;
}

void ls_init_scope_begin(ls_scope *scope) {
  ls_context *context = ls_context_current();
  ls_graph *graph = context->scoped.graph;
  while (graph != NULL && graph->kind != LS_GRAPH_BUILD)
    graph = graph->parent;
  const bool leaves = graph != context->scoped.graph;
  context = ls_context_open(scope, &ls_graph_scopes.graph);
  context->scoped.graph = graph;
  context->scoped.control = NULL;
  context->scoped.colocate = NULL;
  context->scoped.flow = NULL;
  context->scoped.shards = 0;
  if (!leaves) return;
  context->scoped.names = NULL;
  // Interns the device's name in the new graph, because the graph that owns the
  // name may be destroyed first.
  ls_graph *there = ls_graph_current();
  if (context->scoped.device == NULL || there == NULL) return;
  context->scoped.device = ls_graph_intern(there, context->scoped.device);
  if (context->scoped.device != NULL) return;
  ls_scope_end(scope);
  ls_context_refuse(scope, ls_out_of_memory());
}

const char *ls_name_scope_current(void) {
  ls_graph *graph = ls_graph_current();
  if (graph == NULL) return "";
  char text[LS_MAX_FULL_NAME];
  ls_name_scope_print(ls_context_current()->scoped.names, text, sizeof(text));
  const char *kept = ls_graph_intern(graph, text);
  return kept != NULL ? kept : "";
}

// ---- Numbers of examples ----------------------------------------------------
static bool has_rows(ls_nest leaf) {
  return leaf.kind == LS_KIND_TENSOR
             ? ls_tensor_shape(leaf.as.tensor).rank >= 1
             : leaf.kind == LS_KIND_ARRAY &&
                   ls_array_shape(ls_nest_as_array(leaf)).rank >= 1;
}

ls_nest ls_examples_rows(ls_nest args) {
  if (has_rows(args)) return args;
  ls_nest found = ls_none();
  for (size_t i = 0; i < ls_nest_count(args) && found.kind == LS_KIND_NONE; ++i)
    found = ls_examples_rows(ls_nest_item_sorted(args, i));
  return found;
}

void ls_examples_push(ls_context *context, ls_examples_entry *entry) {
  entry->outer = context->scoped.examples;
  entry->graph = ls_context_graph();
  context->scoped.examples = entry;
}

void ls_examples_enter(ls_examples_entry *entry, ls_examples_source source,
                       ls_nest args) {
  *entry =
      (ls_examples_entry){.source = source, .rows = ls_examples_rows(args)};
  ls_examples_push(ls_context_current(), entry);
}

void ls_examples_leave(const ls_examples_entry *entry) {
  ls_context_current()->scoped.examples = entry->outer;
}
