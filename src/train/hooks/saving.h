// SPDX-License-Identifier: Apache-2.0
// Saves of a loop: its checkpoints, when one is due, and which was the last.
// Hooks save by it, whether a session runs or functions are called.
#ifndef LS_TRAIN_HOOKS_SAVING_H_
#define LS_TRAIN_HOOKS_SAVING_H_

#include "lockstep/checkpoint.h"

// Zeroed: nothing is saved.
typedef struct ls_saving {
  ls_checkpoints *checkpoints;  // NULL: not open.
  int64_t every_steps;          // 0: saves are not due by steps.
  bool yields;    // By time alone none is due while the last one is written.
  int64_t saved;  // The step of the last one; -1: none yet.
} ls_saving;

// Begins to save; nothing has been saved yet.
LS_MUST_USE ls_status ls_saving_open(ls_saving *self,
                                     const ls_checkpoints_options *options);
// Waits for what is being written; the status is that of the last save.
LS_MUST_USE ls_status ls_saving_close(ls_saving *self);

// Returns whether a save is due at `step`, as this rank sees it.
bool ls_saving_is_due(const ls_saving *self, int64_t step);
// Returns how many steps there are from `step` on until one is due; 0: time
// decides.
int64_t ls_saving_steps_left(const ls_saving *self, int64_t step);
// Saves what is now. Where nothing is open it only notes the step.
LS_MUST_USE ls_status ls_saving_save(ls_saving *self, int64_t step,
                                     const ls_checkpoint_metric *metrics,
                                     size_t num_metrics);
// Returns whether the last save is known to have failed.
bool ls_saving_has_failed(const ls_saving *self);
// Waits until all is on the disk.
LS_MUST_USE ls_status ls_saving_wait(const ls_saving *self);
// Returns whether a checkpoint is whole on the disk. One that is being written
// is waited for with `waits`, else it does not count.
bool ls_saving_has_checkpoint(const ls_saving *self, bool waits);

#endif  // LS_TRAIN_HOOKS_SAVING_H_
