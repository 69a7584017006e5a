// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Clusters: addresses of processes, by job and task, and the place of a process
// among those that train together.
//
// Threads: any number of threads may read a spec at the same time.
#ifndef LOCKSTEP_CLUSTER_H_
#define LOCKSTEP_CLUSTER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/device_name.h"
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

// ---- Training clusters -----------------------------------------------------
// A task's place in a cluster whose jobs are "chief", "worker", "evaluator" and
// "ps". The workers are the chief, if there is one, and the tasks of "worker".
typedef struct ls_cluster_task {
  // True for the chief, without one for worker 0. An evaluator is its own.
  bool is_chief;
  // Number among the workers, the chief first; an evaluator's is its task id,
  // a "ps" has -1.
  int32_t id;
  int32_t num_workers;  // For an evaluator the number of evaluators.
} ls_cluster_task;
// Finds a task's place.
//   LS_INVALID_ARGUMENT  another job; a job twice; several chiefs or
//                        evaluators; no such task: names it.
LS_API LS_MUST_USE ls_status ls_cluster_find_task(const ls_cluster_spec *spec,
                                                  const char *task_type,
                                                  int32_t task_id,
                                                  ls_cluster_task *out_task);
// Lists the devices of all workers: writes up to `capacity` names such as
// "/job:worker/task:1/device:GPU:0", `gpus` for each worker, without GPUs one
// CPU. `*out_count` is their number.
//   LS_INVALID_ARGUMENT  gpus below 0; a cluster as above.
LS_API LS_MUST_USE ls_status ls_cluster_devices(const ls_cluster_spec *spec,
                                                int32_t gpus,
                                                ls_device_name *devices,
                                                size_t capacity,
                                                size_t *out_count);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_CLUSTER_H_
