// SPDX-License-Identifier: Apache-2.0
#include "graph/flow.h"

// Finds the innermost flow, from `entry` outward, that applies in the current
// graph.
static const ls_flow_entry *find_here(const ls_flow_entry *entry) {
  while (entry != NULL && !ls_context_is_inside(entry->graph))
    entry = entry->outer;
  return entry;
}

// ---- Scopes ----------------------------------------------------------------
void ls_flow_begin(ls_scope *scope, ls_flow *flow) {
  const ls_graph *graph = ls_context_graph();
  if (graph == NULL) {
    ls_context_refuse(
        scope,
        ls_failed_precondition(
            "%s needs a graph that is being built: in eager there is none",
            flow->type->name));
    return;
  }
  ls_context *context = ls_context_open(scope, &ls_graph_scopes.flow);
  const ls_flow_entry *around = context->scoped.flow;
  while (around != NULL && around->flow != flow)
    around = around->outer;
  ls_flow_entry *entry = LS_SCOPE_ENTRY(ls_flow_entry, scope);
  *entry = around != NULL ? *around
                          : (ls_flow_entry){flow, context->scoped.flow, graph};
  context->scoped.flow = entry;
}

void ls_flow_alone_begin(ls_scope *scope) {
  ls_context_open(scope, &ls_graph_scopes.control)->scoped.control = NULL;
}

ls_flow *ls_flow_replicated(void) {
  const ls_flow_entry *at = find_here(ls_context_current()->scoped.flow);
  while (at != NULL && !at->flow->type->is_replicated)
    at = find_here(at->outer);
  return at == NULL ? NULL : at->flow;
}

ls_tensor ls_flow_read(ls_variable *variable) {
  const ls_flow_entry *at = find_here(ls_context_current()->scoped.flow);
  for (; at != NULL; at = find_here(at->outer)) {
    if (at->flow->type->read == NULL) continue;
    const ls_tensor given = at->flow->type->read(at->flow, variable);
    if (!ls_tensor_is_failed(given)) return given;
  }
  return ls_failed_tensor();
}

// ---- Ops -------------------------------------------------------------------
// Asks each flow from the innermost on to admit an op that is described, or
// without a description to mark one that was made.
static ls_status ask_flows(ls_op_spec *spec, ls_arena *memory, ls_op op) {
  ls_scope_state *scoped = &ls_context_current()->scoped;
  const ls_flow_entry *const innermost = scoped->flow, *at = innermost;
  ls_status status = ls_ok();
  while (ls_status_is_ok(status) && (at = find_here(at)) != NULL) {
    const ls_flow_type *type = at->flow->type;
    scoped->flow = at;
    if (spec != NULL && type->admit != NULL)
      status = type->admit(at->flow, spec, memory);
    if (spec == NULL && type->mark != NULL) status = type->mark(at->flow, op);
    at = at->outer;
  }
  scoped->flow = innermost;
  return status;
}

ls_status ls_flow_admit(ls_op_spec *spec, ls_arena *memory) {
  return ask_flows(spec, memory, (ls_op){0});
}

ls_status ls_flow_mark(ls_op op) { return ask_flows(NULL, NULL, op); }

// ---- Gradients -------------------------------------------------------------
// Calls enter_gradient of the innermost flow that has this function.
static void enter_gradient(ls_scope *scope, ls_op op, const char *uid) {
  ls_open_scope *opened = ls_scope_opened(scope);
  const ls_flow_entry *at = find_here(ls_context_current()->scoped.flow);
  while (at != NULL && at->flow->type->enter_gradient == NULL)
    at = find_here(at->outer);
  if (at == NULL || opened->type != &ls_graph_scopes.colocate) return;
  ls_flow *flow = at->flow;
  const ls_status status = flow->type->enter_gradient(flow, op, uid);
  if (!ls_status_is_ok(status)) {
    ls_scope_end(scope);
    ls_context_refuse(scope, status);
    return;
  }
  opened->own.colocate.flow = flow;
  opened->own.colocate.uid = uid;
}

void ls_flow_gradient_begin(ls_scope *scope, ls_op op, const char *uid) {
  ls_colocate_scope_begin(scope, op);
  enter_gradient(scope, op, uid);
}

void ls_flow_gradient_inside_begin(ls_scope *scope, ls_op op, const char *uid) {
  if (ls_context_current()->scoped.flow == NULL) return;
  ls_context_open(scope, &ls_graph_scopes.colocate);
  ls_scope_opened(scope)->own.colocate.beside = op;
  ls_scope_opened(scope)->own.colocate.flow = NULL;
  enter_gradient(scope, op, uid);
}

void ls_flow_leave_gradient(const ls_open_scope *opened) {
  ls_flow *flow = opened->own.colocate.flow;
  if (flow->type->leave_gradient == NULL) return;
  const ls_status status = flow->type->leave_gradient(
      flow, opened->own.colocate.beside, opened->own.colocate.uid);
  if (ls_status_is_ok(status)) return;
  ls_graph *graph = ls_graph_resolve(ls_graph_current());
  if (graph->error == NULL) graph->error_unplaced = true;
  ls_graph_fail(graph, status);
}
