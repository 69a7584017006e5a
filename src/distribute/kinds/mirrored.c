// SPDX-License-Identifier: Apache-2.0
//
// Mirrored strategies: one replica on each of several devices of a machine, or
// of the workers of a cluster, one rank each.
#include <stdio.h>
#include <stdlib.h>

#include "base/device_parts.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/input/input.h"
#include "distribute/own.h"
#include "lockstep/communicator.h"
#include "lockstep/device.h"
#include "lockstep/multi_worker.h"
#include "lockstep/runtime_settings.h"
#include "lockstep/strategy_extended.h"

// The workers of a cluster that was checked, each with the devices that the
// options describe.
typedef struct mirrored_workers {
  const ls_cluster_spec *cluster;
  int32_t count, own;
  const ls_collective_options *collective;
} mirrored_workers;

// ---- Place the replicas -----------------------------------------------------
// The devices that were requested: names, or a type and a number.
typedef struct placement {
  const char *const *names;
  const char *type;
  long long count;                  // On each worker.
  const mirrored_workers *workers;  // NULL: this process alone.
  bool is_chosen;                   // The user named or counted the devices.
} placement;

// Chooses the type and number of devices without options: those that the
// runtime was told, else those that compute its programs.
static ls_status choose_all(ls_runtime *runtime, bool is_one, placement *out) {
  ls_device_facts facts = {0};
  const int gpus = ls_runtime_gpus(runtime);
  const int cpus = is_one ? 1 : ls_runtime_cpus(runtime);
  *out = (placement){.type = gpus > 0 ? "GPU" : "CPU",
                     .count = gpus > 0 ? gpus : cpus};
  if (gpus > 0 || strcmp(ls_runtime_device(runtime), "cpu") == 0)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_device_describe(runtime, &facts));
  out->type = facts.type;
  if (!is_one && facts.count > cpus) out->count = facts.count;
  return ls_ok();
}

// Chooses the devices; without options, all devices of the machine.
static ls_status mirrored_choose(ls_runtime *runtime,
                                 const ls_mirrored_options *options,
                                 const mirrored_workers *workers,
                                 placement *out) {
  LS_RETURN_IF_ERROR(choose_all(runtime, workers != NULL, out));
  const char *type = out->type;
  out->workers = workers;
  if (options == NULL) return ls_ok();
  const bool listed = options->devices != NULL;
  if (listed && options->num_gpus.set)
    return ls_invalid_argument(
        "a mirrored strategy is given both devices and num_gpus");
  if (options->num_replicas.set && (listed || options->num_gpus.set))
    return ls_invalid_argument(
        "a mirrored strategy is given both num_replicas and %s",
        listed ? "devices" : "num_gpus");
  if (listed) {
    *out = (placement){.names = options->devices,
                       .count = (long long)options->num_devices,
                       .is_chosen = true};
    if (options->num_devices == 0)
      return ls_invalid_argument("a mirrored strategy on an empty list of "
                                 "devices: at least one device must be given");
  } else if (options->num_gpus.set) {
    out->type = "GPU";
    out->is_chosen = true;
    out->count = options->num_gpus.value;
    if (out->count == 0)
      return ls_invalid_argument("a mirrored strategy with num_gpus 0: at "
                                 "least one device must be given");
  } else if (options->num_replicas.set) {
    out->type = strcmp(ls_runtime_device(runtime), "cpu") == 0 ? "CPU" : type;
    out->count = options->num_replicas.value;
  }
  const int32_t times = workers != NULL ? workers->count : 1;
  if (out->count < 1 || out->count > LS_MAX_REPLICAS / times)
    return ls_invalid_argument(
        "a mirrored strategy of %lld replicas: 1 to %d are possible",
        out->count, LS_MAX_REPLICAS);
  return ls_ok();
}

static void mirrored_list_devices(const ls_strategy *strategy, char *text,
                                  size_t size) {
  size_t at = 0;
  for (int32_t i = 0; i < strategy->num_replicas && at < size; ++i)
    at += (size_t)snprintf(text + at, size - at, "%s%s", i == 0 ? "" : ", ",
                           ls_strategy_device(strategy, i));
}

static int compare_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t worker_length(const char *device) {
  const char *end = strstr(device, "/device:");
  return end == NULL ? strlen(device) : (size_t)(end - device);
}

static bool is_local(const char *device) {
  return strncmp(device, "/job:localhost/", 15) == 0;
}

// Checks the GPUs of each worker: as many as the first one has, numbered from
// 0.
static ls_status check_gpus(const ls_strategy *strategy) {
  int first_count = -1;
  const int32_t replicas = strategy->num_replicas;
  for (int32_t i = 0; i < replicas; ++i) {
    const char *device = ls_strategy_device(strategy, i);
    const size_t length = worker_length(device);
    int count = 0, most = -1;
    for (int32_t k = 0; k < replicas; ++k) {
      const char *other = ls_strategy_device(strategy, k);
      const char *gpu = strstr(other, "/device:GPU:");
      if (worker_length(other) != length || gpu == NULL ||
          strncmp(device, other, length) != 0)
        continue;
      const int index = atoi(gpu + strlen("/device:GPU:"));
      most = index > most ? index : most;
      ++count;
    }
    if (most + 1 != count)
      return ls_invalid_argument("worker '%.*s' has %d GPUs with indices up to "
                                 "%d: they go from 0 without gaps",
                                 (int)length, device, count, most);
    if (first_count < 0) first_count = count;
    if (count != first_count)
      return ls_invalid_argument(
          "worker '%.*s' has %d GPUs, '%.*s' has %d: all workers have the same "
          "number",
          (int)length, device, count,
          (int)worker_length(ls_strategy_device(strategy, 0)),
          ls_strategy_device(strategy, 0), first_count);
  }
  return ls_ok();
}

// Checks the devices of several workers in one graph, and sets the first worker
// as the device of ops.
static ls_status use_workers(ls_strategy *strategy,
                             const ls_cross_device *cross_device) {
  const ls_graph *graph = ls_graph_current();
  const char *first = ls_strategy_device(strategy, 0);
  if (graph != NULL && ls_graph_is_eager(graph))
    return ls_failed_precondition("a mirrored strategy on devices of several "
                                  "workers does not work in eager mode");
  if (cross_device != NULL &&
      strcmp(ls_cross_device_name(cross_device), "reduce_to_one") != 0)
    return ls_unimplemented(
        "in-graph multi-worker: a mirrored strategy on '%s' and '%s' with "
        "cross-device ops '%s', other than reduce_to_one",
        first, ls_strategy_device(strategy, strategy->num_replicas - 1),
        ls_cross_device_name(cross_device));
  LS_RETURN_IF_ERROR(check_gpus(strategy));
  strategy->default_device =
      ls_copy_text(strategy->allocator, first, worker_length(first));
  return strategy->default_device != NULL ? ls_ok() : ls_out_of_memory();
}

// Checks that all devices are on one worker, or of several that are in one
// graph; several processes have a cluster.
static ls_status check_workers(ls_strategy *strategy, const placement *place,
                               const ls_cross_device *cross_device) {
  const char *first = ls_strategy_device(strategy, 0);
  bool is_one = true;
  for (int32_t i = 0; i < strategy->num_replicas; ++i) {
    const char *device = ls_strategy_device(strategy, i);
    if (is_local(device) != is_local(first))
      return ls_invalid_argument("devices of this machine (job localhost) are "
                                 "mixed with '%s' and '%s'",
                                 first, device);
    if (!is_local(device) && place->names != NULL &&
        strstr(place->names[i], "/task:") == NULL)
      return ls_invalid_argument(
          "device '%s' is of another job and names no task", place->names[i]);
    const size_t length = worker_length(device);
    is_one = is_one && length == worker_length(first) &&
             strncmp(device, first, length) == 0;
  }
  return is_one ? ls_ok() : use_workers(strategy, cross_device);
}

static ls_status set_devices(ls_strategy *strategy, const placement *place) {
  for (int32_t i = 0; i < strategy->num_replicas; ++i) {
    ls_device_name text = {{0}};
    const int32_t local = (int32_t)place->count;
    if (place->workers != NULL)
      ls_cluster_device(place->workers->cluster, i / local, place->type,
                        i % local, &text);
    else if (place->names == NULL)
      snprintf(text.text, sizeof(text.text), "/device:%s:%d", place->type, i);
    LS_RETURN_IF_ERROR(ls_strategy_place(
        strategy, i, place->names != NULL ? place->names[i] : text.text));
  }
  const size_t count = (size_t)strategy->num_replicas;
  LS_OWN_ARRAY_OR_RETURN(strategy->allocator, const char *, sorted, count);
  memcpy(sorted, ls_strategy_devices(strategy), count * sizeof(*sorted));
  qsort(sorted, count, sizeof(*sorted), compare_text);
  for (size_t i = 1; i < count; ++i) {
    if (strcmp(sorted[i - 1], sorted[i]) != 0) continue;
    char all[600];
    mirrored_list_devices(strategy, all, sizeof(all));
    return ls_invalid_argument("devices names '%s' twice: %s", sorted[i], all);
  }
  return ls_ok();
}

// Sets the cross-device ops: on several processes by default collective ones.
static ls_status set_cross_device(ls_strategy *strategy, const placement *place,
                                  ls_cross_device *given) {
  const mirrored_workers *workers = place->workers;
  if (workers == NULL || given != NULL)
    return ls_strategy_set_cross_device(strategy, given);
  LS_OWN(ls_cross_device, made) = NULL;
  LS_RETURN_IF_ERROR(ls_collective_ops_create(
      &ls_strategy_devices(strategy)[workers->own * place->count],
      (size_t)place->count, strategy->num_replicas, workers->collective,
      &made));
  return ls_strategy_set_cross_device(strategy, made);
}

// Sets the options other than devices.
static ls_status set_options(ls_strategy *strategy,
                             const ls_mirrored_options *options) {
  strategy->prefetch = options->prefetch;
  strategy->uses_policies = options->variable_policies == LS_FLAG_ON;
  const char *prefix = options->scope_prefix;
  if (prefix == NULL) return ls_ok();
  const size_t length = strlen(prefix);
  if (length == 0 || length > 100 || strchr(prefix, '/') != NULL)
    return ls_invalid_argument("scope_prefix '%.120s' is no part of a name: 1 "
                               "to 100 characters without '/'",
                               prefix);
  strategy->scope_prefix = ls_copy_text(strategy->allocator, prefix, length);
  return strategy->scope_prefix != NULL ? ls_ok() : ls_out_of_memory();
}

static ls_status mirrored_make(const ls_mirrored_options *options,
                               const mirrored_workers *workers,
                               ls_strategy **out_strategy) {
  static const ls_mirrored_options defaults;
  placement place;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(mirrored_choose(runtime, options, workers, &place));
  if (options == NULL) options = &defaults;
  const int32_t times = workers != NULL ? workers->count : 1;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_RETURN_IF_ERROR(ls_strategy_make(&ls_mirrored_strategy_class, runtime,
                                      (int32_t)place.count * times, &strategy));
  strategy->follows_chief = workers != NULL;
  strategy->is_placed = place.is_chosen;
  LS_RETURN_IF_ERROR(set_devices(strategy, &place));
  if (workers == NULL)
    LS_RETURN_IF_ERROR(check_workers(strategy, &place, options->cross_device));
  LS_RETURN_IF_ERROR(ls_strategy_set_label(strategy, options->name));
  LS_RETURN_IF_ERROR(set_cross_device(strategy, &place, options->cross_device));
  LS_RETURN_IF_ERROR(set_options(strategy, options));
  return ls_hand_over(&strategy, out_strategy);
}

ls_status ls_mirrored_strategy_create(const ls_mirrored_options *options,
                                      ls_strategy **out_strategy) {
  LS_REQUIRE_OUT(out_strategy);
  if (options != NULL) LS_REQUIRE_EACH(options->devices, options->num_devices);
  return mirrored_make(options, NULL, out_strategy);
}

ls_status ls_one_device_strategy_create(const char *device,
                                        ls_strategy **out_strategy) {
  LS_REQUIRE_OUT(out_strategy, device);
  return ls_mirrored_strategy_create(
      &(ls_mirrored_options){.devices = &device, .num_devices = 1},
      out_strategy);
}

// ---- Workers of a cluster ---------------------------------------------------
static ls_status check_local(const ls_mirrored_options *local) {
  return local == NULL || local->devices == NULL
             ? ls_ok()
             : ls_invalid_argument(
                   "a strategy is given both a cluster and devices: workers "
                   "have num_replicas or num_gpus");
}

static ls_status find_worker(const ls_worker_options *worker,
                             ls_cluster_task *out_task) {
  const char *type = worker->task_type;
  if (type == NULL || !worker->task_id.set)
    return ls_invalid_argument(
        "a strategy on a cluster needs task_type and task_id");
  LS_RETURN_IF_ERROR(ls_cluster_find_task(
      worker->cluster, type, (int32_t)worker->task_id.value, out_task));
  return strcmp(type, "chief") == 0 || strcmp(type, "worker") == 0
             ? ls_ok()
             : ls_invalid_argument("task '%s' of a cluster is no worker: it "
                                   "takes no part in a strategy",
                                   type);
}

static ls_status check_rank(const ls_runtime *runtime,
                            const ls_cluster_task *task) {
  const ls_communicator *communicator = ls_runtime_communicator(runtime);
  const int32_t ranks = communicator != NULL ? communicator->ranks : 1;
  const int32_t rank = communicator != NULL ? communicator->rank : 0;
  if (ranks != task->num_workers)
    return ls_failed_precondition(
        "the cluster has %d workers, the runtime %d ranks", task->num_workers,
        ranks);
  return rank == task->id
             ? ls_ok()
             : ls_failed_precondition(
                   "worker %d of the cluster is rank %d of the runtime",
                   task->id, rank);
}

ls_status ls_multi_worker_strategy_create(const ls_mirrored_options *local,
                                          const ls_worker_options *worker,
                                          ls_strategy **out_strategy) {
  LS_REQUIRE_OUT(out_strategy, worker, worker->cluster);
  ls_cluster_task task;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(check_local(local));
  LS_RETURN_IF_ERROR(find_worker(worker, &task));
  LS_RETURN_IF_ERROR(check_rank(runtime, &task));
  const mirrored_workers workers = {worker->cluster, task.num_workers, task.id,
                                    worker->collective};
  return mirrored_make(local, &workers, out_strategy);
}

// ---- Its class -------------------------------------------------------------
const ls_strategy_class ls_mirrored_strategy_class = {
    .name = "mirrored strategy",
    .size = sizeof(ls_strategy),
    .distributes = true,
    .classes = &ls_mirrored_classes,
    .policies = &ls_mirrored_policies,
    .run = ls_mirrored_run,
    .reduce = ls_mirrored_reduce,
    .reduce_to = ls_mirrored_reduce_to,
    .batch_reduce_to = ls_mirrored_batch_reduce_to,
    .broadcast_to = ls_mirrored_broadcast_to,
    .gather = ls_mirrored_gather,
    .fetch = ls_mirrored_fetch,
    .update = ls_mirrored_update,
    .update_non_slot = ls_mirrored_update_non_slot,
    .map = ls_mirrored_map,
    .create_variable = ls_mirrored_create_variable,
    .distribute = ls_input_distribute,
    .value_container = ls_value_container,
    .non_slot_devices = ls_mirrored_non_slot_devices,
};
