// SPDX-License-Identifier: Apache-2.0
// The hooks of a loop, called in their order.
#ifndef LS_TRAIN_HOOKS_LIST_H_
#define LS_TRAIN_HOOKS_LIST_H_

#include "train/hooks/hook.h"

// Zeroed: none.
typedef struct ls_hook_list {
  ls_hook **hooks;      // Retained.
  ls_run_wish *wishes;  // Of the next run, one for each hook; theirs.
  size_t count, hooks_capacity, wishes_capacity;
  bool counts;    // Some ask each run for the step.
  bool is_alive;  // They know a session, or functions whose values are set.
  ls_run_context context;
} ls_hook_list;

// Adds `hook`, which is taken over, also on failure; NULL: none.
LS_MUST_USE ls_status ls_hook_list_add(ls_hook_list *list, ls_hook *hook);
LS_MUST_USE ls_status ls_hook_list_add_all(ls_hook_list *list,
                                           ls_hook *const *hooks, size_t count);
void ls_hook_list_deinit(ls_hook_list *list);

// Each calls the hooks in one moment; a failure names the hook, unless that has
// no name. What goes on ends with `lose`, and begins again with `create`, which
// reads the step if a hook counts.
LS_MUST_USE ls_status ls_hook_list_begin(ls_hook_list *list);
LS_MUST_USE ls_status ls_hook_list_create(ls_hook_list *list);
void ls_hook_list_lose(ls_hook_list *list);
LS_MUST_USE ls_status ls_hook_list_end(ls_hook_list *list);

// How a loop makes a run: after the hooks have said what they wish, it runs,
// and sets what the context has of it. `*out_has_run`: hooks have something to
// see, which may be so of a run that fails, too.
typedef struct ls_hooked_run {
  ls_status (*make)(void *user, bool *out_has_run);
  void *user;
  const ls_nest *results;  // Item `first` + i is hook i's; NULL: none.
  size_t first;
} ls_hooked_run;
// Makes one, with the hooks around it. A hook may know better why it failed.
LS_MUST_USE ls_status ls_hook_list_run(ls_hook_list *list,
                                       const ls_hooked_run *run);

// ---- Functions -------------------------------------------------------------
//   LS_INVALID_ARGUMENT  a hook that is for sessions: names it.
LS_MUST_USE ls_status ls_hook_list_check_called(const ls_hook_list *list);
// How many steps the next run may make, at most `steps`, as the hooks wish.
//   LS_INVALID_ARGUMENT  one wishes to fetch or feed.
LS_MUST_USE ls_status ls_hook_list_count_steps(const ls_hook_list *list,
                                               int64_t *steps);

#endif  // LS_TRAIN_HOOKS_LIST_H_
