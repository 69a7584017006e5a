// SPDX-License-Identifier: Apache-2.0
// Saves of a loop: its checkpoints, when the next is due, and the last one.
// Used by hooks of sessions and of functions.
#ifndef LS_TRAIN_HOOKS_SAVING_H_
#define LS_TRAIN_HOOKS_SAVING_H_

#include "lockstep/checkpoint.h"

// Zeroed: saves nothing.
typedef struct ls_saving {
  ls_checkpoints *checkpoints;  // NULL: not open.
  int64_t every_steps;          // 0: not by steps.
  bool yields;                  // By time: not due while a save is in progress.
  int64_t saved;                // Step of the last save; -1: none yet.
} ls_saving;

// Opens the checkpoints. Nothing counts as saved yet.
LS_MUST_USE ls_status ls_saving_open(ls_saving *self,
                                     const ls_checkpoints_options *options);
// Waits for a save in progress; returns the status of the last save.
LS_MUST_USE ls_status ls_saving_close(ls_saving *self);

// Returns true if a save is due at `step`, judged by this rank.
bool ls_saving_is_due(const ls_saving *self, int64_t step);
// Returns the number of steps from `step` until a save is due; 0: time decides.
int64_t ls_saving_steps_left(const ls_saving *self, int64_t step);
// Saves the current values. Without open checkpoints only stores the step.
LS_MUST_USE ls_status ls_saving_save(ls_saving *self, int64_t step,
                                     const ls_checkpoint_metric *metrics,
                                     size_t num_metrics);
// Returns true if the last save is known to have failed.
bool ls_saving_has_failed(const ls_saving *self);
// Waits until all checkpoints are on disk.
LS_MUST_USE ls_status ls_saving_wait(const ls_saving *self);
// Returns true if there is a complete checkpoint on disk. A save in progress is
// waited for with `waits`, else it does not count.
bool ls_saving_has_checkpoint(const ls_saving *self, bool waits);

#endif  // LS_TRAIN_HOOKS_SAVING_H_
