// SPDX-License-Identifier: Apache-2.0
// The hooks of a loop, called in order.
#ifndef LS_TRAIN_HOOKS_LIST_H_
#define LS_TRAIN_HOOKS_LIST_H_

#include "train/hooks/hook.h"

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

#endif  // LS_TRAIN_HOOKS_LIST_H_
