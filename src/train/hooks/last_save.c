// SPDX-License-Identifier: Apache-2.0
#include "train/hooks/last_save.h"

#include <string.h>

#include "train/hooks/monitored.h"

ls_status ls_last_save_init(ls_last_save *self, bool saves,
                            const char *folder) {
  *self = (ls_last_save){.saves = saves};
  if (!saves || folder == NULL) return ls_ok();
  self->folder = ls_copy_text(ls_current_allocator(), folder, strlen(folder));
  return self->folder != NULL ? ls_ok() : ls_out_of_memory();
}

void ls_last_save_deinit(ls_last_save *self) {
  ls_release(ls_current_allocator(), self->folder);
  self->folder = NULL;
}

ls_status ls_last_save_check(const ls_last_save *self,
                             const ls_run_context *context) {
  ls_hook *saver = NULL;
  if (!self->saves || context->has_step) return ls_ok();
  if (ls_run_context_savers(context, &saver) == 0 && self->folder == NULL)
    return ls_ok();
  return ls_failed_precondition(
      "a checkpoint shall be saved, and graph '%s' has no global step "
      "(ls_global_step_create)",
      ls_graph_name(context->graph));
}

// What the session would begin with, if it were a new one.
static ls_status save_in_folder(const ls_last_save *self,
                                const ls_run_context *context, int64_t step) {
  const ls_monitored_session *session = context->of;
  const ls_scaffold *scaffold = session->scaffold;
  ls_saved_values values = {.variables = NULL};
  ls_checkpoints *checkpoints = NULL;
  ls_status status = ls_saved_values_take(&values, context, scaffold->saved,
                                          scaffold->num_saved);
  if (ls_status_is_ok(status))
    status = ls_checkpoints_open(
        &(ls_checkpoints_options){.folder = self->folder,
                                  .values = &values.saver,
                                  .states = session->options.states,
                                  .num_states = session->options.num_states,
                                  .keep = LS_SOME(0),
                                  .background = LS_FLAG_OFF},
        &checkpoints);
  if (ls_status_is_ok(status))
    status = ls_checkpoints_save(checkpoints, step, NULL, 0);
  status = ls_status_join(status, ls_checkpoints_close(checkpoints));
  ls_saved_values_drop(&values);
  return status;
}

ls_status ls_last_save_now(const ls_last_save *self, ls_run_context *context,
                           int64_t *out_step) {
  ls_hook *saver = NULL;
  const size_t savers = ls_run_context_savers(context, &saver);
  int64_t step = -1;
  *out_step = -1;
  if (!self->saves) return ls_ok();
  if (savers > 1) {
    ls_runtime_log(context->runtime, LS_LOG_ERROR, "train",
                   "multiple savers, %zu of them: no checkpoint is saved on "
                   "demand",
                   savers);
    return ls_ok();
  }
  if (savers == 1) {
    LS_RETURN_IF_ERROR(ls_saver_hook_save(saver, context, &step));
  } else if (self->folder != NULL) {
    LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
    LS_RETURN_IF_ERROR(save_in_folder(self, context, step));
  }
  *out_step = step;
  return ls_ok();
}
