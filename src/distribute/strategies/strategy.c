// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategies/strategy.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/nest_internal.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/replicas/context.h"
#include "graph/op_table.h"

static void destroy_strategy(ls_object *object) {
  ls_strategy *strategy = (ls_strategy *)object;
  ls_fiber_pool_destroy(strategy->fibers);
  ls_replicas_free(strategy);
  ls_mutex_deinit(&strategy->lock);
  ls_cross_device_release(strategy->cross_device);
  for (int32_t i = 0; strategy->devices != NULL && i < strategy->num_replicas;
       ++i)
    ls_release(strategy->allocator, strategy->devices[i]);
  ls_release(strategy->allocator, strategy->devices);
  ls_release(strategy->allocator, strategy->default_device);
  ls_release(strategy->allocator, strategy->label);
  ls_release(strategy->allocator, strategy->scope_prefix);
  ls_release(strategy->allocator, strategy);
}

static void print_strategy(const ls_object *object, char *buffer, size_t size) {
  snprintf(buffer, size, "%s", ((const ls_strategy *)object)->label);
}

static const ls_object_type strategy_type = {
    .name = "strategy", .destroy = destroy_strategy, .print = print_strategy};

static uint64_t next_id(void) {
  static uint64_t last;
  return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

static ls_status make(ls_runtime *runtime, ls_strategy_kind kind,
                      int32_t num_replicas, ls_strategy **out_strategy) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  ls_strategy *strategy = ls_new(allocator, ls_strategy);
  if (strategy == NULL) return ls_out_of_memory();
  ls_object_init(&strategy->object, &strategy_type);
  strategy->allocator = allocator;
  strategy->runtime = runtime;
  strategy->kind = kind;
  strategy->id = next_id();
  strategy->num_replicas = num_replicas;
  ls_status status = ls_fiber_pool_create(allocator, &strategy->fibers);
  if (ls_status_is_ok(status)) status = ls_mutex_init(&strategy->lock);
  if (ls_status_is_ok(status) && kind == LS_STRATEGY_DEFAULT)
    status = ls_strategy_set_label(strategy, NULL);
  if (ls_status_is_ok(status))
    *out_strategy = strategy;
  else
    ls_strategy_release(strategy);
  return status;
}

// ---- The default strategy --------------------------------------------------
static ls_status destroy_default(void *strategy) {
  ls_strategy_release(strategy);
  return ls_ok();
}

ls_strategy *ls_default_strategy(ls_runtime *runtime) {
  ls_strategy *strategy = ls_runtime_slot(runtime, LS_SLOT_DISTRIBUTE);
  if (strategy != NULL) return strategy;
  ls_runtime_lock(runtime);
  strategy = ls_runtime_slot(runtime, LS_SLOT_DISTRIBUTE);
  if (strategy == NULL) {
    const ls_status status = make(runtime, LS_STRATEGY_DEFAULT, 1, &strategy);
    if (ls_status_is_ok(status))
      ls_runtime_set_slot(runtime, LS_SLOT_DISTRIBUTE, strategy,
                          destroy_default);
    ls_status_free(status);
  }
  ls_runtime_unlock(runtime);
  return strategy;
}

ls_status ls_strategy_default(ls_strategy **out_strategy) {
  LS_REQUIRE(out_strategy);
  ls_runtime *runtime = ls_runtime_current();
  *out_strategy = runtime == NULL ? NULL : ls_default_strategy(runtime);
  return *out_strategy == NULL ? ls_out_of_memory() : ls_ok();
}

// ---- Devices of a mirrored strategy ----------------------------------------
// Where a strategy's replicas are to be: names, or a type and a number.
typedef struct placement {
  const char *const *names;
  const char *type;
  long long count;
} placement;

// Without options: a replica on each device that there is.
static ls_status choose(const ls_runtime *runtime,
                        const ls_mirrored_options *options, placement *out) {
  const int gpus = ls_runtime_gpus(runtime);
  *out = (placement){.type = gpus > 0 ? "GPU" : "CPU",
                     .count = gpus > 0 ? gpus : ls_runtime_cpus(runtime)};
  if (options == NULL) return ls_ok();
  const bool listed = options->devices != NULL;
  if (listed && options->num_gpus.set)
    return ls_invalid_argument("a mirrored strategy is given both devices and "
                               "num_gpus");
  if (options->num_replicas.set && (listed || options->num_gpus.set))
    return ls_invalid_argument("a mirrored strategy is given both num_replicas "
                               "and %s",
                               listed ? "devices" : "num_gpus");
  if (listed) {
    *out = (placement){.names = options->devices,
                       .count = (long long)options->num_devices};
    if (options->num_devices == 0)
      return ls_invalid_argument("a mirrored strategy on an empty list of "
                                 "devices: at least one device must be given");
  } else if (options->num_gpus.set) {
    *out = (placement){.type = "GPU", .count = options->num_gpus.value};
    if (out->count == 0)
      return ls_invalid_argument("a mirrored strategy with num_gpus 0: at "
                                 "least one device must be given");
  } else if (options->num_replicas.set) {
    *out = (placement){.type = "CPU", .count = options->num_replicas.value};
  }
  if (out->count < 1 || out->count > LS_MAX_REPLICAS)
    return ls_invalid_argument(
        "a mirrored strategy of %lld replicas: 1 to %d are possible",
        out->count, LS_MAX_REPLICAS);
  return ls_ok();
}

static void list_devices(const ls_strategy *strategy, char *text, size_t size) {
  size_t at = 0;
  for (int32_t i = 0; i < strategy->num_replicas && at < size; ++i)
    at += (size_t)snprintf(text + at, size - at, "%s%s", i == 0 ? "" : ", ",
                           strategy->devices[i]);
}

static int compare_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static ls_status check_unique(const ls_strategy *strategy) {
  const size_t count = (size_t)strategy->num_replicas;
  const char **sorted = ls_new_array(strategy->allocator, const char *, count);
  if (sorted == NULL) return ls_out_of_memory();
  memcpy(sorted, strategy->devices, count * sizeof(*sorted));
  qsort(sorted, count, sizeof(*sorted), compare_text);
  ls_status status = ls_ok();
  for (size_t i = 1; i < count && ls_status_is_ok(status); ++i) {
    if (strcmp(sorted[i - 1], sorted[i]) != 0) continue;
    char all[600];
    list_devices(strategy, all, sizeof(all));
    status =
        ls_invalid_argument("devices names '%s' twice: %s", sorted[i], all);
  }
  ls_release(strategy->allocator, sorted);
  return status;
}

static size_t worker_length(const char *device) {
  const char *end = strstr(device, "/device:");
  return end == NULL ? strlen(device) : (size_t)(end - device);
}

static bool is_local(const char *device) {
  return strncmp(device, "/job:localhost/", 15) == 0;
}

// All on one worker; more than one is work for several processes.
static ls_status check_workers(const ls_strategy *strategy,
                               const placement *place) {
  const char *first = strategy->devices[0];
  for (int32_t i = 0; i < strategy->num_replicas; ++i) {
    const char *device = strategy->devices[i];
    if (is_local(device) != is_local(first))
      return ls_invalid_argument("devices of this machine (job localhost) "
                                 "stand beside '%s' and '%s'",
                                 first, device);
    if (!is_local(device) && place->names != NULL &&
        strstr(place->names[i], "/task:") == NULL)
      return ls_invalid_argument("device '%s' is of another job and names no "
                                 "task",
                                 place->names[i]);
    const size_t length = worker_length(device);
    if (length == worker_length(first) && strncmp(device, first, length) == 0)
      continue;
    const ls_graph *graph = ls_graph_current();
    return graph != NULL && ls_graph_is_eager(graph)
               ? ls_failed_precondition("a mirrored strategy on devices of "
                                        "several workers does not work in "
                                        "eager mode")
               : ls_unimplemented("in-graph multi-worker: a mirrored strategy "
                                  "on '%s' and '%s'",
                                  first, device);
  }
  return ls_ok();
}

static ls_status set_devices(ls_strategy *strategy, const placement *place) {
  const size_t count = (size_t)strategy->num_replicas;
  strategy->devices = ls_new_array(strategy->allocator, char *, count);
  if (strategy->devices == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i) {
    char text[64];
    ls_device_name name;
    snprintf(text, sizeof(text), "/device:%s:%zu",
             place->type != NULL ? place->type : "", i);
    LS_RETURN_IF_ERROR(ls_device_canonical(
        place->names != NULL ? place->names[i] : text, NULL, &name));
    strategy->devices[i] =
        ls_copy_text(strategy->allocator, name.text, strlen(name.text));
    if (strategy->devices[i] == NULL) return ls_out_of_memory();
    if (strategy->no_cpu == NULL &&
        strstr(strategy->devices[i], "/device:CPU:") == NULL)
      strategy->no_cpu = strategy->devices[i];
  }
  LS_RETURN_IF_ERROR(check_unique(strategy));
  return check_workers(strategy, place);
}

// What else is said of it.
static ls_status set_options(ls_strategy *strategy,
                             const ls_mirrored_options *options) {
  strategy->prefetch = options->prefetch;
  strategy->uses_policies = options->variable_policies == LS_FLAG_ON;
  const char *prefix = options->scope_prefix;
  if (prefix == NULL) return ls_ok();
  const size_t length = strlen(prefix);
  if (length == 0 || length > 100 || strchr(prefix, '/') != NULL)
    return ls_invalid_argument("scope_prefix '%.120s' is no part of a name: "
                               "1 to 100 characters without '/'",
                               prefix);
  strategy->scope_prefix = ls_copy_text(strategy->allocator, prefix, length);
  return strategy->scope_prefix != NULL ? ls_ok() : ls_out_of_memory();
}

ls_status ls_mirrored_strategy_create(const ls_mirrored_options *options,
                                      ls_strategy **out_strategy) {
  LS_REQUIRE(out_strategy);
  *out_strategy = NULL;
  placement place;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(choose(runtime, options, &place));
  ls_strategy *strategy = NULL;
  LS_RETURN_IF_ERROR(
      make(runtime, LS_STRATEGY_MIRRORED, (int32_t)place.count, &strategy));
  ls_status status = set_devices(strategy, &place);
  if (ls_status_is_ok(status))
    status =
        ls_strategy_set_label(strategy, options != NULL ? options->name : NULL);
  if (ls_status_is_ok(status))
    status = ls_strategy_set_cross_device(
        strategy, options != NULL ? options->cross_device : NULL);
  if (options != NULL && ls_status_is_ok(status))
    status = set_options(strategy, options);
  if (ls_status_is_ok(status))
    *out_strategy = strategy;
  else
    ls_strategy_release(strategy);
  return status;
}

ls_status ls_one_device_strategy_create(const char *device,
                                        ls_strategy **out_strategy) {
  LS_REQUIRE(device);
  LS_REQUIRE(out_strategy);
  return ls_mirrored_strategy_create(
      &(ls_mirrored_options){.devices = &device, .num_devices = 1},
      out_strategy);
}

ls_strategy *ls_strategy_retain(ls_strategy *strategy) {
  return ls_object_retain(strategy);
}

void ls_strategy_release(ls_strategy *strategy) { ls_object_release(strategy); }

// ---- What it is ------------------------------------------------------------
int32_t ls_strategy_num_replicas(const ls_strategy *strategy) {
  return strategy->num_replicas;
}

bool ls_strategy_is_single_replica(const ls_strategy *strategy) {
  return strategy->num_replicas == 1;
}

int32_t ls_strategy_device_index(const ls_strategy *strategy,
                                 const char *device) {
  for (int32_t i = 0; strategy->devices != NULL && i < strategy->num_replicas;
       ++i)
    if (strcmp(strategy->devices[i], device) == 0) return i;
  return -1;
}

static ls_status all_devices(const ls_strategy *strategy, const char *what,
                             const char **devices, size_t capacity,
                             size_t *out_count) {
  *out_count = 0;
  if (strategy->devices == NULL)
    return ls_failed_precondition("%s has no %s", strategy->label, what);
  *out_count = (size_t)strategy->num_replicas;
  for (size_t i = 0; i < *out_count && i < capacity; ++i)
    devices[i] = strategy->devices[i];
  return ls_ok();
}

ls_status ls_strategy_worker_devices(const ls_strategy *strategy,
                                     const char **devices, size_t capacity,
                                     size_t *out_count) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(out_count);
  LS_REQUIRE_ITEMS(devices, capacity);
  return all_devices(strategy, "worker_devices", devices, capacity, out_count);
}

ls_status ls_strategy_parameter_devices(const ls_strategy *strategy,
                                        const char **devices, size_t capacity,
                                        size_t *out_count) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(out_count);
  LS_REQUIRE_ITEMS(devices, capacity);
  return all_devices(strategy, "parameter_devices", devices, capacity,
                     out_count);
}

ls_status ls_strategy_non_slot_devices(const ls_strategy *strategy,
                                       ls_variable *const *variables,
                                       size_t num_variables,
                                       const char **devices, size_t capacity,
                                       size_t *out_count) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(out_count);
  LS_REQUIRE_ITEMS(variables, num_variables);
  LS_REQUIRE_ITEMS(devices, capacity);
  if (strategy->devices != NULL)
    return all_devices(strategy, "", devices, capacity, out_count);
  const ls_variable *first = NULL;
  for (size_t i = 0; i < num_variables; ++i)
    if (first == NULL || strcmp(variables[i]->name, first->name) < 0)
      first = variables[i];
  *out_count = first == NULL ? 0 : 1;
  if (first != NULL && capacity > 0) devices[0] = ls_variable_device(first);
  return ls_ok();
}

ls_status ls_strategy_worker_device_index(ls_strategy *strategy,
                                          ls_nest *out_index) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(out_index);
  *out_index = ls_none();
  if (strategy->devices == NULL)
    return ls_failed_precondition("%s has no worker_device_index",
                                  strategy->label);
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(
      ls_cross_replica_begin(&crossing, strategy, "worker_device_index"));
  LS_RETURN_IF_ERROR(ls_cross_replica_end(&crossing, ls_ok(), NULL));
  const size_t count = (size_t)strategy->num_replicas;
  ls_nest *items = ls_new_array(strategy->allocator, ls_nest, count);
  if (items == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_nest_i64((int64_t)i);
  const ls_nest made = ls_nest_distributed_on(
      LS_PER_REPLICA, items, (const char *const *)strategy->devices, count);
  ls_release(strategy->allocator, items);
  return ls_take_nest(made, out_index);
}

bool ls_strategy_between_graph(const ls_strategy *strategy) {
  (void)strategy;
  return false;
}

bool ls_strategy_should_init(const ls_strategy *strategy) {
  (void)strategy;
  return true;
}

bool ls_strategy_should_checkpoint(const ls_strategy *strategy) {
  (void)strategy;
  return true;
}

bool ls_strategy_should_save_summary(const ls_strategy *strategy) {
  (void)strategy;
  return true;
}

bool ls_strategy_is_multi_worker(const ls_strategy *strategy) {
  (void)strategy;
  return false;
}

bool ls_strategy_has_global_batches(const ls_strategy *strategy) {
  (void)strategy;
  return true;
}

ls_cross_device *ls_strategy_cross_device(const ls_strategy *strategy) {
  return strategy->cross_device;
}

ls_status ls_strategy_set_cross_device(ls_strategy *strategy,
                                       ls_cross_device *cross_device) {
  LS_REQUIRE(strategy);
  if (strategy->kind == LS_STRATEGY_DEFAULT)
    return ls_failed_precondition("the default strategy has no cross-device "
                                  "ops");
  if (cross_device == NULL)
    LS_RETURN_IF_ERROR(ls_reduce_to_one_create(NULL, &cross_device));
  else
    ls_cross_device_retain(cross_device);
  const ls_cross_device *before = strategy->cross_device;
  if (before != NULL && (!before->built_in || !cross_device->built_in))
    strategy->id = next_id();
  ls_cross_device_release(strategy->cross_device);
  strategy->cross_device = cross_device;
  return ls_ok();
}

ls_flag ls_strategy_prefetch(const ls_strategy *strategy) {
  return strategy->prefetch;
}

void ls_strategy_set_prefetch(ls_strategy *strategy, ls_flag prefetch) {
  strategy->prefetch = prefetch;
}

// ---- Values ----------------------------------------------------------------
ls_status ls_strategy_split(ls_strategy *strategy, ls_array *array,
                            ls_nest *out_value) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(array);
  LS_REQUIRE(out_value);
  return ls_array_split(array, strategy->num_replicas, out_value);
}
