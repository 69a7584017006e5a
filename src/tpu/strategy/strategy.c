// SPDX-License-Identifier: Apache-2.0
#include "tpu/strategy/strategy.h"

#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/input/input.h"
#include "distribute/own.h"
#include "lockstep/strategy_extended.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"
#include "tpu/pod/topology.h"
#include "tpu/system/resolver.h"

static void strategy_destroy(ls_strategy *strategy) {
  ls_tpu_strategy *self = (ls_tpu_strategy *)strategy;
  ls_tpu_metadata_destroy(self->metadata);
  ls_tpu_resolver_release(self->resolver);
  ls_device_assignment_release(self->cores.assignment);
  ls_device_assignment_release(self->cores.all_cores);
}

// ---- Place the replicas -----------------------------------------------------
static ls_status strategy_refuse_system(const ls_tpu_resolver *resolver,
                                        const ls_tpu_metadata *metadata) {
  const ls_tpu_devices devices = {
      .names = (ls_device_name *)(uintptr_t)metadata->devices,
      .count = metadata->num_devices};
  char text[LS_DEVICES_TEXT];
  ls_master master;
  LS_RETURN_IF_ERROR(
      ls_tpu_resolver_master(resolver, NULL, (ls_opt){0}, &master));
  return ls_not_found("a TPU strategy on the system at '%s', which has no TPU: "
                      "its devices are %s",
                      master.text, ls_tpu_devices_text(&devices, text));
}

// Queries the system for its devices and topology.
static ls_status strategy_ask(const ls_tpu_options *options,
                              ls_tpu_resolver **resolver,
                              ls_tpu_metadata **metadata) {
  *resolver = ls_tpu_resolver_retain(options->resolver);
  if (*resolver == NULL)
    LS_RETURN_IF_ERROR(ls_tpu_resolver_create(NULL, resolver));
  LS_RETURN_IF_ERROR(ls_tpu_metadata_query(*resolver, false, metadata));
  return (*metadata)->num_cores > 0
             ? ls_ok()
             : strategy_refuse_system(*resolver, *metadata);
}

static bool is_core(const ls_device_name *device) {
  return strstr(device->text, "/device:TPU:") != NULL;
}

static ls_status name_assigned(const ls_tpu_strategy *self, int32_t replica,
                               int32_t core, ls_device_name *out_name) {
  ls_device_name name;
  LS_RETURN_IF_ERROR(ls_device_assignment_device(
      self->cores.assignment, replica, core, self->cores.job, &name));
  return ls_device_canonical(name.text, NULL, out_name);
}

// Places the replicas, with a device column for each logical core.
static ls_status place_replicas(ls_tpu_strategy *self) {
  const ls_device_name *next = self->metadata->devices;
  const int32_t replicas = self->base.num_replicas;
  for (int32_t i = 0; i < replicas * self->base.num_columns; ++i) {
    ls_device_name device;
    while (self->cores.assignment == NULL && !is_core(next))
      ++next;
    if (self->cores.assignment == NULL)
      device = *next++;
    else
      LS_RETURN_IF_ERROR(
          name_assigned(self, i % replicas, i / replicas, &device));
    LS_RETURN_IF_ERROR(ls_strategy_place(&self->base, i, device.text));
  }
  return ls_ok();
}

// Assigns one replica to each core of a pod, host by host.
static ls_status assign_all(ls_tpu_strategy *self) {
  LS_OWN(ls_pod, pod) = NULL;
  if (!ls_tpu_is_pod(self->resolver)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_tpu_open_pod(self->resolver, &pod));
  const size_t count = (size_t)ls_pod_num_cores(pod);
  LS_NEW_ARRAY_OR_RETURN(pod->allocator, ls_coordinate, places, count);
  memcpy(places, pod->topology->places, count * sizeof(*places));
  return ls_device_assignment_make(pod->topology, (int32_t)count, 1, places,
                                   &self->cores.all_cores);
}

// Accepts a device of a pod's core; otherwise devices must be CPUs.
static ls_status strategy_place(ls_tpu_strategy *self, const char *name) {
  // Sets the strategy's job to that of the system's first core.
  const ls_device_name *first = self->metadata->devices;
  ls_device_parts parts;
  while (!is_core(first))
    ++first;
  LS_RETURN_IF_ERROR(ls_device_parse(first->text, &parts));
  memcpy(self->cores.job, parts.job, sizeof(self->cores.job));
  LS_RETURN_IF_ERROR(place_replicas(self));
  if (self->cores.assignment == NULL) LS_RETURN_IF_ERROR(assign_all(self));
  self->base.no_cpu = NULL;
  ls_tpu_late_init(self);
  LS_RETURN_IF_ERROR(ls_strategy_set_label(&self->base, name));
  LS_RETURN_IF_ERROR(ls_tpu_strategy_host(&self->base, &self->host));
  LS_OWN(ls_cross_device, ops) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_cross_device_create(self->host.text, &ops));
  return ls_strategy_set_cross_device(&self->base, ops);
}

// Checks that an assignment belongs to the strategy's system; one whose
// topology names no system is accepted.
static ls_status check_assignment(const ls_device_assignment *assignment,
                                  const ls_tpu_resolver *resolver) {
  const ls_system_id *system =
      assignment != NULL ? assignment->topology->system : NULL;
  if (system == NULL || ls_system_id_equal(system, resolver->id))
    return ls_ok();
  return ls_invalid_argument(
      "a TPU strategy with a device assignment of TPU system '%s' of job %s, "
      "and a resolver of '%s' of job %s: give it the resolver of the system "
      "that the assignment is of",
      system->name, ls_job_text(system->job), resolver->id->name,
      ls_job_text(resolver->id->job));
}

// Makes a strategy and takes over the resolver and the metadata.
static ls_status strategy_make(const ls_tpu_options *options,
                               const ls_tpu_flavour *flavour,
                               ls_tpu_resolver *resolver,
                               ls_tpu_metadata *metadata,
                               ls_strategy **out_strategy) {
  ls_device_assignment *assignment = options->assignment;
  const int32_t replicas = assignment != NULL
                               ? ls_device_assignment_num_replicas(assignment)
                               : metadata->num_cores;
  if (replicas < 1 || replicas > LS_MAX_REPLICAS)
    return ls_invalid_argument(
        "a TPU strategy of %d replicas: 1 to %d are possible", replicas,
        LS_MAX_REPLICAS);
  LS_RETURN_IF_ERROR(check_assignment(assignment, resolver));
  LS_RETURN_IF_ERROR(ls_strategy_make(
      &ls_tpu_strategy_class, ls_runtime_current(), replicas, out_strategy));
  ls_tpu_strategy *self = ls_tpu_strategy_of(*out_strategy);
  self->flavour = flavour;
  self->spmd = options->spmd == LS_FLAG_ON;
  self->resolver = resolver;
  self->cores.system = resolver->id;
  self->cores.assignment = ls_device_assignment_retain(assignment);
  self->base.cores = &self->cores;
  self->metadata = metadata;
  if (assignment != NULL)
    self->base.num_columns =
        ls_device_assignment_num_cores_per_replica(assignment);
  self->base.packs_variables = true;
  self->base.uses_policies = !self->spmd;
  return ls_ok();
}

// Makes a strategy of an API variant. `options` is not NULL.
static ls_status tpu_strategy_make(const ls_tpu_options *options,
                                   const ls_tpu_flavour *flavour,
                                   int64_t steps_per_run,
                                   ls_strategy **out_strategy) {
  if ((unsigned)options->spmd > LS_FLAG_OFF)
    return ls_invalid_argument("spmd %d of a TPU strategy is no flag",
                               (int)options->spmd);
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_OWN(ls_tpu_metadata, metadata) = NULL;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_RETURN_IF_ERROR(strategy_ask(options, &resolver, &metadata));
  LS_RETURN_IF_ERROR(
      strategy_make(options, flavour, resolver, metadata, &strategy));
  (void)ls_give(&resolver);
  (void)ls_give(&metadata);
  ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  self->steps_per_run = steps_per_run;
  LS_RETURN_IF_ERROR(strategy_place(self, options->name));
  return ls_hand_over(&strategy, out_strategy);
}

// ---- API variants -----------------------------------------------------------
// They compute the same and differ in how they are made and in what they offer.

static const ls_tpu_flavour current = {
    .name = "TPU strategy", .version = "V2", .has_logical_devices = true};

static const ls_tpu_flavour experimental = {
    .name = "experimental TPU strategy",
    .version = "V2",
    .symbol = "ls_tpu_strategy_experimental_create",
    .instead = "ls_tpu_strategy_create"};

static const ls_tpu_flavour v1 = {.name = "V1 TPU strategy", .version = "V1"};

static ls_status set_number(ls_runtime *runtime, const char *gauge,
                            int64_t number) {
  return ls_gauge_set(runtime, gauge, "", &(ls_gauge_value){.number = number});
}

// Publishes the kind of strategy in the runtime's gauges.
static ls_status publish_kind(const ls_strategy *strategy,
                              const ls_tpu_flavour *flavour) {
  ls_runtime *runtime = strategy->runtime;
  LS_RETURN_IF_ERROR(ls_gauge_set(runtime, "strategy", flavour->version,
                                  &(ls_gauge_value){.text = "TPUStrategy"}));
  LS_RETURN_IF_ERROR(
      set_number(runtime, "num_workers", ls_tpu_strategy_num_hosts(strategy)));
  return set_number(runtime, "num_replicas_per_worker",
                    ls_tpu_strategy_num_replicas_per_host(strategy));
}

static ls_status flavours_create(const ls_tpu_options *options,
                                 const ls_tpu_flavour *flavour,
                                 int64_t steps_per_run,
                                 ls_strategy **out_strategy) {
  static const ls_tpu_options defaults;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  if (flavour->symbol != NULL)
    ls_tpu_log(runtime, LS_LOG_WARNING, "%s is deprecated: use %s",
               flavour->symbol, flavour->instead);
  LS_OWN(ls_strategy, made) = NULL;
  LS_RETURN_IF_ERROR(tpu_strategy_make(options != NULL ? options : &defaults,
                                       flavour, steps_per_run, &made));
  made->is_v1 = flavour == &v1;
  LS_RETURN_IF_ERROR(publish_kind(made, flavour));
  return ls_hand_over(&made, out_strategy);
}

ls_status ls_tpu_strategy_create(const ls_tpu_options *options,
                                 ls_strategy **out_strategy) {
  LS_REQUIRE_OUT(out_strategy);
  return flavours_create(options, &current, 1, out_strategy);
}

ls_status ls_tpu_strategy_experimental_create(const ls_tpu_options *options,
                                              ls_strategy **out_strategy) {
  LS_REQUIRE_OUT(out_strategy);
  return flavours_create(options, &experimental, 1, out_strategy);
}

ls_status ls_tpu_strategy_v1_create(const ls_tpu_v1_options *options,
                                    ls_strategy **out_strategy) {
  LS_REQUIRE_OUT(out_strategy);
  static const ls_tpu_v1_options defaults;
  if (options == NULL) options = &defaults;
  const ls_opt steps = options->steps_per_run;
  if (steps.set && steps.value < 1)
    return ls_invalid_argument(
        "a V1 TPU strategy of %lld steps per run: at least 1 is needed",
        (long long)steps.value);
  return flavours_create(&(ls_tpu_options){.name = options->name,
                                           .resolver = options->resolver,
                                           .assignment = options->assignment},
                         &v1, steps.set ? steps.value : 1, out_strategy);
}

// ---- Properties ------------------------------------------------------------
int64_t ls_tpu_strategy_steps_per_run(const ls_strategy *strategy) {
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  return self != NULL ? self->steps_per_run : 0;
}

bool ls_tpu_strategy_spmd(const ls_strategy *strategy) {
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  return self != NULL && self->spmd;
}

int32_t ls_tpu_strategy_local_replica_id(const ls_strategy *strategy,
                                         int32_t replica) {
  return ls_tpu_strategy_of(strategy) != NULL && replica >= 0 &&
                 replica < strategy->num_replicas
             ? replica
             : -1;
}

// ---- Session configurations ------------------------------------------------
ls_status ls_tpu_strategy_update_config(const ls_strategy *strategy,
                                        const ls_session_config *config,
                                        ls_session_config *out_config) {
  LS_REQUIRE_OUT(out_config, strategy);
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  if (self == NULL)
    return ls_invalid_argument("%s is no TPU strategy: it has no cluster",
                               strategy->label);
  LS_OWN(ls_cluster_spec, spec) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_resolver_cluster_spec(self->resolver, &spec));
  LS_RETURN_IF_ERROR(ls_session_config_copy(config, out_config));
  out_config->isolate_session_state = LS_FLAG_ON;
  if (spec->num_jobs > 0) {
    ls_cluster_spec_destroy(out_config->cluster);
    out_config->cluster = ls_give(&spec);
  }
  return ls_ok();
}

ls_status ls_tpu_strategy_configure(const ls_strategy *strategy,
                                    ls_session_config *config,
                                    const ls_cluster_spec *cluster,
                                    const char *task_type, ls_opt task_id) {
  (void)cluster, (void)task_type, (void)task_id;
  ls_session_config updated;
  if (config == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_tpu_strategy_update_config(strategy, config, &updated));
  ls_session_config_deinit(config);
  *config = updated;
  return ls_ok();
}

// ---- Properties ------------------------------------------------------------
ls_tpu_resolver *ls_tpu_strategy_resolver(const ls_strategy *strategy) {
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  return self != NULL ? self->resolver : NULL;
}

const ls_tpu_metadata *ls_tpu_strategy_metadata(const ls_strategy *strategy) {
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  return self != NULL ? self->metadata : NULL;
}

ls_status ls_tpu_strategy_device(const ls_strategy *strategy, int32_t replica,
                                 int32_t core, ls_device_name *out_name) {
  LS_REQUIRE_OUT(out_name, strategy);
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  if (self == NULL)
    return ls_invalid_argument("%s is no TPU strategy: it has no logical cores",
                               strategy->label);
  if (self->cores.assignment != NULL)
    return name_assigned(self, replica, core, out_name);
  if (replica < 0 || replica >= strategy->num_replicas || core != 0)
    return ls_invalid_argument("there is no replica %d logical core %d in %s: "
                               "it has %d replicas of 1 core",
                               replica, core, strategy->label,
                               strategy->num_replicas);
  return ls_device_canonical(ls_strategy_device(strategy, replica), NULL,
                             out_name);
}

ls_status ls_strategy_core(const ls_strategy *strategy, int32_t replica,
                           ls_core **out_core) {
  const char *device = ls_strategy_device(strategy, replica);
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  if (self == NULL)
    return ls_pod_lookup_core(strategy->runtime, device, out_core);
  *out_core = NULL;
  ls_pod *pod = ls_pod_of_id(strategy->runtime, self->resolver->id);
  if (pod != NULL) *out_core = ls_pod_core_at(pod, device);
  if (*out_core != NULL) return ls_ok();
  ls_object_release(pod);
  return ls_not_found("device '%s' of %s: it is not there in TPU system '%s'",
                      device, strategy->label, self->resolver->id->name);
}

ls_status ls_tpu_strategy_host(const ls_strategy *strategy,
                               ls_device_name *out_name) {
  LS_REQUIRE_OUT(out_name);
  ls_device_name first;
  LS_RETURN_IF_ERROR(ls_tpu_strategy_device(strategy, 0, 0, &first));
  return ls_device_host(first.text, out_name);
}

// Returns the task of a replica's first core.
static int32_t task_of(const ls_device_assignment *assignment,
                       int32_t replica) {
  int32_t task = 0;
  ls_coordinate at;
  ls_status status = ls_device_assignment_place(assignment, replica, 0, &at);
  if (ls_status_is_ok(status))
    status = ls_topology_task_at(assignment->topology, at, &task);
  ls_status_free(status);  // Cannot fail: the assignment's places exist.
  return task;
}

int32_t ls_tpu_strategy_num_hosts(const ls_strategy *strategy) {
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  if (self == NULL) return 0;
  if (self->cores.assignment == NULL) return self->metadata->num_hosts;
  int32_t count = 0;
  for (int32_t r = 0; r < strategy->num_replicas; ++r) {
    bool is_first = true;
    for (int32_t k = 0; k < r && is_first; ++k)
      is_first = task_of(self->cores.assignment, k) !=
                 task_of(self->cores.assignment, r);
    count += is_first;
  }
  return count;
}

int32_t ls_tpu_strategy_num_replicas_per_host(const ls_strategy *strategy) {
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  if (self == NULL) return 0;
  const int32_t cores = self->metadata->num_of_cores_per_host;
  if (self->cores.assignment == NULL) return cores;
  const int32_t fit = cores / self->cores.assignment->cores_per_replica;
  return fit < strategy->num_replicas ? fit : strategy->num_replicas;
}

// ---- Its class -------------------------------------------------------------
const ls_strategy_class ls_tpu_strategy_class = {
    .name = "TPU strategy",
    .size = sizeof(ls_tpu_strategy),
    .distributes = true,
    .has_host_tables = true,
    .gathers_equal = true,
    .most_inputs = 200,
    .needs_static_shapes = true,
    .has_host_pipelines = true,
    .beside_components = true,
    .classes = &ls_tpu_classes,
    .policies = &ls_tpu_policies,
    .check_run = ls_tpu_class_check_run,
    .run = ls_tpu_class_run,
    .call_each = ls_tpu_class_call_each,
    .reduce = ls_tpu_class_reduce,
    .reduce_to = ls_tpu_class_reduce_to,
    .batch_reduce_to = ls_tpu_class_batch_reduce_to,
    .broadcast_to = ls_tpu_class_broadcast_to,
    .gather = ls_tpu_class_gather,
    .fetch = ls_mirrored_fetch,
    .adopt = ls_tpu_class_adopt,
    .leave = ls_tpu_class_leave,
    .update = ls_tpu_class_update,
    .update_non_slot = ls_tpu_class_update_non_slot,
    .map = ls_mirrored_map,
    .create_variable = ls_mirrored_create_variable,
    .distribute = ls_input_distribute,
    .non_slot_devices = ls_tpu_class_non_slot_devices,
    .destroy = strategy_destroy,
};
