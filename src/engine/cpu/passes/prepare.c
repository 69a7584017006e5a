// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/passes/passes.h"
#include "graph/passes/passes.h"

ls_status ls_cpu_prepare(ls_backend *backend, ls_program *program) {
  ls_graph *body = program->body;
  ls_runtime *runtime = backend->runtime;
  bool changed;
  LS_RETURN_IF_ERROR(ls_cpu_go_before_windows(body, &changed));
  if (changed) LS_RETURN_IF_ERROR(ls_drop_unused(body));
  LS_RETURN_IF_ERROR(ls_watch_pass(runtime, body, "windows", false));
  LS_RETURN_IF_ERROR(ls_cpu_join_pools(body, &changed));
  if (changed) LS_RETURN_IF_ERROR(ls_drop_unused(body));
  LS_RETURN_IF_ERROR(ls_watch_pass(runtime, body, "join_pools", false));
  LS_RETURN_IF_ERROR(ls_cpu_rematerialize(body));
  return ls_watch_pass(runtime, body, "rematerialize", true);
}
