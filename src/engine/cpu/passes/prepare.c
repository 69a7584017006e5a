// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/passes/passes.h"
#include "graph/passes.h"

ls_status ls_cpu_prepare(ls_backend *backend, ls_program *program) {
  ls_graph *body = program->body;
  ls_runtime *runtime = backend->runtime;
  bool joined;
  LS_RETURN_IF_ERROR(ls_cpu_join_pools(body, &joined));
  if (joined) LS_RETURN_IF_ERROR(ls_drop_unused(body));
  LS_RETURN_IF_ERROR(ls_watch_pass(runtime, body, "join_pools", false));
  LS_RETURN_IF_ERROR(ls_cpu_give_again(body));
  return ls_watch_pass(runtime, body, "give_again", true);
}
