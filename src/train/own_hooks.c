// SPDX-License-Identifier: Apache-2.0
#include "train/own_hooks.h"

typedef struct own_hook {
  const ls_hook_type *type;
  void *state;
} own_hook;

static ls_status lend_hooks(const own_hook *hooks, size_t count,
                            ls_hook_list *list) {
  for (size_t i = 0; i < count; ++i) {
    ls_hook *hook = NULL;
    LS_RETURN_IF_ERROR(ls_hook_lend(hooks[i].type, hooks[i].state, &hook));
    LS_RETURN_IF_ERROR(ls_hook_list_add(list, hook));
  }
  return ls_ok();
}

ls_status ls_own_hooks_list(ls_own_hooks *own, ls_hook *const *hooks,
                            size_t count, ls_hook_list *list) {
  const own_hook earlier[] = {{&ls_own_lines_of_steps, &own->lines},
                              {&ls_own_reports_of_steps, &own->reports}};
  const own_hook later[] = {{&ls_own_saver_of_steps, &own->saver},
                            {&ls_own_lines_of_rest, &own->lines},
                            {&ls_own_reports_at_end, &own->reports},
                            {&ls_own_tests_of_epochs, &own->tests},
                            {&ls_own_lines_of_tests, &own->lines},
                            {&ls_own_reports_of_epochs, &own->reports},
                            {&ls_own_saver_of_tests, &own->saver},
                            {&ls_own_reports_of_stop, &own->reports}};
  LS_RETURN_IF_ERROR(lend_hooks(earlier, LS_COUNT_OF(earlier), list));
  LS_RETURN_IF_ERROR(ls_hook_list_add_all(list, hooks, count));
  return lend_hooks(later, LS_COUNT_OF(later), list);
}
