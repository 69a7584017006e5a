// SPDX-License-Identifier: Apache-2.0
// A list of hooks that grows.
#ifndef LS_ESTIMATOR_CALLS_JOB_HOOKS_H_
#define LS_ESTIMATOR_CALLS_JOB_HOOKS_H_

#include "base/runtime_internal.h"
#include "lockstep/hook.h"

// Zeroed: empty.
typedef struct ls_job_hooks {
  ls_hook **items;  // Retained.
  size_t count, capacity;
} ls_job_hooks;

// Takes `hook` over, also on failure; NULL: none.
LS_MUST_USE ls_status ls_job_hooks_add(ls_job_hooks *list, ls_hook *hook);
LS_MUST_USE ls_status ls_job_hooks_add_all(ls_job_hooks *list,
                                           ls_hook *const *hooks, size_t count);
void ls_job_hooks_deinit(ls_job_hooks *list);

#endif  // LS_ESTIMATOR_CALLS_JOB_HOOKS_H_
