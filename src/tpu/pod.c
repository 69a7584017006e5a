// SPDX-License-Identifier: Apache-2.0
#include "tpu/state.h"

#include <stdio.h>

#include "base/device_parts.h"
#include "tpu/pod_fault.h"
#include "tpu/topology.h"

// ---- The table -------------------------------------------------------------
// All with the runtime's lock held.
static ls_pod *find_in(const ls_tpu_state *state, const char *name,
                       const char *job) {
  for (size_t i = 0; state != NULL && i < state->num_pods; ++i)
    if (strcmp(state->pods[i]->name, name) == 0 &&
        strcmp(state->pods[i]->job, job) == 0)
      return state->pods[i];
  return NULL;
}

ls_pod *ls_pod_find(ls_runtime *runtime, const char *name, const char *job) {
  ls_runtime_lock(runtime);
  ls_pod *pod =
      ls_object_retain(find_in(ls_tpu_state_find(runtime), name, job));
  ls_runtime_unlock(runtime);
  return pod;
}

ls_pod *ls_pod_of_job(ls_runtime *runtime, const char *job) {
  ls_runtime_lock(runtime);
  const ls_tpu_state *state = ls_tpu_state_find(runtime);
  ls_pod *found = NULL;
  for (size_t i = 0; state != NULL && i < state->num_pods; ++i) {
    ls_pod *pod = state->pods[i];
    if (strcmp(pod->job, job) != 0) continue;
    if (found == NULL || ls_pod_generation(pod) >= ls_pod_generation(found))
      found = pod;
  }
  ls_object_retain(found);
  ls_runtime_unlock(runtime);
  return found;
}

ls_pod *ls_pod_next(ls_runtime *runtime, size_t *position) {
  ls_runtime_lock(runtime);
  const ls_tpu_state *state = ls_tpu_state_find(runtime);
  ls_pod *pod = state != NULL && *position < state->num_pods
                    ? state->pods[(*position)++]
                    : NULL;
  ls_runtime_unlock(runtime);
  return pod;
}

void ls_pod_reset_queues(ls_pod *pod) {
  ls_mutex_lock(&pod->lock);
  const ls_core_queues *queues = pod->queues;
  ls_mutex_unlock(&pod->lock);
  for (int32_t i = 0; queues != NULL && i < ls_pod_num_cores(pod); ++i)
    queues->reset(&pod->cores[i]);
}

void ls_pod_shut_down(ls_pod *pod) {
  ls_runtime_lock(pod->runtime);
  ls_tpu_state *state = ls_tpu_state_find(pod->runtime);
  bool was_there = false;
  for (size_t i = 0; state != NULL && i < state->num_pods; ++i) {
    if (was_there) state->pods[i - 1] = state->pods[i];
    was_there = was_there || state->pods[i] == pod;
  }
  if (was_there) --state->num_pods;
  __atomic_store_n(&pod->generation, 0, __ATOMIC_RELEASE);
  ls_runtime_unlock(pod->runtime);
  if (!was_there) return;
  ls_pod_reset_queues(pod);
  ls_object_release(pod);
}

// ---- Making ----------------------------------------------------------------
void ls_pod_release(ls_pod *pod) { ls_object_release(pod); }

static void destroy_pod(ls_object *object) {
  ls_pod *pod = (ls_pod *)object;
  const int32_t count = pod->cores == NULL ? 0 : ls_pod_num_cores(pod);
  for (int32_t i = 0; pod->queues != NULL && i < count; ++i)
    pod->queues->destroy(&pod->cores[i]);
  if (pod->faults != NULL) ls_pod_heal(pod);
  ls_release(pod->allocator, pod->faults);
  ls_release(pod->allocator, pod->asked);
  ls_mutex_deinit(&pod->lock);
  ls_topology_release(pod->topology);
  ls_release(pod->allocator, pod->cores);
  ls_release(pod->allocator, pod->name);
  ls_release(pod->allocator, pod->job);
  ls_release(pod->allocator, pod->planned);
  ls_release(pod->allocator, pod);
}

static void print_pod(const ls_object *object, char *buffer, size_t size) {
  const ls_pod *pod = (const ls_pod *)object;
  snprintf(buffer, size, "pod '%s' of job %s, %d hosts of %d cores", pod->name,
           pod->job[0] != '\0' ? pod->job : "localhost", pod->num_hosts,
           pod->cores_per_host);
}

static const ls_object_type pod_type = {
    .name = "pod", .destroy = destroy_pod, .print = print_pod};

// Within a host the core counts fastest, then x, y and z.
static void place_cores(ls_pod *pod) {
  const int32_t *mesh = pod->mesh;
  const int32_t wide = mesh[0] / pod->num_hosts;
  const int32_t size[LS_MESH_RANK] = {wide, mesh[1], mesh[2], mesh[3]};
  static const int order[LS_MESH_RANK] = {3, 0, 1, 2};
  for (int32_t i = 0; i < ls_pod_num_cores(pod); ++i) {
    ls_core *core = &pod->cores[i];
    core->pod = pod;
    core->host = i / pod->cores_per_host;
    core->ordinal = i % pod->cores_per_host;
    int32_t rest = core->ordinal;
    for (int k = 0; k < LS_MESH_RANK; ++k) {
      core->at[order[k]] = rest % size[order[k]];
      rest /= size[order[k]];
    }
    core->at[0] += core->host * wide;
  }
}

static ls_status make_topology(ls_pod *pod) {
  const size_t count = (size_t)ls_pod_num_cores(pod);
  ls_topology_parts parts = {.num_tasks = pod->num_hosts,
                             .per_task = pod->cores_per_host};
  memcpy(parts.mesh, pod->mesh, sizeof(parts.mesh));
  parts.places = ls_new_array(pod->allocator, ls_coordinate, count);
  if (parts.places == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    memcpy(parts.places[i].at, pod->cores[i].at, sizeof(parts.places[i].at));
  return ls_topology_make(pod->allocator, &parts, &pod->topology);
}

static ls_status check_shape(const char *name, const ls_pod_shape *shape) {
  int64_t cores = 1;
  for (int k = 0; k < LS_MESH_RANK; ++k) {
    if (shape->mesh[k] < 1 || shape->mesh[k] > LS_MAX_POD_CORES)
      return ls_invalid_argument("pod '%s' has a mesh with a size of %d; "
                                 "1 to %d are possible",
                                 name, shape->mesh[k], LS_MAX_POD_CORES);
    cores *= shape->mesh[k];
    if (cores > LS_MAX_POD_CORES)
      return ls_invalid_argument("pod '%s' has more than %d cores", name,
                                 LS_MAX_POD_CORES);
  }
  if (shape->hosts < 1 || shape->mesh[0] % shape->hosts != 0)
    return ls_invalid_argument("pod '%s' has %d hosts, which split x: they "
                               "must divide %d",
                               name, shape->hosts, shape->mesh[0]);
  return ls_ok();
}

// Each is behind a ",fault=".
static ls_status plan_faults(ls_pod *pod) {
  for (const char *at = pod->planned; *at != '\0';) {
    ls_pod_fault fault;
    at += strlen(",fault=");
    const size_t size = strcspn(at, ",");
    const char *wrong = ls_pod_fault_parse(at, size, &fault);
    if (wrong != NULL) return ls_internal("'%s' %s", at, wrong);
    LS_RETURN_IF_ERROR(ls_pod_inject(pod, &fault));
    at += size;
  }
  return ls_ok();
}

static ls_status make_pod(ls_runtime *runtime, const char *name,
                          const char *job, const ls_pod_shape *shape,
                          ls_pod **out_pod) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  ls_pod *pod = ls_new(allocator, ls_pod);
  if (pod == NULL) return ls_out_of_memory();
  ls_object_init(&pod->object, &pod_type);
  pod->runtime = runtime;
  pod->allocator = allocator;
  pod->queue_depth =
      shape->queue_depth > 0 ? shape->queue_depth : LS_INFEED_DEPTH;
  pod->core_bytes = shape->core_bytes;
  memcpy(pod->mesh, shape->mesh, sizeof(pod->mesh));
  pod->num_hosts = shape->hosts;
  pod->cores_per_host = shape->mesh[0] * shape->mesh[1] * shape->mesh[2] *
                        shape->mesh[3] / shape->hosts;
  pod->name = ls_copy_text(allocator, name, strlen(name));
  pod->job = ls_copy_text(allocator, job, strlen(job));
  const char *faults = shape->faults != NULL ? shape->faults : "";
  pod->planned = ls_copy_text(allocator, faults, strlen(faults));
  pod->cores = ls_new_array(allocator, ls_core, (size_t)ls_pod_num_cores(pod));
  ls_status status = pod->name == NULL || pod->job == NULL ||
                             pod->planned == NULL || pod->cores == NULL
                         ? ls_out_of_memory()
                         : ls_mutex_init(&pod->lock);
  if (ls_status_is_ok(status)) {
    place_cores(pod);
    status = make_topology(pod);
  }
  if (ls_status_is_ok(status)) status = plan_faults(pod);
  if (ls_status_is_ok(status))
    *out_pod = pod;
  else
    ls_object_release(pod);
  return status;
}

// With the runtime's lock held.
static ls_status add_pod(ls_runtime *runtime, const char *name, const char *job,
                         const ls_pod_shape *shape, ls_pod **out_pod) {
  ls_tpu_state *state = ls_tpu_state_get(runtime);
  if (state == NULL ||
      !ls_grow(state->allocator, &state->pods, &state->pods_capacity,
               state->num_pods + 1, sizeof(*state->pods)))
    return ls_out_of_memory();
  LS_RETURN_IF_ERROR(make_pod(runtime, name, job, shape, out_pod));
  state->pods[state->num_pods++] = *out_pod;
  return ls_ok();
}

// What a shape does not say is as the pod has it.
static ls_status check_same(const ls_pod *pod, const ls_pod_shape *shape) {
  char there[LS_COORDINATE_TEXT], wanted[LS_COORDINATE_TEXT];
  if (memcmp(pod->mesh, shape->mesh, sizeof(pod->mesh)) != 0 ||
      pod->num_hosts != shape->hosts)
    return ls_failed_precondition(
        "pod '%s' is a mesh of %s on %d hosts, not of %s on %d: shut it down "
        "first",
        pod->name, ls_sizes_text(pod->mesh, LS_MESH_RANK, there),
        pod->num_hosts, ls_sizes_text(shape->mesh, LS_MESH_RANK, wanted),
        shape->hosts);
  if (shape->faults != NULL && shape->faults[0] != '\0' &&
      strcmp(shape->faults, pod->planned) != 0)
    return ls_failed_precondition(
        "pod '%s' was made with faults '%s', not '%s': shut it down first",
        pod->name, pod->planned, shape->faults);
  if (shape->queue_depth > 0 && shape->queue_depth != pod->queue_depth)
    return ls_failed_precondition(
        "pod '%s' has queues of %d tuples, not of %d: shut it down first",
        pod->name, pod->queue_depth, shape->queue_depth);
  if (shape->core_bytes > 0 && shape->core_bytes != pod->core_bytes)
    return ls_failed_precondition(
        "pod '%s' has cores of %lld bytes, not of %lld: shut it down first",
        pod->name, (long long)pod->core_bytes, (long long)shape->core_bytes);
  return ls_ok();
}

ls_status ls_pod_open(ls_runtime *runtime, const char *name, const char *job,
                      const ls_pod_shape *shape, ls_pod **out_pod) {
  *out_pod = NULL;
  LS_RETURN_IF_ERROR(check_shape(name, shape));
  ls_runtime_lock(runtime);
  ls_pod *pod = find_in(ls_tpu_state_find(runtime), name, job);
  const ls_status status = pod == NULL
                               ? add_pod(runtime, name, job, shape, &pod)
                               : check_same(pod, shape);
  if (ls_status_is_ok(status)) *out_pod = ls_object_retain(pod);
  ls_runtime_unlock(runtime);
  return status;
}

// ---- One pod ---------------------------------------------------------------
void ls_pod_initialize(ls_pod *pod) {
  ls_runtime_lock(pod->runtime);
  ls_tpu_state *state = ls_tpu_state_find(pod->runtime);
  // A pod that was taken out stays so.
  if (find_in(state, pod->name, pod->job) == pod)
    __atomic_store_n(&pod->generation, ++state->generations, __ATOMIC_RELEASE);
  ls_runtime_unlock(pod->runtime);
  ls_pod_restart_faults(pod);
  ls_pod_restart_watch(pod);
  ls_pod_reset_queues(pod);
}

static ls_status no_such_core(const char *device, const ls_device_parts *parts,
                              const ls_pod *pod) {
  if (pod == NULL)
    return ls_not_found("device '%s': there is no TPU system of job %s; "
                        "connect to one, such as virtual:2x2, and initialize "
                        "it",
                        device,
                        parts->job[0] != '\0' ? parts->job : "localhost");
  return ls_not_found("device '%s': pod '%s' has tasks 0 to %d, each with "
                      "TPU:0 to TPU:%d",
                      device, pod->name, pod->num_hosts - 1,
                      pod->cores_per_host - 1);
}

ls_status ls_pod_lookup_core(ls_runtime *runtime, const char *device,
                             ls_core **out_core) {
  ls_device_parts parts;
  *out_core = NULL;
  LS_RETURN_IF_ERROR(ls_device_parse(device, &parts));
  if (parts.type[0] != '\0' && strcmp(parts.type, "TPU") != 0)
    return ls_not_found("device '%s' is no TPU core: one is named "
                        "/job:JOB/task:HOST/device:TPU:CORE",
                        device);
  const bool is_local = strcmp(parts.job, "localhost") == 0;
  ls_pod *pod = ls_pod_of_job(runtime, is_local ? "" : parts.job);
  if (pod != NULL && (parts.replica == LS_LEFT_OUT || parts.replica == 0))
    *out_core = ls_pod_core(pod, parts.task == LS_LEFT_OUT ? 0 : parts.task,
                            parts.index == LS_LEFT_OUT ? 0 : parts.index);
  if (*out_core != NULL) return ls_ok();
  const ls_status status = no_such_core(device, &parts, pod);
  ls_object_release(pod);
  return status;
}

bool ls_pod_has_core(ls_runtime *runtime, const char *device) {
  ls_core *core = NULL;
  ls_status_free(ls_pod_lookup_core(runtime, device, &core));
  const bool has = core != NULL && ls_pod_is_initialized(core->pod);
  ls_core_release(core);
  return has;
}

void ls_core_release(ls_core *core) {
  if (core != NULL) ls_object_release(core->pod);
}

void ls_core_device(const ls_core *core, ls_device_name *out_name) {
  const char *job = core->pod->job;
  snprintf(out_name->text, sizeof(out_name->text),
           "/job:%s/replica:0/task:%d/device:TPU:%d",
           job[0] != '\0' ? job : "localhost", core->host, core->ordinal);
}
