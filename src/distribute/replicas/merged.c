// SPDX-License-Identifier: Apache-2.0
//
// all_reduce and all_gather of replicas that meet: the merged part, in
// cross-replica context.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/replicas/call.h"

// A value of each replica: the same object counts as often as there are
// replicas.
static ls_nest of_all(const ls_strategy *strategy, ls_nest leaf) {
  if (leaf.kind == LS_KIND_DISTRIBUTED) return ls_nest_retain(leaf);
  ls_allocator *allocator = strategy->allocator;
  const size_t count = (size_t)strategy->num_replicas;
  const ls_variable *variable = ls_nest_as_variable(leaf);
  LS_OWN_ARRAY(allocator, ls_nest, items, count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    items[i] =
        ls_nest_retain(variable != NULL && variable->num_components == count
                           ? (ls_nest){.kind = LS_KIND_VARIABLE,
                                       .as.ref = ls_variable_seen(variable, i)}
                           : leaf);
  return ls_nest_distributed_on(LS_PER_REPLICA, items,
                                ls_strategy_devices(strategy), count);
}

static ls_destinations all_devices(const ls_strategy *strategy) {
  return (ls_destinations){.devices = ls_strategy_devices(strategy),
                           .num_devices = (size_t)strategy->num_replicas};
}

// ---- Reducing --------------------------------------------------------------
typedef struct merged {
  ls_strategy *strategy;
  ls_reduce_op op;
  int axis;
} merged;

static ls_nest of_all_leaf(ls_nest leaf, void *user) {
  const merged *m = user;
  return of_all(m->strategy, leaf);
}

// The leaves go to the ops together.
static ls_status reduce_leaves(const merged *m, ls_nest nest, ls_nest *leaves,
                               size_t count, ls_nest *out_value) {
  ls_allocator *allocator = m->strategy->allocator;
  LS_OWN_ARRAY(allocator, ls_destinations, where, count);
  LS_OWN(ls_nest, list) = ls_none();
  if (where == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    where[i] = all_devices(m->strategy);
  ls_nest_flatten(nest, leaves, count);
  LS_RETURN_IF_ERROR(ls_cross_device_batch_reduce(
      m->strategy->cross_device, m->op, leaves, where, count, &list));
  for (size_t i = 0; i < count; ++i)
    leaves[i] = ls_nest_retain(ls_nest_item(list, i));
  return ls_take_nest(ls_nest_pack(nest, leaves, count), out_value);
}

// The largest or smallest is no business of tables.
static ls_nest extreme_leaf(ls_nest leaf, void *user) {
  const merged *m = user;
  ls_tensor *items = NULL, made = ls_failed_tensor();
  size_t count = 0;
  ls_nest copies = ls_none();
  ls_device_set devices;
  ls_status status =
      ls_destination_set(all_devices(m->strategy), ls_none(), &devices);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  status = ls_component_tensors(leaf, m->strategy->allocator, &items, &count);
  {
    LS_DEVICE_SCOPE(devices.names[0].text);
    if (ls_status_is_ok(status))
      status = ls_reduce_tensors(m->op, items, count, &made);
  }
  if (ls_status_is_ok(status))
    status = ls_copy_to(ls_leaf(made), &devices, &copies);
  ls_release(m->strategy->allocator, items);
  ls_device_set_deinit(&devices);
  return ls_status_is_ok(status) ? copies : ls_fail(status);
}

ls_nest ls_all_reduce_merged(ls_strategy *strategy, ls_reduce_op op,
                             ls_nest args) {
  merged m = {.strategy = strategy, .op = op};
  const size_t count = ls_nest_num_leaves(args);
  if (count == 0) return ls_nest_retain(args);
  const ls_nest nest = ls_nest_map(args, of_all_leaf, &m);
  if (ls_nest_is_failed(nest)) return nest;
  ls_nest made = ls_none();
  if (op == LS_REDUCE_MAX || op == LS_REDUCE_MIN) {
    made = ls_nest_map(nest, extreme_leaf, &m);
  } else {
    ls_nest *leaves = ls_new_array(strategy->allocator, ls_nest, count);
    const ls_status status =
        leaves == NULL ? ls_out_of_memory()
                       : reduce_leaves(&m, nest, leaves, count, &made);
    ls_release(strategy->allocator, leaves);
    if (!ls_status_is_ok(status)) made = ls_fail(status);
  }
  ls_nest_release(nest);
  return made;
}

// ---- Gathering -------------------------------------------------------------
static ls_status check_equal(const ls_strategy *strategy, ls_nest all) {
  LS_OWN_MEMORY(strategy->allocator, ls_tensor, items) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(
      ls_component_tensors(all, strategy->allocator, &items, &count));
  return ls_check_same_shapes(items, count);
}

static ls_nest merged_gather_leaf(ls_nest leaf, void *user) {
  const merged *m = user;
  ls_nest made = ls_none();
  const ls_nest all = of_all(m->strategy, leaf);
  if (ls_nest_is_failed(all)) return all;
  ls_status status = m->strategy->kind->gathers_equal
                         ? check_equal(m->strategy, all)
                         : ls_ok();
  if (ls_status_is_ok(status))
    status = ls_cross_device_gather(m->strategy->cross_device, all, m->axis,
                                    all_devices(m->strategy), &made);
  ls_nest_release(all);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

ls_nest ls_all_gather_merged(ls_strategy *strategy, int axis, ls_nest args) {
  merged m = {.strategy = strategy, .axis = axis};
  return ls_nest_map(args, merged_gather_leaf, &m);
}
