// SPDX-License-Identifier: Apache-2.0
//
// Reducing, gathering and broadcasting from a strategy's cross-replica context:
// what the rules of strategies leave is work for its cross-device ops.
#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/cross_device/within.h"
#include "distribute/replicas/context.h"
#include "lockstep/eager.h"

typedef struct reduction {
  ls_strategy *strategy;
  ls_reduce_op op;
  const ls_reduce_options *options;
  ls_destinations where;
} reduction;

static bool has_components(ls_nest leaf) {
  return leaf.kind == LS_KIND_DISTRIBUTED || ls_is_distributed_variable(leaf);
}

static bool is_host_zero(ls_nest leaf) {
  return leaf.kind == LS_KIND_SCALAR && ls_nest_number(leaf) == 0;
}

static bool holds_arrays(ls_nest leaf) {
  return leaf.kind == LS_KIND_ARRAY ||
         ls_distributed_component(leaf, 0).kind == LS_KIND_ARRAY;
}

static bool has_axes(const reduction *r) {
  return r->options->axes != NULL && r->options->num_axes > 0;
}

// What is on one device is that device's value; taken over.
static ls_nest without_wrapper(ls_nest value) {
  if (ls_distributed_count(value) != 1) return value;
  const ls_nest only = ls_nest_retain(ls_distributed_component(value, 0));
  ls_nest_release(value);
  return only;
}

// ---- One leaf --------------------------------------------------------------
static ls_status by_ops(const reduction *r, ls_reduce_op op, ls_nest value,
                        ls_nest *out_value) {
  ls_nest made = ls_none();
  LS_RETURN_IF_ERROR(ls_cross_device_reduce(r->strategy->cross_device, op,
                                            value, r->where, &made));
  *out_value = without_wrapper(made);
  return ls_ok();
}

// Across replicas the sum of what each one's part comes to.
static ls_status reduce_parts_of(const reduction *r, ls_nest leaf,
                                 ls_nest *out_value) {
  const bool weighted = r->options->weights != NULL;
  if (!has_axes(r) && !weighted) return by_ops(r, r->op, leaf, out_value);
  ls_within within;
  LS_RETURN_IF_ERROR(weighted ? ls_weigh(leaf, r->options, &within)
                              : ls_sum_within(leaf, r->options, &within));
  ls_nest sum = ls_none();
  ls_status status = ls_ok();
  if (r->strategy->kind == LS_STRATEGY_DEFAULT)
    sum = ls_nest_retain(ls_distributed_component(within.value, 0));
  else if (within.value.kind != LS_KIND_NONE)
    status = by_ops(r, LS_REDUCE_SUM, within.value, &sum);
  if (ls_status_is_ok(status))
    status = ls_finish_within(r->op, &within, sum, out_value);
  ls_nest_release(sum);
  ls_nest_release(within.value);
  return status;
}

// Arrays in, an array out: in a frame of its own.
static ls_status reduce_arrays(const reduction *r, ls_nest leaf,
                               ls_nest *out_value) {
  LS_RETURN_IF_ERROR(ls_frame_begin());
  ls_nest made = ls_none();
  ls_tensor tensor = ls_failed_tensor();
  ls_array *array = NULL;
  ls_status status = reduce_parts_of(r, leaf, &made);
  if (ls_status_is_ok(status)) status = ls_distributed_as_tensor(made, &tensor);
  if (ls_status_is_ok(status)) status = ls_tensor_value(tensor, &array);
  ls_nest_release(made);
  status = ls_status_join(status, ls_frame_end(NULL));
  if (ls_status_is_ok(status))
    *out_value = ls_nest_array(array);
  else
    ls_array_release(array);
  return status;
}

static ls_status reduce_components(const reduction *r, ls_nest leaf,
                                   ls_nest *out_value) {
  return holds_arrays(leaf) && ls_graph_is_eager(ls_graph_current())
             ? reduce_arrays(r, leaf, out_value)
             : reduce_parts_of(r, leaf, out_value);
}

// On one device a value is that replica's.
static ls_status wrap_one(const ls_strategy *strategy, ls_nest leaf,
                          ls_nest *out_value) {
  const ls_nest item = ls_nest_retain(leaf);
  const char *device = strategy->devices[0];
  return ls_take_nest(ls_nest_distributed_on(LS_PER_REPLICA, &item, &device, 1),
                      out_value);
}

static ls_status refuse_sum(const reduction *r, ls_nest leaf) {
  LS_RETURN_IF_ERROR(ls_nest_status(leaf));
  char text[200];
  return ls_invalid_argument(
      "SUM of %s, which is %s: it is not a value of each of the %d replicas",
      ls_nest_print(leaf, text, sizeof(text)),
      has_components(leaf) ? "mirrored" : "one value",
      r->strategy->num_replicas);
}

// A leaf that is the same on all replicas.
static ls_status reduce_one_value(const reduction *r, ls_nest leaf,
                                  ls_nest *out_value) {
  const bool sum = r->op == LS_REDUCE_SUM;
  if (sum && r->strategy->num_replicas > 1 && !is_host_zero(leaf))
    return refuse_sum(r, leaf);
  ls_nest value = ls_nest_retain(leaf);
  if (has_components(leaf)) {
    ls_tensor tensor;
    ls_nest_release(value);
    LS_RETURN_IF_ERROR(ls_distributed_as_tensor(leaf, &tensor));
    value = ls_leaf(tensor);
  }
  ls_status status = ls_ok();
  if (has_axes(r) || (sum && value.kind == LS_KIND_TENSOR)) {
    ls_nest wrapped = ls_none();
    status = wrap_one(r->strategy, value, &wrapped);
    if (ls_status_is_ok(status))
      status = reduce_components(r, wrapped, out_value);
    ls_nest_release(wrapped);
    ls_nest_release(value);
  } else {
    *out_value = value;
  }
  return status;
}

static bool is_of_replicas(ls_nest leaf) {
  return has_components(leaf) && !ls_is_mirrored(leaf);
}

static ls_nest reduce_leaf(ls_nest leaf, void *user) {
  const reduction *r = user;
  ls_nest made = ls_none();
  const ls_status status = leaf.kind == LS_KIND_NONE ? ls_ok()
                           : is_of_replicas(leaf)
                               ? reduce_components(r, leaf, &made)
                               : reduce_one_value(r, leaf, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

// Results are on the current device, else on the first CPU.
static const char *result_device(void) {
  const char *device = ls_context_current()->device;
  return device != NULL ? device
                        : "/job:localhost/replica:0/task:0/device:CPU:0";
}

// The default strategy has one value, which is still reduced along axes.
static ls_nest default_leaf(ls_nest leaf, void *user) {
  ls_nest made = ls_none();
  const ls_status status = reduce_components(user, leaf, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_status reduce_nest(reduction *r, ls_nest value, ls_nest *out_value) {
  if (r->strategy->kind != LS_STRATEGY_DEFAULT)
    return ls_take_nest(ls_nest_map(value, reduce_leaf, r), out_value);
  if (has_axes(r))
    return ls_take_nest(ls_nest_map(value, default_leaf, r), out_value);
  *out_value = ls_nest_retain(value);
  return ls_ok();
}

ls_status ls_strategy_reduce_with(ls_strategy *strategy, ls_reduce_op op,
                                  ls_nest value,
                                  const ls_reduce_options *options,
                                  ls_nest *out_value) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(out_value);
  static const ls_reduce_options defaults;
  reduction r = {strategy,
                 op,
                 options != NULL ? options : &defaults,
                 {.device = result_device()}};
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  if (op == LS_REDUCE_SUM && r.options->weights != NULL)
    return ls_invalid_argument("weights are for MEAN, not for SUM");
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&crossing, strategy, "reduce"));
  ls_status status = ls_ok();
  LS_DEVICE_SCOPE(result_device()) {
    status = reduce_nest(&r, value, out_value);
  }
  return ls_cross_replica_end(&crossing, status, out_value);
}

ls_status ls_strategy_reduce(ls_strategy *strategy, ls_reduce_op op,
                             ls_nest value, ls_nest *out_value) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(out_value);
  return ls_strategy_reduce_with(strategy, op, value, NULL, out_value);
}

// ---- For variables ---------------------------------------------------------
static ls_status combine_by_ops(ls_strategy *strategy, ls_reduce_op op,
                                const ls_tensor *items, size_t count,
                                ls_tensor *out_tensor) {
  ls_allocator *allocator = strategy->allocator;
  ls_nest *leaves = ls_new_array(allocator, ls_nest, count);
  ls_nest value = ls_none(), made = ls_none();
  if (leaves == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    leaves[i] = ls_leaf(items[i]);
  const bool all = count == (size_t)strategy->num_replicas;
  ls_status status = ls_take_nest(
      ls_nest_distributed_on(
          LS_PER_REPLICA, leaves,
          all ? (const char *const *)strategy->devices : NULL, count),
      &value);
  const reduction r = {.strategy = strategy,
                       .where = {.device = result_device()}};
  if (ls_status_is_ok(status)) status = by_ops(&r, op, value, &made);
  if (ls_status_is_ok(status))
    status = ls_distributed_as_tensor(made, out_tensor);
  ls_nest_release(made);
  ls_nest_release(value);
  ls_release(allocator, leaves);
  return status;
}

ls_status ls_strategy_combine(ls_strategy *strategy, ls_reduce_op op,
                              const ls_tensor *items, size_t count,
                              ls_tensor *out_tensor) {
  *out_tensor = ls_failed_tensor();
  return strategy->cross_device == NULL || strategy->cross_device->built_in
             ? ls_reduce_tensors(op, items, count, out_tensor)
             : combine_by_ops(strategy, op, items, count, out_tensor);
}

// ---- To destinations -------------------------------------------------------
// What the cross-device ops are given for a value: itself, of one replica
// wrapped; none where they have no part in it. The caller's.
static ls_status for_ops(const ls_strategy *strategy, ls_nest value,
                         ls_nest *out_value) {
  *out_value = ls_none();
  if (is_of_replicas(value)) {
    *out_value = ls_nest_retain(value);
    return ls_ok();
  }
  return strategy->num_replicas == 1 && value.kind != LS_KIND_NONE
             ? wrap_one(strategy, value, out_value)
             : ls_ok();
}

// A value that is the same on all replicas is copied where it goes.
static ls_status copy_one_value(const reduction *r, ls_nest value,
                                ls_nest *out_value) {
  ls_device_set devices;
  ls_nest one = ls_none();
  ls_destinations where = r->where;
  if (ls_destinations_is_none(where) && !has_components(value)) {
    where.devices = (const char *const *)r->strategy->devices;
    where.num_devices = (size_t)r->strategy->num_replicas;
  }
  LS_RETURN_IF_ERROR(ls_destination_set(where, value, &devices));
  ls_status status = ls_ok();
  LS_DEVICE_SCOPE(devices.names[0].text) {
    status = reduce_one_value(r, value, &one);
    if (ls_status_is_ok(status) && one.kind != LS_KIND_SLICES) {
      ls_tensor tensor;
      status = ls_distributed_as_tensor(one, &tensor);
      ls_nest_release(one);
      one = ls_leaf(tensor);
    }
  }
  ls_nest made = ls_none();
  if (ls_status_is_ok(status)) status = ls_copy_to(one, &devices, &made);
  if (ls_status_is_ok(status)) *out_value = without_wrapper(made);
  ls_nest_release(one);
  ls_device_set_deinit(&devices);
  return status;
}

static ls_status reduce_to(reduction *r, ls_nest value, ls_nest *out_value) {
  ls_nest given = ls_none();
  LS_RETURN_IF_ERROR(for_ops(r->strategy, value, &given));
  const ls_status status = given.kind == LS_KIND_NONE
                               ? copy_one_value(r, value, out_value)
                               : by_ops(r, r->op, given, out_value);
  ls_nest_release(given);
  return status;
}

static const ls_reduce_options no_options;

ls_status ls_strategy_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                ls_nest value, ls_destinations destinations,
                                ls_nest *out_value) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(out_value);
  reduction r = {strategy, op, &no_options, destinations};
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&crossing, strategy, "reduce_to"));
  ls_status status = ls_ok();
  if (strategy->kind == LS_STRATEGY_DEFAULT)
    *out_value = ls_nest_retain(value);
  else
    status = reduce_to(&r, value, out_value);
  return ls_cross_replica_end(&crossing, status, out_value);
}

// A batch, in which those values go to the ops that are for them.
typedef struct pairs {
  ls_strategy *strategy;
  ls_reduce_op op;
  const ls_nest *values;
  const ls_destinations *where;
  size_t count;
  ls_nest *results;
  ls_nest *given;  // For the ops; none: not for them.
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
  ls_nest list = ls_none();
  LS_RETURN_IF_ERROR(reduce_chosen(p, &list));
  ls_status status = ls_ok();
  for (size_t i = 0, next = 0; i < p->count && ls_status_is_ok(status); ++i) {
    const reduction r = {p->strategy, p->op, &no_options, p->where[i]};
    if (p->given[i].kind != LS_KIND_NONE)
      p->results[i] =
          without_wrapper(ls_nest_retain(ls_nest_item(list, next++)));
    else
      status = copy_one_value(&r, p->values[i], &p->results[i]);
  }
  ls_nest_release(list);
  return status;
}

static ls_status batch_reduce(pairs *p, ls_nest *out_list) {
  ls_allocator *allocator = p->strategy->allocator;
  ls_nest *room = ls_new_array(allocator, ls_nest, 3 * p->count);
  p->chosen_where = ls_new_array(allocator, ls_destinations, p->count);
  ls_status status =
      room == NULL || p->chosen_where == NULL ? ls_out_of_memory() : ls_ok();
  if (ls_status_is_ok(status)) {
    p->results = room;
    p->given = room + p->count;
    p->chosen = room + 2 * p->count;
    if (p->strategy->kind != LS_STRATEGY_DEFAULT)
      status = reduce_pairs(p);
    else
      for (size_t i = 0; i < p->count; ++i)
        p->results[i] = ls_nest_retain(p->values[i]);
    for (size_t i = 0; i < p->count; ++i)
      ls_nest_release(p->given[i]);
    if (ls_status_is_ok(status))
      status = ls_take_nest(
          ls_nest_sequence(LS_KIND_LIST, p->results, p->count), out_list);
    else
      for (size_t i = 0; i < p->count; ++i)
        ls_nest_release(p->results[i]);
  }
  ls_release(allocator, room);
  ls_release(allocator, p->chosen_where);
  return status;
}

ls_status ls_strategy_batch_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                      const ls_nest *values,
                                      const ls_destinations *destinations,
                                      size_t count, ls_nest *out_list) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(out_list);
  LS_REQUIRE_ITEMS(values, count);
  LS_REQUIRE_ITEMS(destinations, count);
  pairs p = {.strategy = strategy,
             .op = op,
             .values = values,
             .where = destinations,
             .count = count};
  *out_list = ls_none();
  LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(
      ls_cross_replica_begin(&crossing, strategy, "batch_reduce_to"));
  const ls_status status = batch_reduce(&p, out_list);
  return ls_cross_replica_end(&crossing, status, out_list);
}

// ---- Broadcasting ----------------------------------------------------------
static ls_status broadcast_to(ls_strategy *strategy, ls_nest value,
                              ls_destinations where, ls_nest *out_value) {
  ls_nest one = ls_nest_retain(value), made = ls_none();
  ls_status status = ls_ok();
  if (ls_destinations_is_none(where)) {
    where.devices = (const char *const *)strategy->devices;
    where.num_devices = (size_t)strategy->num_replicas;
  }
  if (value.kind != LS_KIND_SLICES) {
    ls_tensor tensor;
    ls_nest_release(one);
    status = ls_distributed_as_tensor(value, &tensor);
    one = ls_leaf(tensor);
  }
  if (ls_status_is_ok(status))
    status =
        ls_cross_device_broadcast(strategy->cross_device, one, where, &made);
  if (ls_status_is_ok(status)) *out_value = without_wrapper(made);
  ls_nest_release(one);
  return status;
}

ls_status ls_strategy_broadcast_to(ls_strategy *strategy, ls_nest value,
                                   ls_destinations destinations,
                                   ls_nest *out_value) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(out_value);
  *out_value = ls_none();
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(
      ls_cross_replica_begin(&crossing, strategy, "broadcast_to"));
  const bool usual = strategy->kind == LS_STRATEGY_DEFAULT;
  ls_status status = ls_ok();
  if (value.kind == LS_KIND_SCALAR ||
      (usual && ls_destinations_is_none(destinations)))
    *out_value = ls_nest_retain(value);
  else if (usual)
    status = ls_unimplemented("broadcast_to destinations on the default "
                              "strategy");
  else
    status = broadcast_to(strategy, value, destinations, out_value);
  return ls_cross_replica_end(&crossing, status, out_value);
}

// ---- Gathering -------------------------------------------------------------
typedef struct gathering {
  ls_strategy *strategy;
  int axis;
} gathering;

static ls_nest gather_leaf(ls_nest leaf, void *user) {
  const gathering *g = user;
  ls_nest made = ls_none();
  if (ls_nest_has_slices(leaf))
    return LS_FAIL(LS_UNIMPLEMENTED, "gather of IndexedSlices");
  if (!has_components(leaf)) return ls_nest_retain(leaf);
  const ls_status status = ls_cross_device_gather(
      g->strategy->cross_device, leaf, g->axis,
      (ls_destinations){.device = result_device()}, &made);
  return ls_status_is_ok(status) ? without_wrapper(made) : ls_fail(status);
}

ls_status ls_strategy_gather(ls_strategy *strategy, ls_nest value, int axis,
                             ls_nest *out_value) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(out_value);
  gathering g = {strategy, axis};
  *out_value = ls_none();
  const ls_distribution *entry = ls_distribution_current();
  if (entry != NULL && entry->strategy == strategy && entry->replica != NULL &&
      strategy->kind != LS_STRATEGY_DEFAULT)
    return ls_status_annotate(ls_cross_replica_error(strategy, "gather"),
                              "in a replica, all_gather does it");
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&crossing, strategy, "gather"));
  ls_status status = ls_ok();
  LS_DEVICE_SCOPE(result_device()) {
    status = ls_take_nest(strategy->kind == LS_STRATEGY_DEFAULT
                              ? ls_nest_retain(value)
                              : ls_nest_map(value, gather_leaf, &g),
                          out_value);
  }
  return ls_cross_replica_end(&crossing, status, out_value);
}
