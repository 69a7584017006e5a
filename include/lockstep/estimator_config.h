// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// How an estimator runs: what it writes and when, which process of a cluster
// this is, and how it uses a TPU system.
//
// A configuration never changes; replacing fields makes another one. The
// environment's TF_CONFIG, JSON, is read when one is made:
//   {"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]},
//    "task": {"type": "worker", "index": 1},
//    "service": {"tpu_worker_job_name": "w"}, "model_dir": "/runs",
//    "session_master": "", "eval_session_master": ""}
// All of it may be left out. Addresses are parsed and shown; nothing is
// connected to.
//
// Threads: any number of threads look at a configuration at the same time.
#ifndef LOCKSTEP_ESTIMATOR_CONFIG_H_
#define LOCKSTEP_ESTIMATOR_CONFIG_H_

#include "lockstep/tpu_strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Use of a TPU system ---------------------------------------------------
// How input reaches the cores.
typedef enum ls_input_pipeline {
  LS_INPUT_PER_SHARD_V1 = 1,
  LS_INPUT_PER_HOST_V1 = 2,
  LS_INPUT_PER_HOST_V2 = 3,
  LS_INPUT_BROADCAST = 4,
  LS_INPUT_SLICED = 5,
} ls_input_pipeline;
// What is meant by a plain yes or no.
static inline ls_input_pipeline ls_input_per_host(bool yes) {
  return yes ? LS_INPUT_PER_HOST_V1 : LS_INPUT_PER_SHARD_V1;
}

// Zero in a field means its default, or that it is unset where there is none.
typedef struct ls_tpu_config {
  // Steps of a run, or how long a run is to take: "100", "30s", "5m", "1h".
  // Default "2".
  const char *iterations_per_loop;
  // How many replicas the system has, which is checked. 1, without
  // num_cores_per_replica: one core of it is used.
  ls_opt num_shards;
  // One of 1, 2, 4, 8, 16, 32, 64 and 128.
  ls_opt num_cores_per_replica;
  // The job of the system's workers, and of virtual pods that are masters by
  // name: estimators that work at the same time need a job each. With a
  // resolver of such a pod or of the local system it is the resolver's.
  // Default: from the environment.
  const char *tpu_job_name;
  // How long the thread that feeds waits at first. Default: not at all.
  ls_opt initial_infeed_sleep_secs;
  // How features, and labels, are cut over a replica's cores: a list of one or
  // two, lent. Needs LS_INPUT_PER_HOST_V2 and num_cores_per_replica.
  ls_nest input_partition_dims;
  ls_input_pipeline per_host_input;  // Default LS_INPUT_PER_HOST_V1.
  // The same default; or LS_INPUT_SLICED: one host reads, and each replica gets
  // a part.
  ls_input_pipeline eval_training_input;
  // In a training the host call is of steps 0, n, 2 n, ... of a run. Default 1.
  ls_opt host_call_every_n_steps;
  // Replicas of a host need not take the elements of its iterator in their
  // order. Default off.
  ls_flag parallel_get_next;
} ls_tpu_config;

// What iterations_per_loop says: a number of either, else 0.
typedef struct ls_loop_length {
  int64_t steps, seconds;
} ls_loop_length;
//   LS_INVALID_ARGUMENT  neither a positive count nor a positive number of s, m
//                        or h; numbers have no sign and no leading zero.
LS_API LS_MUST_USE ls_status ls_loop_length_parse(const char *text,
                                                  ls_loop_length *out_length);

// ---- Configurations --------------------------------------------------------
// A counted object.
typedef struct ls_run_config ls_run_config;

// Zero in a field means its default, or that it is unset where there is none.
// All is copied, objects are retained.
typedef struct ls_run_config_options {
  const char *model_dir;
  // Of all that a call draws, on CPUs, on cores and in a strategy: the seed of
  // its input's iterators, and of the graph that it builds or exports
  // (ls_graph_set_seed), so of random ops and of initial values, beside seeds
  // of their own. Default 0.
  ls_opt random_seed;
  ls_opt save_summary_steps;  // Default 100.
  // One of both; with neither a checkpoint each 600 seconds, unless
  // `checkpoints` is off: then there are none.
  ls_opt save_checkpoints_steps, save_checkpoints_secs;
  ls_flag checkpoints;
  const ls_session_config *session_config;
  ls_opt keep_checkpoint_max;            // Default 5; 0: all.
  ls_opt keep_checkpoint_every_n_hours;  // Default 10000.
  // Default 100, unless `log_step_count` is off: then it is unset, and no lines
  // and no event files tell how fast steps are.
  ls_opt log_step_count_steps;
  ls_flag log_step_count;
  ls_opt session_creation_timeout_secs;  // Default 7200.
  ls_flag checkpoint_save_graph_def;     // Default on.
  const char *protocol;  // "grpc" or "grpc+verbs": kept for who connects.
  // Training, and evaluating, go on in the scope of these.
  ls_strategy *train_distribute, *eval_distribute;

  // What follows is for ls_tpu_run_config_create alone.
  const ls_tpu_config *tpu;
  ls_tpu_resolver *resolver;
  const char *master, *evaluation_master;  // "" counts as given.
} ls_run_config_options;

// What a configuration is. An ls_opt that is not set and a NULL are unset.
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

  // Who this process is. Without a cluster: worker 0, the chief.
  const ls_cluster_spec *cluster;  // Without jobs: none.
  const char *task_type;
  int32_t task_id;
  const char *master, *evaluation_master;
  bool is_chief;
  int32_t num_ps, num_workers;  // The chief is a worker.
  // The chief's is 0, then come other tasks by job and index, then those of
  // job "ps". Unset: an evaluator, who is in no cluster.
  ls_opt global_id;

  // Of a TPU run, with its defaults; else NULL.
  const ls_tpu_config *tpu;
  ls_tpu_resolver *resolver;
} ls_run_values;

// Makes one; `options` may be NULL. The caller owns a reference.
//   LS_INVALID_ARGUMENT  names the field, or what is wrong with TF_CONFIG.
LS_API LS_MUST_USE ls_status ls_run_config_create(
    const ls_run_config_options *options, ls_run_config **out_config);
// The same of a run on a TPU system. With a resolver the master is that of its
// system, and sessions have its cluster.
LS_API LS_MUST_USE ls_status ls_tpu_run_config_create(
    const ls_run_config_options *options, ls_run_config **out_config);
LS_API ls_run_config *ls_run_config_retain(ls_run_config *config);
LS_API void ls_run_config_release(ls_run_config *config);  // NULL is fine.
// Lent for the configuration's life.
LS_API const ls_run_values *ls_run_config_values(const ls_run_config *config);

// A copy in which the fields of these names are as in `values`, where what is
// not given means unset. A checkpoint interval that is given unsets the other.
// The fields are those of ls_run_config_options down to the strategies, but for
// `checkpoints` and `log_step_count`; of a TPU run also `tpu_config` (`tpu`).
//   LS_INVALID_ARGUMENT  another field: lists those that there are; and as when
//                        making one.
LS_API LS_MUST_USE ls_status ls_run_config_replace(
    const ls_run_config *config, const char *const *fields, size_t num_fields,
    const ls_run_config_options *values, ls_run_config **out_config);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_CONFIG_H_
