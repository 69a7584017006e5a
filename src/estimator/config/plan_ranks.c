// SPDX-License-Identifier: Apache-2.0
// Hosts, feeders and replicas of a plan on ranks.
#include "base/runtime_internal.h"
#include "estimator/config/plan.h"

static ls_communicator *shared_runtime(const ls_plan *plan) {
  ls_communicator *ranks = ls_runtime_communicator(plan->runtime);
  return ranks != NULL && ranks->ranks > 1 ? ranks : NULL;
}

ls_communicator *ls_plan_ranks(const ls_plan *plan) {
  return plan->on_cpu ? NULL : shared_runtime(plan);
}

int32_t ls_plan_feeder_rank(const ls_plan *plan, int64_t feeder) {
  const ls_communicator *ranks = ls_plan_ranks(plan);
  if (ranks == NULL || plan->input.broadcast) return 0;
  return (int32_t)(ls_plan_feeder_host(plan, feeder) * ranks->ranks /
                   plan->system->num_hosts);
}

int32_t ls_plan_fed_from(const ls_plan *plan, int64_t replica) {
  const bool each = plan->input.per_replica;
  return ls_plan_feeder_rank(plan, each ? replica
                                        : plan->system->replicas[replica].host);
}

int32_t ls_plan_replica_rank(const ls_plan *plan, int64_t replica) {
  const ls_communicator *ranks = ls_plan_ranks(plan);
  return ranks == NULL
             ? 0
             : ls_communicator_find(ranks, (int32_t)replica,
                                    (int32_t)plan->system->num_replicas);
}

int32_t ls_plan_rank(const ls_plan *plan) {
  const ls_communicator *ranks = ls_plan_ranks(plan);
  return ranks != NULL ? ranks->rank : 0;
}

bool ls_plan_leads(const ls_plan *plan) { return ls_plan_rank(plan) == 0; }

ls_status ls_plan_check_ranks(const ls_plan *plan) {
  const ls_communicator *ranks = shared_runtime(plan);
  if (ranks == NULL) return ls_ok();
  // A model alone is each rank's own.
  if (plan->on_cpu && plan->strategy == NULL && plan->mode != LS_MODE_TRAIN)
    return ls_ok();
  if (plan->on_cpu || plan->mode == LS_MODE_PREDICT)
    return ls_unimplemented(
        "an estimator on %d ranks trains and evaluates on the cores of a TPU "
        "system only, and does not predict (from the command: use "
        "--tpu virtual:2x2, without --replicas)",
        ranks->ranks);
  if (ls_plan_is_model_parallel(plan))
    return ls_unimplemented("replicas of several cores on %d ranks",
                            ranks->ranks);
  return plan->system->num_replicas >= ranks->ranks
             ? ls_ok()
             : ls_invalid_argument(
                   "%lld cores on %d ranks: each hosts one or more",
                   (long long)plan->system->num_replicas, ranks->ranks);
}
