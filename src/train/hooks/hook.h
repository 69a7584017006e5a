// SPDX-License-Identifier: Apache-2.0
// Hooks inside: every one, also a ready-made, is its options.
#ifndef LS_TRAIN_HOOKS_HOOK_H_
#define LS_TRAIN_HOOKS_HOOK_H_

#include "base/runtime_internal.h"
#include "lockstep/hook.h"
#include "lockstep/models.h"
#include "lockstep/monitored_session.h"
#include "lockstep/object.h"

struct ls_hook {
  ls_object object;
  ls_hook_options options;
  // Whether it asks each run for the step, and whether it is for sessions only.
  bool counts, needs_session;
};

// Functions that a loop calls, in place of a session's graph.
typedef struct ls_called_step {
  const ls_model *model;
  ls_function *step;
  ls_nest args;       // Of the run that was made last, lent.
  int32_t rank;       // Of so many, who call the same.
  int32_t num_ranks;  // At least 1.
} ls_called_step;

struct ls_run_context {
  struct ls_monitored_session *of;  // NULL: functions are called.
  ls_runtime *runtime;
  ls_graph *graph;  // NULL: functions are called.
  ls_session *session;
  ls_called_step called;
  ls_nest fetches;
  ls_nest results;  // Of the caller, lent.
  ls_tensor step;   // The global step of the graph, read.
  bool has_step;
  // Steps as of the run that was made last: as it has read them, which may be
  // before its own; of functions as they count.
  int64_t steps;
  bool stopped;  // Asked for.
};

// A ready-made hook with a state of its own, of `size` zeroes, which `options`
// destroy with `destroy`, or which ls_hook_free drops. NULL: no memory.
void *ls_hook_state(size_t size);
void ls_hook_free(void *state);
// Makes it of `options`, whose `user` is the state, taken over also on failure.
// It is for sessions.
LS_MUST_USE ls_status ls_hook_of_state(const ls_hook_options *options,
                                       ls_hook **out_hook);
// The same, for functions, too, unless it `needs_session` as it was made; and
// asks each run for the step.
LS_MUST_USE ls_status ls_hook_of_both(const ls_hook_options *options,
                                      bool needs_session, ls_hook **out_hook);
LS_MUST_USE ls_status ls_hook_of_steps(const ls_hook_options *options,
                                       bool needs_session, ls_hook **out_hook);

// ---- Steps -----------------------------------------------------------------
// The value of the global step in the session, in a run of its own.
LS_MUST_USE ls_status ls_run_context_step(const ls_run_context *context,
                                          ls_tensor step, int64_t *out_step);
// The global step of the current graph, read.
LS_MUST_USE ls_status ls_global_step_read(ls_tensor *out_step);
// The hooks of the context's session that save checkpoints: their number, and
// the first of them, lent; NULL without one.
size_t ls_run_context_savers(const ls_run_context *context,
                             ls_hook **out_saver);
// Has such a hook save now; all is on the disk then.
LS_MUST_USE ls_status ls_saver_hook_save(ls_hook *saver,
                                         ls_run_context *context,
                                         int64_t *out_step);
// A list of hooks, which messages call `field`.
//   LS_INVALID_ARGUMENT  one is NULL.
LS_MUST_USE ls_status ls_hooks_check(const char *field, ls_hook *const *hooks,
                                     size_t count);
// Whether one of them saves checkpoints. (saver_hook.c)
bool ls_hooks_have_saver(ls_hook *const *hooks, size_t count);
// The integer in a result.
int64_t ls_result_count(ls_nest result);

// ---- Results ---------------------------------------------------------------
// The one number of it, or its mean over the batch of functions' replicas.
//   LS_INVALID_ARGUMENT  it is no number.
LS_MUST_USE ls_status ls_result_number(ls_nest leaf,
                                       const ls_run_context *context,
                                       double *out_number);

// One of what a run gives its caller. Where it was the last time it is looked
// for first.
typedef struct ls_named_result {
  const char *name;
  size_t index;
} ls_named_result;
bool ls_named_result_has(ls_named_result *result, ls_nest results,
                         ls_nest *out_leaf);
//   LS_NOT_FOUND  there is none: names those that there are.
LS_MUST_USE ls_status ls_named_result_find(ls_named_result *result,
                                           ls_nest results, ls_nest *out_leaf);
LS_MUST_USE ls_status ls_named_result_number(ls_named_result *result,
                                             const ls_run_context *context,
                                             double *out_number);

// Whether a loss that is no number is this hook's to judge. (value_hooks.c)
bool ls_hook_guards_loss(const ls_hook *hook);

// The step behind `more` from `step` on, if there are numbers for so many.
static inline int64_t ls_steps_after(int64_t step, int64_t more) {
  return more < INT64_MAX - step ? step + more : INT64_MAX;
}

#endif  // LS_TRAIN_HOOKS_HOOK_H_
