// SPDX-License-Identifier: Apache-2.0
// TPU strategies whose replicas have several cores, for tests.
#ifndef LS_TESTS_SUPPORT_LOGICAL_STRATEGIES_H_
#define LS_TESTS_SUPPORT_LOGICAL_STRATEGIES_H_

#include "lockstep/tpu_strategy.h"

typedef enum strategy_flavour {
  FLAVOUR_CURRENT,
  FLAVOUR_EXPERIMENTAL,
  FLAVOUR_V1,
  NUM_FLAVOURS,
} strategy_flavour;

// Logical core c of replica r: core r * cores + c of one host. The caller's.
ls_device_assignment *logical_assignment(int replicas, int cores);
ls_strategy *logical_strategy(strategy_flavour flavour, int replicas, int cores,
                              ls_flag spmd);

#endif  // LS_TESTS_SUPPORT_LOGICAL_STRATEGIES_H_
