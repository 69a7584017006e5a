// SPDX-License-Identifier: Apache-2.0
//
// Reduces to destinations, one value or a batch, and broadcasts, in a
// strategy's cross-replica context.
#include "base/memory/own.h"
#include "base/require.h"
#include "distribute/context/context.h"
#include "distribute/cross_device/cross_device.h"
#include "lockstep/strategy_extended.h"

// ---- Reduce to destinations ------------------------------------------------
// Makes the operand for the cross-device ops: the value itself; wrapped, if
// there is one replica; or none, if the cross-device ops are not needed. The
// caller releases it.
static ls_status for_ops(const ls_strategy *strategy, ls_nest value,
                         ls_nest *out_value) {
  *out_value = ls_none();
  if (ls_is_of_replicas(value)) {
    *out_value = ls_nest_retain(value);
    return ls_ok();
  }
  return strategy->num_replicas == 1 && value.kind != LS_KIND_NONE
             ? ls_wrap_one(strategy, value, out_value)
             : ls_ok();
}

ls_status ls_copy_one_value(const ls_strategy_reduction *r, ls_nest value,
                            ls_nest *out_value) {
  LS_OWN(ls_device_set, devices) = {0};
  LS_OWN(ls_nest, reduced) = ls_none();
  ls_nest made = ls_none();
  ls_destinations where = r->where;
  if (ls_destinations_is_none(where) && !ls_has_components(value)) {
    where.devices = ls_strategy_devices(r->strategy);
    where.num_devices = (size_t)r->strategy->num_replicas;
  }
  LS_RETURN_IF_ERROR(ls_destination_set(where, value, &devices));
  {
    LS_DEVICE_SCOPE(devices.names[0].text);
    LS_RETURN_IF_ERROR(ls_reduce_one_value(r, value, &reduced));
    if (reduced.kind != LS_KIND_SLICES) {
      ls_tensor tensor;
      LS_RETURN_IF_ERROR(ls_distributed_as_tensor(reduced, &tensor));
      ls_nest_release(reduced);
      reduced = ls_leaf(tensor);
    }
  }
  LS_RETURN_IF_ERROR(ls_copy_to(reduced, &devices, &made));
  *out_value = ls_without_wrapper(made);
  return ls_ok();
}

static const ls_reduce_options no_options;

ls_status ls_mirrored_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                ls_nest value, ls_destinations where,
                                ls_nest *out_value) {
  const ls_strategy_reduction r = {strategy, op, &no_options, where};
  LS_OWN(ls_nest, given) = ls_none();
  LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  LS_RETURN_IF_ERROR(for_ops(strategy, value, &given));
  return given.kind == LS_KIND_NONE
             ? ls_copy_one_value(&r, value, out_value)
             : ls_reduce_by_ops(&r, op, given, out_value);
}

ls_status ls_strategy_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                ls_nest value, ls_destinations destinations,
                                ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, strategy);
  return LS_CROSS_REPLICA(
      strategy, "reduce_to", out_value,
      strategy->kind->reduce_to(strategy, op, value, destinations, out_value));
}

// A batch of values: those for the cross-device ops, and the rest.
typedef struct pairs {
  ls_strategy *strategy;
  ls_reduce_op op;
  const ls_nest *values;
  const ls_destinations *where;
  size_t count;
  ls_nest *results;
  ls_nest *given;  // Operands of the cross-device ops; none: not needed.
  ls_nest *chosen;
  ls_destinations *chosen_where;
} pairs;

static ls_status reduce_chosen(pairs *p, ls_nest *out_list) {
  size_t count = 0;
  for (size_t i = 0; i < p->count; ++i) {
    LS_RETURN_IF_ERROR(for_ops(p->strategy, p->values[i], &p->given[i]));
    if (p->given[i].kind == LS_KIND_NONE) continue;
    p->chosen[count] = p->given[i];
    p->chosen_where[count++] = p->where[i];
  }
  return count == 0
             ? ls_ok()
             : ls_cross_device_batch_reduce(p->strategy->cross_device, p->op,
                                            p->chosen, p->chosen_where, count,
                                            out_list);
}

static ls_status reduce_pairs(pairs *p) {
  LS_OWN(ls_nest, list) = ls_none();
  LS_RETURN_IF_ERROR(reduce_chosen(p, &list));
  for (size_t i = 0, next = 0; i < p->count; ++i) {
    const ls_strategy_reduction r = {p->strategy, p->op, &no_options,
                                     p->where[i]};
    if (p->given[i].kind != LS_KIND_NONE)
      p->results[i] =
          ls_without_wrapper(ls_nest_retain(ls_nest_item(list, next++)));
    else
      LS_RETURN_IF_ERROR(ls_copy_one_value(&r, p->values[i], &p->results[i]));
  }
  return ls_ok();
}

ls_status ls_mirrored_batch_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                      const ls_nest *values,
                                      const ls_destinations *where,
                                      size_t count, ls_nest *results) {
  LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  ls_allocator *allocator = strategy->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, room, 2 * count);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_destinations, chosen, count);
  const ls_status status = reduce_pairs(&(pairs){.strategy = strategy,
                                                 .op = op,
                                                 .values = values,
                                                 .where = where,
                                                 .count = count,
                                                 .results = results,
                                                 .given = room,
                                                 .chosen = room + count,
                                                 .chosen_where = chosen});
  for (size_t i = 0; i < count; ++i)
    ls_nest_release(room[i]);
  return status;
}

// Reduces a batch to a list of `count` results.
static ls_status reduce_to_batch_reduce(ls_strategy *strategy, ls_reduce_op op,
                                        const ls_nest *values,
                                        const ls_destinations *where,
                                        size_t count, ls_nest *out_list) {
  LS_OWN_ARRAY_OR_RETURN(strategy->allocator, ls_nest, results, count);
  const ls_status status = strategy->kind->batch_reduce_to(
      strategy, op, values, where, count, results);
  return ls_list_results(status, results, count, out_list);
}

ls_status ls_strategy_batch_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                      const ls_nest *values,
                                      const ls_destinations *destinations,
                                      size_t count, ls_nest *out_list) {
  LS_REQUIRE_OUT(out_list, strategy);
  LS_REQUIRE_ITEMS(values, count);
  LS_REQUIRE_ITEMS(destinations, count);
  return LS_CROSS_REPLICA(strategy, "batch_reduce_to", out_list,
                          reduce_to_batch_reduce(strategy, op, values,
                                                 destinations, count,
                                                 out_list));
}

// ---- Broadcast -------------------------------------------------------------
ls_status ls_mirrored_broadcast_to(ls_strategy *strategy, ls_nest value,
                                   ls_destinations where, ls_nest *out_value) {
  ls_nest made = ls_none();
  if (ls_destinations_is_none(where)) {
    where.devices = ls_strategy_devices(strategy);
    where.num_devices = (size_t)strategy->num_replicas;
  }
  if (value.kind != LS_KIND_SLICES) {
    ls_tensor tensor;
    LS_RETURN_IF_ERROR(ls_distributed_as_tensor(value, &tensor));
    value = ls_leaf(tensor);
  }
  LS_RETURN_IF_ERROR(
      ls_cross_device_broadcast(strategy->cross_device, value, where, &made));
  *out_value = ls_without_wrapper(made);
  return ls_ok();
}

ls_status ls_strategy_broadcast_to(ls_strategy *strategy, ls_nest value,
                                   ls_destinations destinations,
                                   ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, strategy);
  LS_REQUIRE_EACH(destinations.devices, destinations.num_devices);
  return LS_CROSS_REPLICA(strategy, "broadcast_to", out_value,
                          value.kind == LS_KIND_SCALAR
                              ? ls_take_nest(ls_nest_retain(value), out_value)
                              : strategy->kind->broadcast_to(
                                    strategy, value, destinations, out_value));
}
