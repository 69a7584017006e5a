// SPDX-License-Identifier: Apache-2.0
// Configurations, parameters of user functions, settings in the environment,
// and the estimators' state per runtime.
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
// A setting in the environment. Cluster managers set variables named TF_TPU_X;
// a variable LS_TPU_X means the same and takes precedence.
typedef struct ls_setting {
  const char *name;   // Name of the set variable, else the requested name.
  const char *value;  // NULL: neither is set. Borrowed from the environment.
  char own[48];
} ls_setting;

// Reads a setting; `name` may begin with "TF_" or not. With "LS_" in place of
// "TF_" the name is looked up first.
void ls_setting_read(const ls_runtime *runtime, const char *name,
                     ls_setting *out);

// ---- Per-runtime state -----------------------------------------------------
// The estimators' state per runtime. The runtime's lock guards it.
struct ls_system_use;
struct ls_watchdog;

typedef struct ls_estimator_state {
  ls_allocator *allocator;
  struct ls_watchdog *watchdogs;  // One per system; NULL: none is running.
  void (*end_watchdogs)(struct ls_watchdog *first);
  // Systems in use by running jobs, which own the entries.
  struct ls_system_use *uses;
  // True to loop over plain values: see ls_input_feed_set_loops.
  bool wraps_input;
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
  // Structs to which pointers in `values` refer.
  ls_session_config session;
  ls_tpu_config tpu;
  ls_cluster_spec cluster;
};

// Copies a text, which may be NULL.
LS_MUST_USE ls_status ls_run_config_text(ls_run_config *config,
                                         const char *text,
                                         const char **out_text);

// Reads this process's role and model_dir from TF_CONFIG. model_dir may be in
// the options, too.
LS_MUST_USE ls_status ls_run_config_read_environment(ls_run_config *config);
// Returns a text of the member `service` of TF_CONFIG, in the configuration's
// memory; NULL if there is none.
LS_MUST_USE ls_status ls_run_config_find_service(ls_run_config *config,
                                                 const char *key,
                                                 const char **out_text);

// Stores the options of a TPU run, with defaults for unset ones.
//   LS_INVALID_ARGUMENT  names the field
LS_MUST_USE ls_status ls_run_config_set_tpu(ls_run_config *config,
                                            const ls_tpu_config *tpu);
// Finds the job of the system's workers, unless it was given.
LS_MUST_USE ls_status ls_run_config_find_job(ls_run_config *config);
// Checks that the configured job is the job of the resolver's system.
//   LS_INVALID_ARGUMENT  names both jobs
LS_MUST_USE ls_status ls_run_config_check_job(const ls_run_config *config);

#endif  // LS_ESTIMATOR_CONFIG_CONFIG_H_
