// SPDX-License-Identifier: Apache-2.0
// Hooks that watch how a training goes.
#ifndef LS_ESTIMATOR_HOOKS_PROGRESS_HOOKS_H_
#define LS_ESTIMATOR_HOOKS_PROGRESS_HOOKS_H_

#include "lockstep/estimator_config.h"
#include "lockstep/events.h"
#include "lockstep/hook.h"

// Logs the loss, and the global step that its run has come to, each `log_steps`
// steps, in whole runs; where runs are as long as a time, each such time.
// `log_steps` unset: `*out_hook` is NULL.
LS_MUST_USE ls_status ls_loss_log_hook(ls_tensor loss, ls_loop_length length,
                                       ls_opt log_steps, ls_hook **out_hook);
// Steps and examples a second each `log_steps` steps, in the log and in
// `events`, lent. `steps_per_run` below 1: not known. The same without them.
LS_MUST_USE ls_status ls_examples_hook(ls_opt log_steps, int64_t steps_per_run,
                                       double batch_size,
                                       ls_event_writer *events,
                                       ls_hook **out_hook);

// Fails a training whose global step does not move, which would never end.
// `train_op` is the name of what is to move it, lent for the hook's life;
// `steps_per_run` of a loop on cores, else 1.
//   LS_INVALID_ARGUMENT  from a run: names the op, and ls_train_op
LS_MUST_USE ls_status ls_moving_step_hook(const char *train_op,
                                          int64_t steps_per_run,
                                          ls_hook **out_hook);

#endif  // LS_ESTIMATOR_HOOKS_PROGRESS_HOOKS_H_
