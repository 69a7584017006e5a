// SPDX-License-Identifier: Apache-2.0
//
// Looks distributed values up by device, as the current thread sees them, and
// lists their components.
#include <stdio.h>
#include <stdlib.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "distribute/values/values.h"
#include "graph/region.h"
#include "lockstep/strategy_extended.h"
#include "runtime/eager/eager.h"

// ---- Devices ---------------------------------------------------------------
const char *ls_leaf_device(ls_nest leaf) {
  if (leaf.kind == LS_KIND_TENSOR)
    return ls_op_device(ls_tensor_op(leaf.as.tensor));
  if (leaf.kind == LS_KIND_OP) return ls_op_device(leaf.as.op);
  const ls_variable *variable = ls_nest_as_variable(leaf);
  return variable == NULL ? "" : ls_variable_device(variable);
}

size_t ls_count_components(ls_nest leaf) {
  const ls_variable *variable = ls_nest_as_variable(leaf);
  return variable != NULL ? variable->num_components
                          : ls_distributed_count(leaf);
}

ls_nest ls_component_of(ls_nest leaf, size_t index) {
  const ls_variable *variable = ls_nest_as_variable(leaf);
  if (variable == NULL || variable->num_components == 0)
    return ls_distributed_component(leaf, index);
  if (index >= variable->num_components) return ls_none();
  return (ls_nest){.kind = LS_KIND_VARIABLE,
                   .as.ref = ls_variable_seen(variable, index)};
}

ls_status ls_component_device(ls_nest value, size_t index,
                              ls_device_name *out_name) {
  const char *device = ls_distributed_device(value, index);
  if (device[0] == '\0') device = ls_leaf_device(ls_component_of(value, index));
  out_name->text[0] = '\0';
  return device[0] == '\0' ? ls_ok()
                           : ls_device_canonical(device, NULL, out_name);
}

bool ls_device_serves(const char *name, const char *device) {
  static const char type[] = "/device:";
  if (strcmp(name, device) == 0) return true;
  const char *at = strstr(device, type);
  const size_t length = at == NULL ? 0 : (size_t)(at - device);
  return at != NULL && strncmp(name, device, length) == 0 &&
         strcmp(name + length, "/device:CPU:0") == 0;
}

static bool is_on(ls_nest leaf, size_t index, const char *device) {
  if (strcmp(ls_distributed_device(leaf, index), device) == 0) return true;
  ls_device_name name;
  ls_status_free(ls_component_device(leaf, index, &name));
  return strcmp(name.text, device) == 0;
}

// Returns true if, for all i, component i is on device i of a list or on its
// host, or on no known device.
static bool lies_in_order_of(ls_nest leaf, const char *const *devices,
                             size_t count) {
  if (devices == NULL || ls_count_components(leaf) != count) return false;
  for (size_t i = 0; i < count; ++i) {
    if (ls_device_serves(ls_distributed_device(leaf, i), devices[i])) continue;
    ls_device_name name;
    ls_status_free(ls_component_device(leaf, i, &name));
    if (name.text[0] != '\0' && !ls_device_serves(name.text, devices[i]))
      return false;
  }
  return true;
}

static bool lies_in_order(const ls_strategy *strategy, ls_nest leaf) {
  return strategy != NULL &&
         lies_in_order_of(leaf, ls_strategy_devices(strategy),
                          (size_t)strategy->num_replicas);
}

// Finds the component whose device has this name; else returns the number of
// components.
static size_t find_named(ls_nest leaf, const char *device) {
  const size_t count = ls_count_components(leaf);
  for (size_t i = 0; i < count; ++i)
    if (is_on(leaf, i, device)) return i;
  return count;
}

// Finds the component on a canonical device, that of replica `id` (negative: of
// none); else returns the number of components. The replica's position is tried
// first, because several components may be on one host.
static size_t find_at(const ls_strategy *strategy, ls_nest leaf, int32_t id,
                      const char *device) {
  const size_t index = (size_t)id;
  const bool has = id >= 0 && index < ls_count_components(leaf);
  return has && (is_on(leaf, index, device) || lies_in_order(strategy, leaf))
             ? index
             : find_named(leaf, device);
}

static size_t find_on(const ls_strategy *strategy, ls_nest leaf,
                      const char *device) {
  return find_at(strategy, leaf,
                 strategy == NULL ? -1
                                  : ls_strategy_device_index(strategy, device),
                 device);
}

static bool is_by_position(ls_nest leaf) {
  return leaf.kind == LS_KIND_DISTRIBUTED &&
         ls_distributed_device(leaf, 0)[0] == '\0';
}

// Finds a replica's component: on its device if components name devices, else
// by its position.
static size_t find_own(const ls_strategy *strategy, ls_nest leaf, int32_t id) {
  return is_by_position(leaf)
             ? (size_t)id
             : find_at(strategy, leaf, id, ls_strategy_device(strategy, id));
}

// Returns the device by which a value is looked up: that of the replica, of the
// update or of the scope; "" if there is none.
static const char *device_here(void) {
  const ls_distribution *entry = ls_distribution_current();
  if (entry != NULL && entry->replica != NULL &&
      entry->strategy->kind->distributes)
    return ls_strategy_device(entry->strategy, entry->replica->id);
  if (entry != NULL && entry->is_update) return entry->update_device;
  const char *device = ls_context_current()->scoped.device;
  return device != NULL ? device : "";
}

static ls_status no_component(ls_nest leaf, const char *device) {
  char has[500] = "";
  size_t at = 0;
  for (size_t i = 0; i < ls_count_components(leaf) && at < sizeof(has); ++i) {
    ls_device_name name;
    ls_status_free(ls_component_device(leaf, i, &name));
    at +=
        (size_t)snprintf(has + at, sizeof(has) - at, "%s%s", i == 0 ? "" : ", ",
                         name.text[0] == '\0' ? "(no device)" : name.text);
  }
  const char *here = device_here();
  return ls_invalid_argument("a distributed value has no component on '%s'; it "
                             "has them on %s; the current device is '%s'",
                             device, has, here);
}

// Refuses a captured value in a trace on behalf of all replicas, where no
// component is the replica's own.
static ls_status check_captured(const ls_replica *replica, ls_nest leaf) {
  if (replica->device_of_all == NULL || ls_distributed_count(leaf) < 2 ||
      ls_distributed_kind_of(leaf) == LS_MIRRORED)
    return ls_ok();
  return ls_failed_precondition(
      "a PerReplica from around a run of %s, which is traced once for all "
      "replicas: hand it over as an argument (ls_strategy_run)",
      replica->strategy->label);
}

ls_status ls_distributed_get(ls_nest leaf, const char *device,
                             ls_nest *out_component) {
  LS_REQUIRE_OUT(out_component);
  LS_RETURN_IF_ERROR(ls_nest_status(leaf));
  if (ls_count_components(leaf) == 0) {
    *out_component = ls_nest_retain(leaf);
    return ls_ok();
  }
  if (ls_is_distributed_variable(leaf) &&
      ls_variable_is_replicated(leaf.as.ref))
    return ls_unimplemented(
        "a component of variable '%s' in a replicated computation, where it is "
        "each replica's own: take it outside",
        ls_variable_name(leaf.as.ref));
  const ls_distribution *entry = ls_distribution_current();
  const bool in_replica = entry != NULL && entry->replica != NULL;
  if (device == NULL && !in_replica && leaf.kind == LS_KIND_DISTRIBUTED &&
      ls_distributed_kind_of(leaf) == LS_PER_REPLICA &&
      (entry == NULL || !entry->is_update))
    return ls_failed_precondition(
        "a PerReplica has one value in a replica only: use run "
        "(ls_strategy_run), or name a device");
  if (device == NULL && in_replica)
    LS_RETURN_IF_ERROR(check_captured(entry->replica, leaf));
  ls_device_name name;
  LS_RETURN_IF_ERROR(ls_device_canonical(
      device != NULL ? device : device_here(), NULL, &name));
  const size_t index = find_on(ls_strategy_here(), leaf, name.text);
  if (index == ls_count_components(leaf)) return no_component(leaf, name.text);
  *out_component = ls_nest_retain(ls_component_of(leaf, index));
  return ls_ok();
}

bool ls_distributed_is_on(ls_nest leaf, const char *device) {
  ls_device_name name;
  const ls_status status = ls_device_canonical(device, NULL, &name);
  const bool known = ls_status_is_ok(status);
  ls_status_free(status);
  return known && find_on(ls_strategy_here(), leaf, name.text) <
                      ls_count_components(leaf);
}

// ---- As a tensor -----------------------------------------------------------
static ls_status component_here(ls_nest leaf, ls_nest *out_component) {
  const ls_distribution *entry = ls_distribution_current();
  const size_t count = ls_distributed_count(leaf);
  const bool mirrored = ls_distributed_kind_of(leaf) == LS_MIRRORED;
  size_t index = 0;
  const bool in_force = entry != NULL && entry->strategy->kind->distributes;
  if (in_force && entry->replica != NULL) {
    LS_RETURN_IF_ERROR(check_captured(entry->replica, leaf));
    index = find_own(entry->strategy, leaf, entry->replica->id);
    if (index == count) index = (size_t)entry->replica->id;
  } else if (in_force && entry->is_update) {
    index = (size_t)entry->update_id;
  } else if (!mirrored) {
    return ls_failed_precondition(
        "a PerReplica is used as one value outside of replicas: use run "
        "(ls_strategy_run) or reduce it first");
  } else if (in_force && ls_context_current()->scoped.device != NULL) {
    ls_device_name name;
    LS_RETURN_IF_ERROR(
        ls_device_canonical(ls_context_current()->scoped.device, NULL, &name));
    index = find_on(entry->strategy, leaf, name.text);
    if (index == count) index = 0;
  }
  if (index >= count)
    return ls_invalid_argument(
        "replica %zu of a distributed value with %zu components", index, count);
  *out_component = ls_distributed_component(leaf, index);
  return ls_ok();
}

ls_status ls_distributed_as_tensor(ls_nest leaf, ls_tensor *out_tensor) {
  LS_REQUIRE_OUT(out_tensor);
  ls_nest component = leaf;
  if (leaf.kind == LS_KIND_DISTRIBUTED)
    LS_RETURN_IF_ERROR(component_here(leaf, &component));
  return ls_region_tensor(component, out_tensor);
}

static ls_status as_tensor_of(ls_nest leaf, ls_dtype dtype,
                              ls_tensor *out_tensor) {
  ls_tensor tensor;
  LS_RETURN_IF_ERROR(ls_distributed_as_tensor(leaf, &tensor));
  if (ls_tensor_dtype(tensor) != dtype) {
    const bool converts = ls_is_distributed_variable(leaf) &&
                          ls_variable_is_replicated(leaf.as.ref);
    if (!converts)
      return ls_invalid_argument("a value of type %s is used as %s",
                                 ls_dtype_name(ls_tensor_dtype(tensor)),
                                 ls_dtype_name(dtype));
    tensor = ls_convert(tensor, dtype);
    LS_RETURN_IF_ERROR(ls_made_status(tensor));
  }
  *out_tensor = tensor;
  return ls_ok();
}

ls_status ls_distributed_as_tensor_of(ls_nest leaf, ls_dtype dtype,
                                      ls_tensor *out_tensor) {
  LS_REQUIRE_OUT(out_tensor);
  ls_tensor tensor = *out_tensor;
  LS_RETURN_IF_ERROR(LS_TRIAL(as_tensor_of(leaf, dtype, &tensor)));
  *out_tensor = tensor;
  return ls_ok();
}

// ---- Mapping components ----------------------------------------------------
typedef struct mapping {
  ls_leaf_function function;
  void *user;
} mapping;

static ls_nest map_leaf(ls_nest leaf, void *user) {
  const mapping *m = user;
  if (leaf.kind != LS_KIND_DISTRIBUTED) return m->function(leaf, m->user);
  if (ls_distributed_kind_of(leaf) == LS_PER_REPLICA && ls_num_replicas() > 1)
    return LS_FAIL(LS_FAILED_PRECONDITION,
                   "a PerReplica is expanded into its components in a replica "
                   "context: a replica has its own only");
  return ls_distributed_map_components(leaf, m->function, m->user);
}

ls_status ls_distributed_map(ls_nest nest, ls_leaf_function function,
                             void *user, ls_nest *out_nest) {
  LS_REQUIRE_OUT(out_nest, function);
  mapping m = {function, user};
  LS_RETURN_IF_ERROR(ls_nest_status(nest));
  return LS_TRIAL_WITH(out_nest,
                       ls_take_nest(ls_nest_map(nest, map_leaf, &m), out_nest));
}

// ---- Components in order ---------------------------------------------------
// Returns the first device of a list that a value lacks; NULL if none is known.
static const char *lacking(ls_nest leaf, const ls_device_list *list) {
  const size_t has = ls_distributed_count(leaf);
  for (size_t i = 0; list->devices != NULL && i < list->count; ++i)
    if (is_by_position(leaf) ? i >= has
                             : find_named(leaf, list->devices[i]) == has)
      return list->devices[i];
  return NULL;
}

ls_status ls_check_components(ls_nest nest, const ls_device_list *list) {
  for (size_t i = 0; i < ls_nest_count(nest); ++i)
    LS_RETURN_IF_ERROR(ls_check_components(ls_nest_item(nest, i), list));
  const size_t has = ls_distributed_count(nest);
  if (nest.kind != LS_KIND_DISTRIBUTED || has == list->count ||
      (list->takes_more && has > list->count))
    return ls_ok();
  const char *device = has < list->count ? lacking(nest, list) : NULL;
  return ls_invalid_argument(
      "a value has %zu components for %zu%s%s%s", has, list->count,
      device == NULL ? "" : ": it lacks one on '", device == NULL ? "" : device,
      device == NULL ? "" : "'");
}

// Returns true if the components are used by their positions: they name no
// devices, or those of the list.
static bool is_in_order(ls_nest leaf, const ls_device_list *list) {
  return leaf.kind != LS_KIND_DISTRIBUTED || list->devices == NULL ||
         is_by_position(leaf) ||
         lies_in_order_of(leaf, list->devices, list->count);
}

static bool all_in_order(ls_nest nest, const ls_device_list *list) {
  for (size_t i = 0; i < ls_nest_count(nest); ++i)
    if (!all_in_order(ls_nest_item(nest, i), list)) return false;
  return is_in_order(nest, list);
}

static ls_nest order_leaf(ls_nest leaf, void *user) {
  const ls_device_list *list = user;
  const size_t has = ls_distributed_count(leaf);
  const bool fits = has == list->count || list->must_have ||
                    (list->takes_more && has > list->count);
  if (is_in_order(leaf, list) || !fits) return ls_nest_retain(leaf);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, ls_nest, items, list->count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < list->count; ++i) {
    const size_t at = find_named(leaf, list->devices[i]);
    if (at == has)
      return list->must_have ? ls_fail(no_component(leaf, list->devices[i]))
                             : ls_nest_retain(leaf);
    items[i] = ls_distributed_component(leaf, at);
  }
  for (size_t i = 0; i < list->count; ++i)
    ls_nest_retain(items[i]);
  return ls_nest_distributed_on(ls_distributed_kind_of(leaf), items,
                                list->devices, list->count);
}

ls_status ls_order_components(ls_nest nest, const ls_device_list *list,
                              ls_nest *out_nest) {
  if (!all_in_order(nest, list))
    return ls_take_nest(ls_nest_map(nest, order_leaf, (void *)(uintptr_t)list),
                        out_nest);
  *out_nest = ls_nest_retain(nest);
  return ls_ok();
}

// ---- Unwrapping ------------------------------------------------------------
typedef struct placed {
  ls_nest component;  // Borrowed.
  ls_device_name device;
  size_t position;
  int32_t replica;  // Replica of the device; 0 if that does not count.
} placed;

static int by_place(const void *a, const void *b) {
  const placed *x = a, *y = b;
  const int order = strcmp(x->device.text, y->device.text);
  return x->replica != y->replica ? (x->replica > y->replica ? 1 : -1)
         : order != 0
             ? order
             : (x->position > y->position) - (x->position < y->position);
}

// Sorts the components by the strategy's replicas, if they are on exactly the
// strategy's devices, else by device.
static void sort_placed(const ls_strategy *strategy, placed *items,
                        size_t count) {
  bool by_replica =
      count == (size_t)strategy->num_replicas && strategy->kind->distributes;
  for (size_t i = 0; i < count; ++i) {
    items[i].replica = ls_strategy_device_index(strategy, items[i].device.text);
    by_replica = by_replica && items[i].replica >= 0;
  }
  for (size_t i = 0; i < count && !by_replica; ++i)
    items[i].replica = 0;
  qsort(items, count, sizeof(*items), by_place);
}

ls_status ls_strategy_unwrap(ls_strategy *strategy, ls_nest value,
                             ls_nest *out_list) {
  LS_REQUIRE_OUT(out_list, strategy);
  const size_t count = ls_count_components(value);
  if (count == 0) {
    const ls_nest item = ls_nest_retain(value);
    return ls_take_nest(ls_nest_sequence(LS_KIND_LIST, &item, 1), out_list);
  }
  LS_OWN_ARRAY_OR_RETURN(strategy->allocator, placed, items, count);
  LS_OWN_ARRAY_OR_RETURN(strategy->allocator, ls_nest, ordered, count);
  bool known = true;
  for (size_t i = 0; i < count; ++i) {
    items[i].component = ls_component_of(value, i);
    items[i].position = i;
    LS_RETURN_IF_ERROR(ls_component_device(value, i, &items[i].device));
    known = known && items[i].device.text[0] != '\0';
  }
  if (known && !lies_in_order(strategy, value))
    sort_placed(strategy, items, count);
  size_t first = 0, end = count;
  if (count == (size_t)strategy->num_replicas)
    ls_strategy_own_replicas(strategy, &first, &end);
  for (size_t i = first; i < end; ++i)
    ordered[i - first] = ls_nest_retain(items[i].component);
  return ls_take_nest(ls_nest_sequence(LS_KIND_LIST, ordered, end - first),
                      out_list);
}

// ---- Local results ---------------------------------------------------------
static ls_nest local_leaf(ls_nest leaf, void *user) {
  const size_t replica = *(const size_t *)user;
  return ls_nest_retain(ls_component_of(leaf, replica));
}

static size_t most_components(ls_nest nest) {
  if (!ls_nest_is_node(nest)) return ls_count_components(nest);
  size_t most = 0;
  for (size_t i = 0; i < ls_nest_count(nest); ++i) {
    const size_t count = most_components(ls_nest_item(nest, i));
    if (count > most) most = count;
  }
  return most;
}

ls_status ls_strategy_results(ls_strategy *strategy, ls_nest value, bool local,
                              ls_nest *out_tuple) {
  const bool node = ls_nest_is_node(value);
  size_t count =
      node ? (size_t)strategy->num_replicas : ls_count_components(value);
  if (count == 0 || !strategy->kind->distributes) {
    const ls_nest item = ls_nest_retain(value);
    return ls_take_nest(ls_nest_sequence(LS_KIND_TUPLE, &item, 1), out_tuple);
  }
  if (node && most_components(value) > count)
    return ls_invalid_argument(
        "a leaf has %zu components, the strategy %zu replicas",
        most_components(value), count);
  LS_OWN_ARRAY_OR_RETURN(strategy->allocator, ls_nest, items, count);
  size_t first = 0, end = count;
  if (local && count == (size_t)strategy->num_replicas)
    ls_strategy_own_replicas(strategy, &first, &end);
  for (size_t r = first; r < end; ++r)
    items[r - first] = ls_nest_map(value, local_leaf, &r);
  return ls_take_nest(ls_nest_sequence(LS_KIND_TUPLE, items, end - first),
                      out_tuple);
}

ls_status ls_strategy_local_results(ls_strategy *strategy, ls_nest value,
                                    ls_nest *out_tuple) {
  LS_REQUIRE_OUT(out_tuple, strategy);
  return ls_strategy_results(strategy, value, true, out_tuple);
}

// ---- A replica's result ----------------------------------------------------
typedef struct selecting {
  const ls_strategy *strategy;
  int32_t id;
} selecting;

static ls_nest result_leaf(ls_nest leaf, void *user) {
  const selecting *s = user;
  const size_t replicas = (size_t)s->strategy->num_replicas;
  const char *device = ls_strategy_device(s->strategy, s->id);
  if (leaf.kind != LS_KIND_DISTRIBUTED && !ls_is_distributed_variable(leaf))
    return ls_nest_retain(leaf);
  if (!s->strategy->kind->distributes)
    return ls_nest_retain(ls_component_of(leaf, 0));
  if (is_by_position(leaf))
    LS_RETURN_FAILED_IF_ERROR(ls_status_annotate(
        ls_check_components(
            leaf, &(ls_device_list){.devices = ls_strategy_devices(s->strategy),
                                    .count = replicas}),
        "in the results of a run"));
  const size_t index = find_own(s->strategy, leaf, s->id);
  return index < ls_count_components(leaf)
             ? ls_nest_retain(ls_component_of(leaf, index))
             : ls_fail(no_component(leaf, device));
}

ls_status ls_strategy_replica_result(ls_strategy *strategy, ls_nest results,
                                     int32_t replica, ls_nest *out_result) {
  LS_REQUIRE_OUT(out_result, strategy);
  selecting s = {strategy, replica};
  if (replica < 0 || replica >= strategy->num_replicas)
    return LS_STATUS(LS_OUT_OF_RANGE, "the result of replica %d of %s", replica,
                     strategy->label);
  return ls_take_nest(ls_nest_map(results, result_leaf, &s), out_result);
}
