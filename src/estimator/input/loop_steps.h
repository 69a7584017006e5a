// SPDX-License-Identifier: Apache-2.0
#ifndef LS_ESTIMATOR_INPUT_LOOP_STEPS_H_
#define LS_ESTIMATOR_INPUT_LOOP_STEPS_H_

#include "base/runtime_internal.h"
#include "lockstep/estimator_hooks.h"

// Sets what the next run makes.
LS_MUST_USE ls_status ls_load_iterations(const ls_run_context *context,
                                         ls_variable *variable, int64_t count);

#endif  // LS_ESTIMATOR_INPUT_LOOP_STEPS_H_
