// SPDX-License-Identifier: Apache-2.0
//
// Systems behind the masters of an estimator: asked once each.
#include "estimator/config/systems.h"

// ---- Making ----------------------------------------------------------------
ls_status ls_estimator_context_init(const ls_estimator_facts *facts,
                                    ls_estimator_context *out) {
  *out = (ls_estimator_context){0};
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  const ls_tpu_config *tpu = ls_run_config_values(facts->config)->tpu;
  if (tpu == NULL)
    return ls_invalid_argument("config is no configuration of a TPU run");
  ls_estimator_systems *made =
      ls_new(ls_runtime_allocator(runtime), ls_estimator_systems);
  if (made == NULL) return ls_out_of_memory();
  made->runtime = runtime;
  made->facts = *facts;
  ls_run_config_retain(facts->config);
  const bool uses = facts->use_tpu != LS_FLAG_OFF;
  const bool evaluates = facts->eval_on_tpu != LS_FLAG_OFF;
  made->one_core = tpu->num_shards.set && tpu->num_shards.value == 1 &&
                   !tpu->num_cores_per_replica.set;
  if (made->one_core)
    ls_runtime_log(runtime, LS_LOG_WARNING, "estimator",
                   "num_shards is 1: one core is used; leave it unset to use "
                   "all of the system");
  if (!uses && evaluates)
    ls_runtime_log(runtime, LS_LOG_WARNING, "estimator",
                   "eval_on_tpu counts for nothing as use_tpu is off");
  out->systems = made;
  return ls_ok();
}

void ls_estimator_context_deinit(ls_estimator_context *context) {
  ls_estimator_systems *self = context->systems;
  if (self == NULL) return;
  for (size_t i = 0; i < LS_COUNT_OF(self->systems); ++i) {
    ls_tpu_metadata_destroy(self->systems[i].metadata);
    ls_device_assignment_release(self->systems[i].assignment);
  }
  ls_run_config_release(self->facts.config);
  ls_release(ls_runtime_allocator(self->runtime), self);
  *context = (ls_estimator_context){0};
}

ls_estimator_context ls_estimator_with_mode(ls_estimator_context context,
                                            ls_estimator_mode mode,
                                            bool exports) {
  context.mode = mode;
  context.exports = exports;
  return context;
}

ls_status ls_estimator_check_mode(ls_estimator_context context) {
  return context.mode != LS_MODE_NONE
             ? ls_ok()
             : ls_failed_precondition("the estimator's context has no mode: "
                                      "what depends on it was asked too early");
}

// ---- Asking ----------------------------------------------------------------
ls_status ls_estimator_master(ls_estimator_context context,
                              const char **out_master) {
  *out_master = "";
  LS_RETURN_IF_ERROR(ls_estimator_check_mode(context));
  const ls_run_values *values = ls_estimator_config(context);
  *out_master =
      context.mode == LS_MODE_EVAL ? values->evaluation_master : values->master;
  return ls_ok();
}

// The configuration's own, where that is its master; else one of the name, and
// of the job whose devices are named.
static ls_status find_resolver(ls_estimator_context context, const char *master,
                               ls_tpu_resolver **out_resolver) {
  const ls_run_values *values = ls_estimator_config(context);
  const char *job = NULL;
  if (values->resolver != NULL && strcmp(master, values->master) == 0) {
    *out_resolver = ls_tpu_resolver_retain(values->resolver);
    return ls_ok();
  }
  if (strncmp(master, "virtual:", 8) == 0)
    LS_RETURN_IF_ERROR(ls_estimator_job(context, &job));
  return ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = master[0] == '\0' ? "local" : master,
                                 .job = job},
      out_resolver);
}

ls_status ls_estimator_resolver(ls_estimator_context context,
                                ls_tpu_resolver **out_resolver) {
  const char *master = NULL;
  *out_resolver = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_master(context, &master));
  return find_resolver(context, master, out_resolver);
}

ls_status ls_estimator_scope_begin(ls_estimator_scope *self,
                                   ls_estimator_context context) {
  ls_tpu_resolver *resolver = NULL;
  *self = (ls_estimator_scope){.id = NULL};
  LS_RETURN_IF_ERROR(ls_estimator_resolver(context, &resolver));
  self->id = ls_object_retain(resolver->id);
  ls_tpu_resolver_release(resolver);
  ls_system_scope_begin(&self->scope, &self->flow, self->id);
  return ls_ok();
}

void ls_estimator_scope_end(ls_estimator_scope *self) {
  ls_scope_end(&self->scope);
  ls_object_release(self->id);
}

ls_status ls_estimator_pod(ls_estimator_context context, ls_pod **out_pod) {
  ls_tpu_resolver *resolver = NULL;
  *out_pod = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_resolver(context, &resolver));
  *out_pod = ls_pod_of_id(context.systems->runtime, resolver->id);
  ls_tpu_resolver_release(resolver);
  return ls_ok();
}

static ls_status ask(ls_estimator_context context,
                     ls_estimator_system *system) {
  ls_tpu_resolver *resolver = NULL;
  LS_RETURN_IF_ERROR(find_resolver(context, system->master, &resolver));
  const ls_status status = ls_tpu_metadata_query(
      resolver, ls_estimator_is_model_parallel(context), &system->metadata);
  ls_tpu_resolver_release(resolver);
  return status;
}

ls_status ls_estimator_system_of(ls_estimator_context context,
                                 ls_estimator_system **out_system) {
  ls_estimator_systems *self = context.systems;
  const char *master = NULL;
  *out_system = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_master(context, &master));
  ls_estimator_system *system = self->systems;
  if (system->master != NULL && strcmp(system->master, master) != 0) ++system;
  const bool asked = system->master != NULL;
  system->master = master;
  if (!asked && !self->one_core) {
    const ls_status status = ask(context, system);
    if (!ls_status_is_ok(status)) {
      system->master = NULL;  // Asked again the next time.
      return status;
    }
  }
  *out_system = system;
  return ls_ok();
}

ls_status ls_estimator_metadata(ls_estimator_context context,
                                const ls_tpu_metadata **out_metadata) {
  static const ls_tpu_metadata one = {
      .num_cores = 1, .num_hosts = 1, .num_of_cores_per_host = 1};
  ls_estimator_system *system = NULL;
  *out_metadata = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_system_of(context, &system));
  *out_metadata = system->metadata != NULL ? system->metadata : &one;
  return ls_ok();
}

bool ls_estimator_is_model_parallel(ls_estimator_context context) {
  return context.systems->facts.use_tpu != LS_FLAG_OFF &&
         ls_estimator_config(context)->tpu->num_cores_per_replica.set;
}

// ---- Cores of replicas -----------------------------------------------------
static const int32_t *shape_of(int64_t cores) {
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

ls_status ls_estimator_assignment(ls_estimator_context context,
                                  ls_device_assignment **out_assignment) {
  ls_estimator_system *system = NULL;
  int64_t replicas = 0;
  *out_assignment = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_system_of(context, &system));
  if (!ls_estimator_is_model_parallel(context)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_estimator_num_replicas(context, &replicas));
  const int64_t cores =
      ls_estimator_config(context)->tpu->num_cores_per_replica.value;
  if (system->assignment == NULL)
    LS_RETURN_IF_ERROR(ls_device_assignment_build(
        system->metadata->topology,
        &(ls_device_assignment_options){.shape = shape_of(cores),
                                        .shape_rank = LS_MESH_RANK,
                                        .num_replicas = {true, replicas}},
        &system->assignment));
  *out_assignment = system->assignment;
  return ls_ok();
}
