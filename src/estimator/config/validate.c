// SPDX-License-Identifier: Apache-2.0
//
// Whether what was configured fits the system, checked in a fixed order.
#include "base/text.h"
#include "estimator/config/systems.h"

// ---- The system ------------------------------------------------------------
static ls_status refuse_system(ls_estimator_context context,
                               const ls_tpu_metadata *metadata) {
  enum { SHOWN = 16 };
  const char *master = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_master(context, &master));
  ls_text text;
  ls_text_init(&text, ls_runtime_allocator(context.systems->runtime));
  for (size_t i = 0; i < metadata->num_devices && i < SHOWN; ++i)
    ls_text_append_format(&text, "%s%s", i == 0 ? "" : ", ",
                          metadata->devices[i].text);
  const ls_status status =
      ls_not_found("the system at '%s' has no TPU: its devices are %s", master,
                   ls_text_data(&text));
  ls_text_deinit(&text);
  return status;
}

static ls_status check_shards(ls_estimator_context context, int64_t replicas) {
  const ls_opt shards = ls_estimator_config(context)->tpu->num_shards;
  const char *master = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_master(context, &master));
  return !shards.set || shards.value == replicas
             ? ls_ok()
             : ls_invalid_argument("num_shards is not set correctly for the "
                                   "system at '%s': expected %lld, got %lld",
                                   master, (long long)replicas,
                                   (long long)shards.value);
}

static ls_status check_cores(ls_estimator_context context,
                             const ls_tpu_metadata *metadata,
                             ls_estimator_input input) {
  const ls_opt cores = ls_estimator_config(context)->tpu->num_cores_per_replica;
  return !input.replica_across_hosts || input.per_host_v2
             ? ls_ok()
             : ls_invalid_argument("num_cores_per_replica is %lld, a host has "
                                   "%d cores: only with PER_HOST_V2 a replica "
                                   "is on several hosts",
                                   (long long)cores.value,
                                   metadata->num_of_cores_per_host);
}

// ---- The mode --------------------------------------------------------------
static ls_status check_batch(ls_estimator_context context, int64_t replicas,
                             bool broadcast) {
  const ls_opt batch = ls_estimator_batch_size(context);
  const char *mode = ls_estimator_mode_name(context.mode);
  if (!batch.set)
    return context.mode == LS_MODE_TRAIN
               ? ls_ok()
               : ls_invalid_argument("%s_batch_size was not given when the "
                                     "estimator was made: on TPUs it is needed "
                                     "(from the command: --batch-size N)",
                                     mode);
  return broadcast || context.systems->facts.any_batch ||
                 batch.value % replicas == 0
             ? ls_ok()
             : ls_invalid_argument("the %s batch size %lld is not divisible "
                                   "by %lld replicas",
                                   mode, (long long)batch.value,
                                   (long long)replicas);
}

static ls_status check_hosts(ls_estimator_context context, int64_t hosts,
                             int64_t replicas, ls_estimator_input input) {
  const bool predicts = context.mode == LS_MODE_PREDICT;
  if (hosts <= 1 || context.mode == LS_MODE_TRAIN || input.broadcast)
    return ls_ok();
  if (input.per_host_v2 && (!predicts || replicas == 1)) {
    if (!predicts)
      ls_runtime_log(context.systems->runtime, LS_LOG_WARNING, "estimator",
                     "evaluating on %lld hosts with PER_HOST_V2: each host "
                     "has its own input, %s",
                     (long long)hosts,
                     context.systems->facts.any_batch
                         ? "which may end before the others"
                         : "and the first that ends ends the evaluation");
    return ls_ok();
  }
  return ls_invalid_argument(
      "mode %s on %lld hosts with %lld replicas: allowed are one host; input "
      "that is BROADCAST or SLICED; PER_HOST_V2 for eval, and for predict with "
      "one replica",
      ls_estimator_mode_name(context.mode), (long long)hosts,
      (long long)replicas);
}

ls_status ls_estimator_validate(ls_estimator_context context) {
  const ls_tpu_metadata *metadata = NULL;
  ls_estimator_input input;
  int64_t replicas = 0;
  LS_RETURN_IF_ERROR(ls_estimator_num_replicas(context, &replicas));
  LS_RETURN_IF_ERROR(ls_estimator_metadata(context, &metadata));
  LS_RETURN_IF_ERROR(ls_estimator_input_of(context, &input));
  if (metadata->num_cores == 0) return refuse_system(context, metadata);
  LS_RETURN_IF_ERROR(check_shards(context, replicas));
  LS_RETURN_IF_ERROR(check_cores(context, metadata, input));
  LS_RETURN_IF_ERROR(check_batch(context, replicas, input.broadcast));
  return check_hosts(context, metadata->num_hosts, replicas, input);
}
