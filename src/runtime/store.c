// SPDX-License-Identifier: Apache-2.0
#include "runtime/store.h"

#include "base/runtime_internal.h"
#include "base/values/array_internal.h"
#include "runtime/program.h"

// A variable's place in a store. Keyed by the variable's id, which is never
// reused, so a forgotten variable leaves nothing behind.
typedef struct entry {
  ls_buffer *buffer;
  bool written;
  bool shared;  // Of a container: its buffer is that of all components.
} entry;

// Calls in other threads look at them meanwhile.
static bool is_set(const bool *flag) {
  return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}
static void set(bool *flag, bool on) {
  __atomic_store_n(flag, on, __ATOMIC_RELEASE);
}

struct ls_store {
  uint64_t id;
  ls_runtime *runtime;
  ls_allocator *allocator;
  ls_backend *backend;
  ls_mutex lock;  // Guards the map.
  ls_map entries;
};

ls_status ls_store_create(ls_runtime *runtime, ls_store **out_store) {
  *out_store = NULL;
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  ls_store *store = ls_new(allocator, ls_store);
  if (store == NULL) return ls_out_of_memory();
  static uint64_t last_id;
  store->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
  store->runtime = runtime;
  store->allocator = allocator;
  ls_map_init(&store->entries, allocator);
  ls_status status = ls_mutex_init(&store->lock);
  if (ls_status_is_ok(status))
    status = ls_runtime_backend(runtime, &store->backend);
  if (!ls_status_is_ok(status)) {
    ls_store_destroy(store);
    return status;
  }
  *out_store = store;
  return ls_ok();
}

static void destroy_entry(ls_store *store, entry *e) {
  if (e == NULL) return;
  ls_object_release(e->buffer);
  ls_release(store->allocator, e);
}

void ls_store_destroy(ls_store *store) {
  if (store == NULL) return;
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&store->entries, &at, &item);)
    destroy_entry(store, item.value);
  ls_map_deinit(&store->entries);
  ls_mutex_deinit(&store->lock);
  ls_release(store->allocator, store);
}

uint64_t ls_store_id(const ls_store *store) { return store->id; }

static entry *find_own(const ls_store *store, const ls_variable *variable) {
  ls_store *writable = (ls_store *)(uintptr_t)store;
  ls_mutex_lock(&writable->lock);
  entry *e = ls_map_find_u64(&store->entries, variable->id);
  ls_mutex_unlock(&writable->lock);
  return e;
}

bool ls_store_is_shared(const ls_store *store, const ls_variable *container) {
  const entry *e = find_own(store, container);
  return e != NULL && is_set(&e->shared);
}

ls_variable_states ls_store_states(const ls_store *store) {
  return (ls_variable_states){.store = store,
                              .has_value = ls_store_has_value,
                              .is_shared = ls_store_is_shared};
}

// Where the value is: a component's in the container while that is shared, a
// container's else in its first component.
static entry *find(const ls_store *store, const ls_variable *variable) {
  const ls_variable *at = variable;
  if (at->container != NULL && ls_store_is_shared(store, at->container))
    at = at->container;
  else if (at->num_components > 0 && !ls_store_is_shared(store, at))
    at = at->components[0];
  return find_own(store, at);
}

static ls_status add(ls_store *store, ls_variable *variable,
                     entry **out_entry) {
  entry *e = ls_new(store->allocator, entry);
  if (e == NULL) return ls_out_of_memory();
  ls_status status = store->backend->vtable->create_buffer(
      store->backend, variable->type, &e->buffer);
  if (ls_status_is_ok(status) &&
      !ls_map_insert_u64(&store->entries, variable->id, e))
    status = ls_out_of_memory();
  if (!ls_status_is_ok(status)) {
    destroy_entry(store, e);
    return ls_status_annotate(status, "for variable '%s'", variable->name);
  }
  *out_entry = e;
  return ls_ok();
}

ls_status ls_store_buffer(ls_store *store, ls_variable *variable,
                          ls_buffer **out_buffer) {
  *out_buffer = NULL;
  ls_status status = ls_ok();
  ls_mutex_lock(&store->lock);
  entry *e = ls_map_find_u64(&store->entries, variable->id);
  if (e == NULL) status = add(store, variable, &e);
  if (ls_status_is_ok(status)) *out_buffer = e->buffer;
  ls_mutex_unlock(&store->lock);
  return status;
}

ls_status ls_store_add_zero(ls_store *store, ls_variable *variable) {
  ls_buffer *buffer = NULL;
  LS_RETURN_IF_ERROR(ls_store_buffer(store, variable, &buffer));
  ls_store_mark_written(store, variable);
  return ls_ok();
}

bool ls_store_has_value(const ls_store *store, const ls_variable *variable) {
  const entry *e = find(store, variable);
  return e != NULL && is_set(&e->written);
}

void ls_store_mark_written(ls_store *store, const ls_variable *variable) {
  entry *e = find_own(store, variable);
  if (e != NULL) set(&e->written, true);
}

// ---- Distributed variables -------------------------------------------------
void ls_store_set_shared(ls_store *store, const ls_variable *container,
                         bool shared) {
  entry *e = find_own(store, container);
  if (e != NULL) set(&e->shared, shared);
}

ls_status ls_store_join(ls_store *store, ls_variable *container) {
  const ls_variable *first = container->components[0];
  ls_status status = ls_ok();
  ls_mutex_lock(&store->lock);
  entry *e = ls_map_find_u64(&store->entries, first->id);
  if (e != NULL && !ls_map_insert_u64(&store->entries, container->id, e))
    status = ls_out_of_memory();
  else if (e != NULL)
    ls_map_remove_u64(&store->entries, first->id);
  if (e != NULL && ls_status_is_ok(status)) set(&e->shared, true);
  ls_mutex_unlock(&store->lock);
  return status;
}

ls_status ls_store_split(ls_store *store, ls_variable *container) {
  entry *from = find_own(store, container);
  if (from == NULL || !is_set(&from->shared)) return ls_ok();
  ls_array *value = NULL;
  LS_RETURN_IF_ERROR(ls_store_read(store, container, &value));
  ls_status status = ls_ok();
  for (size_t i = 0; i < container->num_components && ls_status_is_ok(status);
       ++i) {
    ls_variable *component = container->components[i];
    ls_buffer *buffer = NULL;
    status = ls_store_buffer(store, component, &buffer);
    if (ls_status_is_ok(status))
      status = store->backend->vtable->upload(buffer, ls_array_data(value));
    if (ls_status_is_ok(status)) ls_store_mark_written(store, component);
  }
  ls_array_release(value);
  if (ls_status_is_ok(status)) set(&from->shared, false);
  return status;
}

void ls_store_forget(ls_store *store, const ls_variable *variable) {
  ls_mutex_lock(&store->lock);
  entry *e = ls_map_remove_u64(&store->entries, variable->id);
  ls_mutex_unlock(&store->lock);
  destroy_entry(store, e);
}

ls_status ls_store_read(ls_store *store, ls_variable *variable,
                        ls_array **out_array) {
  *out_array = NULL;
  if (variable->num_targets > 0) variable = ls_variable_here(variable);
  const entry *e = find(store, variable);
  if (e == NULL || !is_set(&e->written))
    return ls_failed_precondition(
        "variable '%s' has no value here; run its initializer first",
        variable->name);
  LS_RETURN_IF_ERROR(ls_array_create_unwritten(
      variable->type.dtype, variable->type.shape, out_array));
  const ls_status status = store->backend->vtable->download(
      e->buffer, ls_array_mutable_data(*out_array));
  if (ls_status_is_ok(status)) return status;
  ls_array_release(*out_array);
  *out_array = NULL;
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
  const entry *e = find(store, variable);
  if (e == NULL || !is_set(&e->written)) return ls_ok();
  LS_RETURN_IF_ERROR(store->backend->vtable->download(e->buffer, &value));
  *out_value = type.dtype == LS_DTYPE_I64 ? value.i64 : value.i32;
  return ls_ok();
}

// The buffer for a new value of `type`. A component gets its own.
static ls_status buffer_to_write(ls_store *store, ls_variable *variable,
                                 ls_type type, ls_buffer **out_buffer) {
  if (type.dtype != variable->type.dtype ||
      !ls_shape_equal(type.shape, variable->type.shape))
    return ls_invalid_argument(
        "variable '%s' is %s, the value %s", variable->name,
        LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape),
        LS_SHAPE_TEXT(type.dtype, type.shape));
  if (variable->container != NULL)
    LS_RETURN_IF_ERROR(ls_store_split(store, variable->container));
  return ls_store_buffer(store, variable, out_buffer);
}

static void note_write(ls_store *store, ls_variable *variable) {
  ls_store_mark_written(store, variable);
  if (variable->num_components > 0) ls_store_set_shared(store, variable, true);
}

ls_status ls_store_write(ls_store *store, ls_variable *variable,
                         const ls_array *array) {
  if (variable->num_targets > 0) variable = ls_variable_here(variable);
  const ls_type type = {ls_array_dtype(array), ls_array_shape(array)};
  ls_buffer *buffer = NULL;
  LS_RETURN_IF_ERROR(buffer_to_write(store, variable, type, &buffer));
  LS_RETURN_IF_ERROR(
      store->backend->vtable->upload(buffer, ls_array_data(array)));
  note_write(store, variable);
  return ls_ok();
}

ls_status ls_store_fill(ls_store *store, ls_variable *variable,
                        ls_compiled *compiled, uint64_t step) {
  if (variable->num_targets > 0) variable = ls_variable_here(variable);
  ls_buffer *buffer = NULL;
  LS_RETURN_IF_ERROR(buffer_to_write(store, variable,
                                     ls_compiled_output(compiled, 0), &buffer));
  LS_RETURN_IF_ERROR(ls_compiled_fill(compiled, buffer, step));
  note_write(store, variable);
  return ls_ok();
}
