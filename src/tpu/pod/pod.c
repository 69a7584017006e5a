// SPDX-License-Identifier: Apache-2.0

#include <stdio.h>

#include "base/device_parts.h"
#include "base/threads/locked.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"
#include "tpu/pod/topology.h"

// ---- The table -------------------------------------------------------------
// The functions of this section must be called with the runtime's lock held.
static ls_pod *find_in(const ls_tpu_state *state, const char *name,
                       const char *job) {
  for (size_t i = 0; state != NULL && i < state->num_pods; ++i)
    if (strcmp(state->pods[i]->name, name) == 0 &&
        strcmp(state->pods[i]->job, job) == 0)
      return state->pods[i];
  return NULL;
}

ls_pod *ls_pod_find(ls_runtime *runtime, const char *name, const char *job) {
  return LS_RUNTIME_LOCKED(
      runtime,
      ls_object_retain(find_in(ls_tpu_state_find(runtime), name, job)));
}

ls_pod *ls_pod_of_id(ls_runtime *runtime, const ls_system_id *id) {
  return id == NULL ? NULL : ls_pod_find(runtime, id->name, id->job);
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

static bool pod_has_topology(const ls_pod *pod, const ls_topology *topology) {
  const size_t size = topology->serialized_size;
  return pod->topology->serialized_size == size &&
         memcmp(pod->topology->serialized, topology->serialized, size) == 0;
}

static bool is_candidate(const ls_pod *pod, const char *job,
                         const ls_topology *topology, bool is_initialized) {
  return (!is_initialized || ls_pod_is_initialized(pod)) &&
         (job == NULL || strcmp(pod->job, job) == 0) &&
         (topology == NULL || pod_has_topology(pod, topology));
}

// Finds the only pod of a job with this topology (NULL: any topology);
// `*out_other` is a second such pod.
static void find_only(ls_runtime *runtime, const char *job,
                      const ls_topology *topology, ls_pod **out_pod,
                      ls_pod **out_other) {
  *out_pod = *out_other = NULL;
  ls_runtime_lock(runtime);
  const ls_tpu_state *state = ls_tpu_state_find(runtime);
  for (int rest = 0; rest < 2 && *out_pod == NULL; ++rest)
    for (size_t i = 0; state != NULL && i < state->num_pods; ++i)
      if (*out_other == NULL &&
          is_candidate(state->pods[i], job, topology, rest == 0))
        *(*out_pod == NULL ? out_pod : out_other) =
            ls_object_retain(state->pods[i]);
  ls_runtime_unlock(runtime);
}

void ls_pod_only(ls_runtime *runtime, const char *job, ls_pod **out_pod,
                 ls_pod **out_other) {
  find_only(runtime, job, NULL, out_pod, out_other);
}

void ls_pod_of_topology(ls_runtime *runtime, const ls_topology *topology,
                        ls_pod **out_pod, ls_pod **out_other) {
  *out_other = NULL;
  *out_pod = ls_pod_of_job(runtime, "");
  if (*out_pod != NULL && pod_has_topology(*out_pod, topology)) return;
  ls_object_release(*out_pod);
  find_only(runtime, NULL, topology, out_pod, out_other);
}

// Finds the pod of a system; NULL if there is none. `id` NULL means the local
// system. Requires the lock.
static ls_pod *find_of(const ls_tpu_state *state, const ls_system_id *id) {
  if (id != NULL) return find_in(state, id->name, id->job);
  ls_pod *found = NULL;
  for (size_t i = 0; state != NULL && i < state->num_pods; ++i)
    if (state->pods[i]->job[0] == '\0') found = state->pods[i];
  return found;
}

static ls_status pod_refuse_system(const ls_system_id *id) {
  const char *name = id != NULL ? id->name : "local";
  const char *job = id != NULL ? id->job : "";
  return ls_failed_precondition(
      "the TPU system '%s' is not initialized%s%s: ls_tpu_initialize makes it "
      "ready to run computations",
      name, job[0] != '\0' ? ", in job " : "", job);
}

ls_status ls_pod_ready(ls_runtime *runtime, const ls_system_id *id,
                       ls_pod_of_now *out_now) {
  *out_now = (ls_pod_of_now){.pod = NULL};
  ls_runtime_lock(runtime);
  const ls_tpu_state *state = ls_tpu_state_get(runtime);
  ls_pod *pod = find_of(state, id);
  const bool is_local = id == NULL || id->job[0] == '\0';
  const bool is_ready =
      state == NULL || (pod != NULL && ls_pod_is_initialized(pod)) ||
      (is_local ? state->gone == NULL
                : pod == NULL &&
                      ls_tpu_state_system(state, id->name, id->job) != NULL);
  if (is_ready && state != NULL) {
    out_now->pod = ls_object_retain(pod);
    out_now->generation =
        pod != NULL ? ls_pod_generation(pod)
                    : __atomic_load_n(&state->changes, __ATOMIC_ACQUIRE);
  }
  ls_runtime_unlock(runtime);
  if (state == NULL) return ls_out_of_memory();
  return is_ready ? ls_ok() : pod_refuse_system(id);
}

void ls_pod_reset_queues(ls_pod *pod) {
  const ls_core_queues *queues = LS_LOCKED(&pod->lock, pod->queues);
  for (int32_t i = 0; queues != NULL && i < ls_pod_num_cores(pod); ++i)
    queues->reset(&pod->cores[i]);
}

// Forgets the first system if no pod is initialized any more. Requires the
// lock.
static void forget_first(ls_tpu_state *state) {
  for (size_t i = 0; i < state->num_pods; ++i)
    if (ls_pod_is_initialized(state->pods[i])) return;
  ls_object_release(state->first);
  state->first = NULL;
}

void ls_pod_shut_down(ls_pod *pod) {
  ls_runtime_lock(pod->runtime);
  ls_tpu_state *state = ls_tpu_state_find(pod->runtime);
  bool was_there = false;
  for (size_t i = 0; state != NULL && i < state->num_pods; ++i) {
    if (was_there) state->pods[i - 1] = state->pods[i];
    was_there = was_there || state->pods[i] == pod;
  }
  if (was_there) {
    --state->num_pods;
    forget_first(state);
    if (pod->job[0] == '\0' && ls_pod_is_initialized(pod)) {
      ls_object_release(state->gone);
      state->gone = ls_object_retain(pod->id);
    }
    ls_tpu_state_note_change(state);
  }
  __atomic_store_n(&pod->generation, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&pod->is_gone, true, __ATOMIC_RELEASE);
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
  ls_object_release(pod->id);
  ls_release(pod->allocator, pod->planned);
  ls_release(pod->allocator, pod);
}

static void print_pod(const ls_object *object, char *buffer, size_t size) {
  const ls_pod *pod = (const ls_pod *)object;
  snprintf(buffer, size, "pod '%s' of job %s, %d hosts of %d cores", pod->name,
           ls_job_text(pod->job), pod->num_hosts, pod->cores_per_host);
}

static const ls_object_type pod_type = {
    .name = "pod", .destroy = destroy_pod, .print = print_pod};

// Makes cores of devices, host by host, in their order.
static void place_devices(ls_pod *pod, const ls_pod_shape *shape) {
  ls_core *core = pod->cores;
  for (int32_t h = 0; h < pod->num_hosts; ++h)
    for (int32_t i = 0, ordinal = 0; i < shape->num_devices; ++i) {
      if (shape->devices[i].host != h) continue;
      *core =
          (ls_core){.pod = pod, .host = h, .ordinal = ordinal++, .device = i};
      memcpy(core->at, shape->devices[i].at, sizeof(core->at));
      ++core;
    }
}

// Numbers the cores: within a host the core counts fastest, then x, y and z.
static void place_cores(ls_pod *pod) {
  const int32_t *mesh = pod->mesh;
  const int32_t wide = mesh[0] / pod->num_hosts;
  const int32_t size[LS_MESH_RANK] = {wide, mesh[1], mesh[2], mesh[3]};
  static const int order[LS_MESH_RANK] = {3, 0, 1, 2};
  for (int32_t i = 0; i < ls_pod_num_cores(pod); ++i) {
    ls_core *core = &pod->cores[i];
    core->pod = pod;
    core->device = -1;
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
                             .per_task = pod->cores_per_host,
                             .system = pod->id};
  memcpy(parts.mesh, pod->mesh, sizeof(parts.mesh));
  LS_SET_ARRAY_OR_RETURN(pod->allocator, ls_coordinate, parts.places, count);
  for (size_t i = 0; i < count; ++i)
    memcpy(parts.places[i].at, pod->cores[i].at, sizeof(parts.places[i].at));
  return ls_topology_make(pod->allocator, &parts, &pod->topology);
}

static ls_status check_shape(const char *name, const ls_pod_shape *shape) {
  int64_t cores = 1;
  for (int k = 0; k < LS_MESH_RANK; ++k) {
    if (shape->mesh[k] < 1 || shape->mesh[k] > LS_MAX_POD_CORES)
      return ls_invalid_argument(
          "pod '%s' has a mesh with a size of %d; 1 to %d are possible", name,
          shape->mesh[k], LS_MAX_POD_CORES);
    cores *= shape->mesh[k];
    if (cores > LS_MAX_POD_CORES)
      return ls_invalid_argument("pod '%s' has more than %d cores", name,
                                 LS_MAX_POD_CORES);
  }
  if (shape->devices == NULL &&
      (shape->hosts < 1 || shape->mesh[0] % shape->hosts != 0))
    return ls_invalid_argument(
        "pod '%s' has %d hosts, which split x: they must divide %d", name,
        shape->hosts, shape->mesh[0]);
  return ls_ok();
}

// Plans the faults listed as ",fault=..." in the pod's name.
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
  LS_OWN_NEW_OR_RETURN(allocator, ls_pod, pod);
  ls_object_init(&pod->object, &pod_type);
  pod->runtime = runtime;
  pod->allocator = allocator;
  pod->queue_depth =
      shape->queue_depth > 0 ? shape->queue_depth : LS_INFEED_DEPTH;
  pod->core_bytes = shape->core_bytes;
  memcpy(pod->mesh, shape->mesh, sizeof(pod->mesh));
  pod->num_hosts = shape->hosts;
  pod->cores_per_host =
      (shape->devices != NULL ? shape->num_devices
                              : shape->mesh[0] * shape->mesh[1] *
                                    shape->mesh[2] * shape->mesh[3]) /
      shape->hosts;
  const char *faults = shape->faults != NULL ? shape->faults : "";
  pod->planned = ls_copy_text(allocator, faults, strlen(faults));
  pod->cores = ls_new_array(allocator, ls_core, (size_t)ls_pod_num_cores(pod));
  LS_RETURN_IF_NO_MEMORY(pod->planned);
  LS_RETURN_IF_NO_MEMORY(pod->cores);
  LS_RETURN_IF_ERROR(ls_mutex_init(&pod->lock));
  LS_RETURN_IF_ERROR(ls_system_id_create(allocator, name, job, &pod->id));
  pod->name = pod->id->name;
  pod->job = pod->id->job;
  if (shape->devices != NULL)
    place_devices(pod, shape);
  else
    place_cores(pod);
  LS_RETURN_IF_ERROR(make_topology(pod));
  LS_RETURN_IF_ERROR(plan_faults(pod));
  return ls_hand_over(&pod, out_pod);
}

// Adds a pod to the table. Requires the runtime's lock.
static ls_status add_pod(ls_runtime *runtime, const char *name, const char *job,
                         const ls_pod_shape *shape, ls_pod **out_pod) {
  ls_tpu_state *state = ls_tpu_state_get(runtime);
  LS_RETURN_IF_ERROR(check_shape(name, shape));
  if (state == NULL || !LS_GROW(state->allocator, state->pods,
                                state->pods_capacity, state->num_pods + 1))
    return ls_out_of_memory();
  LS_RETURN_IF_ERROR(make_pod(runtime, name, job, shape, out_pod));
  state->pods[state->num_pods++] = *out_pod;
  ls_tpu_state_note_change(state);
  return ls_ok();
}

// Checks that the pod has the requested shape; unset fields of the shape match
// anything.
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
  ls_runtime_lock(runtime);
  ls_pod *pod = find_in(ls_tpu_state_find(runtime), name, job);
  const ls_status status = pod == NULL
                               ? add_pod(runtime, name, job, shape, &pod)
                               : check_same(pod, shape);
  if (ls_status_is_ok(status)) *out_pod = ls_object_retain(pod);
  ls_runtime_unlock(runtime);
  return status;
}

// ---- A pod -----------------------------------------------------------------
void ls_pod_initialize(ls_pod *pod) {
  ls_runtime_lock(pod->runtime);
  ls_tpu_state *state = ls_tpu_state_find(pod->runtime);
  // Initializes the pod only if it is still in the table.
  if (find_in(state, pod->name, pod->job) == pod) {
    __atomic_store_n(&pod->generation, ++state->generations, __ATOMIC_RELEASE);
    if (state->first == NULL) state->first = ls_object_retain(pod->id);
    if (pod->job[0] == '\0') {
      ls_object_release(state->gone);
      state->gone = NULL;
    }
    ls_tpu_state_note_change(state);
  }
  ls_runtime_unlock(pod->runtime);
  ls_pod_restart_faults(pod);
  ls_pod_restart_watch(pod);
  ls_pod_reset_queues(pod);
}

ls_status ls_pod_check_sizes(const ls_pod *pod,
                             const int64_t sizes[LS_POD_SIZES]) {
  int64_t now[LS_POD_SIZES];
  int32_t built[LS_POD_SIZES];
  char before[LS_COORDINATE_TEXT], mesh[LS_COORDINATE_TEXT];
  ls_pod_sizes(pod, now);
  if (memcmp(now, sizes, sizeof(now)) == 0) return ls_ok();
  for (int i = 0; i < LS_POD_SIZES; ++i)
    built[i] = (int32_t)sizes[i];
  return ls_failed_precondition(
      "the computation was built for TPU system '%s' when it was a mesh of %s "
      "on %d hosts; now it is one of %s on %d: build it, and its strategy or "
      "device assignment, again",
      pod->name, ls_sizes_text(built, LS_MESH_RANK, before),
      built[LS_MESH_RANK], ls_sizes_text(pod->mesh, LS_MESH_RANK, mesh),
      pod->num_hosts);
}

ls_status ls_pod_refuse_job(ls_runtime *runtime, const char *what,
                            const char *job) {
  LS_OWN(ls_pod, pod) = NULL;
  LS_OWN(ls_pod, other) = NULL;
  ls_pod_only(runtime, NULL, &pod, &other);
  if (pod == NULL)
    return ls_not_found("%s: there is no TPU system of job %s; connect to one, "
                        "such as virtual:2x2, and initialize it",
                        what, ls_job_text(job));
  return ls_not_found("%s: there is no TPU system of job %s: '%s' is of job "
                      "%s, whose first core is /job:%s/task:0/device:TPU:0",
                      what, ls_job_text(job), pod->name, ls_job_text(pod->job),
                      ls_job_text(pod->job));
}

static ls_status no_such_core(ls_runtime *runtime, const char *device,
                              const ls_device_parts *parts, const ls_pod *pod) {
  char what[LS_MAX_DEVICE_NAME + 16];
  snprintf(what, sizeof(what), "device '%s'", device);
  if (pod == NULL) return ls_pod_refuse_job(runtime, what, parts->job);
  return ls_not_found("%s: pod '%s' has tasks 0 to %d, each with TPU:0 to TPU:%d",
                      what, pod->name, pod->num_hosts - 1,
                      pod->cores_per_host - 1);
}

// Returns the core that the parts name; left out, the first one of its host.
static ls_core *core_of(ls_pod *pod, const ls_device_parts *parts) {
  return ls_pod_core(pod, parts->task == LS_LEFT_OUT ? 0 : parts->task,
                     parts->index == LS_LEFT_OUT ? 0 : parts->index);
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
    *out_core = core_of(pod, &parts);
  if (*out_core != NULL) return ls_ok();
  const ls_status status = no_such_core(runtime, device, &parts, pod);
  ls_object_release(pod);
  return status;
}

ls_core *ls_pod_core_at(ls_pod *pod, const char *device) {
  ls_device_parts parts;
  const ls_status status = ls_device_parse(device, &parts);
  const bool is_named = ls_status_is_ok(status);
  ls_status_free(status);
  return is_named ? core_of(pod, &parts) : NULL;
}

bool ls_pod_has_core(ls_runtime *runtime, const char *name,
                     int32_t *out_device) {
  ls_core *core = NULL;
  ls_status_free(ls_pod_lookup_core(runtime, name, &core));
  const bool has = core != NULL && ls_pod_is_initialized(core->pod);
  if (has) *out_device = core->device;
  ls_core_release(core);
  return has;
}

void ls_core_release(ls_core *core) {
  if (core != NULL) ls_object_release(core->pod);
}

void ls_core_device(const ls_core *core, ls_device_name *out_name) {
  snprintf(out_name->text, sizeof(out_name->text),
           "/job:%s/replica:0/task:%d/device:TPU:%d",
           ls_job_text(core->pod->job), core->host, core->ordinal);
}
