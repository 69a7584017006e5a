// SPDX-License-Identifier: Apache-2.0
//
// Mirrored strategies over the workers of a cluster, one rank each.
#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/kinds/mirrored.h"
#include "lockstep/communicator.h"

static ls_status check_local(const ls_mirrored_options *local) {
  return local == NULL || local->devices == NULL
             ? ls_ok()
             : ls_invalid_argument("a strategy is given both a cluster and "
                                   "devices: workers have num_replicas or "
                                   "num_gpus");
}

static ls_status find_worker(const ls_worker_options *worker,
                             ls_cluster_task *out_task) {
  const char *type = worker->task_type;
  if (type == NULL || !worker->task_id.set)
    return ls_invalid_argument("a strategy on a cluster needs task_type and "
                               "task_id");
  LS_RETURN_IF_ERROR(ls_cluster_find_task(
      worker->cluster, type, (int32_t)worker->task_id.value, out_task));
  return strcmp(type, "chief") == 0 || strcmp(type, "worker") == 0
             ? ls_ok()
             : ls_invalid_argument("task '%s' of a cluster is no worker: it "
                                   "takes no part in a strategy",
                                   type);
}

static ls_status check_rank(const ls_runtime *runtime,
                            const ls_cluster_task *task) {
  const ls_communicator *communicator = ls_runtime_communicator(runtime);
  const int32_t ranks = communicator != NULL ? communicator->ranks : 1;
  const int32_t rank = communicator != NULL ? communicator->rank : 0;
  if (ranks != task->num_workers)
    return ls_failed_precondition("the cluster has %d workers, the runtime %d "
                                  "ranks",
                                  task->num_workers, ranks);
  return rank == task->id
             ? ls_ok()
             : ls_failed_precondition("worker %d of the cluster is rank %d of "
                                      "the runtime",
                                      task->id, rank);
}

ls_status ls_multi_worker_strategy_create(const ls_mirrored_options *local,
                                          const ls_worker_options *worker,
                                          ls_strategy **out_strategy) {
  LS_REQUIRE_OUT(out_strategy);
  LS_REQUIRE(worker);
  LS_REQUIRE(worker->cluster);
  ls_cluster_task task;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(check_local(local));
  LS_RETURN_IF_ERROR(find_worker(worker, &task));
  LS_RETURN_IF_ERROR(check_rank(runtime, &task));
  const ls_mirrored_workers workers = {worker->cluster, task.num_workers,
                                       task.id, worker->collective};
  return ls_mirrored_make(local, &workers, out_strategy);
}
