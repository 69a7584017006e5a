// SPDX-License-Identifier: Apache-2.0
#include "train/hooks/saving.h"

#include "state/checkpoints.h"
#include "train/hooks/hook.h"

ls_status ls_saving_open(ls_saving *self,
                         const ls_checkpoints_options *options) {
  self->every_steps = options->every_steps.set ? options->every_steps.value : 0;
  self->saved = -1;
  return ls_checkpoints_open(options, &self->checkpoints);
}

ls_status ls_saving_close(ls_saving *self) {
  ls_checkpoints *checkpoints = self->checkpoints;
  self->checkpoints = NULL;
  return ls_checkpoints_close(checkpoints);
}

bool ls_saving_is_due(const ls_saving *self, int64_t step) {
  return self->checkpoints != NULL && step != self->saved &&
         ls_checkpoints_are_due(self->checkpoints, step) &&
         (!self->yields || self->every_steps > 0 ||
          !ls_checkpoints_are_writing(self->checkpoints));
}

int64_t ls_saving_steps_left(const ls_saving *self, int64_t step) {
  const int64_t saved = self->saved > 0 ? self->saved : 0;
  return self->every_steps > 0 ? ls_steps_after(saved, self->every_steps) - step
                               : 0;
}

ls_status ls_saving_save(ls_saving *self, int64_t step,
                         const ls_checkpoint_metric *metrics,
                         size_t num_metrics) {
  self->saved = step;
  return self->checkpoints != NULL
             ? ls_checkpoints_save(self->checkpoints, step, metrics,
                                   num_metrics)
             : ls_ok();
}

bool ls_saving_has_failed(const ls_saving *self) {
  return self->checkpoints != NULL &&
         ls_checkpoints_have_failed(self->checkpoints);
}

ls_status ls_saving_wait(const ls_saving *self) {
  return self->checkpoints != NULL ? ls_checkpoints_wait(self->checkpoints)
                                   : ls_ok();
}

bool ls_saving_has_checkpoint(const ls_saving *self, bool waits) {
  size_t count = 0;
  if (self->checkpoints == NULL ||
      (!waits && ls_checkpoints_are_writing(self->checkpoints)))
    return false;
  ls_status_free(ls_checkpoints_list(self->checkpoints, NULL, 0, &count));
  return count > 0;
}
