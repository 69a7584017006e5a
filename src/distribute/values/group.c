// SPDX-License-Identifier: Apache-2.0
//
// Groups ops of several devices into one.
#include <stdlib.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "distribute/values/values.h"
#include "graph/make/make.h"
#include "graph/trial.h"
#include "lockstep/strategy_extended.h"

typedef struct device_op {
  const char *device;
  ls_op op;
  size_t place;  // Position among the given ops.
} device_op;

static int group_compare_devices(const void *a, const void *b) {
  const device_op *x = a, *y = b;
  const int order = strcmp(x->device, y->device);
  return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

// Makes a no-op for the ops of each device, on that device.
static ls_op group_each(device_op *items, size_t count, ls_op *ops,
                        const char *name) {
  size_t num_groups = 0;
  for (size_t i = 0; i < count;) {
    size_t end = i;
    while (end < count && strcmp(items[end].device, items[i].device) == 0)
      ++end;
    ls_op of_device[256];
    ls_op group = {0};
    {
      LS_DEVICE_SCOPE(items[i].device[0] != '\0' ? items[i].device : NULL);
      for (size_t at = i; at < end;) {
        // If there are more ops than fit, the no-ops form a chain.
        size_t n = 0;
        if (group.id != 0) of_device[n++] = group;
        while (n < LS_COUNT_OF(of_device) && at < end)
          of_device[n++] = items[at++].op;
        // The op that runs last gets the name.
        const bool is_last = i == 0 && at == count;
        group = ls_group(of_device, n, is_last ? name : NULL);
      }
    }
    ops[num_groups++] = group;
    i = end;
  }
  return num_groups == 1 ? ops[0] : ls_group(ops, num_groups, name);
}

ls_op ls_group_by_device(const ls_op *ops, size_t count, const char *name) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, device_op, items, count);
  LS_OWN_ARRAY(allocator, ls_op, groups, count);
  if (items == NULL || groups == NULL)
    return ls_tensor_op(ls_make_failed("group_deps", ls_out_of_memory()));
  for (size_t i = 0; i < count; ++i)
    items[i] = (device_op){ls_op_device(ops[i]), ops[i], i};
  if (count > 1) qsort(items, count, sizeof(*items), group_compare_devices);
  return group_each(items, count, groups, name);
}

// ---- Groups of values ------------------------------------------------------
// Returns the op of a leaf; id 0 if it has none (a host scalar, a variable in
// eager mode).
static ls_op group_op_of(ls_nest leaf) {
  if (leaf.kind == LS_KIND_OP) return leaf.as.op;
  if (leaf.kind == LS_KIND_TENSOR) return ls_tensor_op(leaf.as.tensor);
  const ls_variable *variable = ls_nest_as_variable(leaf);
  return variable == NULL ? (ls_op){0} : variable->initializer;
}

ls_status ls_strategy_group(ls_strategy *strategy, ls_nest value,
                            const char *name, ls_op *out_op) {
  LS_REQUIRE_OUT(out_op, strategy);
  LS_OWN(ls_nest, results) = ls_none();
  LS_RETURN_IF_ERROR(ls_strategy_results(strategy, value, false, &results));
  const size_t count = ls_nest_num_leaves(results);
  LS_OWN_ARRAY_OR_RETURN(strategy->allocator, ls_nest, leaves, count);
  LS_OWN_ARRAY_OR_RETURN(strategy->allocator, ls_op, ops, count);
  ls_nest_flatten(results, leaves, count);
  for (size_t i = 0; i < count; ++i) {
    ops[i] = group_op_of(leaves[i]);
    if (ops[i].id == 0)
      return ls_invalid_argument("%s cannot be grouped: it is no op",
                                 LS_NEST_TEXT(leaves[i]));
  }
  ls_trial trial;
  ls_trial_begin(&trial);
  *out_op = count == 1 && name == NULL ? ops[0]
                                       : ls_group_by_device(ops, count, name);
  return ls_trial_end(&trial, ls_ok());
}

// ---- Index values ----------------------------------------------------------
// Makes values with a component for each replica.

ls_status ls_strategy_worker_device_index(ls_strategy *strategy,
                                          ls_nest *out_index) {
  LS_REQUIRE_OUT(out_index, strategy);
  LS_RETURN_IF_ERROR(
      ls_strategy_check_devices(strategy, "worker_device_index"));
  LS_RETURN_IF_ERROR(
      LS_CROSS_REPLICA(strategy, "worker_device_index", NULL, ls_ok()));
  const size_t count = (size_t)strategy->num_replicas;
  LS_OWN_ARRAY_OR_RETURN(strategy->allocator, ls_nest, items, count);
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_nest_i64((int64_t)i);
  const ls_nest made = ls_nest_distributed_on(
      LS_PER_REPLICA, items, ls_strategy_devices(strategy), count);
  return ls_take_nest(made, out_index);
}

ls_status ls_strategy_split(ls_strategy *strategy, ls_array *array,
                            ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, strategy, array);
  return ls_array_split(array, strategy->num_replicas, out_value);
}

static ls_status make_values(const ls_strategy *strategy,
                             ls_value_function function, void *user,
                             ls_nest *out_value) {
  const int32_t count = strategy->num_replicas;
  LS_OWN(ls_nest_builder, values) = {.allocator = strategy->allocator};
  for (int32_t r = 0; r < count; ++r)
    if (!ls_nest_builder_append(&values, function(r, count, user)))
      return ls_take_nest(ls_give(&values.failed), out_value);
  if (strategy->kind->distributes)
    return ls_regroup(values.items, values.count,
                      &(ls_regroup_options){.always_wrap = true}, out_value);
  *out_value = ls_nest_retain(values.items[0]);
  return ls_ok();
}

ls_status ls_strategy_values_from_function(ls_strategy *strategy,
                                           ls_value_function function,
                                           void *user, ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, strategy, function);
  LS_RETURN_IF_ERROR(
      ls_strategy_check_has(strategy, "distribute_values_from_function"));
  return LS_CROSS_REPLICA(strategy, "distribute_values_from_function",
                          out_value,
                          make_values(strategy, function, user, out_value));
}
