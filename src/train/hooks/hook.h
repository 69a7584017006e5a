// SPDX-License-Identifier: Apache-2.0
// Hooks inside: every one, also a ready-made, is its options.
#ifndef LS_TRAIN_HOOKS_HOOK_H_
#define LS_TRAIN_HOOKS_HOOK_H_

#include "base/runtime_internal.h"
#include "lockstep/hook.h"
#include "lockstep/object.h"

struct ls_hook {
  ls_object object;
  ls_hook_options is;
};

struct ls_run_context {
  ls_runtime *runtime;
  ls_graph *graph;
  ls_session *session;
  ls_nest fetches;
  bool stopped;  // Asked for.
};

// A ready-made hook with a state of its own, of `size` zeroes, which `options`
// destroy with `destroy`, or which ls_hook_free drops. NULL: no memory.
void *ls_hook_state(size_t size);
void ls_hook_free(void *state);
// Makes it of `options`, whose `user` is the state, taken over also on failure.
LS_MUST_USE ls_status ls_hook_of_state(const ls_hook_options *options,
                                       ls_hook **out_hook);

// The value of the global step in the session, in a run of its own.
LS_MUST_USE ls_status ls_run_context_step(const ls_run_context *context,
                                          ls_tensor step, int64_t *out_step);
// The global step of the current graph, read.
LS_MUST_USE ls_status ls_global_step_read(ls_tensor *out_step);
// The integer in a result.
int64_t ls_result_count(ls_nest result);

#endif  // LS_TRAIN_HOOKS_HOOK_H_
