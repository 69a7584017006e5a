// SPDX-License-Identifier: Apache-2.0
// Connects to, initializes and shuts down systems.
#include <stdio.h>

#include "base/require.h"
#include "base/threads/locked.h"
#include "graph/graph.h"
#include "lockstep/runtime_settings.h"
#include "runtime/program.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"
#include "tpu/pod/system_id.h"
#include "tpu/system/resolver.h"

// ---- Pods of a back end's devices -------------------------------------------
// Numbers the hosts from 0 and counts them; checks that all have as many
// devices.
static ls_status number_hosts(ls_device_location *devices, int32_t count,
                              int32_t *out_hosts) {
  int32_t hosts = 0, per_host = 0;
  for (int32_t numbered = 0; numbered < count; ++hosts) {
    int32_t least = INT32_MAX, found = 0;
    for (int32_t i = 0; i < count; ++i)
      if (devices[i].host >= hosts && devices[i].host < least)
        least = devices[i].host;
    for (int32_t i = 0; i < count; ++i) {
      if (devices[i].host != least) continue;
      devices[i].host = hosts;
      ++found;
    }
    if (hosts == 0) per_host = found;
    if (found != per_host)
      return ls_failed_precondition(
          "a TPU system of the runtime's %d devices: host 0 has %d of them, "
          "host %d has %d (num_devices)",
          count, per_host, hosts, found);
    numbered += found;
  }
  *out_hosts = hosts;
  return ls_ok();
}

// Moves the coordinates to the origin, and measures the mesh.
static void measure_mesh(ls_device_location *devices, int32_t count,
                         int32_t mesh[LS_MESH_RANK]) {
  for (int k = 0; k < LS_MESH_RANK; ++k) {
    int32_t least = devices[0].at[k], most = least;
    for (int32_t i = 1; i < count; ++i) {
      if (devices[i].at[k] < least) least = devices[i].at[k];
      if (devices[i].at[k] > most) most = devices[i].at[k];
    }
    for (int32_t i = 0; i < count; ++i)
      devices[i].at[k] -= least;
    mesh[k] = most - least + 1;
  }
}

// Finds the shape of the runtime's devices: chips have the coordinates that
// they tell, less the smallest, and hosts the order of their numbers. The
// caller frees the devices with the runtime's allocator, after a failure too.
static ls_status find_shape(ls_runtime *runtime, ls_pod_shape *out_shape,
                            ls_device_location **out_devices) {
  ls_backend *backend = NULL;
  ls_device_facts facts;
  LS_RETURN_IF_ERROR(ls_runtime_backend(runtime, &backend));
  LS_RETURN_IF_ERROR(ls_device_describe(runtime, &facts));
  LS_NEW_ARRAY_OR_RETURN(ls_runtime_allocator(runtime), ls_device_location,
                         devices, (size_t)facts.count);
  out_shape->devices = *out_devices = devices;
  out_shape->num_devices = facts.count;
  for (int32_t i = 0; i < facts.count; ++i)
    LS_RETURN_IF_ERROR(backend->vtable->locate(backend, i, &devices[i]));
  measure_mesh(devices, facts.count, out_shape->mesh);
  return number_hosts(devices, facts.count, &out_shape->hosts);
}

// ---- The table -------------------------------------------------------------
static ls_status copy_system(ls_allocator *allocator, const char *name,
                             const char *job, ls_topology *topology,
                             ls_tpu_system *out) {
  out->name = ls_copy_text(allocator, name, strlen(name));
  out->job = ls_copy_text(allocator, job, strlen(job));
  out->topology = ls_topology_retain(topology);
  if (out->name != NULL && out->job != NULL) return ls_ok();
  ls_tpu_system_deinit(allocator, out);
  return ls_out_of_memory();
}

static ls_status add_system(ls_tpu_state *state, const char *name,
                            const char *job, ls_topology *topology) {
  // Checks that a job has one system at a time, because device names contain
  // only the job.
  for (size_t i = 0; i < state->num_systems; ++i) {
    const ls_tpu_system *other = &state->systems[i];
    if (strcmp(other->job, job) == 0 && strcmp(other->name, name) != 0)
      return ls_failed_precondition(
          "TPU system '%s' cannot be initialized: its job %s belongs to TPU "
          "system '%s', which is initialized; shut that down first, or use "
          "another job (ls_tpu_resolver_options.job)",
          name, ls_job_text(job), other->name);
  }
  LS_RETURN_IF_NO_MEMORY(LS_GROW(state->allocator, state->systems,
                                 state->systems_capacity,
                                 state->num_systems + 1));
  LS_RETURN_IF_ERROR(copy_system(state->allocator, name, job, topology,
                                 &state->systems[state->num_systems]));
  ++state->num_systems;
  ls_tpu_state_note_change(state);
  return ls_ok();
}

static ls_status system_enter(ls_runtime *runtime, const char *name,
                              const char *job, ls_topology *topology,
                              bool *out_again) {
  ls_status status = ls_ok();
  ls_runtime_lock(runtime);
  ls_tpu_state *state = ls_tpu_state_get(runtime);
  ls_tpu_system *there = ls_tpu_state_system(state, name, job);
  *out_again = there != NULL;
  if (state == NULL) {
    status = ls_out_of_memory();
  } else if (there != NULL) {
    ls_topology_retain(topology);
    ls_topology_release(there->topology);
    there->topology = topology;
    ls_tpu_state_note_change(state);
  } else {
    status = add_system(state, name, job, topology);
  }
  ls_runtime_unlock(runtime);
  return status;
}

static bool system_leave(ls_runtime *runtime, const char *name,
                         const char *job) {
  ls_runtime_lock(runtime);
  ls_tpu_state *state = ls_tpu_state_find(runtime);
  ls_tpu_system *there = ls_tpu_state_system(state, name, job);
  const bool was = there != NULL;
  if (was) {
    ls_tpu_system_deinit(state->allocator, there);
    const size_t behind =
        (size_t)(state->systems + state->num_systems - (there + 1));
    memmove(there, there + 1, behind * sizeof(*there));
    --state->num_systems;
    ls_tpu_state_note_change(state);
  }
  ls_runtime_unlock(runtime);
  return was;
}

// Drops the compiled programs of single ops. Programs of functions and sessions
// are checked when they start.
static ls_status clear_caches(ls_runtime *runtime) {
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(runtime, &state));
  ls_runtime_lock(runtime);
  ls_runtime_state_drop_ops(state);
  ls_runtime_unlock(runtime);
  return ls_ok();
}

ls_status ls_pod_start(ls_pod *pod, bool *out_again) {
  *out_again = false;
  LS_RETURN_IF_ERROR(clear_caches(pod->runtime));
  LS_RETURN_IF_ERROR(system_enter(pod->runtime, pod->name, pod->job,
                                  pod->topology, out_again));
  ls_pod_initialize(pod);
  return ls_ok();
}

ls_status ls_pod_stop(ls_pod *pod, bool *out_was) {
  *out_was = false;
  LS_RETURN_IF_ERROR(clear_caches(pod->runtime));
  *out_was = system_leave(pod->runtime, pod->name, pod->job);
  ls_pod_shut_down(pod);
  return ls_ok();
}

// A copy of the table and the memory it owns.
typedef struct systems {
  ls_tpu_systems data;
  ls_allocator *allocator;
} systems;

static ls_status copy_systems(const ls_tpu_state *state, systems *out) {
  const size_t count = state == NULL ? 0 : state->num_systems;
  LS_NEW_ARRAY_OR_RETURN(out->allocator, ls_tpu_system, copies, count);
  out->data.systems = copies;
  for (size_t i = 0; i < count; ++i) {
    const ls_tpu_system *system = &state->systems[i];
    LS_RETURN_IF_ERROR(copy_system(out->allocator, system->name, system->job,
                                   system->topology, &copies[i]));
    ++out->data.count;
  }
  return ls_ok();
}

ls_status ls_tpu_initialized_systems(ls_tpu_systems **out_systems) {
  LS_REQUIRE_OUT(out_systems);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  LS_NEW_OR_RETURN(ls_runtime_allocator(runtime), systems, made);
  made->allocator = ls_runtime_allocator(runtime);
  const ls_status status = LS_RUNTIME_LOCKED(
      runtime, copy_systems(ls_tpu_state_find(runtime), made));
  if (ls_status_is_ok(status))
    *out_systems = &made->data;
  else
    ls_tpu_systems_destroy(&made->data);
  return status;
}

void ls_tpu_systems_destroy(ls_tpu_systems *data) {
  if (data == NULL) return;
  systems *made = (systems *)data;
  for (size_t i = 0; i < data->count; ++i)
    ls_tpu_system_deinit(made->allocator,
                         (ls_tpu_system *)(uintptr_t)&data->systems[i]);
  ls_release(made->allocator, data->systems);
  ls_release(made->allocator, made);
}

// ---- Systems of resolvers --------------------------------------------------
ls_status ls_tpu_open_pod(const ls_tpu_resolver *resolver, ls_pod **out_pod) {
  const char *name = ls_tpu_pod_name(resolver), *job = ls_tpu_pod_job(resolver);
  ls_pod_shape shape = resolver->shape;
  LS_OWN_MEMORY(resolver->arena.allocator, ls_device_location, devices) = NULL;
  // A call without options accepts the existing local pod.
  LS_OWN(ls_pod, there) = ls_pod_find(resolver->runtime, name, job);
  if (there != NULL && resolver->kind == LS_TPU_LOCAL &&
      resolver->options.local == NULL) {
    memcpy(shape.mesh, there->mesh, sizeof(shape.mesh));
    shape.hosts = there->num_hosts;
    shape.faults = there->planned;
  } else if (resolver->of_devices) {
    LS_RETURN_IF_ERROR(find_shape(resolver->runtime, &shape, &devices));
  }
  return ls_pod_open(resolver->runtime, name, job, &shape, out_pod);
}

ls_status ls_tpu_pod(const ls_tpu_resolver *resolver, ls_pod **out_pod) {
  LS_REQUIRE_OUT(out_pod, resolver);
  if (!ls_tpu_is_pod(resolver))
    return ls_unimplemented(
        "a pod of TPU '%s': only local and virtual systems are in this process",
        resolver->name);
  return ls_tpu_open_pod(resolver, out_pod);
}

ls_status ls_tpu_connect(const ls_tpu_resolver *resolver) {
  LS_REQUIRE(resolver);
  LS_RETURN_IF_ERROR(ls_tpu_check_reachable(resolver));
  if (!ls_tpu_is_pod(resolver)) return ls_ok();
  LS_OWN(ls_pod, pod) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_open_pod(resolver, &pod));
  return ls_ok();
}

static bool is_tracing(void) {
  const ls_graph *graph = ls_graph_current();
  for (; graph != NULL; graph = graph->parent)
    if (graph->kind == LS_GRAPH_FUNCTION) return true;
  return false;
}

static void warn_again(const ls_tpu_resolver *resolver) {
  ls_runtime_log(resolver->runtime, LS_LOG_WARNING, "tpu",
                 "TPU system '%s' is already initialized: initializing it "
                 "again may lose the values of variables on it",
                 ls_tpu_pod_name(resolver));
}

static ls_status initialize_pod(const ls_tpu_resolver *resolver, bool tracing,
                                ls_topology **out_topology) {
  LS_OWN(ls_pod, pod) = NULL;
  bool again = false;
  LS_RETURN_IF_ERROR(ls_tpu_open_pod(resolver, &pod));
  const ls_status status = tracing ? ls_ok() : ls_pod_start(pod, &again);
  if (again) warn_again(resolver);
  if (ls_status_is_ok(status))
    *out_topology = ls_topology_retain(pod->topology);
  return status;
}

static ls_status ask_topology(const ls_tpu_resolver *resolver, bool initializes,
                              ls_topology **out_topology) {
  ls_master master;
  ls_tpu_devices devices;
  LS_RETURN_IF_ERROR(
      ls_tpu_resolver_master(resolver, NULL, (ls_opt){0}, &master));
  LS_OWN(ls_arena, arena) = {.allocator = resolver->arena.allocator};
  LS_RETURN_IF_ERROR(ls_tpu_list_devices(
      resolver,
      &(ls_tpu_question){.master = master.text,
                         .wants_topology = true,
                         .initializes = initializes},
      resolver->options.metadata_retries.value, &arena, &devices));
  char text[LS_DEVICES_TEXT];
  if (devices.num_cores == 0)
    return ls_not_found("no TPU in the system at '%s': its devices are %s",
                        master.text, ls_tpu_devices_text(&devices, text));
  *out_topology = devices.topology;
  return ls_ok();
}

static ls_status initialize_remote(const ls_tpu_resolver *resolver,
                                   bool tracing, ls_topology **out_topology) {
  bool again = false;
  LS_OWN(ls_topology, topology) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_check_reachable(resolver));
  LS_RETURN_IF_ERROR(ask_topology(resolver, !tracing, &topology));
  if (!tracing) {
    LS_RETURN_IF_ERROR(clear_caches(resolver->runtime));
    const ls_status status = system_enter(resolver->runtime, resolver->name,
                                          resolver->job, topology, &again);
    if (again) warn_again(resolver);
    LS_RETURN_IF_ERROR(status);
  }
  return ls_hand_over(&topology, out_topology);
}

// Keeps the first topology for the resolver's lifetime, because callers borrow
// the topology's hardware text.
static void keep_topology(ls_tpu_resolver *resolver, ls_topology *topology) {
  ls_mutex_lock(&resolver->lock);
  if (resolver->topology == NULL)
    __atomic_store_n(&resolver->topology, ls_topology_retain(topology),
                     __ATOMIC_RELEASE);
  ls_mutex_unlock(&resolver->lock);
}

ls_status ls_tpu_initialize(ls_tpu_resolver *resolver,
                            ls_topology **out_topology) {
  LS_CLEAR_OUT(out_topology);
  ls_topology *topology = NULL;
  LS_REQUIRE(resolver);
  const bool tracing = is_tracing();
  LS_RETURN_IF_ERROR(ls_tpu_is_pod(resolver)
                         ? initialize_pod(resolver, tracing, &topology)
                         : initialize_remote(resolver, tracing, &topology));
  if (!tracing) keep_topology(resolver, topology);
  if (out_topology != NULL)
    *out_topology = topology;
  else
    ls_topology_release(topology);
  return ls_ok();
}

ls_status ls_tpu_shutdown(ls_tpu_resolver *resolver) {
  LS_REQUIRE(resolver);
  const char *name = ls_tpu_pod_name(resolver), *job = ls_tpu_pod_job(resolver);
  if (is_tracing())
    return ls_failed_precondition(
        "TPU system '%s' cannot be shut down while a function is being traced: "
        "do it outside the function",
        name);
  bool was = false;
  ls_pod *pod = ls_tpu_is_pod(resolver)
                    ? ls_pod_find(resolver->runtime, name, job)
                    : NULL;
  if (pod != NULL) {
    const ls_status status = ls_pod_stop(pod, &was);
    ls_object_release(pod);
    LS_RETURN_IF_ERROR(status);
  } else {
    LS_RETURN_IF_ERROR(clear_caches(resolver->runtime));
    was = system_leave(resolver->runtime, name, job);
  }
  if (!was)
    ls_runtime_log(resolver->runtime, LS_LOG_WARNING, "tpu",
                   "TPU system '%s' is shut down and was not initialized",
                   name);
  return ls_ok();
}

// ---- Devices of the runtime ------------------------------------------------
static ls_device_name *print_devices(const char *type, int count,
                                     ls_device_name *out) {
  for (int i = 0; i < count; ++i)
    snprintf((out++)->text, sizeof(out->text),
             "/job:localhost/replica:0/task:0/device:%s:%d", type, i);
  return out;
}

// Lists the devices of all systems. The runtime lists the local system's CPU
// itself. Requires the runtime's lock.
static ls_status system_list_devices(const ls_runtime *runtime,
                                     ls_device_name **out, size_t *out_count) {
  const ls_tpu_state *state = ls_tpu_state_find(runtime);
  const int cpus = ls_runtime_cpus(runtime), gpus = ls_runtime_gpus(runtime);
  size_t count = (size_t)cpus + (size_t)gpus;
  for (size_t i = 0; state != NULL && i < state->num_pods; ++i)
    if (ls_pod_is_initialized(state->pods[i]))
      count += ls_pod_num_devices(state->pods[i]);
  LS_SET_ARRAY_OR_RETURN(runtime->allocator, ls_device_name, *out, count);
  ls_device_name *next = print_devices("CPU", cpus, *out);
  next = print_devices("GPU", gpus, next);
  for (size_t i = 0; state != NULL && i < state->num_pods; ++i) {
    const ls_pod *pod = state->pods[i];
    if (!ls_pod_is_initialized(pod)) continue;
    ls_pod_devices(pod, next);
    size_t added = ls_pod_num_devices(pod);
    if (pod->job[0] == '\0') {  // The runtime lists its CPU:0 itself.
      memmove(next, next + 1, --added * sizeof(*next));
      --count;
    }
    next += added;
  }
  *out_count = count;
  return ls_ok();
}

ls_status ls_runtime_devices(ls_runtime *runtime, ls_device_name **out_devices,
                             size_t *out_count) {
  LS_REQUIRE_OUT(out_devices);
  LS_REQUIRE_OUT(out_count, runtime);
  return LS_RUNTIME_LOCKED(
      runtime, system_list_devices(runtime, out_devices, out_count));
}
