// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Clusters: addresses of processes, by job and task.
//
// Threads: of a spec any number of threads may read at the same time.
#ifndef LOCKSTEP_CLUSTER_H_
#define LOCKSTEP_CLUSTER_H_

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_cluster_job {
  const char *name;
  const char *const *addresses;  // By task: "10.0.0.1:8470".
  size_t num_addresses;
} ls_cluster_job;

typedef struct ls_cluster_spec {
  const ls_cluster_job *jobs;
  size_t num_jobs;
} ls_cluster_spec;

// A copy with all its texts, given back with ls_cluster_spec_destroy. That of
// NULL is NULL.
LS_API LS_MUST_USE ls_status ls_cluster_spec_copy(const ls_cluster_spec *spec,
                                                  ls_cluster_spec **out_copy);
// Of one that a function of ours has made. NULL is fine.
LS_API void ls_cluster_spec_destroy(ls_cluster_spec *spec);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_CLUSTER_H_
