// SPDX-License-Identifier: Apache-2.0
//
// Outside compilation: ops of a replicated computation that its cores do not
// run.
#include "graph/region.h"
#include "lockstep/function.h"
#include "lockstep/replicate.h"
#include "tpu/pod/log.h"
#include "tpu/replicate/context.h"

// Nobody replicates: the function is just called.
static ls_nest call_alone(ls_callback fn, void *user, ls_nest args) {
  const ls_graph *graph = ls_context_graph();
  if (graph != NULL &&
      ls_graph_whole(ls_graph_current())->kind == LS_GRAPH_FUNCTION)
    ls_tpu_log(graph->runtime, LS_LOG_WARNING,
               "outside compilation in function '%s', but no replicated "
               "computation was found around it: its ops stay where they are",
               ls_graph_whole(ls_graph_current())->name);
  return fn(args, user);
}

// Refuses what the callback has left open, or entered for good. `top` was the
// innermost scope.
static ls_status check_same_place(const ls_scope_state *before,
                                  const ls_open_scope *top) {
  const ls_context *context = ls_context_current();
  const ls_scope_state *after = &context->scoped;
  if (after->graph != before->graph || after->flow != before->flow)
    return ls_unimplemented("Control-flow context cannot be different at start "
                            "and end of an outside_compilation scope");
  if (context->top == top) return ls_ok();
  return ls_unimplemented(
      "the function of an outside_compilation scope has left %s open",
      context->top != NULL ? context->top->type->name : "nothing");
}

ls_nest ls_outside_compilation_marked(ls_callback fn, void *user, ls_nest args,
                                      bool maps) {
  ls_tpu_context *const replicated = ls_tpu_context_current();
  if (replicated == NULL) return call_alone(fn, user, args);
  ls_scope scope = {0};
  ls_context_open(&scope, &ls_graph_scopes.device);
  ls_status status = ls_tpu_context_enter_outside(replicated, NULL);
  ls_nest made = ls_none();
  if (ls_status_is_ok(status)) {
    const ls_context *context = ls_context_current();
    const ls_scope_state before = context->scoped;
    const ls_open_scope *top = context->top;
    replicated->maps = maps;
    made = fn(args, user);
    replicated->maps = false;
    status = ls_nest_is_failed(made) ? ls_ok() : check_same_place(&before, top);
    status = ls_status_join(status, ls_tpu_context_exit_outside(replicated));
  }
  ls_scope_end(&scope);
  if (ls_status_is_ok(status)) return made;
  ls_nest_release(made);
  return ls_fail(status);
}

ls_nest ls_outside_compilation(ls_callback fn, void *user, ls_nest args) {
  return fn != NULL ? ls_outside_compilation_marked(fn, user, args, false)
                    : LS_FAIL(LS_INVALID_ARGUMENT,
                              "ls_outside_compilation: fn is NULL");
}
