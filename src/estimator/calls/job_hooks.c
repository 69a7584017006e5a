// SPDX-License-Identifier: Apache-2.0
#include "estimator/calls/job_hooks.h"

#include "base/memory/allocator.h"

ls_status ls_job_hooks_add(ls_job_hooks *list, ls_hook *hook) {
  if (hook == NULL) return ls_ok();
  if (!ls_grow(ls_current_allocator(), &list->items, &list->capacity,
               list->count + 1, sizeof(*list->items))) {
    ls_hook_release(hook);
    return ls_out_of_memory();
  }
  list->items[list->count++] = hook;
  return ls_ok();
}

ls_status ls_job_hooks_add_all(ls_job_hooks *list, ls_hook *const *hooks,
                               size_t count) {
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_job_hooks_add(list, ls_hook_retain(hooks[i])));
  return ls_ok();
}

void ls_job_hooks_deinit(ls_job_hooks *list) {
  for (size_t i = 0; i < list->count; ++i)
    ls_hook_release(list->items[i]);
  ls_release(ls_current_allocator(), list->items);
  *list = (ls_job_hooks){0};
}
