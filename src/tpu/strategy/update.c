// SPDX-License-Identifier: Apache-2.0
//
// Updates of variables of TPU strategies. In a computation an update runs once,
// on the container, which stands for the replica's own variable. Outside, it
// runs for each component. A tensor that is updated without a variable is on
// the host.

#include "base/memory/own.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "graph/compare/compare.h"
#include "lockstep/strategy_extended.h"
#include "tpu/replicate/replicate.h"
#include "tpu/strategy/strategy.h"

// ---- Checks ----------------------------------------------------------------
static ls_status update_check_variable(const ls_update_call *call,
                                       const ls_variable *variable) {
  if (variable->num_components == 0 ||
      variable->strategy == (const void *)call->strategy)
    return ls_ok();
  const ls_strategy *maker = ls_variable_strategy(variable);
  return ls_invalid_argument("update of '%s', a distributed variable of %s, by "
                             "%s: use one of its own or a plain one",
                             variable->name,
                             maker != NULL ? maker->label : "no strategy",
                             call->strategy->label);
}

// ---- In a computation ------------------------------------------------------
// Refuses a tensor that may differ between replicas.
static ls_nest refuse_own(ls_nest leaf, void *user) {
  if (leaf.kind != LS_KIND_TENSOR || ls_same_is_noted(leaf.as.tensor) ||
      ls_is_from_outside(user, leaf.as.tensor))
    return ls_none();
  return LS_FAIL(
      LS_INVALID_ARGUMENT,
      "%s is not mirrored: replicas must update an aggregated variable with a "
      "value equal on all, such as the result of all_reduce or a merge call",
      LS_NEST_TEXT(leaf));
}

static ls_status update_in_replica(const ls_update_call *call,
                                   ls_variable *variable, ls_nest *out_value) {
  ls_replica *replica = ls_replica_context();
  if (ls_tpu_context_current() != NULL && replica->count > 1 &&
      !ls_variable_differs_freely(variable)) {
    const ls_nest checked = ls_nest_map(call->args, refuse_own, replica);
    const ls_status status = ls_nest_status(checked);
    ls_nest_release(checked);
    LS_RETURN_IF_ERROR(status);
  }
  return ls_update_in_replica(call, variable, out_value);
}

// Lists the variable and its arguments, unchanged.
static ls_nest whole_args(const ls_update_call *call,
                          const ls_variable *variable) {
  const size_t before = variable != NULL ? 1 : 0;
  const size_t count = before + ls_nest_count(call->args);
  LS_OWN(ls_nest_builder, items) = {0};
  if (variable != NULL)
    ls_nest_builder_append(
        &items,
        ls_nest_retain((ls_nest){.kind = LS_KIND_VARIABLE,
                                 .as.ref = (ls_object *)(uintptr_t)variable}));
  for (size_t i = before; i < count; ++i)
    ls_nest_builder_append(
        &items, ls_nest_retain(ls_nest_item(call->args, i - before)));
  return ls_nest_builder_finish(&items, LS_KIND_TUPLE);
}

static ls_status call_whole(const ls_update_call *call,
                            const ls_variable *variable, ls_nest *out_result) {
  LS_OWN(ls_nest, args) = whole_args(call, variable);
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  return ls_take_nest(call->fn(args, call->user), out_result);
}

// Updates the variable as a whole; writes in the update are not aggregated.
static ls_status update_whole(const ls_update_call *call, ls_variable *variable,
                              ls_nest *out_value) {
  LS_RETURN_IF_ERROR(ls_update_check_args(call, false, NULL));
  ls_nest result = ls_none();
  ls_context *context = ls_context_current();
  ls_distribution entry = {.strategy = call->strategy, .is_whole_update = true};
  ls_distribution_push(context, &entry);
  const ls_status status = call_whole(call, variable, &result);
  ls_distribute_scoped_of(context)->distribution = entry.outer;
  LS_RETURN_IF_ERROR(status);
  return ls_take_nest(call->group ? result
                                  : ls_nest_sequence(LS_KIND_TUPLE, &result, 1),
                      out_value);
}

// ---- Outside ---------------------------------------------------------------
static ls_status update_each(const ls_update_call *call, ls_variable *variable,
                             ls_nest *out_value) {
  const bool plain = variable->num_components == 0;
  const size_t count = plain ? 1 : variable->num_components;
  LS_RETURN_IF_ERROR(
      ls_update_check_args(call, !ls_variable_differs_freely(variable),
                           plain ? NULL : &(ls_device_list){.count = count}));
  LS_OWN(ls_nest_builder, results) = {.allocator = call->strategy->allocator};
  for (size_t i = 0; i < count; ++i) {
    ls_variable *component = plain ? variable : ls_variable_seen(variable, i);
    const ls_nest leaf = {.kind = LS_KIND_VARIABLE, .as.ref = component};
    LS_RETURN_IF_ERROR(ls_update_call_once(call, leaf, true, i, (int32_t)i,
                                           ls_variable_device(component),
                                           &results));
  }
  return ls_update_regroup(call->strategy, results.items, results.count,
                           call->group, out_value);
}

ls_status ls_tpu_class_update(const ls_update_call *call, ls_variable *variable,
                              ls_nest *out_value) {
  LS_RETURN_IF_ERROR(update_check_variable(call, variable));
  if (ls_update_is_in_replica(call))
    return update_in_replica(call, variable, out_value);
  return LS_CROSS_REPLICA(call->strategy, "update", out_value,
                          ls_tpu_context_current() != NULL
                              ? update_whole(call, variable, out_value)
                              : update_each(call, variable, out_value));
}

// ---- Without a variable ----------------------------------------------------
static ls_status update_on_host(const ls_update_call *call,
                                ls_nest *out_value) {
  LS_OWN(ls_nest, result) = ls_none();
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_update_check_args(call, false, NULL));
  {
    LS_DEVICE_SCOPE(ls_tpu_strategy_of(call->strategy)->host.text);
    LS_RETURN_IF_ERROR(ls_scope_status());
    LS_RETURN_IF_ERROR(call_whole(call, NULL, &result));
  }
  if (!call->group) return ls_update_ungroup(call->strategy, result, out_value);
  return ls_hand_over(&result, out_value);
}

ls_status ls_tpu_class_update_non_slot(const ls_update_call *call,
                                       const char *const *devices,
                                       size_t num_devices, ls_nest *out_value) {
  (void)devices, (void)num_devices;
  return LS_CROSS_REPLICA(call->strategy, "update_non_slot", out_value,
                          update_on_host(call, out_value));
}

ls_status ls_tpu_class_non_slot_devices(const ls_strategy *strategy,
                                        ls_variable *const *variables,
                                        size_t num_variables,
                                        const char **devices, size_t capacity,
                                        size_t *out_count) {
  (void)variables, (void)num_variables;
  *out_count = 1;
  if (capacity > 0)
    devices[0] =
        ls_tpu_strategy_of((ls_strategy *)(uintptr_t)strategy)->host.text;
  return ls_ok();
}
