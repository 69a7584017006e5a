// SPDX-License-Identifier: Apache-2.0
//
// Numbers and places that follow from a configuration and its system.
#include <stdio.h>

#include "estimator/config/systems.h"

const char *ls_estimator_mode_name(ls_estimator_mode mode) {
  return mode == LS_MODE_TRAIN  ? "train"
         : mode == LS_MODE_EVAL ? "eval"
                                : "predict";
}

// ---- How many --------------------------------------------------------------
ls_status ls_estimator_num_replicas(ls_estimator_context context,
                                    int64_t *out_count) {
  const ls_tpu_metadata *metadata = NULL;
  *out_count = 0;
  LS_RETURN_IF_ERROR(ls_estimator_metadata(context, &metadata));
  const int64_t cores = metadata->num_cores;
  if (!ls_estimator_is_model_parallel(context)) {
    *out_count = cores;
    return ls_ok();
  }
  const int64_t each =
      ls_estimator_config(context)->tpu->num_cores_per_replica.value;
  if (each > cores)
    return ls_invalid_argument("num_cores_per_replica is %lld, the system has "
                               "%lld cores",
                               (long long)each, (long long)cores);
  if (cores % each != 0)
    return ls_failed_precondition("num_cores_per_replica is %lld, which does "
                                  "not divide the system's %lld cores",
                                  (long long)each, (long long)cores);
  *out_count = cores / each;
  return ls_ok();
}

ls_status ls_estimator_num_hosts(ls_estimator_context context,
                                 int64_t *out_count) {
  const ls_tpu_metadata *metadata = NULL;
  *out_count = 0;
  LS_RETURN_IF_ERROR(ls_estimator_metadata(context, &metadata));
  *out_count = metadata->num_hosts;
  return ls_ok();
}

ls_status ls_estimator_replicas_per_host(ls_estimator_context context,
                                         int64_t *out_count) {
  const ls_tpu_metadata *metadata = NULL;
  *out_count = 0;
  LS_RETURN_IF_ERROR(ls_estimator_metadata(context, &metadata));
  if (!ls_estimator_is_model_parallel(context)) {
    *out_count = metadata->num_of_cores_per_host;
    return ls_ok();
  }
  int64_t replicas = 0;
  LS_RETURN_IF_ERROR(ls_estimator_num_replicas(context, &replicas));
  *out_count = replicas / metadata->num_hosts;
  return ls_ok();
}

// ---- How input is fed ------------------------------------------------------
ls_status ls_estimator_input_of(ls_estimator_context context,
                                ls_estimator_input *out_input) {
  *out_input = (ls_estimator_input){0};
  LS_RETURN_IF_ERROR(ls_estimator_check_mode(context));
  const ls_tpu_config *tpu = ls_estimator_config(context)->tpu;
  const bool trains = context.mode == LS_MODE_TRAIN;
  const ls_opt cores = tpu->num_cores_per_replica;
  out_input->per_core = trains && tpu->per_host_input == LS_INPUT_PER_SHARD_V1;
  out_input->per_host_v2 = tpu->per_host_input == LS_INPUT_PER_HOST_V2;
  out_input->sliced = !trains && tpu->eval_training_input == LS_INPUT_SLICED;
  out_input->broadcast =
      tpu->per_host_input == LS_INPUT_BROADCAST || out_input->sliced;
  if (!ls_estimator_is_model_parallel(context)) return ls_ok();
  const ls_tpu_metadata *metadata = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_metadata(context, &metadata));
  out_input->replica_across_hosts =
      cores.value > metadata->num_of_cores_per_host;
  return ls_ok();
}

ls_status ls_estimator_runs_on_cpu(ls_estimator_context context,
                                   bool *out_is_cpu) {
  const ls_estimator_facts *facts = &context.systems->facts;
  *out_is_cpu = false;
  LS_RETURN_IF_ERROR(ls_estimator_check_mode(context));
  *out_is_cpu =
      facts->use_tpu == LS_FLAG_OFF || context.exports ||
      (context.mode == LS_MODE_EVAL && facts->eval_on_tpu == LS_FLAG_OFF);
  bool *validated = &context.systems->validated[context.mode];
  if (*out_is_cpu || *validated) return ls_ok();
  LS_RETURN_IF_ERROR(ls_estimator_validate(context));
  *validated = true;
  return ls_ok();
}

// ---- Batches ---------------------------------------------------------------
ls_opt ls_estimator_batch_size(ls_estimator_context context) {
  const ls_estimator_facts *facts = &context.systems->facts;
  return context.mode == LS_MODE_TRAIN  ? facts->train_batch_size
         : context.mode == LS_MODE_EVAL ? facts->eval_batch_size
                                        : facts->predict_batch_size;
}

// Rounded up where parts that are not full are padded.
static ls_status share(ls_estimator_context context, int64_t parts,
                       ls_opt *out_size) {
  const ls_opt batch = ls_estimator_batch_size(context);
  *out_size = batch;
  if (!batch.set) return ls_ok();
  if (parts < 1)
    return ls_invalid_argument("a batch of %lld for %lld parts",
                               (long long)batch.value, (long long)parts);
  const bool more =
      context.systems->facts.any_batch && batch.value % parts != 0;
  out_size->value = batch.value / parts + more;
  return ls_ok();
}

ls_status ls_estimator_input_batch_size(ls_estimator_context context,
                                        ls_opt *out_size) {
  bool is_cpu = false;
  ls_estimator_input input;
  *out_size = (ls_opt){0};
  LS_RETURN_IF_ERROR(ls_estimator_runs_on_cpu(context, &is_cpu));
  if (is_cpu) {
    *out_size = ls_estimator_batch_size(context);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_estimator_input_of(context, &input));
  int64_t parts = 1;
  if (input.broadcast) {
    parts = 1;
  } else if (input.per_core || input.per_host_v2 ||
             input.replica_across_hosts) {
    LS_RETURN_IF_ERROR(ls_estimator_num_replicas(context, &parts));
  } else {
    LS_RETURN_IF_ERROR(ls_estimator_num_hosts(context, &parts));
  }
  return share(context, parts, out_size);
}

ls_status ls_estimator_model_batch_size(ls_estimator_context context,
                                        ls_opt *out_size) {
  bool is_cpu = false;
  ls_estimator_input input = {0};
  int64_t parts = 1;
  *out_size = (ls_opt){0};
  LS_RETURN_IF_ERROR(ls_estimator_runs_on_cpu(context, &is_cpu));
  if (!is_cpu) LS_RETURN_IF_ERROR(ls_estimator_input_of(context, &input));
  if (!is_cpu && (!input.broadcast || input.sliced))
    LS_RETURN_IF_ERROR(ls_estimator_num_replicas(context, &parts));
  return share(context, parts, out_size);
}

// ---- Where -----------------------------------------------------------------
ls_status ls_estimator_job(ls_estimator_context context, const char **out_job) {
  const char *master = NULL;
  *out_job = NULL;
  const ls_run_values *values = ls_estimator_config(context);
  LS_RETURN_IF_ERROR(ls_estimator_master(context, &master));
  if (values->tpu->tpu_job_name != NULL) {
    *out_job = values->tpu->tpu_job_name;
    return ls_ok();
  }
  // A virtual pod has no cluster, but a job.
  const ls_session_config *session = values->session_config;
  const ls_cluster_spec *cluster = session != NULL ? session->cluster : NULL;
  if (strncmp(master, "virtual:", 8) == 0 && cluster == NULL) {
    *out_job = values->resolver != NULL ? ls_tpu_resolver_job(values->resolver)
                                        : "worker";
    return ls_ok();
  }
  return ls_status_annotate(ls_tpu_placement_job(master, cluster, out_job),
                            "tpu_job_name says which it is");
}

static ls_status name_device(ls_estimator_context context, const char *alone,
                             const char *type, int64_t task, int64_t index,
                             ls_device_name *out_name) {
  const char *job = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_job(context, &job));
  const int length = job != NULL
                         ? snprintf(out_name->text, sizeof(out_name->text),
                                    "/job:%s/task:%lld/device:%s:%lld", job,
                                    (long long)task, type, (long long)index)
                         : snprintf(out_name->text, sizeof(out_name->text),
                                    "%s/task:%lld/device:%s:%lld", alone,
                                    (long long)task, type, (long long)index);
  return length < (int)sizeof(out_name->text)
             ? ls_ok()
             : ls_invalid_argument("job '%.80s' is too long for the name of a "
                                   "device",
                                   job != NULL ? job : "");
}

static ls_status host_of_replica(ls_estimator_context context, int64_t replica,
                                 int64_t *out_host) {
  const ls_tpu_metadata *metadata = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_metadata(context, &metadata));
  *out_host = metadata->num_of_cores_per_host > 0
                  ? replica / metadata->num_of_cores_per_host
                  : 0;
  return ls_ok();
}

ls_status ls_estimator_place_host(ls_estimator_context context, ls_opt host,
                                  ls_opt replica, ls_device_name *out_name) {
  *out_name = (ls_device_name){0};
  LS_RETURN_IF_ERROR(ls_estimator_check_mode(context));
  if (host.set && replica.set)
    return ls_failed_precondition("the place of a host is asked for by host "
                                  "%lld and by replica %lld",
                                  (long long)host.value,
                                  (long long)replica.value);
  const char *job = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_job(context, &job));
  int64_t at = host.value;
  if (replica.set && ls_estimator_is_model_parallel(context)) {
    ls_device_assignment *assignment = NULL;
    LS_RETURN_IF_ERROR(ls_estimator_assignment(context, &assignment));
    return ls_device_assignment_host(assignment, (int32_t)replica.value, 0, job,
                                     out_name);
  }
  if (replica.set)
    LS_RETURN_IF_ERROR(host_of_replica(context, replica.value, &at));
  return name_device(context, "/replica:0", "CPU", job != NULL ? at : 0, 0,
                     out_name);
}

ls_status ls_estimator_place_core(ls_estimator_context context, int64_t core,
                                  ls_device_name *out_name) {
  const ls_tpu_metadata *metadata = NULL;
  *out_name = (ls_device_name){0};
  LS_RETURN_IF_ERROR(ls_estimator_metadata(context, &metadata));
  const int64_t each = metadata->num_of_cores_per_host;
  if (core < 0 || core >= metadata->num_cores)
    return ls_invalid_argument("core %lld of a system with %d", (long long)core,
                               metadata->num_cores);
  return name_device(context, "", "TPU", core / each, core % each, out_name);
}

ls_status ls_estimator_ordinal(ls_estimator_context context, int64_t host,
                               int64_t shard, int64_t *out_ordinal) {
  const ls_tpu_metadata *metadata = NULL;
  ls_device_assignment *assignment = NULL;
  *out_ordinal = 0;
  LS_RETURN_IF_ERROR(ls_estimator_metadata(context, &metadata));
  if (shard < 0 || metadata->num_of_cores_per_host < 1)
    return ls_invalid_argument("shard %lld of a host with %d cores",
                               (long long)shard,
                               metadata->num_of_cores_per_host);
  if (!ls_estimator_is_model_parallel(context)) {
    *out_ordinal = shard % metadata->num_of_cores_per_host;
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_estimator_assignment(context, &assignment));
  const size_t most = (size_t)ls_device_assignment_num_replicas(assignment);
  ls_allocator *allocator = ls_runtime_allocator(context.systems->runtime);
  int32_t *replicas = ls_new_array(allocator, int32_t, most);
  if (replicas == NULL) return ls_out_of_memory();
  size_t count = 0;
  int32_t ordinal = 0;
  ls_status status = ls_device_assignment_replicas_on(
      assignment, (int32_t)host, 0, replicas, most, &count);
  if (ls_status_is_ok(status))
    status =
        (size_t)shard < count
            ? ls_device_assignment_ordinal(assignment, replicas[shard], 0,
                                           &ordinal)
            : ls_invalid_argument("shard %lld of host %lld, which has the "
                                  "first cores of %zu replicas",
                                  (long long)shard, (long long)host, count);
  ls_release(allocator, replicas);
  *out_ordinal = ordinal;
  return status;
}

ls_status ls_estimator_device_for_replica(ls_estimator_context context,
                                          int64_t replica,
                                          ls_device_name *out_host,
                                          int64_t *out_ordinal) {
  int64_t count = 0, each = 0;
  *out_host = (ls_device_name){0};
  *out_ordinal = 0;
  LS_RETURN_IF_ERROR(ls_estimator_num_replicas(context, &count));
  if (replica < 0 || replica >= count)
    return ls_invalid_argument("replica %lld of %lld", (long long)replica,
                               (long long)count);
  if (ls_estimator_is_model_parallel(context)) {
    ls_device_assignment *assignment = NULL;
    const char *job = NULL;
    int32_t ordinal = 0;
    LS_RETURN_IF_ERROR(ls_estimator_job(context, &job));
    LS_RETURN_IF_ERROR(ls_estimator_assignment(context, &assignment));
    LS_RETURN_IF_ERROR(ls_device_assignment_host(assignment, (int32_t)replica,
                                                 0, job, out_host));
    LS_RETURN_IF_ERROR(ls_device_assignment_ordinal(
        assignment, (int32_t)replica, 0, &ordinal));
    *out_ordinal = ordinal;
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_estimator_replicas_per_host(context, &each));
  *out_ordinal = replica % each;
  return name_device(context, "", "CPU", replica / each, 0, out_host);
}
