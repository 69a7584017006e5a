// SPDX-License-Identifier: Apache-2.0
// Parameters of user functions, settings in the environment, and per-runtime
// state of this layer.
#ifndef LS_ESTIMATOR_CONFIG_PARAMS_H_
#define LS_ESTIMATOR_CONFIG_PARAMS_H_

#include "base/runtime_internal.h"
#include "lockstep/estimator_functions.h"

#define LS_PARAM_BATCH_SIZE "batch_size"
#define LS_PARAM_CONTEXT "context"
#define LS_PARAM_USE_TPU "use_tpu"
#define LS_PARAM_CACHE "cache"

// Copies parameters with their arrays; none becomes an empty dict. The caller
// releases the copy.
ls_nest ls_params_copy(ls_nest params);

// Checks a number, or fails with INVALID_ARGUMENT "NAME must be positive, got
// VALUE".
LS_MUST_USE static inline ls_status ls_check_positive(const char *name,
                                                      int64_t value) {
  return value > 0 ? ls_ok()
                   : ls_invalid_argument("%s must be positive, got %lld", name,
                                         (long long)value);
}

// ---- Settings in the environment -------------------------------------------
// Settings in the environment. They have the names TF_TPU_X that cluster
// managers set; LS_TPU_X means the same and wins.
typedef struct ls_setting {
  const char *name;   // The variable that is set, else the requested one.
  const char *value;  // NULL: neither is set. Borrowed from the environment.
  char own[48];
} ls_setting;

// Reads a setting; `name` may be given with or without "TF_". The other name
// has "LS_" instead.
void ls_setting_read(const ls_runtime *runtime, const char *name,
                     ls_setting *out);

// ---- Per-runtime state -----------------------------------------------------
// Per-runtime state; the runtime's lock guards it.
struct ls_system_use;
struct ls_watchdog;

typedef struct ls_estimator_state {
  ls_allocator *allocator;
  struct ls_watchdog *watchdogs;  // One per system; NULL: none is running.
  void (*end_watchdogs)(struct ls_watchdog *first);
  // Systems in use by running jobs, which own the entries.
  struct ls_system_use *uses;
  bool wraps_input;  // See ls_input_feed_set_loops.
} ls_estimator_state;

// Returns the state, made on first use; NULL without memory. Requires the
// runtime's lock.
ls_estimator_state *ls_estimator_state_get(ls_runtime *runtime);

#endif  // LS_ESTIMATOR_CONFIG_PARAMS_H_
