// SPDX-License-Identifier: Apache-2.0
// Parameters of users' functions, settings, and state of this layer.
#ifndef LS_ESTIMATOR_CONFIG_PARAMS_H_
#define LS_ESTIMATOR_CONFIG_PARAMS_H_

#include "base/runtime_internal.h"
#include "lockstep/estimator_functions.h"

#define LS_PARAM_BATCH_SIZE "batch_size"
#define LS_PARAM_CONTEXT "context"
#define LS_PARAM_USE_TPU "use_tpu"
#define LS_PARAM_CACHE "cache"

// Copies parameters and their arrays; of none an empty dict. The caller's.
ls_nest ls_params_copy(ls_nest params);

// Checks a number: INVALID_ARGUMENT "NAME must be positive, got VALUE".
LS_MUST_USE static inline ls_status ls_check_positive(const char *name,
                                                      int64_t value) {
  return value > 0 ? ls_ok()
                   : ls_invalid_argument("%s must be positive, got %lld", name,
                                         (long long)value);
}

// ---- Settings in the environment -------------------------------------------
// They have the names that managers of clusters set, TF_TPU_X; LS_TPU_X, which
// means the same, wins.
typedef struct ls_setting {
  const char *name;   // The one that is set, else the one of the call.
  const char *value;  // NULL: neither is set. Lent by the environment.
  char own[48];
} ls_setting;

// Reads a setting by its name with or without "TF_"; the other name is "LS_"
// and the rest.
void ls_setting_read(const ls_runtime *runtime, const char *name,
                     ls_setting *out);

// ---- Per-runtime state -----------------------------------------------------
// The runtime's lock guards it.
struct ls_system_use;
struct ls_watchdog;

typedef struct ls_estimator_state {
  ls_allocator *allocator;
  struct ls_watchdog *watchdogs;  // One a system; NULL: none is at work.
  void (*end_watchdogs)(struct ls_watchdog *first);
  struct ls_system_use *uses;  // Of systems, by jobs that run. Theirs.
  bool wraps_input;            // See ls_input_feed_set_loops.
} ls_estimator_state;

// Returns the state, made on first use; NULL without memory. Hold the runtime's
// lock.
ls_estimator_state *ls_estimator_state_get(ls_runtime *runtime);

#endif  // LS_ESTIMATOR_CONFIG_PARAMS_H_
