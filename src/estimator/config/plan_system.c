// SPDX-License-Identifier: Apache-2.0
//
// Systems of plans: finds cores and replicas, and checks that the configuration
// fits.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "estimator/config/plan.h"

// ---- The job ---------------------------------------------------------------
static bool is_virtual(const char *master) {
  return strncmp(master, "virtual:", 8) == 0;
}

ls_status ls_configured_job(const ls_run_values *config, const char *master,
                            const char **out_job) {
  *out_job = config->tpu->tpu_job_name;
  if (*out_job != NULL) return ls_ok();
  // A virtual pod has a job, but no cluster.
  const ls_session_config *session = config->session_config;
  const ls_cluster_spec *cluster = session != NULL ? session->cluster : NULL;
  if (is_virtual(master) && cluster == NULL) {
    *out_job = config->resolver != NULL ? ls_tpu_resolver_job(config->resolver)
                                        : "worker";
    return ls_ok();
  }
  return ls_status_annotate(ls_tpu_placement_job(master, cluster, out_job),
                            "set tpu_job_name");
}

static ls_status check_job(const char *job) {
  ls_device_name longest;
  return job == NULL ||
                 snprintf(longest.text, sizeof(longest.text),
                          "/job:%s/task:%d/device:TPU:%d", job, INT32_MAX,
                          INT32_MAX) < (int)sizeof(longest.text)
             ? ls_ok()
             : ls_invalid_argument(
                   "job '%.80s' is too long for the name of a device", job);
}

// ---- The system ------------------------------------------------------------
// Finds the resolver: that of the configuration if it has this master, else a
// new one with the master's name and the job in device names.
static ls_status find_resolver(ls_plan_system *self,
                               const ls_run_values *config) {
  const char *master = self->master;
  if (config->resolver != NULL && strcmp(master, config->master) == 0) {
    self->resolver = ls_tpu_resolver_retain(config->resolver);
    return ls_ok();
  }
  return ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = master[0] == '\0' ? "local" : master,
                                 .job = is_virtual(master) ? self->job : NULL},
      &self->resolver);
}

static ls_status count_cores(ls_plan_system *self, bool one_core,
                             bool wants_topology) {
  self->num_cores = self->num_hosts = self->cores_per_host = 1;
  if (one_core) return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_tpu_metadata_query(self->resolver, wants_topology, &self->metadata));
  self->num_cores = self->metadata->num_cores;
  self->num_hosts = self->metadata->num_hosts;
  self->cores_per_host = self->metadata->num_of_cores_per_host;
  return ls_ok();
}

static ls_status count_replicas(ls_plan_system *self, ls_opt cores) {
  self->num_replicas = self->num_cores;
  self->replicas_per_host = self->cores_per_host;
  if (!cores.set) return ls_ok();
  const int64_t each = cores.value;
  if (each > self->num_cores)
    return ls_invalid_argument(
        "num_cores_per_replica is %lld, the system has %lld cores",
        (long long)each, (long long)self->num_cores);
  if (self->num_cores % each != 0)
    return ls_failed_precondition("num_cores_per_replica is %lld, which does "
                                  "not divide the system's %lld cores",
                                  (long long)each, (long long)self->num_cores);
  self->num_replicas = self->num_cores / each;
  self->replicas_per_host = self->num_replicas / self->num_hosts;
  return ls_ok();
}

// ---- Checks ----------------------------------------------------------------
static ls_status plan_system_refuse_system(const ls_plan_system *self) {
  enum { SHOWN = 16 };
  const ls_tpu_metadata *metadata = self->metadata;
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  for (size_t i = 0; i < metadata->num_devices && i < SHOWN; ++i)
    ls_text_append_format(&text, "%s%s", i == 0 ? "" : ", ",
                          metadata->devices[i].text);
  return ls_not_found("the system at '%s' has no TPU: its devices are %s",
                      self->master, ls_text_data(&text));
}

static ls_status check_system(const ls_plan_system *self,
                              const ls_tpu_config *tpu) {
  const ls_opt shards = tpu->num_shards, cores = tpu->num_cores_per_replica;
  if (self->num_cores == 0) return plan_system_refuse_system(self);
  if (shards.set && shards.value != self->num_replicas)
    return ls_invalid_argument("num_shards is not set correctly for the system "
                               "at '%s': expected %lld, got %lld",
                               self->master, (long long)self->num_replicas,
                               (long long)shards.value);
  return !cores.set || cores.value <= self->cores_per_host ||
                 tpu->per_host_input == LS_INPUT_PER_HOST_V2
             ? ls_ok()
             : ls_invalid_argument(
                   "num_cores_per_replica is %lld, a host has %lld cores: only "
                   "with PER_HOST_V2 a replica is on several hosts",
                   (long long)cores.value, (long long)self->cores_per_host);
}

// ---- Cores of replicas -----------------------------------------------------
static const int32_t *plan_system_shape_of(int64_t cores) {
  static const struct {
    int64_t cores;
    int32_t shape[LS_MESH_RANK];
  } shapes[] = {{1, {1, 1, 1, 1}},  {2, {1, 1, 1, 2}},  {4, {1, 2, 1, 2}},
                {8, {2, 2, 1, 2}},  {16, {4, 2, 1, 2}}, {32, {4, 4, 1, 2}},
                {64, {8, 4, 1, 2}}, {128, {8, 8, 1, 2}}};
  size_t i = 0;
  while (i + 1 < LS_COUNT_OF(shapes) && shapes[i].cores != cores)
    ++i;
  return shapes[i].shape;
}

static ls_status find_core(const ls_plan_system *self, int64_t replica,
                           ls_replica_core *out_core) {
  ls_coordinate place;
  if (self->assignment == NULL) {
    out_core->host = (int32_t)(replica / self->cores_per_host);
    out_core->ordinal = (int32_t)(replica % self->cores_per_host);
    return ls_ok();
  }
  const ls_topology *topology = ls_device_assignment_topology(self->assignment);
  LS_RETURN_IF_ERROR(ls_device_assignment_place(self->assignment,
                                                (int32_t)replica, 0, &place));
  LS_RETURN_IF_ERROR(ls_topology_task_at(topology, place, &out_core->host));
  return ls_topology_ordinal_at(topology, place, &out_core->ordinal);
}

// ---- Making ----------------------------------------------------------------
static ls_status resolve(ls_plan_system *self, const ls_run_values *config,
                         bool one_core) {
  const ls_opt cores = config->tpu->num_cores_per_replica;
  LS_RETURN_IF_ERROR(ls_configured_job(config, self->master, &self->job));
  LS_RETURN_IF_ERROR(check_job(self->job));
  LS_RETURN_IF_ERROR(find_resolver(self, config));
  LS_RETURN_IF_ERROR(count_cores(self, one_core, cores.set));
  LS_RETURN_IF_ERROR(count_replicas(self, cores));
  LS_RETURN_IF_ERROR(check_system(self, config->tpu));
  if (cores.set)
    LS_RETURN_IF_ERROR(ls_device_assignment_build(
        self->metadata->topology,
        &(ls_device_assignment_options){
            .shape = plan_system_shape_of(cores.value),
            .shape_rank = LS_MESH_RANK,
            .num_replicas = {true, self->num_replicas}},
        &self->assignment));
  LS_SET_ARRAY_OR_RETURN(self->allocator, ls_replica_core, self->replicas,
                         (size_t)self->num_replicas);
  for (int64_t r = 0; r < self->num_replicas; ++r)
    LS_RETURN_IF_ERROR(find_core(self, r, &self->replicas[r]));
  return ls_ok();
}

ls_status ls_plan_system_init(ls_plan_system *system,
                              const ls_run_values *config, const char *master,
                              bool one_core) {
  *system =
      (ls_plan_system){.allocator = ls_current_allocator(), .master = master};
  const ls_status status = resolve(system, config, one_core);
  if (!ls_status_is_ok(status)) ls_plan_system_deinit(system);
  return status;
}

void ls_plan_system_deinit(ls_plan_system *system) {
  if (system->resolver != NULL) ls_tpu_resolver_release(system->resolver);
  ls_tpu_metadata_destroy(system->metadata);
  ls_device_assignment_release(system->assignment);
  if (system->replicas != NULL) ls_release(system->allocator, system->replicas);
  *system = (ls_plan_system){0};
}

// ---- Ranks ------------------------------------------------------------------
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
        "system only, and does not predict (from the command: use --tpu "
        "virtual:2x2, without --replicas)",
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
