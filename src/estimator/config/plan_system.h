// SPDX-License-Identifier: Apache-2.0
//
// Systems of plans: asked how they are, and checked against the configuration.
#ifndef LS_ESTIMATOR_CONFIG_PLAN_SYSTEM_H_
#define LS_ESTIMATOR_CONFIG_PLAN_SYSTEM_H_

#include "estimator/config/plan.h"

// Asks the system of a master of the configuration and checks, in this
// order, job, cores, replicas, and that the configuration fits. `one_core`:
// asks nothing. Zeroes `system` on failure.
LS_MUST_USE ls_status ls_plan_system_init(ls_plan_system *system,
                                          const ls_run_values *config,
                                          const char *master, bool one_core);
void ls_plan_system_deinit(ls_plan_system *system);  // Zeroed is fine.

#endif  // LS_ESTIMATOR_CONFIG_PLAN_SYSTEM_H_
