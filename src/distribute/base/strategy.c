// SPDX-License-Identifier: Apache-2.0
#include "distribute/base/strategy.h"

#include <stdio.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "distribute/own.h"
#include "lockstep/strategy_extended.h"

static int32_t num_devices(const ls_strategy *strategy) {
  return strategy->num_replicas * strategy->num_columns;
}

static void destroy_strategy(ls_object *object) {
  ls_strategy *strategy = (ls_strategy *)object;
  if (strategy->kind->destroy != NULL) strategy->kind->destroy(strategy);
  ls_fiber_pool_destroy(strategy->fibers);
  ls_replicas_free(strategy);
  ls_mutex_deinit(&strategy->lock);
  ls_object_release(strategy->cross_device);
  for (int32_t i = 0; strategy->devices != NULL && i < num_devices(strategy);
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

void ls_strategy_renew_id(ls_strategy *strategy) {
  static uint64_t last;
  strategy->id = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

ls_status ls_strategy_make(const ls_strategy_class *kind, ls_runtime *runtime,
                           int32_t num_replicas, ls_strategy **out_strategy) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN(ls_strategy, strategy) = ls_allocate_zeroed(allocator, 1, kind->size);
  *out_strategy = NULL;
  if (strategy == NULL) return ls_out_of_memory();
  ls_object_init(&strategy->object, &strategy_type);
  strategy->allocator = allocator;
  strategy->runtime = runtime;
  strategy->kind = kind;
  ls_strategy_renew_id(strategy);
  strategy->num_replicas = num_replicas;
  strategy->num_columns = 1;
  LS_RETURN_IF_ERROR(ls_fiber_pool_create(allocator, &strategy->fibers));
  LS_RETURN_IF_ERROR(ls_mutex_init(&strategy->lock));
  *out_strategy = ls_give(&strategy);
  return ls_ok();
}

ls_status ls_strategy_place(ls_strategy *strategy, int32_t index,
                            const char *device) {
  ls_device_name name;
  if (strategy->devices == NULL)
    strategy->devices = ls_new_array(strategy->allocator, char *,
                                     (size_t)num_devices(strategy));
  if (strategy->devices == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_device_canonical(device, NULL, &name));
  char *text = ls_copy_text(strategy->allocator, name.text, strlen(name.text));
  if (text == NULL) return ls_out_of_memory();
  strategy->devices[index] = text;
  if (strategy->no_cpu == NULL && strstr(text, "/device:CPU:") == NULL)
    strategy->no_cpu = text;
  return ls_ok();
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

const char *const *ls_strategy_devices(const ls_strategy *strategy) {
  return (const char *const *)strategy->devices;
}

const char *ls_strategy_device(const ls_strategy *strategy, int32_t replica) {
  return strategy->devices == NULL ? "" : strategy->devices[replica];
}

int32_t ls_strategy_device_index(const ls_strategy *strategy,
                                 const char *device) {
  for (int32_t i = 0; strategy->devices != NULL && i < num_devices(strategy);
       ++i)
    if (strcmp(strategy->devices[i], device) == 0)
      return i % strategy->num_replicas;
  return -1;
}

ls_status ls_strategy_check_devices(const ls_strategy *strategy,
                                    const char *what) {
  return strategy->devices != NULL
             ? ls_ok()
             : ls_failed_precondition("%s has no %s", strategy->label, what);
}

static ls_status all_devices(const ls_strategy *strategy, const char *what,
                             const char **devices, size_t capacity,
                             size_t *out_count) {
  *out_count = 0;
  LS_RETURN_IF_ERROR(ls_strategy_check_devices(strategy, what));
  *out_count = (size_t)strategy->num_replicas;
  for (size_t i = 0; i < *out_count && i < capacity; ++i)
    devices[i] = ls_strategy_device_here(strategy, (int32_t)i);
  return ls_ok();
}

ls_status ls_mirrored_non_slot_devices(const ls_strategy *strategy,
                                       ls_variable *const *variables,
                                       size_t num_variables,
                                       const char **devices, size_t capacity,
                                       size_t *out_count) {
  (void)variables;
  (void)num_variables;
  return all_devices(strategy, "", devices, capacity, out_count);
}

ls_status ls_strategy_worker_devices(const ls_strategy *strategy,
                                     const char **devices, size_t capacity,
                                     size_t *out_count) {
  LS_REQUIRE_OUT(out_count);
  LS_REQUIRE(strategy);
  LS_REQUIRE_ITEMS(devices, capacity);
  return all_devices(strategy, "worker_devices", devices, capacity, out_count);
}

ls_status ls_strategy_parameter_devices(const ls_strategy *strategy,
                                        const char **devices, size_t capacity,
                                        size_t *out_count) {
  LS_REQUIRE_OUT(out_count);
  LS_REQUIRE(strategy);
  LS_REQUIRE_ITEMS(devices, capacity);
  return all_devices(strategy, "parameter_devices", devices, capacity,
                     out_count);
}

ls_status ls_strategy_non_slot_devices(const ls_strategy *strategy,
                                       ls_variable *const *variables,
                                       size_t num_variables,
                                       const char **devices, size_t capacity,
                                       size_t *out_count) {
  LS_REQUIRE_OUT(out_count);
  LS_REQUIRE(strategy);
  LS_REQUIRE_ITEMS(variables, num_variables);
  LS_REQUIRE_ITEMS(devices, capacity);
  return strategy->kind->non_slot_devices(strategy, variables, num_variables,
                                          devices, capacity, out_count);
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

bool ls_strategy_allows_partial_batches(const ls_strategy *strategy) {
  (void)strategy;
  return true;
}

bool ls_strategy_needs_static_shapes(const ls_strategy *strategy) {
  return strategy->kind->needs_static_shapes;
}

bool ls_strategy_packs_variables(const ls_strategy *strategy) {
  return strategy->packs_variables;
}

void ls_strategy_set_packs_variables(ls_strategy *strategy, bool packs) {
  strategy->packs_variables = packs;
}

ls_status ls_strategy_check_has(const ls_strategy *strategy, const char *what) {
  return strategy->is_v1
             ? ls_unimplemented("%s of %s: it is of version 1, which has none",
                                what, strategy->label)
             : ls_ok();
}

bool ls_strategy_uses_policies(const ls_strategy *strategy) {
  return strategy->uses_policies;
}

ls_flag ls_strategy_prefetch(const ls_strategy *strategy) {
  return strategy->prefetch;
}

void ls_strategy_set_prefetch(ls_strategy *strategy, ls_flag prefetch) {
  strategy->prefetch = prefetch;
}
