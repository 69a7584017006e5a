// SPDX-License-Identifier: Apache-2.0
#include "lockstep/distributed.h"
#include "lockstep/object.h"

#include <stdio.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/array_internal.h"
#include "base/values/nest_internal.h"

struct ls_distributed {
  ls_object object;
  ls_allocator *allocator;
  ls_distributed_kind kind;
  size_t count;
  const char **devices;  // One per component, NULL if unknown; or NULL.
  ls_nest component[];
};

static void destroy_distributed(ls_object *object) {
  ls_distributed *value = (ls_distributed *)object;
  for (size_t i = 0; i < value->count; ++i)
    ls_nest_release(value->component[i]);
  ls_release(value->allocator, value->devices);
  ls_release(value->allocator, value);
}

// Returns "PerReplica", "Mirrored" or "MapOutput".
static const char *kind_name(ls_distributed_kind kind) {
  return kind == LS_MIRRORED     ? "Mirrored"
         : kind == LS_MAP_OUTPUT ? "MapOutput"
                                 : "PerReplica";
}

static void print_distributed(const ls_object *object, char *buffer,
                              size_t size) {
  const ls_distributed *value = (const ls_distributed *)object;
  int at = snprintf(buffer, size, "%s:{", kind_name(value->kind));
  for (size_t i = 0; i < value->count && at > 0 && (size_t)at < size; ++i)
    at += snprintf(buffer + at, size - (size_t)at, "%s\n  %zu: %s",
                   i == 0 ? "" : ",", i, LS_NEST_TEXT(value->component[i]));
  if (at > 0 && (size_t)at < size)
    snprintf(buffer + at, size - (size_t)at, "\n}");
}

static const ls_object_type distributed_type = {.name = "distributed",
                                                .destroy = destroy_distributed,
                                                .print = print_distributed};

// Copies names of devices to one block, after the pointers to them. NULL
// without memory.
static const char **copy_devices(ls_allocator *allocator,
                                 const char *const *devices, size_t count) {
  size_t size = count * sizeof(char *);
  for (size_t i = 0; i < count; ++i)
    size += devices[i] == NULL ? 0 : strlen(devices[i]) + 1;
  const char **copy = ls_allocate_zeroed(allocator, 1, size + 1);
  if (copy == NULL) return NULL;
  char *at = (char *)(copy + count);
  for (size_t i = 0; i < count; ++i) {
    if (devices[i] == NULL) continue;
    copy[i] = strcpy(at, devices[i]);
    at += strlen(at) + 1;
  }
  return copy;
}

ls_nest ls_nest_distributed(ls_distributed_kind kind, const ls_nest *components,
                            size_t count) {
  return ls_nest_distributed_on(kind, components, NULL, count);
}

ls_nest ls_nest_distributed_on(ls_distributed_kind kind,
                               const ls_nest *components,
                               const char *const *devices, size_t count) {
  if (components == NULL && count > 0)
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "a distributed value of %zu components at NULL", count);
  ls_status failure = ls_ok();
  for (size_t i = 0; i < count && failure == NULL; ++i)
    failure = ls_nest_status(components[i]);
  // A MapOutput may be empty: a map over no or few values.
  if (failure == NULL && count == 0 && devices == NULL && kind != LS_MAP_OUTPUT)
    failure =
        ls_invalid_argument("a distributed value needs at least one component");
  ls_allocator *allocator = ls_current_allocator();
  ls_distributed *value = NULL;
  if (failure == NULL) {
    value = ls_allocate_zeroed(allocator, 1,
                               sizeof(*value) + count * sizeof(ls_nest));
    if (value == NULL) failure = ls_out_of_memory();
  }
  if (failure == NULL && devices != NULL) {
    value->devices = copy_devices(allocator, devices, count);
    if (value->devices == NULL) {
      ls_release(allocator, value);
      failure = ls_out_of_memory();
    }
  }
  if (failure != NULL) {
    for (size_t i = 0; i < count; ++i)
      ls_nest_release(components[i]);
    return ls_fail(failure);
  }
  ls_object_init(&value->object, &distributed_type);
  value->allocator = allocator;
  value->kind = kind;
  value->count = count;
  for (size_t i = 0; i < count; ++i) {
    value->component[i] = components[i];
    ls_nest_deepen(&value->object, components[i]);
  }
  return ls_nest_object(LS_KIND_DISTRIBUTED, &value->object);
}

static const ls_distributed *distributed_of(ls_nest leaf) {
  return leaf.kind == LS_KIND_DISTRIBUTED ? leaf.as.ref : NULL;
}

size_t ls_distributed_count(ls_nest leaf) {
  const ls_distributed *value = distributed_of(leaf);
  return value == NULL ? 0 : value->count;
}

ls_distributed_kind ls_distributed_kind_of(ls_nest leaf) {
  const ls_distributed *value = distributed_of(leaf);
  return value == NULL ? LS_PER_REPLICA : value->kind;
}

ls_nest ls_distributed_component(ls_nest leaf, size_t replica) {
  const ls_distributed *value = distributed_of(leaf);
  if (value == NULL) return leaf;
  return replica < value->count ? value->component[replica] : ls_none();
}

const char *ls_distributed_device(ls_nest leaf, size_t replica) {
  const ls_distributed *value = distributed_of(leaf);
  return value == NULL || replica >= value->count || value->devices == NULL ||
                 value->devices[replica] == NULL
             ? ""
             : value->devices[replica];
}

ls_nest ls_distributed_map_components(ls_nest leaf, ls_leaf_function function,
                                      void *user) {
  const ls_distributed *value = distributed_of(leaf);
  LS_OWN_ARRAY(ls_current_allocator(), ls_nest, items, value->count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < value->count; ++i)
    items[i] = function(value->component[i], user);
  return ls_nest_distributed_on(value->kind, items, value->devices,
                                value->count);
}

bool ls_distributed_is_alike(ls_nest a, ls_nest b) {
  const size_t count = ls_distributed_count(a);
  if (ls_distributed_count(b) != count ||
      ls_distributed_kind_of(a) != ls_distributed_kind_of(b))
    return false;
  for (size_t i = 0; i < count; ++i)
    if (strcmp(ls_distributed_device(a, i), ls_distributed_device(b, i)) != 0)
      return false;
  return true;
}

// ---- Splitting -------------------------------------------------------------
static void release_array(void *array) { ls_array_release(array); }

// Returns a leaf that is a view of `rows` rows from row `first` on.
static ls_nest view_rows(ls_array *array, int64_t first, int64_t rows) {
  ls_shape shape = ls_array_shape(array);
  const size_t row =
      shape.dim[0] == 0 ? 0 : ls_array_size(array) / (size_t)shape.dim[0];
  shape.dim[0] = rows;
  char *data = (char *)ls_array_mutable_data(array) + (size_t)first * row;
  ls_array *view = NULL;
  if (ls_dtype_owns_elements(ls_array_dtype(array))) {
    const ls_status copied =
        ls_array_create_copy(ls_array_dtype(array), shape, data, &view);
    return ls_status_is_ok(copied) ? ls_nest_array(view) : ls_fail(copied);
  }
  const ls_status status =
      ls_array_create_view(ls_array_dtype(array), shape, data, release_array,
                           ls_array_retain(array), &view);
  if (ls_status_is_ok(status)) return ls_nest_array(view);
  ls_array_release(array);
  return ls_fail(status);
}

ls_status ls_array_rows(ls_array *array, int64_t first, int64_t rows,
                        ls_nest *out_leaf) {
  *out_leaf = ls_none();
  return ls_take_nest(view_rows(array, first, rows), out_leaf);
}

ls_status ls_array_split(ls_array *array, int64_t parts, ls_nest *out_value) {
  *out_value = ls_none();
  const ls_shape shape = ls_array_shape(array);
  if (shape.rank < 1)
    return ls_invalid_argument("a scalar cannot be split over replicas");
  LS_OWN_ARRAY_OR_RETURN(ls_current_allocator(), ls_nest, items, (size_t)parts);
  int64_t first = 0;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t rows = ls_part_rows(shape.dim[0], parts, i);
    items[i] = view_rows(array, first, rows);
    first += rows;
  }
  return ls_take_nest(ls_nest_distributed(LS_PER_REPLICA, items, (size_t)parts),
                      out_value);
}
