// SPDX-License-Identifier: Apache-2.0
//
// Steps on an iterator, inside.
#ifndef LS_TPU_STEPS_STEPS_H_
#define LS_TPU_STEPS_STEPS_H_

#include "distribute/base/strategy.h"
#include "lockstep/steps.h"

// Builds them where the step calls the replicas: in the strategy's
// cross-replica context.
LS_MUST_USE ls_status ls_steps_build_across(ls_strategy *strategy,
                                            const ls_steps *options,
                                            ls_step_context *context);

#endif  // LS_TPU_STEPS_STEPS_H_
