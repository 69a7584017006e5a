// SPDX-License-Identifier: Apache-2.0
#include "tpu/pod/system_id.h"

#include <stdio.h>

#include "distribute/base/strategy.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"

static void destroy_id(ls_object *object) {
  ls_release(((ls_system_id *)object)->allocator, object);
}

static void print_id(const ls_object *object, char *buffer, size_t size) {
  const ls_system_id *id = (const ls_system_id *)object;
  snprintf(buffer, size, "TPU system '%s' of job %s", id->name,
           ls_job_text(id->job));
}

static const ls_object_type id_type = {
    .name = "TPU system", .destroy = destroy_id, .print = print_id};

ls_status ls_system_id_create(ls_allocator *allocator, const char *name,
                              const char *job, ls_system_id **out_id) {
  const size_t name_size = strlen(name) + 1, job_size = strlen(job) + 1;
  ls_system_id *id = ls_allocate_zeroed(
      allocator, 1, sizeof(ls_system_id) + name_size + job_size);
  *out_id = id;
  if (id == NULL) return ls_out_of_memory();
  ls_object_init(&id->object, &id_type);
  id->allocator = allocator;
  memcpy(id->text, name, name_size);
  memcpy(id->text + name_size, job, job_size);
  id->name = id->text;
  id->job = id->text + name_size;
  return ls_ok();
}

// ---- Current system --------------------------------------------------------
static const ls_flow_type system_flow = {.name = "a scope of a TPU system",
                                         .has_system = true};

void ls_system_scope_begin(ls_scope *scope, ls_system_flow *flow,
                           ls_system_id *id) {
  *flow = (ls_system_flow){.flow.type = &system_flow, .id = id};
  ls_flow_begin(scope, &flow->flow);
}

static ls_system_id *find_scoped(void) {
  const ls_flow_entry *entry = ls_context_current()->scoped.flow;
  for (; entry != NULL; entry = entry->outer)
    if (entry->flow->type == &system_flow && ls_context_is_inside(entry->graph))
      return ((ls_system_flow *)entry->flow)->id;
  return NULL;
}

ls_system_flow *ls_computation_around(void) {
  ls_flow *flow = ls_flow_replicated();
  return flow != NULL && flow->type->has_system ? (ls_system_flow *)flow : NULL;
}

ls_system_id *ls_system_around(void) {
  const ls_system_flow *computation = ls_computation_around();
  if (computation != NULL && computation->id != NULL) return computation->id;
  ls_system_id *scoped = find_scoped();
  if (scoped != NULL || !ls_has_strategy()) return scoped;
  const ls_strategy_cores *cores = ls_strategy_current()->cores;
  return cores != NULL ? cores->system : NULL;
}

static ls_status refuse_choice(const char *noun, const ls_pod *a,
                               const ls_pod *b) {
  return ls_failed_precondition(
      "%s may be for TPU system '%s' of job %s or for '%s' of job %s: select "
      "one by a device such as /job:%s/task:0, a strategy or a device "
      "assignment",
      noun, a->name, ls_job_text(a->job), b->name, ls_job_text(b->job),
      ls_job_text(a->job));
}

// Checks a call that names no system: refuses it if the first system is gone
// and the call would use another one.
static ls_status check_first(ls_runtime *runtime, const char *noun,
                             const ls_pod *pod) {
  ls_runtime_lock(runtime);
  ls_system_id *first = ls_object_retain(ls_tpu_state_find(runtime)->first);
  ls_runtime_unlock(runtime);
  ls_status status = ls_ok();
  if (first != NULL && ls_pod_is_initialized(pod) &&
      !ls_system_id_equal(first, pod->id))
    status = ls_failed_precondition(
        "%s may be for TPU system '%s' of job %s, which was shut down, or for "
        "'%s' of job %s: select one by a device such as /job:%s/task:0, a "
        "strategy or a device assignment",
        noun, first->name, ls_job_text(first->job), pod->name,
        ls_job_text(pod->job), ls_job_text(pod->job));
  ls_object_release(first);
  return status;
}

static ls_status refuse_in_job(const char *noun, const ls_pod *a,
                               const ls_pod *b) {
  return ls_failed_precondition(
      "%s may be for TPU system '%s' or for '%s' of job %s, and neither is "
      "initialized: initialize the one that is meant (ls_tpu_initialize)",
      noun, a->name, b->name, ls_job_text(a->job));
}

ls_status ls_system_of_job(ls_runtime *runtime, const char *noun,
                           const char *job, ls_pod **out_pod) {
  ls_pod *other = NULL;
  ls_pod_only(runtime, job, out_pod, &other);
  if (other == NULL) return ls_ok();
  const ls_status status = refuse_in_job(noun, *out_pod, other);
  ls_object_release(*out_pod);
  ls_object_release(other);
  *out_pod = NULL;
  return status;
}

// Finds the only system, for a call in which nothing names one.
static ls_status find_only(ls_runtime *runtime, const char *noun,
                           ls_pod **out_pod) {
  ls_pod *other = NULL;
  ls_pod_only(runtime, NULL, out_pod, &other);
  if (*out_pod == NULL) return ls_ok();
  const ls_status status = other != NULL ? refuse_choice(noun, *out_pod, other)
                                         : check_first(runtime, noun, *out_pod);
  ls_object_release(other);
  if (ls_status_is_ok(status)) return status;
  ls_object_release(*out_pod);
  *out_pod = NULL;
  return status;
}

// Returns the local system if it was shut down, else NULL.
static ls_system_id *find_gone(ls_runtime *runtime) {
  ls_runtime_lock(runtime);
  const ls_tpu_state *state = ls_tpu_state_find(runtime);
  ls_system_id *id = state != NULL ? ls_object_retain(state->gone) : NULL;
  ls_runtime_unlock(runtime);
  return id;
}

ls_status ls_system_here(ls_runtime *runtime, const char *noun, const char *job,
                         ls_system_id **out_id) {
  *out_id = NULL;
  const bool has_job = job != NULL && job[0] != '\0';
  const char *wanted = has_job && strcmp(job, "localhost") != 0 ? job : "";
  ls_system_id *around = ls_system_around();
  if (around != NULL && (!has_job || strcmp(around->job, wanted) == 0)) {
    *out_id = ls_object_retain(around);
    return ls_ok();
  }
  LS_OWN(ls_pod, pod) = NULL;
  LS_RETURN_IF_ERROR(ls_system_of_job(runtime, noun, wanted, &pod));
  if (pod == NULL && !has_job) *out_id = find_gone(runtime);
  if (*out_id != NULL) return ls_ok();
  if (pod == NULL && !has_job)
    LS_RETURN_IF_ERROR(find_only(runtime, noun, &pod));
  if (pod != NULL) *out_id = ls_object_retain(pod->id);
  return ls_ok();
}

void ls_tpu_system_deinit(ls_allocator *allocator, ls_tpu_system *system) {
  ls_release(allocator, system->name);
  ls_release(allocator, system->job);
  ls_topology_release(system->topology);
  *system = (ls_tpu_system){0};
}

static void destroy_state(void *pointer) {
  ls_tpu_state *state = pointer;
  for (size_t i = 0; i < state->num_pods; ++i)
    ls_object_release(state->pods[i]);
  for (size_t i = 0; i < state->num_systems; ++i)
    ls_tpu_system_deinit(state->allocator, &state->systems[i]);
  ls_object_release(state->gone);
  ls_object_release(state->first);
  ls_release(state->allocator, state->pods);
  ls_release(state->allocator, state->systems);
  ls_release(state->allocator, state);
}

ls_tpu_state *ls_tpu_state_get(ls_runtime *runtime) {
  ls_tpu_state *state = ls_tpu_state_find(runtime);
  if (state != NULL) return state;
  state = ls_new(ls_runtime_allocator(runtime), ls_tpu_state);
  if (state == NULL) return NULL;
  state->allocator = ls_runtime_allocator(runtime);
  ls_runtime_set_slot(runtime, LS_SLOT_TPU, state, destroy_state);
  runtime->has_core = ls_pod_has_core;
  runtime->launches = &ls_tpu_launches;
  return state;
}

ls_tpu_system *ls_tpu_state_system(const ls_tpu_state *state, const char *name,
                                   const char *job) {
  for (size_t i = 0; state != NULL && i < state->num_systems; ++i)
    if (strcmp(state->systems[i].name, name) == 0 &&
        strcmp(state->systems[i].job, job) == 0)
      return &state->systems[i];
  return NULL;
}
