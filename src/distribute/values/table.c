// SPDX-License-Identifier: Apache-2.0
//
// Lookup tables, single or one on each host, and their ops.
#include "lockstep/table.h"
#include "distribute/own.h"

#include <stdio.h>

#include "base/memory/map.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/base/strategy.h"
#include "graph/make/make.h"
#include "lockstep/host.h"
#include "lockstep/replica.h"

struct ls_table {
  ls_object object;
  ls_allocator *allocator;
  char *name;
  ls_array *values, *missing;  // NULL: none.
  ls_dtype keys;
  ls_map places;  // From a key's bytes to its value's index + 1.
  // Set if each host has a table: the tables, and the hosts' names.
  ls_table **tables;
  char **hosts;
  size_t num_hosts;
};

// ---- Objects ---------------------------------------------------------------
static void destroy_table(ls_object *object) {
  ls_table *table = (ls_table *)object;
  ls_allocator *allocator = table->allocator;
  for (size_t h = 0; h < table->num_hosts; ++h) {
    if (table->tables != NULL) ls_object_release(table->tables[h]);
    if (table->hosts != NULL) ls_release(allocator, table->hosts[h]);
  }
  ls_release(allocator, table->tables);
  ls_release(allocator, table->hosts);
  ls_array_release(table->values);
  ls_array_release(table->missing);
  ls_map_deinit(&table->places);
  ls_release(allocator, table->name);
  ls_release(allocator, table);
}

static void print_table(const ls_object *object, char *buffer, size_t size) {
  const ls_table *table = (const ls_table *)object;
  const int at = snprintf(buffer, size, "table '%s'", table->name);
  if (table->num_hosts > 0 && at > 0 && (size_t)at < size)
    snprintf(buffer + at, size - (size_t)at, " on %zu hosts", table->num_hosts);
}

static const ls_object_type table_type = {
    .name = "table", .destroy = destroy_table, .print = print_table};
static const ls_object_type host_tables_type = {.name = "table",
                                                .destroy = destroy_table,
                                                .print = print_table,
                                                .is_distributed_table = true};

LS_COUNTED(ls_table)

static ls_status new_table(const ls_object_type *type, const char *name,
                           ls_table **out_table) {
  ls_allocator *allocator = ls_current_allocator();
  LS_NEW_OR_RETURN(allocator, ls_table, table);
  ls_object_init(&table->object, type);
  table->allocator = allocator;
  ls_map_init(&table->places, allocator);
  *out_table = table;
  return ls_keep_text(allocator, name, &table->name);
}

// ---- Making ----------------------------------------------------------------
static const char *table_name_of(const ls_table_options *options) {
  return options->name != NULL ? options->name : "table";
}

static ls_status check_vector(const char *name, const char *noun,
                              const ls_array *array) {
  if (array == NULL)
    return ls_invalid_argument("table '%s' has no %s", name, noun);
  if (ls_array_shape(array).rank == 1) return ls_ok();
  return ls_invalid_argument(
      "the %s of table '%s' must be a vector, are %s", noun, name,
      LS_SHAPE_TEXT(ls_array_dtype(array), ls_array_shape(array)));
}

static ls_status table_check(const ls_table_options *o) {
  const char *name = table_name_of(o);
  LS_RETURN_IF_ERROR(check_vector(name, "keys", o->keys));
  LS_RETURN_IF_ERROR(check_vector(name, "values", o->values));
  const ls_dtype keys = ls_array_dtype(o->keys);
  const ls_dtype values = ls_array_dtype(o->values);
  if (keys != LS_DTYPE_STRING && !ls_dtype_is_integer(keys))
    return ls_invalid_argument(
        "the keys of table '%s' must be strings or integers, are %s", name,
        ls_dtype_name(keys));
  if (values == LS_DTYPE_RESOURCE || values == LS_DTYPE_VARIANT)
    return ls_invalid_argument("the values of table '%s' cannot be %s", name,
                               ls_dtype_name(values));
  if (ls_array_num_elements(o->keys) != ls_array_num_elements(o->values))
    return ls_invalid_argument("table '%s' has %lld keys and %lld values", name,
                               (long long)ls_array_num_elements(o->keys),
                               (long long)ls_array_num_elements(o->values));
  if (o->missing == NULL) return ls_ok();
  if (ls_array_dtype(o->missing) == values &&
      ls_array_shape(o->missing).rank == 0)
    return ls_ok();
  return ls_invalid_argument(
      "the value for missing keys of table '%s' must be %s, is %s", name,
      LS_SHAPE_TEXT(values, LS_SCALAR),
      LS_SHAPE_TEXT(ls_array_dtype(o->missing), ls_array_shape(o->missing)));
}

// Returns the bytes of a key.
static ls_bytes key_at(ls_dtype dtype, const void *keys, size_t index) {
  if (dtype == LS_DTYPE_STRING) return ((const ls_bytes *)keys)[index];
  const size_t size = ls_dtype_size(dtype);
  return (ls_bytes){(const char *)keys + index * size, size};
}

static ls_status no_key(const char *name, ls_dtype dtype, ls_bytes key,
                        ls_code code, const char *why) {
  if (dtype == LS_DTYPE_STRING)
    return LS_STATUS(code, "key '%.*s' %s in table '%s'",
                     (int)(key.size < 60 ? key.size : 60), key.data, why, name);
  LS_OWN(ls_array, view) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create_view(
      dtype, LS_SCALAR, (void *)(uintptr_t)key.data, NULL, NULL, &view));
  return LS_STATUS(code, "key %lld %s in table '%s'",
                   (long long)ls_array_i64(view, 0), why, name);
}

static ls_status copy_array(const ls_array *array, ls_array **out_array) {
  return ls_array_create_copy(ls_array_dtype(array), ls_array_shape(array),
                              ls_array_data(array), out_array);
}

static ls_status table_fill(ls_table *table, const ls_table_options *o) {
  table->keys = ls_array_dtype(o->keys);
  LS_RETURN_IF_ERROR(copy_array(o->values, &table->values));
  if (o->missing != NULL)
    LS_RETURN_IF_ERROR(copy_array(o->missing, &table->missing));
  const size_t count = (size_t)ls_array_num_elements(o->keys);
  for (size_t i = 0; i < count; ++i) {
    const ls_bytes key = key_at(table->keys, ls_array_data(o->keys), i);
    if (ls_map_has(&table->places, key.data, key.size))
      return no_key(table->name, table->keys, key, LS_INVALID_ARGUMENT,
                    "is there twice");
    if (!ls_map_insert(&table->places, key.data, key.size,
                       (void *)(uintptr_t)(i + 1)))
      return ls_out_of_memory();
  }
  return ls_ok();
}

static ls_status make_one(const ls_table_options *options,
                          ls_table **out_table) {
  LS_RETURN_IF_ERROR(new_table(&table_type, table_name_of(options), out_table));
  return table_fill(*out_table, options);
}

static ls_status make_on_hosts(const ls_table_options *options,
                               const ls_host_map *map, ls_table **out_table) {
  LS_RETURN_IF_ERROR(
      new_table(&host_tables_type, table_name_of(options), out_table));
  ls_table *all = *out_table;
  all->tables = ls_new_array(all->allocator, ls_table *, map->num_hosts);
  all->hosts = ls_new_array(all->allocator, char *, map->num_hosts);
  if (all->tables == NULL || all->hosts == NULL) return ls_out_of_memory();
  all->num_hosts = map->num_hosts;
  for (size_t h = 0; h < map->num_hosts; ++h) {
    const char *host = map->hosts[h].name;
    LS_RETURN_IF_ERROR(ls_keep_text(all->allocator, host, &all->hosts[h]));
    LS_DEVICE_SCOPE(host);
    LS_RETURN_IF_ERROR(make_one(options, &all->tables[h]));
  }
  return ls_ok();
}

ls_status ls_table_create(const ls_table_options *options,
                          ls_table **out_table) {
  LS_REQUIRE_OUT(out_table, options);
  LS_RETURN_IF_ERROR(table_check(options));
  const ls_strategy *strategy = ls_strategy_current();
  LS_OWN(ls_table, table) = NULL;
  if (strategy != NULL && strategy->kind->has_host_tables) {
    LS_OWN(ls_host_map, map) = {0};
    LS_RETURN_IF_ERROR(ls_host_map_init(&map, strategy->allocator,
                                        (const char *const *)strategy->devices,
                                        (size_t)strategy->num_replicas, true));
    LS_RETURN_IF_ERROR(make_on_hosts(options, &map, &table));
  } else {
    LS_RETURN_IF_ERROR(make_one(options, &table));
  }
  return ls_hand_over(&table, out_table);
}

// ---- Hosts -----------------------------------------------------------------
size_t ls_table_num_hosts(const ls_table *table) { return table->num_hosts; }

const char *ls_table_host(const ls_table *table, size_t index) {
  return index < table->num_hosts ? table->hosts[index] : NULL;
}

ls_table *ls_table_on_host(ls_table *table, size_t index) {
  return index < table->num_hosts ? table->tables[index] : NULL;
}

ls_table *ls_table_here(ls_table *table) {
  if (table->num_hosts == 0) return table;
  ls_device_name host, canonical;
  const char *device = ls_context_current()->scoped.device;
  ls_status status = ls_device_host(device != NULL ? device : "", &host);
  if (ls_status_is_ok(status))
    status = ls_device_canonical(host.text, table->hosts[0], &canonical);
  size_t found = 0;
  for (size_t h = 0; ls_status_is_ok(status) && h < table->num_hosts; ++h)
    if (strcmp(table->hosts[h], canonical.text) == 0) found = h;
  ls_status_free(status);
  return table->tables[found];
}

// ---- Lookup ----------------------------------------------------------------
static ls_status infer_lookup(const ls_object *state, const ls_type *in,
                              size_t num_in, ls_type *out, size_t *num_out) {
  const ls_table *table = (const ls_table *)state;
  (void)num_in;
  if (in[0].dtype != table->keys)
    return ls_invalid_argument("table '%s' has keys of %s, got %s", table->name,
                               ls_dtype_name(table->keys),
                               LS_SHAPE_TEXT(in[0].dtype, in[0].shape));
  out[0] = (ls_type){ls_array_dtype(table->values), in[0].shape};
  *num_out = 1;
  return ls_ok();
}

static ls_status start_lookup(ls_host_call *call) {
  const ls_table *table = (const ls_table *)call->state;
  const size_t count =
      (size_t)ls_shape_num_elements(call->output_types[0].shape);
  const size_t size = ls_dtype_size(call->output_types[0].dtype);
  const char *values = ls_array_data(table->values);
  char *out = call->outputs[0];
  for (size_t i = 0; i < count; ++i) {
    const ls_bytes key = key_at(table->keys, call->inputs[0], i);
    const uintptr_t place =
        (uintptr_t)ls_map_find(&table->places, key.data, key.size);
    if (place == 0 && table->missing == NULL)
      return no_key(table->name, table->keys, key, LS_NOT_FOUND, "is not");
    memcpy(out + i * size,
           place == 0 ? (const char *)ls_array_data(table->missing)
                      : values + (place - 1) * size,
           size);
  }
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel lookup_kernel = {
    .name = "table_lookup", .infer = infer_lookup, .start = start_lookup};

ls_tensor ls_table_lookup(ls_table *table, ls_tensor keys) {
  LS_MAKE_REQUIRE(table);
  return ls_op_output(
      ls_host_call_add(&lookup_kernel, &ls_table_here(table)->object, &keys, 1),
      0);
}

ls_tensor ls_table_size(ls_table *table) {
  LS_MAKE_REQUIRE(table);
  const size_t count = ls_map_count(&ls_table_here(table)->places);
  return ls_scalar(LS_DTYPE_I64, (double)count);
}
