// SPDX-License-Identifier: Apache-2.0
#include "distribute/base/strategy.h"

#include <stdio.h>

#include "base/memory/allocator.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/threads/thread_state.h"
#include "distribute/own.h"
#include "graph/layers.h"
#include "lockstep/communicator.h"
#include "lockstep/replica.h"
#include "lockstep/strategy_extended.h"

static int32_t num_devices(const ls_strategy *strategy) {
  return strategy->num_replicas * strategy->num_columns;
}

static void destroy_strategy(ls_object *object) {
  ls_strategy *strategy = (ls_strategy *)object;
  // First, as a group's number is the newer one.
  ls_object_release(strategy->cross_device);
  // The runtime may be gone, unless it is current.
  if (strategy->number != 0 && !strategy->has_run &&
      ls_this_thread.work.runtime == strategy->runtime)
    ls_runtime_return_number(strategy->runtime, strategy->number);
  if (strategy->kind->destroy != NULL) strategy->kind->destroy(strategy);
  ls_fiber_pool_destroy(strategy->fibers);
  // Frees the idle contexts together with the strategy.
  while (strategy->idle_replicas != NULL) {
    ls_replica *replicas = strategy->idle_replicas;
    strategy->idle_replicas = replicas->next_idle;
    for (int32_t r = 0; r < strategy->num_replicas; ++r)
      replicas[r] = (ls_replica){.id = r, .count = replicas[r].count};
    ls_bury(replicas);
  }
  ls_mutex_deinit(&strategy->lock);
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

void ls_strategy_note_graph(ls_strategy *strategy, ls_graph *graph) {
  __atomic_store_n(&strategy->has_run, true, __ATOMIC_RELAXED);
  graph = ls_graph_resolve(graph);
  while (graph->kind == LS_GRAPH_REGION)
    graph = ls_graph_resolve(graph->parent);
  if (graph->kind != LS_GRAPH_EAGER && graph->strategy == 0)
    graph->strategy = strategy->number;
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
  if (num_replicas > 1)
    LS_RETURN_IF_ERROR(ls_runtime_number_for_ranks(runtime, &strategy->number));
  strategy->num_replicas = num_replicas;
  strategy->num_columns = 1;
  LS_RETURN_IF_ERROR(ls_fiber_pool_create(allocator, &strategy->fibers));
  LS_RETURN_IF_ERROR(ls_mutex_init(&strategy->lock));
  return ls_hand_over(&strategy, out_strategy);
}

ls_status ls_strategy_place(ls_strategy *strategy, int32_t index,
                            const char *device) {
  ls_device_name name;
  if (strategy->devices == NULL)
    LS_SET_ARRAY_OR_RETURN(strategy->allocator, char *, strategy->devices,
                           (size_t)num_devices(strategy));
  LS_RETURN_IF_ERROR(ls_device_canonical(device, NULL, &name));
  char *text = ls_copy_text(strategy->allocator, name.text, strlen(name.text));
  if (text == NULL) return ls_out_of_memory();
  strategy->devices[index] = text;
  if (strategy->no_cpu == NULL && strstr(text, "/device:CPU:") == NULL)
    strategy->no_cpu = text;
  return ls_ok();
}

LS_COUNTED(ls_strategy)

// ---- Properties ------------------------------------------------------------
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
                                    const char *noun) {
  return strategy->devices != NULL
             ? ls_ok()
             : ls_failed_precondition("%s has no %s", strategy->label, noun);
}

static ls_status all_devices(const ls_strategy *strategy, const char *noun,
                             const char **devices, size_t capacity,
                             size_t *out_count) {
  *out_count = 0;
  LS_RETURN_IF_ERROR(ls_strategy_check_devices(strategy, noun));
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
  (void)variables, (void)num_variables;
  return all_devices(strategy, "", devices, capacity, out_count);
}

ls_status ls_strategy_worker_devices(const ls_strategy *strategy,
                                     const char **devices, size_t capacity,
                                     size_t *out_count) {
  LS_REQUIRE_OUT(out_count, strategy);
  LS_REQUIRE_ITEMS(devices, capacity);
  return all_devices(strategy, "worker_devices", devices, capacity, out_count);
}

ls_status ls_strategy_parameter_devices(const ls_strategy *strategy,
                                        const char **devices, size_t capacity,
                                        size_t *out_count) {
  LS_REQUIRE_OUT(out_count, strategy);
  LS_REQUIRE_ITEMS(devices, capacity);
  return all_devices(strategy, "parameter_devices", devices, capacity,
                     out_count);
}

ls_status ls_strategy_non_slot_devices(const ls_strategy *strategy,
                                       ls_variable *const *variables,
                                       size_t num_variables,
                                       const char **devices, size_t capacity,
                                       size_t *out_count) {
  LS_REQUIRE_OUT(out_count, strategy);
  LS_REQUIRE_ITEMS(variables, num_variables);
  LS_REQUIRE_ITEMS(devices, capacity);
  return strategy->kind->non_slot_devices(strategy, variables, num_variables,
                                          devices, capacity, out_count);
}

ls_communicator *ls_strategy_communicator(const ls_strategy *strategy) {
  ls_communicator *communicator = ls_runtime_communicator(strategy->runtime);
  return communicator != NULL && communicator->ranks > 1 &&
                 strategy->num_replicas > 1
             ? communicator
             : NULL;
}

void ls_strategy_own_replicas(const ls_strategy *strategy, size_t *out_first,
                              size_t *out_end) {
  const ls_communicator *ranks = ls_strategy_communicator(strategy);
  const int32_t count = strategy->num_replicas;
  *out_first = ranks == NULL
                   ? 0
                   : (size_t)ls_communicator_first(ranks, ranks->rank, count);
  *out_end = ranks == NULL
                 ? (size_t)count
                 : (size_t)ls_communicator_first(ranks, ranks->rank + 1, count);
}

bool ls_strategy_between_graph(const ls_strategy *strategy) {
  return ls_strategy_communicator(strategy) != NULL;
}

bool ls_strategy_should_init(const ls_strategy *strategy) {
  (void)strategy;
  return true;
}

bool ls_strategy_should_checkpoint(const ls_strategy *strategy) {
  const ls_communicator *ranks = ls_strategy_communicator(strategy);
  return ranks == NULL || ranks->rank == 0;
}

bool ls_strategy_should_save_summary(const ls_strategy *strategy) {
  return ls_strategy_should_checkpoint(strategy);
}

bool ls_strategy_is_multi_worker(const ls_strategy *strategy) {
  return ls_strategy_communicator(strategy) != NULL;
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

ls_status ls_strategy_check_has(const ls_strategy *strategy, const char *noun) {
  return strategy->is_v1
             ? ls_unimplemented("%s of %s: it is of version 1, which has none",
                                noun, strategy->label)
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

// ---- Columns ---------------------------------------------------------------
// Columns of devices. If replicas have several devices each, a column is one
// device of each replica, and each thread uses one column.

// A pushed column, on the C stack of the code that opened its scope.
struct ls_column_entry {
  const struct ls_column_entry *outer;
  const ls_strategy *strategy;
  int32_t column;
};

void ls_column_push(ls_scope *scope, const ls_strategy *strategy,
                    int32_t column) {
  ls_context *context = ls_context_current();
  struct ls_column_entry *entry = LS_SCOPE_ENTRY(struct ls_column_entry, scope);
  *entry = (struct ls_column_entry){ls_distribute_scoped_of(context)->columns,
                                    strategy, column};
  ls_distribute_scoped_of(context)->columns = entry;
}

static int32_t strategy_column(const ls_strategy *strategy) {
  const struct ls_column_entry *entry = ls_distribute_scoped_here()->columns;
  while (entry != NULL && entry->strategy != strategy)
    entry = entry->outer;
  return entry != NULL ? entry->column : 0;
}

const char *ls_strategy_device_here(const ls_strategy *strategy,
                                    int32_t replica) {
  return ls_strategy_column_device(strategy, strategy_column(strategy),
                                   replica);
}

const char *ls_strategy_column_device(const ls_strategy *strategy,
                                      int32_t column, int32_t replica) {
  return strategy->devices == NULL
             ? ""
             : strategy->devices[column * strategy->num_replicas + replica];
}

// ---- Label -----------------------------------------------------------------

// Shortens the name of a device of this machine, for example to "CPU:0".
static const char *short_name(const char *device) {
  static const char local[] = "/job:localhost/replica:0/task:0/device:";
  const size_t length = sizeof(local) - 1;
  return strncmp(device, local, length) == 0 ? device + length : device;
}

static ls_status label_set(ls_strategy *strategy, const char *text) {
  return ls_keep_text(strategy->allocator, text, &strategy->label);
}

ls_status ls_strategy_set_label(ls_strategy *strategy, const char *name) {
  enum { LISTED = 4 };
  char text[1000], whole[1100];
  if (strategy->devices == NULL)
    return label_set(strategy, strategy->kind->name);
  const int32_t count = strategy->num_replicas;
  size_t at =
      (size_t)(name != NULL ? snprintf(text, sizeof(text), "'%.200s'", name)
                            : snprintf(text, sizeof(text), "%llu",
                                       (unsigned long long)strategy->id));
  at += (size_t)snprintf(text + at, sizeof(text) - at, " (%d replica%s on ",
                         count, count == 1 ? "" : "s");
  for (int32_t i = 0; i < count && at < sizeof(text); ++i) {
    if (count > LISTED && i == LISTED - 1) {
      at += (size_t)snprintf(text + at, sizeof(text) - at, " ... ");
      i = count - 1;
    } else if (i > 0) {
      at += (size_t)snprintf(text + at, sizeof(text) - at, ", ");
    }
    if (at < sizeof(text))
      at += (size_t)snprintf(text + at, sizeof(text) - at, "%s",
                             short_name(ls_strategy_device(strategy, i)));
  }
  snprintf(whole, sizeof(whole), "%s %s)", strategy->kind->name, text);
  return label_set(strategy, whole);
}

const char *ls_strategy_label(const ls_strategy *strategy) {
  return strategy->label;
}

// ---- Replica ---------------------------------------------------------------
// Replica contexts. A strategy keeps the ones of a finished run for its next
// run.

ls_status ls_replicas_take(ls_strategy *strategy, ls_replica **out_replicas) {
  const size_t count = (size_t)strategy->num_replicas;
  ls_mutex_lock(&strategy->lock);
  ls_replica *replicas = strategy->idle_replicas;
  if (replicas != NULL) strategy->idle_replicas = replicas->next_idle;
  ls_mutex_unlock(&strategy->lock);
  if (replicas == NULL)
    replicas = ls_new_array(ls_allocator_system(), ls_replica, count);
  *out_replicas = replicas;
  if (replicas == NULL) return ls_out_of_memory();
  for (size_t r = 0; r < count; ++r)
    replicas[r] = (ls_replica){.strategy = strategy,
                               .id = (int32_t)r,
                               .count = (int32_t)count,
                               .runs = true};
  return ls_ok();
}

void ls_replicas_give(ls_strategy *strategy, ls_replica *replicas) {
  if (replicas == NULL) return;
  for (int32_t r = 0; r < strategy->num_replicas; ++r)
    replicas[r] =
        (ls_replica){.strategy = strategy, .id = r, .count = replicas[r].count};
  ls_mutex_lock(&strategy->lock);
  replicas->next_idle = strategy->idle_replicas;
  strategy->idle_replicas = replicas;
  ls_mutex_unlock(&strategy->lock);
}

ls_strategy *ls_replica_strategy(const ls_replica *replica) {
  return replica->strategy;
}

int32_t ls_replica_num_replicas(const ls_replica *replica) {
  return replica->count;
}

// ---- Default strategy ------------------------------------------------------
// The default strategy of a runtime, made on first use. It is current outside
// all other strategies.

static void default_strategy_destroy(void *strategy) {
  ls_strategy_release(strategy);
}

static ls_status default_strategy_make(ls_runtime *runtime,
                                       ls_strategy **out_strategy) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_RETURN_IF_ERROR(ls_strategy_make(ls_library_layers.default_strategy,
                                      runtime, 1, &strategy));
  LS_RETURN_IF_ERROR(ls_strategy_set_label(strategy, NULL));
  return ls_hand_over(&strategy, out_strategy);
}

ls_strategy *ls_default_strategy(ls_runtime *runtime) {
  ls_strategy *strategy = ls_runtime_slot(runtime, LS_SLOT_DISTRIBUTE);
  if (strategy != NULL) return strategy;
  ls_runtime_lock(runtime);
  strategy = ls_runtime_slot(runtime, LS_SLOT_DISTRIBUTE);
  if (strategy == NULL) {
    const ls_status status = default_strategy_make(runtime, &strategy);
    if (ls_status_is_ok(status))
      ls_runtime_set_slot(runtime, LS_SLOT_DISTRIBUTE, strategy,
                          default_strategy_destroy);
    ls_status_free(status);
  }
  ls_runtime_unlock(runtime);
  return strategy;
}

ls_status ls_strategy_default(ls_strategy **out_strategy) {
  LS_REQUIRE_OUT(out_strategy);
  ls_runtime *runtime = ls_runtime_current();
  *out_strategy = runtime == NULL ? NULL : ls_default_strategy(runtime);
  return *out_strategy == NULL ? ls_out_of_memory() : ls_ok();
}
