// SPDX-License-Identifier: Apache-2.0
//
// Plans: input and batches of a mode, derived from its configuration and
// system.
#include "estimator/config/plan.h"

#include "base/plain.h"
#include "distribute/input/feed.h"

struct ls_plans {
  ls_runtime *runtime;
  ls_estimator_facts facts;
  bool one_core;
  // Systems for trainings and for evaluations. Evaluations use the first one if
  // their master is the same.
  ls_plan_system systems[2];
  struct {
    ls_plan plan;
    bool is_made;
  } plans[LS_NUM_MODES][2];
};

const char *ls_estimator_mode_name(ls_estimator_mode mode) {
  static const char *const names[LS_NUM_MODES] = {"none", "train", "eval",
                                                  "predict"};
  return names[mode];
}

// ---- Making ----------------------------------------------------------------
ls_status ls_plans_create(const ls_estimator_facts *facts,
                          ls_plans **out_plans) {
  *out_plans = NULL;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  const ls_tpu_config *tpu = ls_run_config_values(facts->config)->tpu;
  if (tpu == NULL)
    return ls_invalid_argument("config is no configuration of a TPU run");
  LS_NEW_OR_RETURN(ls_runtime_allocator(runtime), ls_plans, self);
  self->runtime = runtime;
  self->facts = *facts;
  ls_run_config_retain(facts->config);
  self->one_core = tpu->num_shards.set && tpu->num_shards.value == 1 &&
                   !tpu->num_cores_per_replica.set;
  if (self->one_core)
    ls_runtime_log(runtime, LS_LOG_WARNING, "estimator",
                   "num_shards is 1: one core is used; leave it unset to use "
                   "all of the system");
  if (facts->use_tpu == LS_FLAG_OFF && facts->eval_on_tpu != LS_FLAG_OFF)
    ls_runtime_log(runtime, LS_LOG_WARNING, "estimator",
                   "eval_on_tpu counts for nothing as use_tpu is off");
  *out_plans = self;
  return ls_ok();
}

void ls_plans_destroy(ls_plans *plans) {
  if (plans == NULL) return;
  for (size_t i = 0; i < LS_COUNT_OF(plans->systems); ++i)
    ls_plan_system_deinit(&plans->systems[i]);
  ls_run_config_release(plans->facts.config);
  ls_release(ls_runtime_allocator(plans->runtime), plans);
}

static ls_status plan_find_system(ls_plans *self, const ls_plan *plan,
                                  const ls_plan_system **out_system) {
  const char *master = plan->mode == LS_MODE_EVAL
                           ? plan->config->evaluation_master
                           : plan->config->master;
  ls_plan_system *system = self->systems;
  if (system->master != NULL && strcmp(system->master, master) != 0) ++system;
  if (system->master == NULL)
    LS_RETURN_IF_ERROR(
        ls_plan_system_init(system, plan->config, master, self->one_core));
  *out_system = system;
  return ls_ok();
}

// ---- Input and batches -----------------------------------------------------
static ls_feed_way plan_way_of(const ls_plan *plan) {
  static const ls_feed_way ways[] = {[LS_INPUT_PER_SHARD_V1] = LS_FEED_HOSTS,
                                     [LS_INPUT_PER_HOST_V1] = LS_FEED_HOSTS,
                                     [LS_INPUT_PER_HOST_V2] = LS_FEED_REPLICAS,
                                     [LS_INPUT_BROADCAST] = LS_FEED_ALL};
  const ls_tpu_config *tpu = ls_plan_tpu(plan);
  const bool trains = plan->mode == LS_MODE_TRAIN;
  if (trains && tpu->per_host_input == LS_INPUT_PER_SHARD_V1)
    return LS_FEED_CORES;
  return !trains && tpu->eval_training_input == LS_INPUT_SLICED
             ? LS_FEED_SLICES
             : ways[tpu->per_host_input];
}

// Returns true if the first cores of replicas are not spread evenly over hosts:
// replicas have more cores than a host, or lie across hosts.
static bool are_across_hosts(const ls_plan_system *system) {
  for (int64_t h = 0; h < system->num_hosts; ++h) {
    int64_t count = 0;
    for (int64_t r = 0; r < system->num_replicas; ++r)
      count += system->replicas[r].host == h;
    if (count != system->replicas_per_host) return true;
  }
  return false;
}

static void count_feeders(ls_plan *plan) {
  ls_estimator_input *input = &plan->input;
  const ls_plan_system *system = plan->system;
  input->per_replica = !input->broadcast && are_across_hosts(system);
  input->num_feeders = input->broadcast     ? 1
                       : input->per_replica ? system->num_replicas
                                            : system->num_hosts;
  input->replicas_per_feeder = input->broadcast     ? system->num_replicas
                               : input->per_replica ? 1
                                                    : system->replicas_per_host;
}

// Returns the batch size of one of `parts` shares: the largest share if shorter
// ones are padded, else the smallest.
static ls_opt plan_share(const ls_plan *plan, int64_t parts) {
  const ls_row_shares shares = {.parts = parts};
  const ls_opt all = plan->batch_size;
  const int64_t part = plan->any_batch ? 0 : parts - 1;
  return all.set ? LS_SOME(ls_shares_rows(&shares, all.value, part)) : all;
}

static void share_batch(ls_plan *plan) {
  const ls_estimator_input *input = &plan->input;
  const ls_plan_system *system = plan->system;
  const int64_t parts[LS_NUM_FEED_WAYS] = {
      [LS_FEED_CORES] = system->num_replicas,
      [LS_FEED_HOSTS] = system->num_hosts,
      [LS_FEED_REPLICAS] = system->num_replicas,
      [LS_FEED_SLICES] = 1,
      [LS_FEED_ALL] = 1};
  plan->input_batch_size = plan_share(plan, parts[input->way]);
  plan->model_batch_size =
      plan_share(plan, input->way == LS_FEED_ALL ? 1 : system->num_replicas);
}

// ---- Checks ----------------------------------------------------------------
// Refuses a batch size, and names the nearest ones that the replicas divide.
static ls_status refuse_batch(const ls_plan *plan, long long size,
                              long long replicas) {
  const long long less = size - size % replicas, more = less + replicas;
  char sizes[64];
  if (less > 0)
    ls_format(sizes, sizeof(sizes), "%lld or %lld", less, more);
  else
    ls_format(sizes, sizeof(sizes), "%lld", more);
  return ls_invalid_argument(
      "the %s batch size %lld is not divisible by %lld replicas: choose %s "
      "(from the command: --batch-size N), or set "
      "ls_estimator_options.any_batch",
      ls_estimator_mode_name(plan->mode), size, replicas, sizes);
}

static ls_status check_feeders(const ls_plan *plan) {
  const ls_opt cores = ls_plan_tpu(plan)->num_cores_per_replica;
  return !plan->input.per_replica || plan->input.way == LS_FEED_REPLICAS
             ? ls_ok()
             : ls_invalid_argument(
                   "num_cores_per_replica is %lld, and replicas of so many "
                   "cores lie across the %lld hosts of '%s': only with "
                   "PER_HOST_V2 a replica is on several hosts",
                   (long long)cores.value, (long long)plan->system->num_hosts,
                   plan->system->master);
}

static ls_status check_batch(const ls_plan *plan) {
  const int64_t replicas = plan->system->num_replicas;
  const ls_opt batch = plan->batch_size;
  const char *mode = ls_estimator_mode_name(plan->mode);
  if (!batch.set)
    return plan->mode == LS_MODE_TRAIN
               ? ls_ok()
               : ls_invalid_argument(
                     "%s_batch_size was not given when the estimator was made: "
                     "on TPUs it is needed (from the command: --batch-size N)",
                     mode);
  return plan->input.broadcast || plan->any_batch || batch.value % replicas == 0
             ? ls_ok()
             : refuse_batch(plan, batch.value, replicas);
}

static ls_status check_hosts(const ls_plan *plan) {
  const bool predicts = plan->mode == LS_MODE_PREDICT;
  const long long hosts = plan->system->num_hosts;
  const long long replicas = plan->system->num_replicas;
  if (hosts <= 1 || plan->mode == LS_MODE_TRAIN || plan->input.broadcast)
    return ls_ok();
  if (plan->input.way == LS_FEED_REPLICAS && (!predicts || replicas == 1)) {
    if (!predicts)
      ls_runtime_log(plan->runtime, LS_LOG_WARNING, "estimator",
                     "evaluating on %lld hosts with PER_HOST_V2: each host has "
                     "its own input, %s",
                     hosts,
                     plan->any_batch
                         ? "which may end before the others"
                         : "and the first that ends ends the evaluation");
    return ls_ok();
  }
  return ls_invalid_argument(
      "mode %s on %lld hosts with %lld replicas: allowed are one host; input "
      "that is BROADCAST or SLICED; PER_HOST_V2 for eval, and for predict with "
      "one replica: set .eval_training_input = LS_INPUT_SLICED of "
      "ls_tpu_config, for eval and predict, and .any_batch of the estimator",
      ls_estimator_mode_name(plan->mode), hosts, replicas);
}

// ---- Plans -----------------------------------------------------------------
static ls_strategy *strategy_of(const ls_plan *plan) {
  ls_strategy *const strategies[LS_NUM_MODES] = {
      [LS_MODE_TRAIN] = plan->config->train_distribute,
      [LS_MODE_EVAL] = plan->config->eval_distribute};
  return plan->on_cpu && !plan->exports ? strategies[plan->mode] : NULL;
}

static int64_t host_call_every(const ls_plan *plan) {
  const ls_opt every = ls_plan_tpu(plan)->host_call_every_n_steps;
  return plan->mode == LS_MODE_TRAIN ? every.value : 1;
}

static ls_status plan_cores(ls_plans *self, ls_plan *plan) {
  LS_RETURN_IF_ERROR(plan_find_system(self, plan, &plan->system));
  count_feeders(plan);
  LS_RETURN_IF_ERROR(check_feeders(plan));
  LS_RETURN_IF_ERROR(check_batch(plan));
  LS_RETURN_IF_ERROR(check_hosts(plan));
  share_batch(plan);
  return ls_ok();
}

static ls_status make_plan(ls_plans *self, ls_estimator_mode mode, bool exports,
                           ls_plan *out_plan) {
  const ls_estimator_facts *facts = &self->facts;
  const ls_opt batch = facts->batch_sizes[mode];
  *out_plan = (ls_plan){
      .runtime = self->runtime,
      .config = ls_run_config_values(facts->config),
      .mode = mode,
      .exports = exports,
      .on_cpu = facts->use_tpu == LS_FLAG_OFF || exports ||
                (mode == LS_MODE_EVAL && facts->eval_on_tpu == LS_FLAG_OFF),
      .any_batch =
          facts->any_batch || (facts->any_use_batch && mode != LS_MODE_TRAIN),
      .batch_size = batch,
      .input_batch_size = batch,
      .model_batch_size = batch,
  };
  out_plan->input.way = plan_way_of(out_plan);
  out_plan->input.broadcast = out_plan->input.way >= LS_FEED_SLICES;
  out_plan->host_call_every = host_call_every(out_plan);
  out_plan->strategy = strategy_of(out_plan);
  return out_plan->on_cpu ? ls_ok() : plan_cores(self, out_plan);
}

ls_status ls_plans_get(ls_plans *plans, ls_estimator_mode mode, bool exports,
                       const ls_plan **out_plan) {
  *out_plan = NULL;
  if (mode <= LS_MODE_NONE || mode >= LS_NUM_MODES)
    return ls_failed_precondition(
        "a plan needs a mode: train, eval or predict");
  ls_plan *plan = &plans->plans[mode][exports].plan;
  bool *is_made = &plans->plans[mode][exports].is_made;
  if (!*is_made) LS_RETURN_IF_ERROR(make_plan(plans, mode, exports, plan));
  *is_made = true;
  *out_plan = plan;
  return ls_ok();
}

// ---- Devices ---------------------------------------------------------------
// Names the device of a host. Job names fit into the text: see
// ls_plan_system_init.
static ls_device_name name_host(const char *job, const char *alone,
                                int64_t task) {
  ls_device_name name;
  ls_format(name.text, sizeof(name.text), "%s%s/task:%lld/device:CPU:0",
            job != NULL ? "/job:" : "", job != NULL ? job : alone,
            (long long)task);
  return name;
}

ls_device_name ls_plan_host(const ls_plan *plan, int64_t host) {
  const char *job = plan->system->job;
  return name_host(job, "/replica:0", job != NULL ? host : 0);
}

ls_device_name ls_plan_replica_host(const ls_plan *plan, int64_t replica) {
  const ls_plan_system *system = plan->system;
  return name_host(system->job, "", system->replicas[replica].host);
}

int64_t ls_plan_feeder_host(const ls_plan *plan, int64_t feeder) {
  return plan->input.per_replica ? plan->system->replicas[feeder].host : feeder;
}

int64_t ls_plan_fed_replica(const ls_plan *plan, int64_t feeder,
                            int64_t shard) {
  const ls_plan_system *system = plan->system;
  if (plan->input.broadcast) return shard;
  if (plan->input.per_replica) return feeder;
  for (int64_t r = 0; r < system->num_replicas; ++r)
    if (system->replicas[r].host == feeder && shard-- == 0) return r;
  return -1;
}

ls_pod *ls_plan_pod(const ls_plan *plan) {
  return ls_pod_of_id(plan->runtime, plan->system->resolver->id);
}
