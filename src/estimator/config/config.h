// SPDX-License-Identifier: Apache-2.0
// Configurations, parameters of user functions, settings in the environment,
// and per-runtime state of this layer.
#ifndef LS_ESTIMATOR_CONFIG_CONFIG_H_
#define LS_ESTIMATOR_CONFIG_CONFIG_H_

#include "base/memory/arena.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "io/json.h"
#include "lockstep/estimator_config.h"
#include "lockstep/estimator_functions.h"
#include "lockstep/object.h"

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

// ---- Configurations --------------------------------------------------------
// Configurations, private part.

struct ls_run_config {
  ls_object object;
  ls_runtime *runtime;
  ls_arena arena;  // Holds the texts and the cluster.
  ls_run_values values;
  // Structs that pointers of `values` refer to.
  ls_session_config session;
  ls_tpu_config tpu;
  ls_cluster_spec cluster;
};

// Copies a text, which may be NULL. Returns false without memory.
LS_MUST_USE bool ls_run_config_text(ls_run_config *config, const char *text,
                                    const char **out_text);

// Reads this process's role from TF_CONFIG, and model_dir, which the options
// may have given, too.
LS_MUST_USE ls_status ls_run_config_read_environment(ls_run_config *config);
// Returns a text of TF_CONFIG's member `service`, in the configuration's
// memory; NULL if there is none.
LS_MUST_USE ls_status ls_run_config_find_service(ls_run_config *config,
                                                 const char *key,
                                                 const char **out_text);

// Stores the options of a TPU run, completed with defaults.
//   LS_INVALID_ARGUMENT  names the field
LS_MUST_USE ls_status ls_run_config_set_tpu(ls_run_config *config,
                                            const ls_tpu_config *tpu);
// Finds the job of the system's workers, unless it was given.
LS_MUST_USE ls_status ls_run_config_find_job(ls_run_config *config);
// Checks that the job is the resolver's.
//   LS_INVALID_ARGUMENT  names both
LS_MUST_USE ls_status ls_run_config_check_job(const ls_run_config *config);

#endif  // LS_ESTIMATOR_CONFIG_CONFIG_H_
