// SPDX-License-Identifier: Apache-2.0
// The hooks of a loop, called in their order.
#ifndef LS_TRAIN_HOOKS_LIST_H_
#define LS_TRAIN_HOOKS_LIST_H_

#include "train/hooks/hook.h"

// Zeroed: none.
typedef struct ls_hook_list {
  ls_hook **hooks;  // Retained.
  size_t count;
  ls_run_wish *wishes;  // Of the next run, one a hook; theirs.
  bool counts;          // Some ask each run for the step.
  bool lives;           // They know a session, or functions whose values are.
  ls_run_context context;
} ls_hook_list;

LS_MUST_USE ls_status ls_hook_list_init(ls_hook_list *list,
                                        ls_hook *const *hooks, size_t count);
void ls_hook_list_deinit(ls_hook_list *list);

// Each in its moment; a failure names the hook, unless that has no name. What
// goes on ends with `lose`, which begins again with `create`.
LS_MUST_USE ls_status ls_hook_list_begin(ls_hook_list *list);
LS_MUST_USE ls_status ls_hook_list_create(ls_hook_list *list);
void ls_hook_list_lose(ls_hook_list *list);
LS_MUST_USE ls_status ls_hook_list_before(ls_hook_list *list);
// What is told of a run and what they do around it: `status`, taken over,
// unless a hook knows better why it has failed.
LS_MUST_USE ls_status ls_hook_list_judge(ls_hook_list *list, ls_status status);
// Item `first` + i of `results` is hook i's.
LS_MUST_USE ls_status ls_hook_list_after(ls_hook_list *list, ls_nest results,
                                         size_t first);
LS_MUST_USE ls_status ls_hook_list_end(ls_hook_list *list);

// ---- Functions -------------------------------------------------------------
//   LS_INVALID_ARGUMENT  a hook that is for sessions: names it.
LS_MUST_USE ls_status ls_hook_list_check_called(const ls_hook_list *list);
// How many steps the next run may make, at most `steps`, as the hooks wish.
//   LS_INVALID_ARGUMENT  one wishes to fetch or feed.
LS_MUST_USE ls_status ls_hook_list_count_steps(const ls_hook_list *list,
                                               int64_t *steps);

#endif  // LS_TRAIN_HOOKS_LIST_H_
