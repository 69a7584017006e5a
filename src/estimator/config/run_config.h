// SPDX-License-Identifier: Apache-2.0
//
// Configurations inside.
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
  ls_arena arena;  // Texts and the cluster.
  ls_run_values values;
  // Targets of the values' pointers.
  ls_session_config session;
  ls_tpu_config tpu;
  ls_cluster_spec cluster;
};

// A copy of a text, which may be NULL; false without memory.
LS_MUST_USE bool ls_run_config_text(ls_run_config *config, const char *text,
                                    const char **out_text);

// Reads this process's role in TF_CONFIG, and its folder of the model, which
// the options may have given, too.
LS_MUST_USE ls_status ls_run_config_read_environment(ls_run_config *config);
// The text in TF_CONFIG's member `service` with this key, in the
// configuration's memory; NULL: none.
LS_MUST_USE ls_status ls_run_config_find_service(ls_run_config *config,
                                                 const char *key,
                                                 const char **out_text);

// Takes what is said of a TPU run, with defaults.
//   LS_INVALID_ARGUMENT  names the field.
LS_MUST_USE ls_status ls_run_config_set_tpu(ls_run_config *config,
                                            const ls_tpu_config *tpu);
// The job of the system's workers, where it was not given.
LS_MUST_USE ls_status ls_run_config_find_job(ls_run_config *config);
// Checks that it is the job of the resolver's system.
//   LS_INVALID_ARGUMENT  names both.
LS_MUST_USE ls_status ls_run_config_check_job(const ls_run_config *config);

#endif  // LS_ESTIMATOR_CONFIG_RUN_CONFIG_H_
