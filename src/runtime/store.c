// SPDX-License-Identifier: Apache-2.0
#include "runtime/store.h"

#include "base/runtime_internal.h"
#include "base/threads/locked.h"
#include "base/values/array_internal.h"
#include "runtime/program.h"

// A variable's entry in a store, keyed by the variable's id, which is never
// reused.
struct ls_place {
  ls_type type;
  const char *name;   // Lent by the variable.
  ls_buffer *buffer;  // NULL: no buffer was needed yet.
  ls_buffer *spare;   // A buffer for new values; NULL while a run holds it.
  bool written;
  bool shared;  // Container: all components use its buffer.
};

// Reads a flag that other threads may change.
static bool is_set(const bool *flag) {
  return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

struct ls_store {
  uint64_t id;
  ls_runtime *runtime;
  ls_allocator *allocator;
  ls_backend *backend;
  ls_gate gate;
  uint64_t changes, moves;  // Atomic.
  ls_mutex lock;            // Guards the map, and the holders of buffers.
  ls_map places;
};

// Returns numbers for all stores, never the same twice.
static uint64_t next_number(void) {
  static uint64_t last;
  return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

static void store_count(uint64_t *number) {
  __atomic_store_n(number, next_number(), __ATOMIC_RELEASE);
}

ls_status ls_store_create(ls_runtime *runtime, ls_store **out_store) {
  *out_store = NULL;
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN_NEW_OR_RETURN(allocator, ls_store, store);
  store->id = next_number();
  store->changes = next_number();
  store->moves = next_number();
  store->runtime = runtime;
  store->allocator = allocator;
  ls_map_init(&store->places, allocator);
  LS_RETURN_IF_ERROR(ls_mutex_init(&store->lock));
  LS_RETURN_IF_ERROR(ls_gate_init(&store->gate, runtime));
  LS_RETURN_IF_ERROR(ls_runtime_backend(runtime, &store->backend));
  return ls_hand_over(&store, out_store);
}

static void destroy_place(ls_store *store, ls_place *place) {
  if (place == NULL) return;
  ls_object_release(place->buffer);
  ls_object_release(place->spare);
  ls_release(store->allocator, place);
}

void ls_store_destroy(ls_store *store) {
  if (store == NULL) return;
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&store->places, &at, &item);)
    destroy_place(store, item.value);
  ls_map_deinit(&store->places);
  ls_gate_deinit(&store->gate);
  ls_mutex_deinit(&store->lock);
  ls_release(store->allocator, store);
}

uint64_t ls_store_id(const ls_store *store) { return store->id; }

ls_gate *ls_store_gate(ls_store *store) { return &store->gate; }

uint64_t ls_store_changes(const ls_store *store) {
  return __atomic_load_n(&store->changes, __ATOMIC_ACQUIRE);
}

uint64_t ls_store_moves(const ls_store *store) {
  return __atomic_load_n(&store->moves, __ATOMIC_ACQUIRE);
}

// ---- Places ----------------------------------------------------------------
static ls_place *find_own(const ls_store *store, const ls_variable *variable) {
  ls_store *writable = (ls_store *)(uintptr_t)store;
  return LS_LOCKED(&writable->lock,
                   ls_map_find_u64(&store->places, variable->id));
}

ls_status ls_store_place(ls_store *store, ls_variable *variable,
                         ls_place **out_place) {
  ls_status status = ls_ok();
  ls_mutex_lock(&store->lock);
  ls_place *place = ls_map_find_u64(&store->places, variable->id);
  if (place == NULL) {
    place = ls_new(store->allocator, ls_place);
    if (place == NULL ||
        !ls_map_insert_u64(&store->places, variable->id, place)) {
      ls_release(store->allocator, place);
      place = NULL;
      status = ls_status_annotate(ls_out_of_memory(), "for variable '%s'",
                                  variable->name);
    } else {
      place->type = variable->type;
      place->name = variable->name;
    }
  }
  ls_mutex_unlock(&store->lock);
  *out_place = place;
  return status;
}

static ls_status create_buffer(ls_store *store, const ls_place *place,
                               ls_buffer **out_buffer) {
  return ls_status_annotate(store->backend->vtable->create_buffer(
                                store->backend, place->type, out_buffer),
                            "for variable '%s'", place->name);
}

ls_status ls_place_buffer(ls_store *store, ls_place *place,
                          ls_buffer **out_buffer) {
  *out_buffer = NULL;
  ls_status status = ls_ok();
  // Two readers may both be the first at a variable.
  ls_mutex_lock(&store->lock);
  if (place->buffer == NULL)
    status = create_buffer(store, place, &place->buffer);
  *out_buffer = place->buffer;
  ls_mutex_unlock(&store->lock);
  return status;
}

static bool is_held(ls_store *store, const ls_buffer *buffer) {
  return LS_LOCKED(&store->lock, buffer->held > 0);
}

void ls_place_hold(ls_store *store, ls_buffer *buffer) {
  ls_mutex_lock(&store->lock);
  ++buffer->held;
  ls_mutex_unlock(&store->lock);
}

void ls_place_drop(ls_store *store, ls_buffer *buffer) {
  ls_mutex_lock(&store->lock);
  --buffer->held;
  ls_mutex_unlock(&store->lock);
}

ls_status ls_place_borrow(ls_store *store, ls_place *place,
                          ls_buffer **out_buffer) {
  *out_buffer = place->spare;
  place->spare = NULL;
  if (*out_buffer != NULL && !is_held(store, *out_buffer)) return ls_ok();
  ls_object_release(*out_buffer);
  return create_buffer(store, place, out_buffer);
}

void ls_place_give_back(ls_store *store, ls_place *place, ls_buffer *buffer) {
  (void)store;
  ls_object_release(place->spare);
  place->spare = buffer;
}

void ls_place_publish(ls_store *store, ls_place *place, ls_buffer *buffer) {
  ls_place_give_back(store, place, place->buffer);
  place->buffer = buffer;
  store_count(&store->moves);
}

ls_status ls_place_detach(ls_store *store, ls_place *place) {
  if (place->buffer == NULL || !is_held(store, place->buffer)) return ls_ok();
  ls_buffer *fresh = NULL;
  LS_RETURN_IF_ERROR(ls_place_borrow(store, place, &fresh));
  const ls_status status = store->backend->vtable->copy(fresh, place->buffer);
  if (ls_status_is_ok(status))
    ls_place_publish(store, place, fresh);
  else
    ls_place_give_back(store, place, fresh);
  return status;
}

// ---- States ----------------------------------------------------------------
bool ls_store_is_shared(const ls_store *store, const ls_variable *container) {
  const ls_place *place = find_own(store, container);
  return place != NULL && is_set(&place->shared);
}

ls_variable_states ls_store_states(const ls_store *store) {
  return (ls_variable_states){.store = store,
                              .has_value = ls_store_has_value,
                              .is_shared = ls_store_is_shared};
}

// Finds where the value is: a component's in the container while that is
// shared; a container's, if not shared, in its first component.
static ls_place *store_find(const ls_store *store,
                            const ls_variable *variable) {
  const ls_variable *at = variable;
  if (at->container != NULL && ls_store_is_shared(store, at->container))
    at = at->container;
  else if (at->num_components > 0 && !ls_store_is_shared(store, at))
    at = at->components[0];
  return find_own(store, at);
}

bool ls_store_has_value(const ls_store *store, const ls_variable *variable) {
  const ls_place *place = store_find(store, variable);
  return place != NULL && is_set(&place->written);
}

static void store_set(ls_store *store, bool *flag, bool on) {
  if (is_set(flag) == on) return;
  __atomic_store_n(flag, on, __ATOMIC_RELEASE);
  store_count(&store->changes);
}

void ls_store_mark_written(ls_store *store, const ls_variable *variable) {
  ls_place *place = find_own(store, variable);
  if (place != NULL) store_set(store, &place->written, true);
}

void ls_store_mark_lost(ls_store *store, const ls_variable *variable) {
  ls_place *place = find_own(store, variable);
  if (place == NULL) return;
  store_set(store, &place->written, false);
  for (size_t i = 0; is_set(&place->shared) && i < variable->num_components;
       ++i)
    ls_store_mark_lost(store, variable->components[i]);
}

void ls_store_set_shared(ls_store *store, const ls_variable *container,
                         bool shared) {
  ls_place *place = find_own(store, container);
  if (place != NULL) store_set(store, &place->shared, shared);
}

// ---- Values, for accesses inside the gate ----------------------------------
ls_status ls_store_look(ls_store *store, const ls_variable *variable,
                        const ls_buffer **out_buffer) {
  const ls_place *place = store_find(store, variable);
  *out_buffer = NULL;
  if (place == NULL || !is_set(&place->written)) {
    if (variable->runtime != store->runtime)
      return ls_failed_precondition(
          "variable '%s' has no value here: it belongs to another runtime, "
          "which ls_runtime_make_current makes current",
          variable->name);
    return ls_failed_precondition(
        "variable '%s' has no value here; run its initializer first",
        variable->name);
  }
  *out_buffer = place->buffer;
  return ls_ok();
}

static ls_status store_read_value(ls_store *store, const ls_variable *variable,
                                  ls_array **out_array) {
  const ls_buffer *buffer = NULL;
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_store_look(store, variable, &buffer));
  LS_RETURN_IF_ERROR(ls_array_create_unwritten(variable->type.dtype,
                                               variable->type.shape, &array));
  LS_RETURN_IF_ERROR(
      store->backend->vtable->download(buffer, ls_array_mutable_data(array)));
  return ls_hand_over(&array, out_array);
}

// Returns a variable's own buffer, for writing.
static ls_status own_buffer(ls_store *store, ls_variable *variable,
                            ls_buffer **out_buffer) {
  ls_place *place = NULL;
  LS_RETURN_IF_ERROR(ls_store_place(store, variable, &place));
  LS_RETURN_IF_ERROR(ls_place_detach(store, place));
  return ls_place_buffer(store, place, out_buffer);
}

static ls_status split_value(ls_store *store, const ls_variable *container) {
  ls_place *from = find_own(store, container);
  if (from == NULL || !is_set(&from->shared)) return ls_ok();
  LS_OWN(ls_array, value) = NULL;
  const size_t count = is_set(&from->written) ? container->num_components : 0;
  if (count > 0) LS_RETURN_IF_ERROR(store_read_value(store, container, &value));
  for (size_t i = 0; i < count; ++i) {
    ls_variable *component = container->components[i];
    ls_buffer *buffer = NULL;
    LS_RETURN_IF_ERROR(own_buffer(store, component, &buffer));
    LS_RETURN_IF_ERROR(
        store->backend->vtable->upload(buffer, ls_array_data(value)));
    ls_store_mark_written(store, component);
  }
  store_set(store, &from->shared, false);
  return ls_ok();
}

// Returns the buffer for a new value of `type`. A component gets its own
// buffer.
ls_status ls_store_buffer_to_write(ls_store *store, ls_variable *variable,
                                   ls_type type, ls_buffer **out_buffer) {
  if (type.dtype != variable->type.dtype ||
      !ls_shape_equal(type.shape, variable->type.shape))
    return ls_invalid_argument(
        "variable '%s' is %s, the value %s", variable->name,
        LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape),
        LS_SHAPE_TEXT(type.dtype, type.shape));
  if (variable->container != NULL)
    LS_RETURN_IF_ERROR(split_value(store, variable->container));
  return own_buffer(store, variable, out_buffer);
}

void ls_store_note_write(ls_store *store, ls_variable *variable) {
  ls_store_mark_written(store, variable);
  if (variable->num_components > 0) ls_store_set_shared(store, variable, true);
}

static ls_status write_value(ls_store *store, ls_variable *variable,
                             const ls_array *array) {
  const ls_type type = {ls_array_dtype(array), ls_array_shape(array)};
  ls_buffer *buffer = NULL;
  LS_RETURN_IF_ERROR(ls_store_buffer_to_write(store, variable, type, &buffer));
  LS_RETURN_IF_ERROR(
      store->backend->vtable->upload(buffer, ls_array_data(array)));
  ls_store_note_write(store, variable);
  return ls_ok();
}

// ---- From outside ----------------------------------------------------------
// An access to one variable.
typedef struct one {
  ls_touch touch;
  ls_access access;
} one;

static ls_status store_enter(ls_store *store, const ls_variable *variable,
                             bool written, one *out) {
  out->touch = (ls_touch){variable->family, written, variable->name};
  out->access.touches = &out->touch;
  out->access.count = 1;
  out->access.hold = LS_HOLD_SHORT;
  out->access.cancels = NULL;
  return ls_gate_enter(&store->gate, &out->access);
}

static void store_leave(ls_store *store, one *self) {
  ls_gate_leave(&store->gate, &self->access);
}

ls_status ls_store_read(ls_store *store, ls_variable *variable,
                        ls_array **out_array) {
  *out_array = NULL;
  if (variable->num_targets > 0) variable = ls_variable_here(variable);
  one use;
  LS_RETURN_IF_ERROR(store_enter(store, variable, false, &use));
  const ls_status status = store_read_value(store, variable, out_array);
  store_leave(store, &use);
  return status;
}

ls_status ls_store_take(ls_store *store, ls_variable *variable,
                        ls_array **out_array) {
  one use;
  LS_RETURN_IF_ERROR(store_enter(store, variable, true, &use));
  const ls_status status = store_read_value(store, variable, out_array);
  if (ls_status_is_ok(status))
    store_set(store, &store_find(store, variable)->written, false);
  store_leave(store, &use);
  return status;
}

ls_status ls_store_read_count(ls_store *store, const ls_variable *variable,
                              int64_t *out_value) {
  *out_value = 0;
  if (variable->num_targets > 0) variable = ls_variable_here(variable);
  const ls_type type = variable->type;
  union {
    int64_t i64;
    int32_t i32;
  } value = {0};
  if (type.shape.rank != 0 ||
      (type.dtype != LS_DTYPE_I64 && type.dtype != LS_DTYPE_I32))
    return ls_failed_precondition(
        "the global step '%s' is %s, must be i64[] or i32[]", variable->name,
        LS_SHAPE_TEXT(type.dtype, type.shape));
  one use;
  ls_status status = ls_ok();
  LS_RETURN_IF_ERROR(store_enter(store, variable, false, &use));
  const ls_place *place = store_find(store, variable);
  if (place != NULL && is_set(&place->written))
    status = store->backend->vtable->download(place->buffer, &value);
  store_leave(store, &use);
  *out_value = type.dtype == LS_DTYPE_I64 ? value.i64 : value.i32;
  return status;
}

ls_status ls_store_write(ls_store *store, ls_variable *variable,
                         const ls_array *array) {
  const ls_variable *given = variable;
  if (variable->num_targets > 0) variable = ls_variable_here(variable);
  one use;
  LS_RETURN_IF_ERROR(store_enter(store, variable, true, &use));
  const ls_status status = write_value(store, variable, array);
  store_leave(store, &use);
  return ls_status_is_ok(status) ? ls_store_write_others(store, given) : status;
}

static ls_status change_value(ls_store *store, ls_variable *variable,
                              ls_store_change change, void *user,
                              ls_array **out_after) {
  LS_OWN(ls_array, before) = NULL;
  LS_RETURN_IF_ERROR(store_read_value(store, variable, &before));
  LS_RETURN_IF_ERROR(change(before, user, out_after));
  return write_value(store, variable, *out_after);
}

ls_status ls_store_update(ls_store *store, ls_variable *variable,
                          ls_store_change change, void *user,
                          ls_array **out_after) {
  const ls_variable *given = variable;
  if (variable->num_targets > 0) variable = ls_variable_here(variable);
  one use;
  LS_RETURN_IF_ERROR(store_enter(store, variable, true, &use));
  const ls_status status =
      change_value(store, variable, change, user, out_after);
  store_leave(store, &use);
  return ls_status_is_ok(status) ? ls_store_write_others(store, given) : status;
}

ls_status ls_store_fill(ls_store *store, ls_variable *variable,
                        ls_compiled *compiled, uint64_t step) {
  const ls_variable *given = variable;
  if (variable->num_targets > 0) variable = ls_variable_here(variable);
  one use;
  ls_buffer *buffer = NULL;
  LS_RETURN_IF_ERROR(store_enter(store, variable, true, &use));
  ls_status status = ls_store_buffer_to_write(
      store, variable, ls_compiled_output(compiled, 0), &buffer);
  if (ls_status_is_ok(status))
    status = ls_compiled_fill(compiled, buffer, step);
  if (ls_status_is_ok(status)) ls_store_note_write(store, variable);
  store_leave(store, &use);
  return ls_status_is_ok(status) ? ls_store_write_others(store, given) : status;
}

ls_status ls_store_add_zero(ls_store *store, ls_variable *variable) {
  one use;
  ls_buffer *buffer = NULL;
  LS_RETURN_IF_ERROR(store_enter(store, variable, true, &use));
  const ls_status status = own_buffer(store, variable, &buffer);
  if (ls_status_is_ok(status)) ls_store_mark_written(store, variable);
  store_leave(store, &use);
  return status;
}

static ls_status join_values(ls_store *store, ls_variable *container) {
  ls_place *first = find_own(store, container->components[0]);
  if (first == NULL || first->buffer == NULL) return ls_ok();
  ls_place *all = NULL;
  LS_RETURN_IF_ERROR(ls_store_place(store, container, &all));
  ls_place_publish(store, all, first->buffer);
  first->buffer = NULL;
  store_set(store, &all->written, is_set(&first->written));
  store_set(store, &first->written, false);
  store_set(store, &all->shared, true);
  return ls_ok();
}

ls_status ls_store_join(ls_store *store, ls_variable *container) {
  one use;
  LS_RETURN_IF_ERROR(store_enter(store, container, true, &use));
  const ls_status status = join_values(store, container);
  store_leave(store, &use);
  return status;
}

ls_status ls_store_split(ls_store *store, ls_variable *container) {
  one use;
  LS_RETURN_IF_ERROR(store_enter(store, container, true, &use));
  const ls_status status = split_value(store, container);
  store_leave(store, &use);
  return status;
}

void ls_store_forget(ls_store *store, const ls_variable *variable) {
  ls_place *place =
      LS_LOCKED(&store->lock, ls_map_remove_u64(&store->places, variable->id));
  destroy_place(store, place);
}
