// SPDX-License-Identifier: Apache-2.0
#ifndef LS_ESTIMATOR_HOOKS_MOVING_HOOK_H_
#define LS_ESTIMATOR_HOOKS_MOVING_HOOK_H_

#include "lockstep/hook.h"

// Fails a training whose global step does not move, which would never end.
// `train_op` is the name of what is to move it, lent for the hook's life;
// `steps_per_run` of a loop on cores, else 1.
//   LS_INVALID_ARGUMENT  from a run: names the op, and ls_train_op
LS_MUST_USE ls_status ls_moving_step_hook(const char *train_op,
                                          int64_t steps_per_run,
                                          ls_hook **out_hook);

#endif  // LS_ESTIMATOR_HOOKS_MOVING_HOOK_H_
