// SPDX-License-Identifier: Apache-2.0
// Hooks inside: each has a type, which says what it is, and a state.
#ifndef LS_TRAIN_HOOKS_HOOK_H_
#define LS_TRAIN_HOOKS_HOOK_H_

#include "base/runtime_internal.h"
#include "lockstep/hook.h"
#include "lockstep/models.h"
#include "lockstep/monitored_session.h"
#include "train/own.h"

// A type of hooks, a static table. Each function gets the hook's state; NULL:
// it does nothing in that moment.
typedef struct ls_hook_type {
  const char *name;    // For messages; "": they do not mention the hook.
  size_t size;         // Of the state; 0: it is lent.
  bool counts;         // Asks each run for the step.
  bool needs_session;  // Not for functions, unless a hook says otherwise.
  ls_status (*begin)(void *state);
  ls_status (*after_create_session)(void *state, ls_run_context *context);
  void (*session_lost)(void *state);
  ls_status (*before_run)(void *state, ls_run_context *context,
                          ls_run_wish *wish);
  ls_status (*after_run)(void *state, ls_run_context *context, ls_nest results);
  ls_status (*run_failed)(void *state, ls_status status);
  ls_status (*end)(void *state, ls_run_context *context);
  void (*destroy)(void *state);  // Drops what the state holds, also by half.
} ls_hook_type;

struct ls_hook {
  ls_object object;
  const ls_hook_type *type;
  void *state;
  bool needs_session;
  ls_hook_type users;  // The type of a hook that a user has made.
};

// Makes a hook with a copy of `initial`, of the type's size, as its state;
// NULL: with zeroes. What `initial` holds is taken over, also on failure.
LS_MUST_USE ls_status ls_hook_make(const ls_hook_type *type,
                                   const void *initial, ls_hook **out_hook);
// Makes a hook whose state is lent, and outlives it.
LS_MUST_USE ls_status ls_hook_lend(const ls_hook_type *type, void *state,
                                   ls_hook **out_hook);
// Copies a text for a state, from which ls_release of the current allocator
// takes it; NULL stays NULL.
LS_MUST_USE ls_status ls_hook_copy_text(const char *text, char **out_copy);

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

// ---- Steps -----------------------------------------------------------------
// The value of the global step in the session, in a run of its own.
LS_MUST_USE ls_status ls_run_context_step(const ls_run_context *context,
                                          ls_tensor step, int64_t *out_step);
// The global step of the current graph, read.
LS_MUST_USE ls_status ls_global_step_read(ls_tensor *out_step);
// A list of hooks, which messages call `field`.
//   LS_INVALID_ARGUMENT  one is NULL.
LS_MUST_USE ls_status ls_hooks_check(const char *field, ls_hook *const *hooks,
                                     size_t count);
// The integer in a result.
int64_t ls_result_count(ls_nest result);

// ---- Lost sessions ---------------------------------------------------------
// Returns whether an error says that the base of a session was lost, so that a
// new session may do.
bool ls_loses_session(ls_status status);
// Makes such an error, taken over, one by which no session is lost, "`text`: ":
// another session would not help.
LS_MUST_USE ls_status ls_keep_session(ls_status status, const char *text);

// ---- Saves (saver_hook.c) --------------------------------------------------
// Returns whether one of them saves checkpoints.
bool ls_hooks_have_saver(ls_hook *const *hooks, size_t count);
bool ls_session_has_saver(const ls_run_context *context);
// Saves one more checkpoint of a session, before what it runs on is shut down:
// by its one hook that saves or, without one, in `folder`, NULL for nowhere. Of
// several hooks none is asked, and the log says so. All is on the disk then.
// `*out_step` is -1 where nothing was saved.
LS_MUST_USE ls_status ls_session_save(ls_run_context *context,
                                      const char *folder, int64_t *out_step);
// Checks, once there is a session, that it can be saved so.
//   LS_FAILED_PRECONDITION  there is no global step.
LS_MUST_USE ls_status ls_session_check_save(const ls_run_context *context,
                                            const char *folder);

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

// Returns whether this hook checks the loss for NaN. (value_hooks.c)
bool ls_hook_guards_loss(const ls_hook *hook);

// Returns the step that is `more` after `step`, if there are numbers for it.
static inline int64_t ls_steps_after(int64_t step, int64_t more) {
  return more < INT64_MAX - step ? step + more : INT64_MAX;
}

#endif  // LS_TRAIN_HOOKS_HOOK_H_
