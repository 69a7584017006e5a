// SPDX-License-Identifier: Apache-2.0
// Counts the devices of a system.
#include <stdio.h>
#include <stdlib.h>

#include "base/device_parts.h"
#include "base/require.h"
#include "tpu/own.h"
#include "tpu/pod/topology.h"
#include "tpu/system/resolver.h"

enum { NANOS_PER_MS = 1000000 };

// ---- Devices ---------------------------------------------------------------
// A device, with facts that its name does not tell.
typedef struct device {
  ls_device_name name;
  ls_device_parts parts;
  bool has_task;  // A core without a task is not counted.
} device;

static int metadata_compare_devices(const void *a, const void *b) {
  const ls_device_parts *x = &((const device *)a)->parts;
  const ls_device_parts *y = &((const device *)b)->parts;
  int order = strcmp(x->job, y->job);
  if (order == 0) order = (x->replica > y->replica) - (x->replica < y->replica);
  if (order == 0) order = (x->task > y->task) - (x->task < y->task);
  if (order == 0) order = strcmp(x->type, y->type);
  if (order == 0) order = (x->index > y->index) - (x->index < y->index);
  return order;
}

static ls_status read_device(const char *name, device *out) {
  LS_RETURN_IF_ERROR(ls_device_parse(name, &out->parts));
  out->has_task = out->parts.task != LS_LEFT_OUT;
  LS_RETURN_IF_ERROR(ls_device_canonical(name, NULL, &out->name));
  return ls_device_parse(out->name.text, &out->parts);
}

// A host by the number of its task; hosts are sorted.
typedef struct host {
  int32_t task, cores;
} host;

static int compare_hosts(const void *a, const void *b) {
  const int32_t x = ((const host *)a)->task, y = ((const host *)b)->task;
  return (x > y) - (x < y);
}

// Counts cores: TPU devices that name a task. Other devices do not count.
static ls_status count_cores(const device *devices, ls_arena *arena,
                             ls_tpu_devices *out) {
  LS_ARENA_ARRAY_OR_RETURN(arena, host, hosts, out->count);
  size_t num = 0;
  for (size_t i = 0; i < out->count; ++i)
    if (devices[i].has_task && strcmp(devices[i].parts.type, "TPU") == 0)
      hosts[num++] = (host){devices[i].parts.task, 1};
  out->num_cores = (int32_t)num;
  if (num > 1) qsort(hosts, num, sizeof(*hosts), compare_hosts);
  size_t kept = 0;
  for (size_t i = 0; i < num; ++i)
    if (kept > 0 && hosts[kept - 1].task == hosts[i].task)
      ++hosts[kept - 1].cores;
    else
      hosts[kept++] = hosts[i];
  out->num_hosts = (int32_t)kept;
  out->per_host = kept > 0 ? hosts[0].cores : 0;
  for (size_t i = 1; i < kept; ++i)
    if (hosts[i].cores != hosts[0].cores) out->per_host = -1;
  return ls_ok();
}

static ls_status read_devices(const char *const *names, size_t count,
                              ls_arena *arena, ls_tpu_devices *out) {
  device *devices = ls_arena_new_array(arena, device, count);
  out->names = ls_arena_new_array(arena, ls_device_name, count);
  out->count = count;
  if (devices == NULL || out->names == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        read_device(names[i] != NULL ? names[i] : "", &devices[i]));
  if (count > 1)
    qsort(devices, count, sizeof(*devices), metadata_compare_devices);
  for (size_t i = 0; i < count; ++i)
    out->names[i] = devices[i].name;
  return count_cores(devices, arena, out);
}

const char *ls_tpu_devices_text(const ls_tpu_devices *devices,
                                char text[LS_DEVICES_TEXT]) {
  size_t at = 0;
  text[0] = '\0';
  for (size_t i = 0; i < devices->count; ++i) {
    const int length = snprintf(text + at, LS_DEVICES_TEXT - at, "%s%s",
                                i == 0 ? "" : ", ", devices->names[i].text);
    if (at + (size_t)length >= LS_DEVICES_TEXT - 24) {
      snprintf(text + at, LS_DEVICES_TEXT - at, " and %zu more",
               devices->count - i);
      break;
    }
    at += (size_t)length;
  }
  return devices->count > 0 ? text : "none";
}

// ---- Pods ------------------------------------------------------------------
size_t ls_pod_num_devices(const ls_pod *pod) {
  return (size_t)ls_pod_num_cores(pod) + 2 * (size_t)pod->num_hosts;
}

void ls_pod_devices(const ls_pod *pod, ls_device_name *names) {
  const char *job = pod->job[0] != '\0' ? pod->job : "localhost";
  for (int32_t h = 0; h < pod->num_hosts; ++h) {
    snprintf((names++)->text, sizeof(names->text),
             "/job:%s/replica:0/task:%d/device:CPU:0", job, h);
    for (int32_t i = 0; i < pod->cores_per_host; ++i)
      ls_core_device(&pod->cores[h * pod->cores_per_host + i], names++);
    snprintf((names++)->text, sizeof(names->text),
             "/job:%s/replica:0/task:%d/device:TPU_SYSTEM:0", job, h);
  }
}

static ls_status list_pod(const ls_tpu_resolver *resolver, bool want_topology,
                          ls_arena *arena, ls_tpu_devices *out) {
  LS_OWN(ls_pod, pod) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_open_pod(resolver, &pod));
  out->count = ls_pod_num_devices(pod);
  out->names = ls_arena_new_array(arena, ls_device_name, out->count);
  if (out->names != NULL) {
    ls_pod_devices(pod, out->names);
    out->num_hosts = pod->num_hosts;
    out->per_host = pod->cores_per_host;
    out->num_cores = ls_pod_num_cores(pod);
    if (want_topology) out->topology = ls_topology_retain(pod->topology);
  }
  return out->names != NULL ? ls_ok() : ls_out_of_memory();
}

// ---- Query -----------------------------------------------------------------
// Queries the system, and repeats the query while no answer comes in time.
static ls_status metadata_ask(const ls_tpu_resolver *resolver,
                              const ls_tpu_question *question, int64_t retries,
                              ls_tpu_answer *out) {
  const ls_tpu_resolver_options *options = &resolver->options;
  for (int64_t i = 1;; ++i) {
    *out = (ls_tpu_answer){0};
    const ls_status status = options->query(options->user, question, out);
    if (ls_status_code(status) != LS_DEADLINE_EXCEEDED || i > retries)
      return status;
    ls_runtime_log(
        resolver->runtime, LS_LOG_WARNING, "tpu",
        "the TPU system at '%s' does not answer: it may not be ready, or the "
        "address is wrong; asking again (%lld of %lld): %s",
        question->master, (long long)i, (long long)retries,
        ls_status_message(status));
    ls_status_free(status);
    ls_runtime_sleep(resolver->runtime, options->retry_ms.value * NANOS_PER_MS);
  }
}

ls_status ls_tpu_list_devices(const ls_tpu_resolver *resolver,
                              const ls_tpu_question *question, int64_t retries,
                              ls_arena *arena, ls_tpu_devices *out_devices) {
  *out_devices = (ls_tpu_devices){0};
  if (ls_tpu_is_pod(resolver))
    return list_pod(resolver, question->wants_topology, arena, out_devices);
  LS_RETURN_IF_ERROR(ls_tpu_check_reachable(resolver));
  ls_tpu_answer answer;
  LS_RETURN_IF_ERROR(metadata_ask(resolver, question, retries, &answer));
  if (answer.num_devices > 0 && answer.devices == NULL)
    return ls_invalid_argument(
        "the query for '%s' gave %zu devices and no list of them",
        question->master, answer.num_devices);
  LS_RETURN_IF_ERROR(ls_status_annotate(
      read_devices(answer.devices, answer.num_devices, arena, out_devices),
      "devices of '%s'", question->master));
  // A system without cores has no topology.
  if (!question->wants_topology || out_devices->num_cores == 0) return ls_ok();
  LS_RETURN_IF_ERROR(ls_status_annotate(
      ls_topology_parse(answer.topology, answer.topology_size,
                        &out_devices->topology),
      "topology of '%s'", question->master));
  out_devices->topology->system = ls_object_retain(resolver->id);
  return ls_ok();
}

// ---- Answers ---------------------------------------------------------------
// Prints the number of cores of each task, such as {0: 2, 1: 4}.
static void print_map(const ls_tpu_devices *devices, char *text, size_t size) {
  size_t at = (size_t)snprintf(text, size, "{");
  for (size_t i = 0; i < devices->count && at + 32 < size;) {
    ls_device_parts parts;
    size_t end = i, cores = 0;
    int task = -1;
    for (; end < devices->count; ++end) {
      ls_status_free(ls_device_parse(devices->names[end].text, &parts));
      if (end > i && parts.task != task) break;
      task = parts.task;
      cores += strcmp(parts.type, "TPU") == 0;
    }
    if (cores > 0)
      at += (size_t)snprintf(text + at, size - at, "%s%d: %zu",
                             at == 1 ? "" : ", ", task, cores);
    i = end;
  }
  snprintf(text + at, size - at, "}");
}

// Asks for the system's devices, and again up to `retries` times. If it does
// not answer, the failure has this code.
static ls_status ask_devices(const ls_tpu_resolver *resolver,
                             ls_tpu_question question, int64_t retries,
                             ls_code code, ls_arena *arena, ls_master *master,
                             ls_tpu_devices *out) {
  LS_RETURN_IF_ERROR(
      ls_tpu_resolver_master(resolver, NULL, (ls_opt){0}, master));
  question.master = master->text;
  const ls_status status =
      ls_tpu_list_devices(resolver, &question, retries, arena, out);
  if (ls_status_code(status) != LS_DEADLINE_EXCEEDED) return status;
  ls_status_free(status);
  return LS_STATUS(code,
                   "the TPU system at '%s' did not answer %lld times: it may "
                   "not be ready, or the address is wrong",
                   master->text, (long long)retries + 1);
}

ls_status ls_tpu_resolver_num_accelerators(const ls_tpu_resolver *resolver,
                                           int32_t *out_tpus) {
  LS_REQUIRE_OUT(out_tpus, resolver);
  ls_master master;
  ls_tpu_devices devices;
  LS_OWN(ls_arena, arena) = {.allocator = resolver->arena.allocator};
  LS_RETURN_IF_ERROR(ask_devices(
      resolver, (ls_tpu_question){0}, resolver->options.device_retries.value,
      LS_FAILED_PRECONDITION, &arena, &master, &devices));
  if (devices.per_host < 0) {
    char map[LS_DEVICES_TEXT];
    print_map(&devices, map, sizeof(map));
    return ls_failed_precondition(
        "hosts of the TPU system at '%s' have different numbers of cores: %s",
        master.text, map);
  }
  *out_tpus = devices.per_host;
  return ls_ok();
}

// The metadata of a query and the memory it owns.
typedef struct metadata {
  ls_tpu_metadata data;
  ls_arena arena;
} metadata;

static ls_status check_metadata(const ls_tpu_devices *devices,
                                bool want_topology, const char *master) {
  char text[LS_DEVICES_TEXT];
  if (devices->per_host < 0)
    return ls_failed_precondition(
        "hosts of the TPU system at '%s' have different numbers of cores: %s",
        master, ls_tpu_devices_text(devices, text));
  if (want_topology && devices->num_cores == 0)
    return ls_failed_precondition(
        "the system at '%s' has no TPU cores, so no topology: the address may "
        "be wrong; its devices are %s",
        master, ls_tpu_devices_text(devices, text));
  return ls_ok();
}

static ls_status query(const ls_tpu_resolver *resolver, bool want_topology,
                       metadata *out) {
  ls_master master;
  ls_tpu_devices devices;
  LS_RETURN_IF_ERROR(
      ask_devices(resolver, (ls_tpu_question){.wants_topology = want_topology},
                  resolver->options.metadata_retries.value, LS_INVALID_ARGUMENT,
                  &out->arena, &master, &devices));
  out->data = (ls_tpu_metadata){.num_cores = devices.num_cores,
                                .num_hosts = devices.num_hosts,
                                .num_of_cores_per_host = devices.per_host,
                                .topology = devices.topology,
                                .devices = devices.names,
                                .num_devices = devices.count};
  return check_metadata(&devices, want_topology, master.text);
}

ls_status ls_tpu_metadata_query(const ls_tpu_resolver *resolver,
                                bool want_topology,
                                ls_tpu_metadata **out_metadata) {
  LS_REQUIRE_OUT(out_metadata, resolver);
  ls_allocator *allocator = resolver->arena.allocator;
  LS_NEW_OR_RETURN(allocator, metadata, made);
  ls_arena_init(&made->arena, allocator);
  LS_OWN(ls_tpu_metadata, data) = &made->data;
  LS_RETURN_IF_ERROR(query(resolver, want_topology, made));
  return ls_hand_over(&data, out_metadata);
}

void ls_tpu_metadata_destroy(ls_tpu_metadata *data) {
  if (data == NULL) return;
  metadata *made = (metadata *)data;
  ls_allocator *allocator = made->arena.allocator;
  ls_topology_release(data->topology);
  ls_arena_deinit(&made->arena);
  ls_release(allocator, made);
}
