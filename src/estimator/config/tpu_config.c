// SPDX-License-Identifier: Apache-2.0
//
// Options of an estimator on a TPU system: checks and defaults.
#include "base/require.h"
#include "estimator/config/config.h"
#include "tpu/system/resolver.h"

// ---- Lengths of loops ------------------------------------------------------
static ls_status bad_length(const char *text) {
  return ls_invalid_argument("iterations_per_loop '%.80s' must be positive: a "
                             "count, or a number of s, m or h such as '30s'",
                             text);
}

ls_status ls_loop_length_parse(const char *text, ls_loop_length *out_length) {
  LS_REQUIRE_OUT(out_length);
  static const char units[] = "smh";
  static const int64_t seconds[] = {1, 60, 3600};
  LS_REQUIRE(text);
  int64_t number = 0;
  const char *at = text;
  if (*at < '1' || *at > '9') return bad_length(text);
  for (; *at >= '0' && *at <= '9'; ++at)
    if (__builtin_mul_overflow(number, 10, &number) ||
        __builtin_add_overflow(number, *at - '0', &number))
      return bad_length(text);
  if (*at == '\0') {
    out_length->steps = number;
    return ls_ok();
  }
  const char *unit = strchr(units, *at);
  if (unit == NULL || at[1] != '\0' ||
      __builtin_mul_overflow(number, seconds[unit - units], &number))
    return bad_length(text);
  out_length->seconds = number;
  return ls_ok();
}

// ---- Checks ----------------------------------------------------------------
static ls_status tpu_config_check_cores(ls_opt cores) {
  static const int64_t possible[] = {1, 2, 4, 8, 16, 32, 64, 128};
  if (!cores.set) return ls_ok();
  for (size_t i = 0; i < LS_COUNT_OF(possible); ++i)
    if (cores.value == possible[i]) return ls_ok();
  return ls_invalid_argument("num_cores_per_replica is %lld, must be one of 1, "
                             "2, 4, 8, 16, 32, 64, 128",
                             (long long)cores.value);
}

static ls_status check_pipeline(ls_input_pipeline pipeline) {
  if (pipeline == LS_INPUT_SLICED)
    return ls_invalid_argument(
        "per_host_input is SLICED, which is for evaluations and predictions: "
        "set eval_training_input");
  return pipeline >= LS_INPUT_PER_SHARD_V1 && pipeline <= LS_INPUT_BROADCAST
             ? ls_ok()
             : ls_invalid_argument(
                   "per_host_input %d is no way of input: 1 to 4 are",
                   (int)pipeline);
}

static ls_status check_partition(const ls_tpu_config *tpu) {
  const ls_nest dims = tpu->input_partition_dims;
  if (dims.kind == LS_KIND_NONE) return ls_ok();
  const size_t count = ls_nest_is_node(dims) ? ls_nest_count(dims) : 0;
  if (dims.kind == LS_KIND_DICT || count < 1 || count > 2)
    return ls_invalid_argument("input_partition_dims has %zu elements, must be "
                               "a list of one or two: of features, and labels",
                               count);
  if (tpu->per_host_input != LS_INPUT_PER_HOST_V2)
    return ls_invalid_argument(
        "input_partition_dims needs PER_HOST_V2 as per_host_input");
  return tpu->num_cores_per_replica.set
             ? ls_ok()
             : ls_invalid_argument(
                   "input_partition_dims needs num_cores_per_replica");
}

static ls_status tpu_config_check(const ls_tpu_config *tpu) {
  ls_loop_length length;
  const ls_opt shards = tpu->num_shards, calls = tpu->host_call_every_n_steps;
  const ls_opt sleep = tpu->initial_infeed_sleep_secs;
  LS_RETURN_IF_ERROR(ls_loop_length_parse(tpu->iterations_per_loop, &length));
  if (shards.set)
    LS_RETURN_IF_ERROR(ls_check_positive("num_shards", shards.value));
  LS_RETURN_IF_ERROR(check_pipeline(tpu->per_host_input));
  LS_RETURN_IF_ERROR(check_partition(tpu));
  LS_RETURN_IF_ERROR(tpu_config_check_cores(tpu->num_cores_per_replica));
  if (sleep.set && sleep.value < 0)
    return ls_invalid_argument(
        "initial_infeed_sleep_secs must be positive, got %lld",
        (long long)sleep.value);
  if (tpu->eval_training_input != LS_INPUT_PER_HOST_V1 &&
      tpu->eval_training_input != LS_INPUT_SLICED)
    return ls_invalid_argument(
        "eval_training_input is %d, must be PER_HOST_V1 (2) or SLICED (5)",
        (int)tpu->eval_training_input);
  if (calls.set)
    LS_RETURN_IF_ERROR(
        ls_check_positive("host_call_every_n_steps", calls.value));
  return (unsigned)tpu->parallel_get_next <= LS_FLAG_OFF
             ? ls_ok()
             : ls_invalid_argument("parallel_get_next %d is no flag",
                                   (int)tpu->parallel_get_next);
}

// ---- Defaults --------------------------------------------------------------
ls_status ls_run_config_find_job(ls_run_config *config) {
  ls_tpu_config *tpu = &config->tpu;
  if (tpu->tpu_job_name != NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_run_config_find_service(config, "tpu_worker_job_name",
                                                &tpu->tpu_job_name));
  if (tpu->tpu_job_name != NULL)
    ls_runtime_log(config->runtime, LS_LOG_INFO, "estimator",
                   "tpu_job_name is '%s', from TF_CONFIG", tpu->tpu_job_name);
  return ls_ok();
}

// Checks that the configured job, which is in device names, equals the
// resolver's job, by which the system is found.
ls_status ls_run_config_check_job(const ls_run_config *config) {
  const ls_tpu_resolver *resolver = config->values.resolver;
  const char *wanted = config->tpu.tpu_job_name;
  if (resolver == NULL || wanted == NULL || !ls_tpu_is_pod(resolver))
    return ls_ok();
  const char *job = ls_job_text(ls_tpu_pod_job(resolver));
  return strcmp(job, wanted) == 0
             ? ls_ok()
             : ls_invalid_argument(
                   "tpu_job_name is '%s', and the resolver's TPU system '%s' "
                   "is of job %s: leave tpu_job_name unset, or make a resolver "
                   "of that job (ls_tpu_resolver_options.job)",
                   wanted, ls_tpu_pod_name(resolver), job);
}

ls_status ls_run_config_set_tpu(ls_run_config *config,
                                const ls_tpu_config *given) {
  static const ls_tpu_config defaults;
  if (given == NULL) given = &defaults;
  ls_tpu_config *tpu = &config->tpu;
  ls_nest_release(tpu->input_partition_dims);
  *tpu = *given;
  ls_nest_retain(tpu->input_partition_dims);
  if (tpu->per_host_input == 0) tpu->per_host_input = LS_INPUT_PER_HOST_V1;
  if (tpu->eval_training_input == 0)
    tpu->eval_training_input = LS_INPUT_PER_HOST_V1;
  if (!tpu->host_call_every_n_steps.set)
    tpu->host_call_every_n_steps = (ls_opt){true, 1};
  if (tpu->parallel_get_next == LS_FLAG_DEFAULT)
    tpu->parallel_get_next = LS_FLAG_OFF;
  LS_RETURN_IF_ERROR(ls_run_config_text(
      config,
      given->iterations_per_loop != NULL ? given->iterations_per_loop : "2",
      &tpu->iterations_per_loop));
  LS_RETURN_IF_ERROR(
      ls_run_config_text(config, given->tpu_job_name, &tpu->tpu_job_name));
  config->values.tpu = tpu;
  return tpu_config_check(tpu);
}
