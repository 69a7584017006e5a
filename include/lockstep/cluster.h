// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Clusters: addresses of processes, by job and task.
//
// Threads: any number of threads may read a spec at the same time.
#ifndef LOCKSTEP_CLUSTER_H_
#define LOCKSTEP_CLUSTER_H_

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_cluster_job {
  const char *name;
  const char *const *addresses;  // Indexed by task: "10.0.0.1:8470".
  size_t num_addresses;
} ls_cluster_job;

typedef struct ls_cluster_spec {
  const ls_cluster_job *jobs;
  size_t num_jobs;
} ls_cluster_spec;

// Copies a spec with all its texts; the caller destroys the copy with
// ls_cluster_spec_destroy. The copy of NULL is NULL.
LS_API LS_MUST_USE ls_status ls_cluster_spec_copy(const ls_cluster_spec *spec,
                                                  ls_cluster_spec **out_copy);
// Destroys a spec that a function of the library created. NULL is fine.
LS_API void ls_cluster_spec_destroy(ls_cluster_spec *spec);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_CLUSTER_H_
