// SPDX-License-Identifier: Apache-2.0
// What this layer keeps in each runtime.
//
// The runtime's lock guards it.
#ifndef LS_ESTIMATOR_CONFIG_STATE_H_
#define LS_ESTIMATOR_CONFIG_STATE_H_

#include "base/runtime_internal.h"

struct ls_system_use;
struct ls_watchdog;

typedef struct ls_estimator_state {
  ls_allocator *allocator;
  struct ls_watchdog *watchdogs;  // One a system; NULL: none is at work.
  void (*end_watchdogs)(struct ls_watchdog *first);
  struct ls_system_use *uses;  // Of systems, by jobs that run. Theirs.
  bool wraps_input;            // See ls_input_feed_set_loops.
} ls_estimator_state;

// Made on first use; NULL without memory. Hold the runtime's lock.
ls_estimator_state *ls_estimator_state_get(ls_runtime *runtime);

#endif  // LS_ESTIMATOR_CONFIG_STATE_H_
