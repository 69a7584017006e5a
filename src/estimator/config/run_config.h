// SPDX-License-Identifier: Apache-2.0
//
// Configurations, private part.
#ifndef LS_ESTIMATOR_CONFIG_RUN_CONFIG_H_
#define LS_ESTIMATOR_CONFIG_RUN_CONFIG_H_

#include "base/memory/arena.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "io/json.h"
#include "lockstep/estimator_config.h"
#include "lockstep/object.h"

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

#endif  // LS_ESTIMATOR_CONFIG_RUN_CONFIG_H_
