// SPDX-License-Identifier: Apache-2.0
//
// Updates: a function for each component of a variable, or each device. Map,
// which works alike.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/context/context.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/variables/update.h"
#include "graph/compare/compare.h"
#include "lockstep/strategy_extended.h"

// ---- Updating --------------------------------------------------------------
ls_status ls_update_check_args(ls_nest args, bool mirrored) {
  if (args.kind != LS_KIND_NONE && args.kind != LS_KIND_TUPLE &&
      args.kind != LS_KIND_LIST) {
    LS_RETURN_IF_ERROR(ls_nest_status(args));
    char text[160];
    return ls_invalid_argument(
        "the arguments of an update are a list or a tuple, got %s",
        ls_nest_print(args, text, sizeof(text)));
  }
  return mirrored ? ls_assert_mirrored(args) : ls_ok();
}

// (first, arguments...); `first` is lent, none: left out.
ls_nest ls_update_args(const ls_update_call *call, ls_nest first,
                       bool has_first, size_t id) {
  const size_t count = ls_nest_count(call->args) + (has_first ? 1 : 0);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, ls_nest, items, count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  size_t at = 0;
  if (has_first) items[at++] = ls_nest_retain(first);
  for (size_t i = 0; at < count; ++at, ++i) {
    const ls_status status =
        ls_select_replica((int64_t)id, ls_nest_item(call->args, i), &items[at]);
    if (!ls_status_is_ok(status)) items[at] = ls_fail(status);
  }
  return ls_nest_sequence(LS_KIND_TUPLE, items, count);
}

ls_status ls_update_call_once(const ls_update_call *call, ls_nest first,
                              bool has_first, size_t position, int32_t id,
                              const char *device, ls_nest *out_result) {
  LS_OWN(ls_nest, args) = ls_update_args(call, first, has_first, position);
  ls_status status = ls_nest_status(args);
  char name[32];
  snprintf(name, sizeof(name), "update_%d", id);
  ls_scope update = {0};
  {
    LS_DEVICE_SCOPE(device);
    {
      LS_NAME_SCOPE(name);
      ls_update_begin(&update, call->strategy, id, device);
      if (ls_status_is_ok(status))
        status = ls_take_nest(call->fn(args, call->user), out_result);
      ls_scope_end(&update);
    }
  }
  return status;
}

ls_status ls_update_end(const ls_update_call *call, ls_nest *results,
                        size_t count, ls_status status, ls_nest *out_value) {
  if (ls_status_is_ok(status))
    status = ls_update_regroup(call->strategy, results, count, call->group,
                               out_value);
  for (size_t i = 0; results != NULL && i < count; ++i)
    ls_nest_release(results[i]);
  ls_release(call->strategy->allocator, results);
  return status;
}

static ls_status update_components(const ls_update_call *call,
                                   ls_variable *variable, ls_nest *out_value) {
  const size_t count = variable->num_components;
  for (size_t i = 0; i < count; ++i)
    if (ls_strategy_device_index(
            call->strategy, ls_variable_device(variable->components[i])) < 0)
      return ls_invalid_argument(
          "component %zu of '%s' is on '%s', which is no device of %s", i,
          variable->name, ls_variable_device(variable->components[i]),
          call->strategy->label);
  ls_nest *results = ls_new_array(call->strategy->allocator, ls_nest, count);
  ls_status status = results == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i) {
    const ls_variable *component = variable->components[i];
    const ls_nest leaf = {.kind = LS_KIND_VARIABLE,
                          .as.ref = ls_variable_seen(variable, i)};
    const int32_t id =
        ls_strategy_device_index(call->strategy, ls_variable_device(component));
    status = ls_update_call_once(call, leaf, true, i, id,
                                 ls_variable_device(component), &results[i]);
  }
  return ls_update_end(call, results, count, status, out_value);
}

// In a replica an update is a merge call.
typedef struct replica_update {
  ls_variable *variable;
  ls_callback fn;
  void *user;
  bool group;
} replica_update;

// Whether each leaf of a replica's arguments is the same on all.
static ls_nest update_is_same(ls_nest leaf, void *user) {
  (void)user;
  return ls_nest_i64(leaf.kind == LS_KIND_TENSOR &&
                     ls_same_is_noted(leaf.as.tensor));
}

// Each leaf of all replicas' arguments beside what they have said of it.
typedef struct regarding {
  const ls_nest *same;
  bool differs_freely;
  size_t next;
} regarding;

static ls_nest as_mirrored(ls_nest leaf, void *user) {
  regarding *r = user;
  const ls_nest same = r->same[r->next++];
  const bool is_mirrored = r->differs_freely || (same.kind == LS_KIND_SCALAR &&
                                                 ls_nest_number(same) != 0);
  if (leaf.kind != LS_KIND_DISTRIBUTED || !is_mirrored)
    return ls_nest_retain(leaf);
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = ls_distributed_count(leaf);
  LS_OWN_ARRAY(allocator, ls_nest, items, count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_nest_retain(ls_distributed_component(leaf, i));
  return ls_nest_distributed(LS_MIRRORED, items, count);
}

// The arguments, mirrored where all have the same and where they may differ:
// nothing is aggregated there.
static ls_nest mirrored_args(const ls_variable *variable, ls_nest args,
                             ls_nest same) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = ls_nest_num_leaves(same);
  LS_OWN_ARRAY(allocator, ls_nest, leaves, count);
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  ls_nest_flatten(same, leaves, count);
  regarding r = {.same = leaves,
                 .differs_freely =
                     variable->aggregation == LS_AGGREGATION_NONE ||
                     variable->synchronization == LS_SYNCHRONIZATION_ON_READ};
  return ls_nest_map(args, as_mirrored, &r);
}

static ls_nest merge_update(ls_strategy *strategy, ls_nest args, void *user) {
  const replica_update *u = user;
  ls_nest result = ls_none();
  LS_OWN(ls_nest, given) =
      mirrored_args(u->variable, ls_nest_item(args, 0), ls_nest_item(args, 1));
  ls_status status = ls_nest_status(given);
  if (ls_status_is_ok(status))
    status = ls_status_annotate(
        ls_assert_mirrored(given),
        "replicas update '%s' with what is the same on all, as all_reduce or a "
        "merge call gives it",
        u->variable->name);
  if (ls_status_is_ok(status))
    status = ls_strategy_update(strategy, u->variable, u->fn, given, u->user,
                                u->group, &result);
  return ls_status_is_ok(status) ? result : ls_fail(status);
}

bool ls_update_is_in_replica(const ls_update_call *call) {
  const ls_replica *replica = ls_replica_context();
  return ls_has_strategy() && replica != NULL &&
         replica->strategy == call->strategy;
}

ls_status ls_update_in_replica(const ls_update_call *call,
                               ls_variable *variable, ls_nest *out_value) {
  replica_update u = {variable, call->fn, call->user, call->group};
  LS_OWN(ls_nest, given) =
      LS_TUPLE(ls_nest_retain(call->args),
               ls_nest_map(call->args, update_is_same, ls_replica_context()));
  return ls_take_nest(
      ls_replica_merge_call(ls_replica_context(), merge_update, given, &u),
      out_value);
}

ls_status ls_mirrored_update(const ls_update_call *call, ls_variable *variable,
                             ls_nest *out_value) {
  ls_strategy *strategy = call->strategy;
  if (variable->num_components == 0)
    return ls_invalid_argument(
        "update of '%s', which is a %s, not a distributed variable",
        variable->name,
        variable->container != NULL ? "component of one" : "plain variable");
  if (ls_update_is_in_replica(call))
    return ls_update_in_replica(call, variable, out_value);
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&crossing, strategy, "update"));
  ls_status status = ls_update_check_args(call->args, true);
  if (ls_status_is_ok(status))
    status = update_components(call, variable, out_value);
  return ls_cross_replica_end(&crossing, status, out_value);
}

ls_status ls_strategy_update(ls_strategy *strategy, ls_variable *variable,
                             ls_callback fn, ls_nest args, void *user,
                             bool group, ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value);
  LS_REQUIRE(strategy);
  LS_REQUIRE(variable);
  LS_REQUIRE(fn);
  const ls_update_call call = {strategy, fn, user, args, group};
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  if (variable == NULL || fn == NULL)
    return ls_invalid_argument("an update needs a variable and a function");
  return strategy->kind->update(&call, variable, out_value);
}

static ls_status update_devices(const ls_update_call *call,
                                const char *const *devices, size_t count,
                                ls_nest *out_value) {
  ls_nest *results = ls_new_array(call->strategy->allocator, ls_nest, count);
  ls_status status = results == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i) {
    ls_device_name name;
    status = ls_device_canonical(devices[i], NULL, &name);
    const int32_t id = ls_strategy_device_index(call->strategy, name.text);
    if (ls_status_is_ok(status) && id < 0)
      status = ls_invalid_argument("'%s' is no device of %s", devices[i],
                                   call->strategy->label);
    if (ls_status_is_ok(status))
      status = ls_update_call_once(call, ls_none(), false, i, id, name.text,
                                   &results[i]);
  }
  return ls_update_end(call, results, count, status, out_value);
}

ls_status ls_mirrored_update_non_slot(const ls_update_call *call,
                                      const char *const *devices,
                                      size_t num_devices, ls_nest *out_value) {
  if (devices == NULL || num_devices == 0)
    return ls_invalid_argument("update_non_slot needs a list of devices");
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(
      ls_cross_replica_begin(&crossing, call->strategy, "update_non_slot"));
  ls_status status = ls_update_check_args(call->args, true);
  if (ls_status_is_ok(status))
    status = update_devices(call, devices, num_devices, out_value);
  return ls_cross_replica_end(&crossing, status, out_value);
}

ls_status ls_strategy_update_non_slot(ls_strategy *strategy,
                                      const char *const *devices,
                                      size_t num_devices, ls_callback fn,
                                      ls_nest args, void *user, bool group,
                                      ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value);
  LS_REQUIRE(strategy);
  LS_REQUIRE(fn);
  LS_REQUIRE_EACH(devices, num_devices);
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  const ls_update_call call = {strategy, fn, user, args, group};
  if (fn == NULL) return ls_invalid_argument("an update needs a function");
  return strategy->kind->update_non_slot(&call, devices, num_devices,
                                         out_value);
}

// ---- Mapping ---------------------------------------------------------------
static ls_status map_item(const ls_update_call *call, ls_nest item,
                          int32_t device, ls_nest *out_result) {
  LS_OWN(ls_nest, args) = ls_update_args(call, item, true, (size_t)device);
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  {
    LS_DEVICE_SCOPE(ls_strategy_device(call->strategy, device));
    return ls_take_nest(call->fn(args, call->user), out_result);
  }
}

// The results of device d: every n-th.
static ls_nest map_output(const ls_update_call *call, const ls_nest *results,
                          size_t num_items, size_t device, ls_nest *room) {
  size_t count = 0;
  const size_t step = (size_t)call->strategy->num_replicas;
  for (size_t k = device; k < num_items; k += step)
    room[count++] = ls_nest_retain(results[k]);
  return ls_nest_distributed(LS_MAP_OUTPUT, room, count);
}

static ls_status map_all(const ls_update_call *call, const ls_nest *items,
                         size_t num_items, ls_nest *out_value) {
  ls_allocator *allocator = call->strategy->allocator;
  const size_t replicas = (size_t)call->strategy->num_replicas;
  const size_t used = num_items < replicas ? num_items : replicas;
  LS_OWN_ARRAY(allocator, ls_nest, results, num_items);
  LS_OWN_ARRAY(allocator, ls_nest, room, num_items);
  LS_OWN_ARRAY(allocator, ls_nest, outputs, used);
  ls_status status = results == NULL || room == NULL || outputs == NULL
                         ? ls_out_of_memory()
                         : ls_ok();
  for (size_t k = 0; k < num_items && ls_status_is_ok(status); ++k)
    status = map_item(call, items[k], (int32_t)(k % replicas), &results[k]);
  if (ls_status_is_ok(status)) {
    for (size_t d = 0; d < used; ++d)
      outputs[d] = map_output(call, results, num_items, d, room);
    status = ls_take_nest(
        ls_nest_distributed_on(LS_PER_REPLICA, outputs,
                               ls_strategy_devices(call->strategy), used),
        out_value);
  }
  for (size_t k = 0; results != NULL && k < num_items; ++k)
    ls_nest_release(results[k]);
  return status;
}

ls_status ls_mirrored_map(const ls_update_call *call, const ls_nest *items,
                          size_t num_items, ls_nest *out_value) {
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&crossing, call->strategy, "map"));
  ls_status status = ls_update_check_args(call->args, true);
  if (ls_status_is_ok(status))
    status = map_all(call, items, num_items, out_value);
  return ls_cross_replica_end(&crossing, status, out_value);
}

ls_status ls_strategy_map(ls_strategy *strategy, const ls_nest *items,
                          size_t num_items, ls_callback fn, ls_nest args,
                          void *user, ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value);
  LS_REQUIRE(strategy);
  LS_REQUIRE(fn);
  LS_REQUIRE_ITEMS(items, num_items);
  const ls_update_call call = {strategy, fn, user, args, false};
  if (fn == NULL) return ls_invalid_argument("a map needs a function");
  return strategy->kind->map(&call, items, num_items, out_value);
}
