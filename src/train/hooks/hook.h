// SPDX-License-Identifier: Apache-2.0
// Private parts of hooks: each has a type, a table of functions, and a state.
#ifndef LS_TRAIN_HOOKS_HOOK_H_
#define LS_TRAIN_HOOKS_HOOK_H_

#include "base/runtime_internal.h"
#include "lockstep/hook.h"
#include "lockstep/models.h"
#include "lockstep/monitored_session.h"
#include "train/own.h"

// A type of hooks, a static table. Each function gets the hook's state; NULL:
// nothing to do at that moment.
typedef struct ls_hook_type {
  const char *name;    // For messages; "": messages do not name the hook.
  size_t size;         // Size of the state; 0: the state is lent.
  bool counts;         // Needs the step of each run.
  bool needs_session;  // Functions refuse the hook, unless it allows them.
  ls_status (*begin)(void *state);
  ls_status (*after_create_session)(void *state, ls_run_context *context);
  void (*session_lost)(void *state);
  ls_status (*before_run)(void *state, ls_run_context *context,
                          ls_run_wish *wish);
  ls_status (*after_run)(void *state, ls_run_context *context, ls_nest results);
  ls_status (*run_failed)(void *state, ls_status status);
  ls_status (*end)(void *state, ls_run_context *context);
  void (*destroy)(void *state);  // Drops the state, even if partly made.
} ls_hook_type;

struct ls_hook {
  ls_object object;
  ls_runtime *runtime;  // Current when it was made, and when it is destroyed.
  const ls_hook_type *type;
  void *state;
  bool needs_session;
  ls_hook_type users;  // The type of hooks made by users.
};

// Makes a hook with a copy of `initial`, of the type's size, as its state;
// NULL: with zeros. Takes over what `initial` refers to, also on failure.
LS_MUST_USE ls_status ls_hook_make(const ls_hook_type *type,
                                   const void *initial, ls_hook **out_hook);
// Makes a hook whose state is lent and outlives the hook.
LS_MUST_USE ls_status ls_hook_lend(const ls_hook_type *type, void *state,
                                   ls_hook **out_hook);

// The loop calls functions rather than a session.
typedef struct ls_called_step {
  const ls_model *model;
  ls_function *step;
  ls_nest args;  // Arguments of the last call, lent.
  // ls_run_context_examples; NULL: there are no numbers.
  ls_status (*examples)(void *user, int64_t *examples, size_t capacity,
                        size_t *out_count);
  void *user;
  int32_t rank;       // This rank among the ranks that call the function.
  int32_t num_ranks;  // Number of ranks, at least 1.
} ls_called_step;

struct ls_run_context {
  struct ls_monitored_session *of;  // NULL: functions are called.
  ls_runtime *runtime;
  ls_graph *graph;  // NULL: functions are called.
  ls_session *session;
  ls_called_step called;
  ls_nest fetches;
  ls_nest results;  // The caller's results, lent.
  ls_tensor step;   // The op that reads the graph's global step.
  bool has_step;
  // Steps at the last run: as read in the run, possibly before its own step;
  // for functions as they count.
  int64_t steps;
  bool stopped;  // A stop was requested.
};

// ---- Steps -----------------------------------------------------------------
// Makes a read of the current graph's global step.
LS_MUST_USE ls_status ls_global_step_read(ls_tensor *out_step);
// Checks a list of hooks, which messages call `field`.
//   LS_INVALID_ARGUMENT  one is NULL.
LS_MUST_USE ls_status ls_hooks_check(const char *field, ls_hook *const *hooks,
                                     size_t count);
// Returns the integer in a result.
int64_t ls_result_count(ls_nest result);

// ---- Lost sessions ---------------------------------------------------------
// Returns true for an error that means the session was lost, so that a new
// session may help.
bool ls_loses_session(ls_status status);
// Wraps an error, which it takes over, as "`text`: ...", such that it does not
// count as a lost session: a new session would not help.
LS_MUST_USE ls_status ls_keep_session(ls_status status, const char *text);

// ---- Saves (saver_hook.c) --------------------------------------------------
// Returns true if one of the hooks saves checkpoints.
bool ls_hooks_have_saver(ls_hook *const *hooks, size_t count);
// Lends them a state for one loop: they save it, too, until this and listeners
// added meanwhile are taken back. Without savers do nothing.
void ls_saver_hooks_lend(ls_hook *const *hooks, size_t count,
                         const ls_saveable *state);
void ls_saver_hooks_take_back(ls_hook *const *hooks, size_t count);
bool ls_session_has_saver(const ls_run_context *context);
// Saves one more checkpoint of a session, before its system is shut down: by
// its one saver hook or, without one, in `folder` (NULL: does not save). With
// several saver hooks does not save, and logs that. Waits until all is on disk.
// `*out_step` is -1 if nothing was saved.
LS_MUST_USE ls_status ls_session_save(ls_run_context *context,
                                      const char *folder, int64_t *out_step);
// Checks a new session for such saves.
//   LS_FAILED_PRECONDITION  there is no global step.
LS_MUST_USE ls_status ls_session_check_save(const ls_run_context *context,
                                            const char *folder);

// ---- Results ---------------------------------------------------------------
// Returns the number in a result, or its mean over the batch of functions'
// replicas.
//   LS_INVALID_ARGUMENT  it is not a number.
LS_MUST_USE ls_status ls_result_number(ls_nest leaf,
                                       const ls_run_context *context,
                                       double *out_number);

// A caller's result, found by name. Remembers its position, where the next
// search begins.
typedef struct ls_named_result {
  const char *name;
  size_t index;
} ls_named_result;
bool ls_named_result_has(ls_named_result *result, ls_nest results,
                         ls_nest *out_leaf);
// Finds the result.
//   LS_NOT_FOUND  names the existing results.
LS_MUST_USE ls_status ls_named_result_find(ls_named_result *result,
                                           ls_nest results, ls_nest *out_leaf);
LS_MUST_USE ls_status ls_named_result_number(ls_named_result *result,
                                             const ls_run_context *context,
                                             double *out_number);

// Returns true if this hook checks the loss for NaN (value_hooks.c).
bool ls_hook_guards_loss(const ls_hook *hook);

// Returns the step that is `more` after `step`, or the largest number.
static inline int64_t ls_steps_after(int64_t step, int64_t more) {
  return more < INT64_MAX - step ? step + more : INT64_MAX;
}

// ---- Lists -----------------------------------------------------------------
// The hooks of a loop, called in order.
//
// Zeroed: no hooks.
typedef struct ls_hook_list {
  ls_hook **hooks;      // Retained.
  ls_run_wish *wishes;  // Requests for the next run, one per hook.
  size_t count, hooks_capacity, wishes_capacity;
  bool counts;    // A hook needs the step of each run.
  bool is_alive;  // Hooks have seen `create` and not `lose`.
  ls_run_context context;
} ls_hook_list;

// Adds `hook` and takes it over, also on failure; NULL adds nothing.
LS_MUST_USE ls_status ls_hook_list_add(ls_hook_list *list, ls_hook *hook);
// Makes a hook and adds it, as in
//   LS_ADD_HOOK(&hooks, ls_nan_hook, loss, LS_FLAG_DEFAULT)
#define LS_ADD_HOOK(list, make, ...)                                           \
  __extension__({                                                              \
    ls_hook *ls_new_hook = NULL;                                               \
    const ls_status ls_making = make(__VA_ARGS__, &ls_new_hook);               \
    ls_status_is_ok(ls_making) ? ls_hook_list_add(list, ls_new_hook)           \
                               : ls_making;                                    \
  })
LS_MUST_USE ls_status ls_hook_list_add_all(ls_hook_list *list,
                                           ls_hook *const *hooks, size_t count);
void ls_hook_list_deinit(ls_hook_list *list);

// Call the hooks at one moment; a failure names the hook, if it has a name.
// `lose` ends what `create` has begun; `create` also reads the step if a hook
// needs it.
LS_MUST_USE ls_status ls_hook_list_begin(ls_hook_list *list);
LS_MUST_USE ls_status ls_hook_list_create(ls_hook_list *list);
void ls_hook_list_lose(ls_hook_list *list);
LS_MUST_USE ls_status ls_hook_list_end(ls_hook_list *list);

// A loop's function that makes a run: it is called after the hooks have made
// their requests, runs, and sets the context's fields. `*out_has_run`: there
// are results for hooks, perhaps even after a failure.
typedef struct ls_hooked_run {
  ls_status (*make)(void *user, bool *out_has_run);
  void *user;
  const ls_nest *results;  // Item `first` + i is hook i's; NULL: none.
  size_t first;
} ls_hooked_run;
// Makes a run, calling the hooks before and after it. A hook may replace the
// run's error by a better one.
LS_MUST_USE ls_status ls_hook_list_run(ls_hook_list *list,
                                       const ls_hooked_run *run);

// ---- Functions -------------------------------------------------------------
// Checks the hooks for a loop over functions.
//   LS_INVALID_ARGUMENT  a hook needs a session: names it.
LS_MUST_USE ls_status ls_hook_list_check_called(const ls_hook_list *list);
// Reduces `*steps` to the number of steps that the hooks allow for the next
// run.
//   LS_INVALID_ARGUMENT  a hook requests a fetch or feed.
LS_MUST_USE ls_status ls_hook_list_count_steps(const ls_hook_list *list,
                                               int64_t *steps);

#endif  // LS_TRAIN_HOOKS_HOOK_H_
