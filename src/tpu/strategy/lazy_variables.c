// SPDX-License-Identifier: Apache-2.0
//
// Variables that are initialized together. They are made without a value; their
// initial values wait in a queue of the strategy. The first use of such a
// variable, or the end of a scope, stores all values in the order of creation.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "runtime/program.h"
#include "tpu/pod/pod.h"
#include "tpu/strategy/strategy.h"

// Sets the queue in which a variable's or container's value waits. Requires the
// strategy's lock, because another thread may store the values at any moment.
static void set_late(ls_variable *variable, ls_late_values *late) {
  if (variable->container != NULL) variable = variable->container;
  __atomic_store_n(&variable->late, late, __ATOMIC_RELEASE);
  for (size_t i = 0; i < variable->num_components; ++i)
    __atomic_store_n(&variable->components[i]->late, late, __ATOMIC_RELEASE);
}

static ls_status lazy_variables_push(ls_tpu_strategy *self, ls_store *store,
                                     ls_variable *variable) {
  ls_tpu_late *late = &self->late;
  ls_array *value = NULL;
  if (!ls_store_has_value(store, variable)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_store_take(store, variable, &value));
  ls_mutex_lock(&self->base.lock);
  const bool has_room =
      ls_grow(self->base.allocator, &late->items, &late->capacity,
              late->count + 1, sizeof(*late->items));
  if (has_room) {
    late->items[late->count++] =
        (ls_tpu_late_value){ls_variable_retain(variable), value};
    set_late(variable, &late->base);
  }
  ls_mutex_unlock(&self->base.lock);
  if (has_room) return ls_ok();
  ls_array_release(value);
  return ls_out_of_memory();
}

ls_status ls_tpu_class_adopt(ls_strategy *strategy,
                             const ls_variable_options *options,
                             ls_variable *container) {
  ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  LS_RETURN_IF_ERROR(ls_tpu_replicate_components(self, container));
  if (!options->batch_initialization || !strategy->uses_policies ||
      container->graph != NULL)
    return ls_ok();
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(strategy->runtime, &state));
  if (ls_store_is_shared(state->store, container))
    return lazy_variables_push(self, state->store, container);
  for (size_t i = 0; i < container->num_components; ++i)
    LS_RETURN_IF_ERROR(
        lazy_variables_push(self, state->store, container->components[i]));
  return ls_ok();
}

// Stores a value, unless the variable got one meanwhile from a file.
static ls_status store_value(ls_store *store, const ls_tpu_late_value *item) {
  return ls_store_has_value(store, item->variable)
             ? ls_ok()
             : ls_store_write(store, item->variable, item->value);
}

static ls_status lazy_variables_initialize(ls_late_values *base) {
  // `base` is the first member of the strategy's queue.
  ls_tpu_late *late = (ls_tpu_late *)(void *)base;
  ls_tpu_strategy *self = late->owner;
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(self->base.runtime, &state));
  ls_status status = ls_ok();
  ls_mutex_lock(&self->base.lock);
  for (size_t i = 0; i < late->count; ++i) {
    if (ls_status_is_ok(status))
      status = store_value(state->store, &late->items[i]);
    set_late(late->items[i].variable, NULL);
  }
  ls_tpu_late_value *items = late->items;
  const size_t count = late->count;
  late->items = NULL;
  late->count = late->capacity = 0;
  ls_mutex_unlock(&self->base.lock);
  // The queued variables may hold the last references to the strategy.
  ls_allocator *allocator = self->base.allocator;
  for (size_t i = 0; i < count; ++i) {
    ls_array_release(items[i].value);
    ls_variable_release(items[i].variable);
  }
  ls_release(allocator, items);
  return status;
}

void ls_tpu_late_init(ls_tpu_strategy *strategy) {
  strategy->late = (ls_tpu_late){
      .base = {.initialize = lazy_variables_initialize}, .owner = strategy};
}

void ls_tpu_class_leave(ls_strategy *strategy) {
  ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  ls_mutex_lock(&strategy->lock);
  const bool waits = self->late.count > 0;
  ls_mutex_unlock(&strategy->lock);
  if (!waits) return;
  ls_strategy_retain(strategy);
  const ls_status status = lazy_variables_initialize(&self->late.base);
  if (!ls_status_is_ok(status))
    ls_tpu_log(strategy->runtime, LS_LOG_ERROR,
               "variables of %s have no value: %s", strategy->label,
               ls_status_message(status));
  ls_status_free(status);
  ls_strategy_release(strategy);
}
