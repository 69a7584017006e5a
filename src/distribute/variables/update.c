// SPDX-License-Identifier: Apache-2.0
//
// Updates: calls of a function for each component of a variable, or for each
// device. Maps, which are similar, are here, too.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "distribute/values/values.h"
#include "distribute/variables/variable.h"
#include "graph/compare/compare.h"
#include "lockstep/strategy_extended.h"
#include "runtime/eager/eager.h"

// ---- Updating --------------------------------------------------------------
ls_status ls_update_check_args(const ls_update_call *call, bool mirrored,
                               const ls_device_list *list) {
  const ls_nest args = call->args;
  if (args.kind != LS_KIND_NONE && args.kind != LS_KIND_TUPLE &&
      args.kind != LS_KIND_LIST) {
    LS_RETURN_IF_ERROR(ls_nest_status(args));
    return ls_invalid_argument(
        "the arguments of an update are a list or a tuple, got %s",
        LS_NEST_TEXT(args));
  }
  if (mirrored) LS_RETURN_IF_ERROR(ls_assert_mirrored(args));
  return list == NULL ? ls_ok() : ls_check_components(args, list);
}

ls_nest ls_update_args(const ls_update_call *call, ls_nest first,
                       bool has_first, size_t id) {
  LS_OWN(ls_nest_builder, args) = {0};
  if (has_first) ls_nest_builder_append(&args, ls_nest_retain(first));
  for (size_t i = 0; i < ls_nest_count(call->args); ++i) {
    ls_nest part = ls_none();
    const ls_status status =
        ls_select_replica((int64_t)id, ls_nest_item(call->args, i), &part);
    ls_nest_builder_append(&args,
                           ls_status_is_ok(status) ? part : ls_fail(status));
  }
  return ls_nest_builder_finish(&args, LS_KIND_TUPLE);
}

ls_status ls_update_call_once(const ls_update_call *call, ls_nest first,
                              bool has_first, size_t position, int32_t id,
                              const char *device, ls_nest_builder *results) {
  LS_OWN(ls_nest, args) = ls_update_args(call, first, has_first, position);
  ls_nest result = ls_none();
  char name[32];
  snprintf(name, sizeof(name), "update_%d", id);
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  ls_scope update = {0};
  {
    LS_DEVICE_SCOPE(device);
    {
      LS_NAME_SCOPE(name);
      ls_update_begin(&update, call->strategy, id, device);
      result = call->fn(args, call->user);
      ls_scope_end(&update);
    }
  }
  return ls_nest_builder_append(results, result)
             ? ls_ok()
             : ls_take_nest(ls_give(&results->failed), &result);
}

static ls_status update_components(const ls_update_call *call,
                                   ls_variable *variable, ls_nest *out_value) {
  const size_t count = variable->num_components;
  LS_OWN_ARRAY_OR_RETURN(variable->allocator, const char *, devices, count);
  for (size_t i = 0; i < count; ++i) {
    devices[i] = ls_variable_device(variable->components[i]);
    if (ls_strategy_device_index(call->strategy, devices[i]) < 0)
      return ls_invalid_argument(
          "component %zu of '%s' is on '%s', which is no device of %s", i,
          variable->name, devices[i], call->strategy->label);
  }
  LS_RETURN_IF_ERROR(ls_status_annotate(
      ls_update_check_args(
          call, true, &(ls_device_list){.devices = devices, .count = count}),
      "in the update of '%s'", variable->name));
  LS_OWN(ls_nest_builder, results) = {.allocator = call->strategy->allocator};
  for (size_t i = 0; i < count; ++i) {
    const ls_nest leaf = {.kind = LS_KIND_VARIABLE,
                          .as.ref = ls_variable_seen(variable, i)};
    LS_RETURN_IF_ERROR(ls_update_call_once(
        call, leaf, true, i,
        ls_strategy_device_index(call->strategy, devices[i]), devices[i],
        &results));
  }
  return ls_update_regroup(call->strategy, results.items, results.count,
                           call->group, out_value);
}

// An update in a replica, which is a merge call.
typedef struct replica_update {
  ls_variable *variable;
  ls_callback fn;
  void *user;
  bool group;
} replica_update;

// Checks that each leaf of a replica's arguments is the same on all replicas.
static ls_nest update_is_same(ls_nest leaf, void *user) {
  (void)user;
  return ls_nest_i64(leaf.kind == LS_KIND_TENSOR &&
                     ls_same_is_noted(leaf.as.tensor));
}

// The leaves of the arguments, each with the fact if it is the same on all
// replicas.
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

// Makes the arguments mirrored if they are the same on all replicas. If the
// variable is not aggregated, they may differ and are mirrored, too.
static ls_nest mirrored_args(const ls_variable *variable, ls_nest args,
                             ls_nest same) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = ls_nest_num_leaves(same);
  LS_OWN_ARRAY(allocator, ls_nest, leaves, count);
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  ls_nest_flatten(same, leaves, count);
  regarding r = {.same = leaves,
                 .differs_freely = ls_variable_differs_freely(variable)};
  return ls_nest_map(args, as_mirrored, &r);
}

static ls_status update_merged(ls_strategy *strategy, const replica_update *u,
                               ls_nest args, ls_nest *out_value) {
  LS_OWN(ls_nest, given) =
      mirrored_args(u->variable, ls_nest_item(args, 0), ls_nest_item(args, 1));
  LS_RETURN_IF_ERROR(ls_nest_status(given));
  LS_RETURN_IF_ERROR(
      ls_status_annotate(ls_assert_mirrored(given),
                         "replicas must update '%s' with a value equal on all, "
                         "such as the result of all_reduce or a merge call",
                         u->variable->name));
  return ls_strategy_update(strategy, u->variable, u->fn, given, u->user,
                            u->group, out_value);
}

static ls_nest merge_update(ls_strategy *strategy, ls_nest args, void *user) {
  ls_nest result = ls_none();
  return ls_made_nest(update_merged(strategy, user, args, &result), &result);
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
  if (variable->num_components == 0)
    return ls_invalid_argument(
        "update of '%s', which is a %s, not a distributed variable",
        variable->name,
        variable->container != NULL ? "component of one" : "plain variable");
  if (ls_update_is_in_replica(call))
    return ls_update_in_replica(call, variable, out_value);
  return LS_CROSS_REPLICA(call->strategy, "update", out_value,
                          update_components(call, variable, out_value));
}

ls_status ls_strategy_update(ls_strategy *strategy, ls_variable *variable,
                             ls_callback fn, ls_nest args, void *user,
                             bool group, ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, strategy, variable, fn);
  LS_OWN(ls_nest, ordered) = ls_none();
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  LS_RETURN_IF_ERROR(ls_value_order(variable, args, &ordered));
  const ls_update_call call = {strategy, fn, user, ordered, group};
  return strategy->kind->update(&call, variable, out_value);
}

static ls_status find_device(const ls_strategy *strategy, const char *device,
                             int32_t *out_id) {
  ls_device_name name;
  LS_RETURN_IF_ERROR(ls_device_canonical(device, NULL, &name));
  *out_id = ls_strategy_device_index(strategy, name.text);
  return *out_id >= 0 ? ls_ok()
                      : ls_invalid_argument("'%s' is no device of %s", device,
                                            strategy->label);
}

// Checks the arguments and orders their components by a list of devices.
static ls_status update_order(const ls_update_call *call,
                              const ls_device_list *list, ls_nest *out_args) {
  LS_RETURN_IF_ERROR(ls_update_check_args(call, true, list));
  return ls_order_components(call->args, list, out_args);
}

static ls_status update_devices(const ls_update_call *call,
                                const char *const *devices, size_t count,
                                ls_nest *out_value) {
  ls_strategy *strategy = call->strategy;
  ls_update_call ordered = *call;
  LS_OWN_ARRAY_OR_RETURN(strategy->allocator, int32_t, ids, count);
  LS_OWN_ARRAY_OR_RETURN(strategy->allocator, const char *, names, count);
  LS_OWN(ls_nest, args) = ls_none();
  for (size_t i = 0; i < count; ++i) {
    LS_RETURN_IF_ERROR(find_device(strategy, devices[i], &ids[i]));
    names[i] = ls_strategy_device(strategy, ids[i]);
  }
  const ls_device_list list = {
      .devices = names, .count = count, .takes_more = true};
  LS_RETURN_IF_ERROR(update_order(call, &list, &args));
  ordered.args = args;
  LS_OWN(ls_nest_builder, results) = {.allocator = strategy->allocator};
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_update_call_once(&ordered, ls_none(), false, i,
                                           ids[i], names[i], &results));
  return ls_update_regroup(strategy, results.items, results.count, call->group,
                           out_value);
}

ls_status ls_mirrored_update_non_slot(const ls_update_call *call,
                                      const char *const *devices,
                                      size_t num_devices, ls_nest *out_value) {
  if (devices == NULL || num_devices == 0)
    return ls_invalid_argument("update_non_slot needs a list of devices");
  return LS_CROSS_REPLICA(
      call->strategy, "update_non_slot", out_value,
      update_devices(call, devices, num_devices, out_value));
}

ls_status ls_strategy_update_non_slot(ls_strategy *strategy,
                                      const char *const *devices,
                                      size_t num_devices, ls_callback fn,
                                      ls_nest args, void *user, bool group,
                                      ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, strategy, fn);
  LS_REQUIRE_EACH(devices, num_devices);
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  const ls_update_call call = {strategy, fn, user, args, group};
  return strategy->kind->update_non_slot(&call, devices, num_devices,
                                         out_value);
}

// ---- Map -------------------------------------------------------------------
static ls_status map_item(const ls_update_call *call, ls_nest item,
                          int32_t device, ls_nest *out_result) {
  LS_OWN(ls_nest, args) = ls_update_args(call, item, true, (size_t)device);
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  {
    LS_DEVICE_SCOPE(ls_strategy_device(call->strategy, device));
    return ls_take_nest(call->fn(args, call->user), out_result);
  }
}

// Collects the results of a device: every n-th result, where n is the number of
// replicas.
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
  const char *const *devices = ls_strategy_devices(call->strategy);
  ls_update_call ordered = *call;
  LS_OWN(ls_nest, args) = ls_none();
  LS_RETURN_IF_ERROR(update_order(
      call, &(ls_device_list){.devices = devices, .count = replicas}, &args));
  ordered.args = args;
  LS_OWN(ls_nest_builder, results) = {.allocator = allocator};
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, room, num_items);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, outputs, used);
  for (size_t k = 0; k < num_items; ++k) {
    ls_nest result = ls_none();
    LS_RETURN_IF_ERROR(
        map_item(&ordered, items[k], (int32_t)(k % replicas), &result));
    LS_RETURN_IF_NO_MEMORY(ls_nest_builder_append(&results, result));
  }
  for (size_t d = 0; d < used; ++d)
    outputs[d] = map_output(call, results.items, num_items, d, room);
  return ls_take_nest(
      ls_nest_distributed_on(LS_PER_REPLICA, outputs, devices, used),
      out_value);
}

ls_status ls_mirrored_map(const ls_update_call *call, const ls_nest *items,
                          size_t num_items, ls_nest *out_value) {
  return LS_CROSS_REPLICA(call->strategy, "map", out_value,
                          map_all(call, items, num_items, out_value));
}

ls_status ls_strategy_map(ls_strategy *strategy, const ls_nest *items,
                          size_t num_items, ls_callback fn, ls_nest args,
                          void *user, ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, strategy, fn);
  LS_REQUIRE_ITEMS(items, num_items);
  const ls_update_call call = {strategy, fn, user, args, false};
  return strategy->kind->map(&call, items, num_items, out_value);
}

// ---- Update results --------------------------------------------------------
// Results of updates: mirrored values whose components each wait for all
// updates, or tuples.

static ls_op update_results_op_of(ls_nest leaf) {
  if (leaf.kind == LS_KIND_OP) return leaf.as.op;
  if (leaf.kind == LS_KIND_TENSOR) return ls_tensor_op(leaf.as.tensor);
  return (ls_op){0};
}

// Makes an identity of component i, colocated with that component, which waits
// for the group.
static ls_nest after_group(ls_nest component, ls_op group) {
  ls_tensor made = ls_failed_tensor();
  const char *device = ls_leaf_device(component);
  {
    LS_DEVICE_SCOPE(device[0] != '\0' ? device : NULL);
    {
      LS_CONTROL_SCOPE(&group, 1);
      made = component.kind == LS_KIND_VARIABLE
                 ? ls_variable_read(ls_nest_as_variable(component))
                 : ls_identity(component.as.tensor);
    }
  }
  LS_RETURN_FAILED_IF_ERROR(ls_made_status(made));
  return ls_leaf(made);
}

// Wraps the components of a leaf so that each waits for the updates of all
// components.
static ls_nest wrap_grouped(const ls_nest *components, size_t count,
                            void *user) {
  (void)user;
  const bool eager = ls_graph_current()->kind == LS_GRAPH_EAGER;
  bool values = true;
  for (size_t i = 0; i < count; ++i)
    values = values && (components[i].kind == LS_KIND_TENSOR ||
                        components[i].kind == LS_KIND_VARIABLE);
  if (count == 1 || (eager && values)) {
    for (size_t i = 0; i < count; ++i)
      ls_nest_retain(components[i]);
    return ls_nest_distributed(LS_MIRRORED, components, count);
  }
  if (eager) return ls_none();  // Eager ops have run already.
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, ls_op, ops, count);
  LS_OWN_ARRAY(allocator, ls_nest, items, count);
  if (ops == NULL || items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i) {
    ops[i] = update_results_op_of(components[i]);
    if (ops[i].id == 0 && components[i].kind == LS_KIND_VARIABLE)
      ops[i] = ls_tensor_op(ls_variable_read(components[i].as.ref));
    if (ops[i].id == 0)
      return LS_FAIL(LS_INVALID_ARGUMENT,
                     "%s is the result of an update on replica %zu; results "
                     "that differ are tensors, variables or ops",
                     LS_NEST_TEXT(components[i]), i);
  }
  const ls_op group = ls_group_by_device(ops, count, NULL);
  if (!values) return ls_nest_op(group);
  for (size_t i = 0; i < count; ++i)
    items[i] = after_group(components[i], group);
  return ls_nest_distributed(LS_MIRRORED, items, count);
}

static ls_nest local_results(ls_nest leaf, void *user) {
  ls_nest tuple = ls_none();
  return ls_made_nest(ls_strategy_local_results(user, leaf, &tuple), &tuple);
}

ls_status ls_update_ungroup(ls_strategy *strategy, ls_nest value,
                            ls_nest *out_value) {
  return ls_take_nest(ls_nest_map(value, local_results, strategy), out_value);
}

ls_status ls_update_regroup(ls_strategy *strategy, const ls_nest *updates,
                            size_t count, bool group, ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, strategy);
  LS_REQUIRE_ITEMS(updates, count);
  if (group) {
    return LS_TRIAL_WITH(out_value,
                         ls_regroup(updates, count,
                                    &(ls_regroup_options){.wrap = wrap_grouped},
                                    out_value));
  }
  LS_OWN(ls_nest, regrouped) = ls_none();
  LS_RETURN_IF_ERROR(ls_regroup(
      updates, count, &(ls_regroup_options){.kind = LS_MIRRORED}, &regrouped));
  return ls_update_ungroup(strategy, regrouped, out_value);
}
