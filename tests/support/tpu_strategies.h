// SPDX-License-Identifier: Apache-2.0
// TPU strategies for tests.
#ifndef LS_TESTS_SUPPORT_TPU_STRATEGIES_H_
#define LS_TESTS_SUPPORT_TPU_STRATEGIES_H_

#include "lockstep/tpu_strategy.h"

// A replica on each core of a row of cores that one task has. The caller's.
ls_strategy *tpu_strategy_of(int replicas);
// The same row, of so many hosts with so many cores each.
ls_strategy *tpu_strategy_on(int hosts, int each);

#endif  // LS_TESTS_SUPPORT_TPU_STRATEGIES_H_
