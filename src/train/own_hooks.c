// SPDX-License-Identifier: Apache-2.0
#include "train/own_hooks.h"

#include "base/memory/own.h"

enum { BEFORE = 2, BEHIND = 8 };

// Makes hooks in `out`, and counts them.
static ls_status own_hooks_make(const ls_hook_options *options, size_t count,
                                ls_hook **out, size_t *made) {
  for (size_t i = 0; i < count; ++i) {
    ls_hook_options nameless = options[i];
    nameless.name = "";  // What goes wrong says what it was itself.
    LS_RETURN_IF_ERROR(ls_hook_create(&nameless, &out[*made]));
    ++*made;
  }
  return ls_ok();
}

static ls_status own_hooks_fill(ls_own_hooks *own, ls_hook *const *hooks,
                                size_t count, ls_hook **all, size_t *made) {
  const ls_hook_options before[BEFORE] = {
      ls_own_lines_of_steps(&own->lines),
      ls_own_reports_of_steps(&own->reports)};
  const ls_hook_options behind[BEHIND] = {
      ls_own_saver_of_steps(&own->saver),
      ls_own_lines_of_rest(&own->lines),
      ls_own_reports_at_end(&own->reports),
      ls_own_tests_of_epochs(&own->tests),
      ls_own_lines_of_tests(&own->lines),
      ls_own_reports_of_epochs(&own->reports),
      ls_own_saver_of_tests(&own->saver),
      ls_own_reports_of_stop(&own->reports)};
  LS_RETURN_IF_ERROR(own_hooks_make(before, BEFORE, all, made));
  for (size_t i = 0; i < count; ++i)
    all[(*made)++] = ls_hook_retain(hooks[i]);
  return own_hooks_make(behind, BEHIND, all, made);
}

ls_status ls_own_hooks_list(ls_own_hooks *own, ls_hook *const *hooks,
                            size_t count, ls_hook_list *list) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_hook *, all, BEFORE + count + BEHIND);
  size_t made = 0;
  ls_status status = own_hooks_fill(own, hooks, count, all, &made);
  if (ls_status_is_ok(status)) status = ls_hook_list_init(list, all, made);
  for (size_t i = 0; i < made; ++i)
    ls_hook_release(all[i]);
  return status;
}
