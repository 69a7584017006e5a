// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Configuration of estimators: what they write and when, the role of this
// process in a cluster, and the use of a TPU system.
//
// A configuration never changes; replacing fields makes a new one. Creating one
// reads the environment's TF_CONFIG, JSON:
//   {"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]},
//    "task": {"type": "worker", "index": 1},
//    "service": {"tpu_worker_job_name": "w"}, "model_dir": "/runs",
//    "session_master": "", "eval_session_master": ""}
// Every part may be left out. Addresses are parsed and shown; nothing is
// connected to.
//
// Threads: any number of threads may read a configuration at the same time.
#ifndef LOCKSTEP_ESTIMATOR_CONFIG_H_
#define LOCKSTEP_ESTIMATOR_CONFIG_H_

#include "lockstep/tpu_strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Use of a TPU system ---------------------------------------------------
// Ways in which input reaches the cores.
typedef enum ls_input_pipeline {
  LS_INPUT_PER_SHARD_V1 = 1,
  LS_INPUT_PER_HOST_V1 = 2,
  LS_INPUT_PER_HOST_V2 = 3,
  LS_INPUT_BROADCAST = 4,
  LS_INPUT_SLICED = 5,
} ls_input_pipeline;
// Returns the pipeline that a plain yes or no means.
static inline ls_input_pipeline ls_input_per_host(bool yes) {
  return yes ? LS_INPUT_PER_HOST_V1 : LS_INPUT_PER_SHARD_V1;
}

// Zero in a field means its default, or unset if it has none.
typedef struct ls_tpu_config {
  // Steps per run, or the intended duration of a run: "100", "30s", "5m", "1h".
  // Default "2".
  const char *iterations_per_loop;
  // Number of replicas of the system, which is checked. 1, without
  // num_cores_per_replica: uses one core of it.
  ls_opt num_shards;
  // One of 1, 2, 4, 8, 16, 32, 64 and 128.
  ls_opt num_cores_per_replica;
  // Job of the system's workers, and of virtual pods whose masters are given by
  // name: estimators that work at the same time need a job each. With a
  // resolver of such a pod or of the local system it is the resolver's.
  // Default: from the environment.
  const char *tpu_job_name;
  // Initial delay of the infeed thread. Default: none.
  ls_opt initial_infeed_sleep_secs;
  // Partitions of features, and labels, over a replica's cores: a list of one
  // or two, lent. Needs LS_INPUT_PER_HOST_V2 and num_cores_per_replica.
  ls_nest input_partition_dims;
  // Not LS_INPUT_SLICED. Default LS_INPUT_PER_HOST_V1.
  ls_input_pipeline per_host_input;
  // LS_INPUT_SLICED: in evaluations and predictions one host reads, and each
  // replica gets a part. LS_INPUT_PER_HOST_V1, the default: as per_host_input,
  // whatever that is.
  ls_input_pipeline eval_training_input;
  // Interval of the host call in a training: steps 0, n, 2 n, ... of a run.
  // Default 1.
  ls_opt host_call_every_n_steps;
  // Allows a host's replicas to take the elements of its iterator in any order.
  // Default off.
  ls_flag parallel_get_next;
} ls_tpu_config;

// Parsed value of iterations_per_loop: one of the two, the other 0.
typedef struct ls_loop_length {
  int64_t steps, seconds;
} ls_loop_length;
// Parses iterations_per_loop.
//   LS_INVALID_ARGUMENT  neither a positive count nor a positive number of s, m
//                        or h; numbers have no sign and no leading zero.
LS_API LS_MUST_USE ls_status ls_loop_length_parse(const char *text,
                                                  ls_loop_length *out_length);

// ---- Configurations --------------------------------------------------------
// A reference-counted object.
typedef struct ls_run_config ls_run_config;

// Zero in a field means its default, or unset if it has none. Everything is
// copied; objects are retained.
typedef struct ls_run_config_options {
  const char *model_dir;
  // Seed of everything random in a call, on CPUs, on cores and in a strategy:
  // of its input's iterators, and of the graph that it builds or exports
  // (ls_graph_set_seed), and so of random ops and initial values, combined with
  // their own seeds. Default 0.
  ls_opt random_seed;
  ls_opt save_summary_steps;  // Default 100.
  // At most one of the two; with neither a checkpoint every 600 seconds, unless
  // `checkpoints` is off: then none.
  ls_opt save_checkpoints_steps, save_checkpoints_secs;
  ls_flag checkpoints;
  const ls_session_config *session_config;
  ls_opt keep_checkpoint_max;            // Default 5; 0: all.
  ls_opt keep_checkpoint_every_n_hours;  // Default 10000.
  // Default 100, unless `log_step_count` is off: then it is unset, and neither
  // log lines nor event files report the speed of steps.
  ls_opt log_step_count_steps;
  ls_flag log_step_count;
  ls_opt session_creation_timeout_secs;  // Default 7200.
  ls_flag checkpoint_save_graph_def;     // Default on.
  // "grpc" or "grpc+verbs": kept for programs that connect.
  const char *protocol;
  // Training, and evaluation, run in the scope of these.
  ls_strategy *train_distribute, *eval_distribute;

  // The following fields are for ls_tpu_run_config_create only.
  const ls_tpu_config *tpu;
  ls_tpu_resolver *resolver;
  const char *master, *evaluation_master;  // "" counts as given.
} ls_run_config_options;

// Values of a configuration. An ls_opt that is not set and a NULL are unset.
typedef struct ls_run_values {
  const char *model_dir;
  ls_opt random_seed;
  ls_opt save_summary_steps;
  ls_opt save_checkpoints_steps, save_checkpoints_secs;
  const ls_session_config *session_config;
  ls_opt keep_checkpoint_max, keep_checkpoint_every_n_hours;
  ls_opt log_step_count_steps, session_creation_timeout_secs;
  bool checkpoint_save_graph_def;
  const char *protocol;
  ls_strategy *train_distribute, *eval_distribute;

  // Role of this process. Without a cluster: worker 0, the chief.
  const ls_cluster_spec *cluster;  // Without jobs: none.
  const char *task_type;
  int32_t task_id;
  const char *master, *evaluation_master;
  bool is_chief;
  int32_t num_ps, num_workers;  // The chief counts as a worker.
  // Rank in the cluster: the chief is 0, then come other tasks by job and
  // index, then those of job "ps". Unset for an evaluator, which belongs to no
  // cluster.
  ls_opt global_id;

  // Configuration of a TPU run, with its defaults; else NULL.
  const ls_tpu_config *tpu;
  ls_tpu_resolver *resolver;
} ls_run_values;

// Creates a configuration; `options` may be NULL. The caller owns a reference.
//   LS_INVALID_ARGUMENT  names the field, or the problem in TF_CONFIG.
LS_API LS_MUST_USE ls_status ls_run_config_create(
    const ls_run_config_options *options, ls_run_config **out_config);
// Creates a configuration for a TPU system. With a resolver the master is that
// of its system, and sessions use its cluster.
LS_API LS_MUST_USE ls_status ls_tpu_run_config_create(
    const ls_run_config_options *options, ls_run_config **out_config);
LS_API ls_run_config *ls_run_config_retain(ls_run_config *config);
LS_API void ls_run_config_release(ls_run_config *config);  // NULL is fine.
// Lent for the configuration's life.
LS_API const ls_run_values *ls_run_config_values(const ls_run_config *config);

// Copies a configuration with the named fields set as in `values`, where a
// value that is not given means unset. Giving one checkpoint interval unsets
// the other. The fields are those of ls_run_config_options down to the
// strategies, except `checkpoints` and `log_step_count`; of a TPU run also
// `tpu_config` (`tpu`). The caller owns a reference.
//   LS_INVALID_ARGUMENT  an unknown field: lists the known ones; and as
//                        ls_run_config_create.
LS_API LS_MUST_USE ls_status ls_run_config_replace(
    const ls_run_config *config, const char *const *fields, size_t num_fields,
    const ls_run_config_options *values, ls_run_config **out_config);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_CONFIG_H_
