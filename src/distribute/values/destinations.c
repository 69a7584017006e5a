// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "distribute/base/strategy.h"
#include "distribute/context/context.h"
#include "distribute/values/values.h"
#include "lockstep/strategy_extended.h"
#include "runtime/eager/eager.h"

// ---- Sets of devices -------------------------------------------------------
void ls_device_set_deinit(ls_device_set *set) {
  ls_release(set->allocator, set->names);
  *set = (ls_device_set){0};
}

size_t ls_device_set_find(const ls_device_set *set, const char *name) {
  size_t i = 0;
  while (i < set->count && strcmp(set->names[i].text, name) != 0)
    ++i;
  return i;
}

bool ls_device_set_match(const ls_device_set *a, const ls_device_set *b) {
  if (a->count != b->count) return false;
  for (size_t i = 0; i < a->count; ++i)
    if (strcmp(a->names[i].text, b->names[i].text) != 0 &&
        (ls_device_set_find(b, a->names[i].text) == b->count ||
         ls_device_set_find(a, b->names[i].text) == a->count))
      return false;
  return true;
}

bool ls_device_set_has_cpu(const ls_device_set *set) {
  for (size_t i = 0; i < set->count; ++i)
    if (strstr(set->names[i].text, "/device:CPU:") != NULL) return true;
  return false;
}

const char *ls_device_set_print(const ls_device_set *set, char *buffer,
                                size_t size) {
  size_t at = 0;
  buffer[0] = '\0';
  for (size_t i = 0; i < set->count && at < size; ++i)
    at += (size_t)snprintf(buffer + at, size - at, "%s%s", i == 0 ? "" : ", ",
                           set->names[i].text);
  return buffer;
}

static ls_status destinations_make_room(ls_device_set *set, size_t count) {
  set->allocator = ls_current_allocator();
  set->names = ls_new_array(set->allocator, ls_device_name, count);
  return set->names == NULL ? ls_out_of_memory() : ls_ok();
}

// Removes duplicate devices: components may share a host.
static void keep_once(ls_device_set *set) {
  const size_t count = set->count;
  set->count = 0;
  for (size_t i = 0; i < count; ++i)
    if (ls_device_set_find(set, set->names[i].text) == set->count)
      set->names[set->count++] = set->names[i];
}

// ---- Components ------------------------------------------------------------
static bool is_whole(ls_nest value) {
  return value.kind != LS_KIND_DISTRIBUTED && ls_count_components(value) == 0;
}

// Returns the device of a leaf; for slices, the device of their values.
static const char *destinations_device_of(ls_nest leaf) {
  ls_slices_parts parts;
  if (leaf.kind != LS_KIND_SLICES) return ls_leaf_device(leaf);
  const ls_status status = ls_slices_parts_of(leaf, &parts);
  const bool known = ls_status_is_ok(status);
  ls_status_free(status);
  return known ? ls_leaf_device(ls_leaf(parts.values)) : "";
}

static ls_status device_of_component(ls_nest value, size_t index,
                                     ls_device_name *out_name) {
  const ls_nest item = ls_component_of(value, index);
  if (!is_whole(value) && item.kind != LS_KIND_SLICES)
    return ls_component_device(value, index, out_name);
  const char *device = ls_distributed_device(value, index);
  if (device[0] == '\0') device = destinations_device_of(item);
  out_name->text[0] = '\0';
  return device[0] == '\0' ? ls_ok()
                           : ls_device_canonical(device, NULL, out_name);
}

const ls_strategy *ls_strategy_here(void) {
  const ls_distribution *entry = ls_distribution_current();
  return entry != NULL && entry->strategy->kind->distributes ? entry->strategy
                                                             : NULL;
}

// Sets unknown devices to those of the replicas, if there is one component per
// replica.
static void place_by_position(ls_device_set *devices) {
  const ls_strategy *strategy = ls_strategy_here();
  if (strategy == NULL || devices->count != (size_t)strategy->num_replicas)
    return;
  for (size_t i = 0; i < devices->count; ++i)
    if (devices->names[i].text[0] != '\0') return;
  for (size_t i = 0; i < devices->count; ++i)
    strcpy(devices->names[i].text, ls_strategy_device(strategy, (int32_t)i));
}

// Sorts components by replica, if all replicas are known. The insertion sort is
// fast, because components are nearly always sorted. Components on a host that
// several replicas share stay in order.
static void order_by_replica(ls_components *parts) {
  const ls_strategy *strategy = ls_strategy_here();
  const size_t count = parts->devices.count;
  ls_device_name *names = parts->devices.names;
  if (strategy == NULL || count > (size_t)strategy->num_replicas) return;
  const bool is_complete = count == (size_t)strategy->num_replicas;
  bool ordered = true;
  for (size_t i = 0; i < count; ++i) {
    const char *device = ls_strategy_device(strategy, (int32_t)i);
    const bool here = is_complete ? ls_device_serves(names[i].text, device)
                                  : strcmp(device, names[i].text) == 0;
    if (!here && ls_strategy_device_index(strategy, names[i].text) < 0) return;
    ordered = ordered && here;
  }
  for (size_t i = 1; !ordered && i < count; ++i)
    for (size_t k = i;
         k > 0 && ls_strategy_device_index(strategy, names[k - 1].text) >
                      ls_strategy_device_index(strategy, names[k].text);
         --k) {
      const ls_device_name name = names[k];
      const ls_nest item = parts->items[k];
      names[k] = names[k - 1];
      parts->items[k] = parts->items[k - 1];
      names[k - 1] = name;
      parts->items[k - 1] = item;
    }
}

static ls_status fill_components(ls_components *parts, ls_nest value) {
  const size_t count = is_whole(value) ? 1 : ls_count_components(value);
  LS_RETURN_IF_ERROR(destinations_make_room(&parts->devices, count));
  LS_SET_ARRAY_OR_RETURN(parts->devices.allocator, ls_nest, parts->items,
                         count);
  for (size_t i = 0; i < count; ++i) {
    parts->items[i] = ls_component_of(value, i);
    LS_RETURN_IF_ERROR(device_of_component(value, i, &parts->devices.names[i]));
    ++parts->devices.count;
  }
  place_by_position(&parts->devices);
  order_by_replica(parts);
  return ls_ok();
}

ls_status ls_components_init(ls_components *parts, ls_nest value) {
  *parts = (ls_components){0};
  const ls_status status = fill_components(parts, value);
  if (!ls_status_is_ok(status)) ls_components_deinit(parts);
  return status;
}

void ls_components_deinit(ls_components *parts) {
  ls_release(parts->devices.allocator, parts->items);
  ls_device_set_deinit(&parts->devices);
  parts->items = NULL;
}

// ---- Destinations ----------------------------------------------------------
bool ls_destinations_is_none(ls_destinations where) {
  return where.device == NULL && where.num_devices == 0 &&
         where.value.kind == LS_KIND_NONE;
}

static ls_status add_named(ls_device_set *set, const char *name) {
  ls_device_name canonical;
  if (name == NULL || name[0] == '\0')
    return ls_invalid_argument(
        "destinations can not be empty: they name no device");
  LS_RETURN_IF_ERROR(ls_device_canonical(
      name, ls_context_current()->scoped.device, &canonical));
  if (ls_device_set_find(set, canonical.text) == set->count)
    strcpy(set->names[set->count++].text, canonical.text);
  return ls_ok();
}

// Adds the devices of a strategy, which are canonical and distinct.
static ls_status add_replicas(ls_device_set *set, const ls_strategy *strategy) {
  const size_t count = (size_t)strategy->num_replicas;
  LS_RETURN_IF_ERROR(destinations_make_room(set, count));
  for (; set->count < count; ++set->count)
    strcpy(set->names[set->count].text,
           ls_strategy_device(strategy, (int32_t)set->count));
  return ls_ok();
}

// Adds the devices of a value, each once, in the value's order. Results have
// the same order.
static ls_status add_devices_of(ls_device_set *set, ls_nest value) {
  const size_t count = is_whole(value) ? 1 : ls_count_components(value);
  LS_RETURN_IF_ERROR(destinations_make_room(set, count));
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(device_of_component(value, i, &set->names[i]));
  set->count = count;
  if (!is_whole(value)) place_by_position(set);
  for (size_t i = 0; i < count; ++i)
    if (set->names[i].text[0] == '\0')
      return ls_invalid_argument("destinations can not be empty: the value "
                                 "that names them has no device");
  keep_once(set);
  return ls_ok();
}

static bool names_devices(ls_nest value) {
  return value.kind == LS_KIND_DISTRIBUTED || value.kind == LS_KIND_TENSOR ||
         value.kind == LS_KIND_VARIABLE || value.kind == LS_KIND_SLICES;
}

static ls_status fill_set(ls_destinations where, ls_nest value,
                          ls_device_set *set) {
  if (where.device != NULL) {
    LS_RETURN_IF_ERROR(destinations_make_room(set, 1));
    return add_named(set, where.device);
  }
  const ls_strategy *strategy = ls_strategy_here();
  if (strategy != NULL && where.devices == ls_strategy_devices(strategy))
    return add_replicas(set, strategy);
  if (where.devices == NULL && where.num_devices > 0)
    return ls_invalid_argument("destinations of %zu devices at NULL",
                               where.num_devices);
  if (where.num_devices > 0) {
    LS_RETURN_IF_ERROR(destinations_make_room(set, where.num_devices));
    for (size_t i = 0; i < where.num_devices; ++i)
      LS_RETURN_IF_ERROR(add_named(set, where.devices[i]));
    return ls_ok();
  }
  const ls_nest there = where.value.kind == LS_KIND_NONE ? value : where.value;
  if (!names_devices(there))
    return ls_invalid_argument("destinations can not be %s: devices, or a "
                               "distributed value, variable or tensor",
                               LS_NEST_TEXT(there));
  return add_devices_of(set, there);
}

ls_status ls_destination_set(ls_destinations where, ls_nest value,
                             ls_device_set *out_set) {
  *out_set = (ls_device_set){0};
  const ls_status status = fill_set(where, value, out_set);
  if (!ls_status_is_ok(status)) ls_device_set_deinit(out_set);
  return status;
}

// ---- Fetch -----------------------------------------------------------------
// Fetches a value: moves it from one device to another.

// Finds the value to fetch, and the device on which `fn` runs.
static ls_status fetch_source(ls_strategy *strategy, ls_nest value,
                              const char *destination, ls_nest *out_source,
                              ls_device_name *out_device) {
  const ls_variable *variable = ls_nest_as_variable(value);
  strcpy(out_device->text, destination);
  if (variable != NULL && variable->num_components > 0 &&
      !ls_is_mirrored(value)) {
    LS_DEVICE_SCOPE(destination);
    *out_source = ls_leaf(ls_variable_read(ls_nest_as_variable(value)));
    return ls_made_status(out_source->as.tensor);
  }
  if (!ls_is_mirrored(value))
    return ls_invalid_argument("fetch of %s: a mirrored value or a distributed "
                               "variable can be fetched",
                               LS_NEST_TEXT(value));
  for (int32_t i = 0; i < strategy->num_replicas &&
                      !ls_distributed_is_on(value, out_device->text);
       ++i)
    strcpy(out_device->text, ls_strategy_device(strategy, i));
  if (!ls_distributed_is_on(value, out_device->text))
    strcpy(out_device->text, destination);  // Used in the error message.
  return ls_distributed_get(value, out_device->text, out_source);
}

ls_status ls_mirrored_fetch(ls_strategy *strategy, ls_nest value,
                            const char *destination, ls_callback fn, void *user,
                            ls_nest *out_value) {
  LS_OWN(ls_nest, source) = ls_none();
  LS_OWN(ls_nest, made) = ls_none();
  ls_device_name device;
  ls_tensor tensor = ls_failed_tensor();
  LS_RETURN_IF_ERROR(
      fetch_source(strategy, value, destination, &source, &device));
  {
    LS_DEVICE_SCOPE(device.text);
    made = fn != NULL ? fn(source, user) : ls_nest_retain(source);
    LS_RETURN_IF_ERROR(ls_nest_status(made));
    LS_RETURN_IF_ERROR(ls_distributed_as_tensor(made, &tensor));
  }
  LS_DEVICE_SCOPE(destination);
  *out_value = ls_leaf(ls_identity(tensor));
  return ls_made_status(out_value->as.tensor);
}

ls_status ls_strategy_fetch(ls_strategy *strategy, ls_nest value,
                            const char *destination, ls_callback fn, void *user,
                            ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, strategy);
  ls_device_name name;
  if (destination != NULL && destination[0] == '\0')
    return ls_invalid_argument(
        "the destination of a fetch is one device, got an empty name");
  LS_RETURN_IF_ERROR(ls_device_canonical(
      destination != NULL ? destination : "/device:CPU:0", NULL, &name));
  return LS_CROSS_REPLICA(
      strategy, "fetch", out_value,
      strategy->kind->fetch(strategy, value, name.text, fn, user, out_value));
}
