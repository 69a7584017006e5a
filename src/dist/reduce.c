// SPDX-License-Identifier: Apache-2.0
//
// Reducing, gathering and broadcasting from a strategy's cross-replica context.
#include "base/runtime_internal.h"
#include "dist/call.h"
#include "dist/context.h"
#include "dist/cross_device.h"
#include "lockstep/eager.h"

typedef struct reduction {
  ls_strategy *strategy;
  ls_reduce_op op;
  const ls_reduce_options *options;
} reduction;

static bool has_components(ls_nest leaf) {
  return leaf.kind == LS_KIND_DISTRIBUTED || ls_is_distributed_variable(leaf);
}

static bool is_host_zero(ls_nest leaf) {
  return leaf.kind == LS_KIND_SCALAR && ls_nest_number(leaf) == 0;
}

static bool holds_arrays(ls_nest leaf) {
  return ls_distributed_component(leaf, 0).kind == LS_KIND_ARRAY;
}

static ls_status reduce_components(const reduction *r, ls_nest leaf,
                                   ls_tensor *out_tensor) {
  ls_tensor *items = NULL;
  size_t count = 0;
  *out_tensor = ls_failed_tensor();
  ls_status status = ls_component_tensors(leaf, r->strategy->allocator, &items,
                                          &count);
  if (ls_status_is_ok(status))
    status = ls_reduce_tensors(r->op, items, count, r->options, out_tensor);
  ls_release(r->strategy->allocator, items);
  return status;
}

// Arrays in, an array out: in a frame of its own.
static ls_status reduce_arrays(const reduction *r, ls_nest leaf,
                               ls_nest *out_value) {
  LS_RETURN_IF_ERROR(ls_frame_begin());
  ls_tensor tensor;
  ls_array *array = NULL;
  ls_status status = reduce_components(r, leaf, &tensor);
  if (ls_status_is_ok(status)) status = ls_tensor_value(tensor, &array);
  if (ls_status_is_ok(status)) *out_value = ls_nest_array(array);
  return ls_status_join(status, ls_frame_end(NULL));
}

static ls_status along_axes(const reduction *r, ls_nest leaf,
                            ls_nest *out_value) {
  const ls_graph *graph = ls_graph_current();
  if (leaf.kind == LS_KIND_ARRAY ||
      (graph->kind == LS_GRAPH_EAGER && holds_arrays(leaf)))
    return reduce_arrays(r, leaf, out_value);
  ls_tensor tensor;
  LS_RETURN_IF_ERROR(reduce_components(r, leaf, &tensor));
  *out_value = ls_leaf(tensor);
  return ls_ok();
}

// A leaf that is the same on all replicas.
static ls_status reduce_one_value(const reduction *r, ls_nest leaf,
                                  ls_nest *out_value) {
  const bool axes = r->options->axes != NULL && r->options->num_axes > 0;
  if (r->op == LS_REDUCE_SUM && r->strategy->num_replicas > 1 &&
      !is_host_zero(leaf)) {
    char text[200];
    return ls_invalid_argument(
        "SUM of %s, which is %s: it is not a value of each of the %d replicas",
        ls_nest_print(leaf, text, sizeof(text)),
        has_components(leaf) ? "mirrored" : "one value",
        r->strategy->num_replicas);
  }
  ls_nest value = ls_nest_retain(leaf);
  if (has_components(leaf)) {
    ls_tensor tensor;
    ls_nest_release(value);
    LS_RETURN_IF_ERROR(ls_distributed_as_tensor(leaf, &tensor));
    value = ls_leaf(tensor);
  }
  if (!axes) {
    *out_value = value;
    return ls_ok();
  }
  const ls_status status = along_axes(r, value, out_value);
  ls_nest_release(value);
  return status;
}

static ls_nest reduce_leaf(ls_nest leaf, void *user) {
  const reduction *r = user;
  ls_nest made = ls_none();
  const bool mirrored = ls_is_mirrored(leaf);
  const ls_status status =
      leaf.kind == LS_KIND_NONE ? ls_ok()
      : has_components(leaf) && !mirrored ? along_axes(r, leaf, &made)
                                          : reduce_one_value(r, leaf, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

// Results are on the current device, else on the first CPU.
static const char *result_device(void) {
  const char *device = ls_context_current()->device;
  return device != NULL ? device
                        : "/job:localhost/replica:0/task:0/device:CPU:0";
}

static ls_status reduce_default(const reduction *r, ls_nest value,
                                ls_nest *out_value) {
  if (r->options->axes != NULL && r->options->num_axes > 0)
    return ls_take_nest(ls_nest_map(value, reduce_leaf, (void *)(uintptr_t)r),
                        out_value);
  *out_value = ls_nest_retain(value);
  return ls_ok();
}

ls_status ls_strategy_reduce_with(ls_strategy *strategy, ls_reduce_op op,
                                  ls_nest value,
                                  const ls_reduce_options *options,
                                  ls_nest *out_value) {
  static const ls_reduce_options defaults;
  const reduction r = {strategy, op, options != NULL ? options : &defaults};
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  ls_scope scope = {0};
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&scope, strategy, "reduce"));
  ls_status status = ls_ok();
  LS_DEVICE_SCOPE(result_device()) {
    status = strategy->kind == LS_STRATEGY_DEFAULT
                 ? reduce_default(&r, value, out_value)
                 : ls_take_nest(ls_nest_map(value, reduce_leaf,
                                            (void *)(uintptr_t)&r),
                                out_value);
  }
  ls_scope_end(&scope);
  return status;
}

ls_status ls_strategy_reduce(ls_strategy *strategy, ls_reduce_op op,
                             ls_nest value, ls_nest *out_value) {
  return ls_strategy_reduce_with(strategy, op, value, NULL, out_value);
}

// ---- To destinations -------------------------------------------------------
static ls_status reduce_to(ls_strategy *strategy, ls_reduce_op op,
                           ls_nest value, ls_destinations where,
                           ls_nest *out_value) {
  static const ls_reduce_options defaults;
  const reduction r = {strategy, op, &defaults};
  // None: where the value is.
  if (where.device == NULL && where.value.kind == LS_KIND_NONE &&
      has_components(value))
    where.value = value;
  ls_device_name *devices = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(
      ls_destination_devices(strategy, where, &devices, &count));
  ls_nest reduced = ls_none();
  ls_status status = ls_ok();
  LS_DEVICE_SCOPE(devices[0].text) {
    status = ls_take_nest(reduce_leaf(value, (void *)(uintptr_t)&r), &reduced);
  }
  ls_tensor tensor = ls_failed_tensor();
  if (ls_status_is_ok(status))
    status = ls_distributed_as_tensor(reduced, &tensor);
  if (ls_status_is_ok(status))
    status = ls_copy_to(strategy, tensor, devices, count, out_value);
  ls_nest_release(reduced);
  ls_release(strategy->allocator, devices);
  return status;
}

ls_status ls_strategy_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                ls_nest value, ls_destinations destinations,
                                ls_nest *out_value) {
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  ls_scope scope = {0};
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&scope, strategy, "reduce_to"));
  const ls_status status =
      reduce_to(strategy, op, value, destinations, out_value);
  ls_scope_end(&scope);
  return status;
}

ls_status ls_strategy_batch_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                      const ls_nest *values,
                                      const ls_destinations *destinations,
                                      size_t count, ls_nest *out_list) {
  *out_list = ls_none();
  LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  ls_scope scope = {0};
  LS_RETURN_IF_ERROR(
      ls_cross_replica_begin(&scope, strategy, "batch_reduce_to"));
  ls_nest *items = ls_new_array(strategy->allocator, ls_nest, count + 1);
  ls_status status = items == NULL ? ls_out_of_memory() : ls_ok();
  size_t made = 0;
  for (; made < count && ls_status_is_ok(status); ++made)
    status = reduce_to(strategy, op, values[made], destinations[made],
                       &items[made]);
  if (ls_status_is_ok(status))
    status = ls_take_nest(ls_nest_sequence(LS_KIND_LIST, items, count),
                          out_list);
  else
    for (size_t i = 0; i < made; ++i) ls_nest_release(items[i]);
  ls_release(strategy->allocator, items);
  ls_scope_end(&scope);
  return status;
}

ls_status ls_strategy_broadcast_to(ls_strategy *strategy, ls_nest value,
                                   ls_destinations destinations,
                                   ls_nest *out_value) {
  *out_value = ls_none();
  ls_scope scope = {0};
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&scope, strategy, "broadcast_to"));
  const bool given =
      destinations.device != NULL || destinations.value.kind != LS_KIND_NONE;
  ls_status status = ls_ok();
  if (value.kind == LS_KIND_SCALAR ||
      (strategy->kind == LS_STRATEGY_DEFAULT && !given)) {
    *out_value = ls_nest_retain(value);
  } else if (strategy->kind == LS_STRATEGY_DEFAULT) {
    status = ls_unimplemented("broadcast_to destinations on the default "
                              "strategy");
  } else {
    ls_device_name *devices = NULL;
    size_t count = 0;
    ls_tensor tensor = ls_failed_tensor();
    status = ls_destination_devices(strategy, destinations, &devices, &count);
    if (ls_status_is_ok(status))
      status = ls_distributed_as_tensor(value, &tensor);
    if (ls_status_is_ok(status))
      status = ls_copy_to(strategy, tensor, devices, count, out_value);
    ls_release(strategy->allocator, devices);
  }
  ls_scope_end(&scope);
  return status;
}

// ---- Gathering -------------------------------------------------------------
typedef struct gathering {
  ls_strategy *strategy;
  int axis;
} gathering;

static ls_nest gather_leaf(ls_nest leaf, void *user) {
  const gathering *g = user;
  if (leaf.kind == LS_KIND_SLICES ||
      ls_distributed_component(leaf, 0).kind == LS_KIND_SLICES)
    return LS_FAIL(LS_UNIMPLEMENTED, "gather of IndexedSlices");
  if (!has_components(leaf)) return ls_nest_retain(leaf);
  ls_tensor *items = NULL, tensor = ls_failed_tensor();
  size_t count = 0;
  ls_status status =
      ls_component_tensors(leaf, g->strategy->allocator, &items, &count);
  if (ls_status_is_ok(status))
    status = ls_gather_tensors(items, count, g->axis, &tensor);
  ls_release(g->strategy->allocator, items);
  return ls_status_is_ok(status) ? ls_leaf(tensor) : ls_fail(status);
}

ls_status ls_strategy_gather(ls_strategy *strategy, ls_nest value, int axis,
                             ls_nest *out_value) {
  gathering g = {strategy, axis};
  *out_value = ls_none();
  const ls_distribution *entry = ls_distribution_current();
  if (entry != NULL && entry->strategy == strategy && entry->replica != NULL &&
      strategy->kind != LS_STRATEGY_DEFAULT)
    return ls_status_annotate(ls_cross_replica_error(strategy, "gather"),
                              "in a replica, all_gather does it");
  ls_scope scope = {0};
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&scope, strategy, "gather"));
  ls_status status = ls_ok();
  LS_DEVICE_SCOPE(result_device()) {
    status = ls_take_nest(strategy->kind == LS_STRATEGY_DEFAULT
                              ? ls_nest_retain(value)
                              : ls_nest_map(value, gather_leaf, &g),
                          out_value);
  }
  ls_scope_end(&scope);
  return status;
}

// ---- In replicas -----------------------------------------------------------
typedef struct merged_leaf {
  ls_strategy *strategy;
  ls_reduce_op op;
  int axis;
  bool gathers;
} merged_leaf;

// One value a replica, the same object counting once for each.
static ls_status tensors_of_all(const merged_leaf *m, ls_nest leaf,
                                ls_tensor **items, size_t *out_count) {
  ls_allocator *allocator = m->strategy->allocator;
  LS_RETURN_IF_ERROR(ls_component_tensors(leaf, allocator, items, out_count));
  const size_t count = (size_t)m->strategy->num_replicas;
  if (has_components(leaf) || count == 1) return ls_ok();
  ls_tensor *all = ls_new_array(allocator, ls_tensor, count);
  if (all == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i) all[i] = (*items)[0];
  ls_release(allocator, *items);
  *items = all;
  *out_count = count;
  return ls_ok();
}

static ls_nest merge_leaf(ls_nest leaf, void *user) {
  const merged_leaf *m = user;
  ls_tensor *items = NULL, tensor = ls_failed_tensor();
  size_t count = 0;
  ls_nest made = ls_none();
  if (leaf.kind == LS_KIND_SLICES ||
      ls_distributed_component(leaf, 0).kind == LS_KIND_SLICES)
    return LS_FAIL(LS_UNIMPLEMENTED, "%s of IndexedSlices",
                   m->gathers ? "all_gather" : "all_reduce");
  ls_status status = tensors_of_all(m, leaf, &items, &count);
  LS_DEVICE_SCOPE(m->strategy->devices[0]) {
    if (ls_status_is_ok(status))
      status = m->gathers
                   ? ls_gather_tensors(items, count, m->axis, &tensor)
                   : ls_reduce_tensors(m->op, items, count, NULL, &tensor);
  }
  ls_device_name *devices = NULL;
  size_t num_devices = 0;
  if (ls_status_is_ok(status))
    status = ls_destination_devices(m->strategy, (ls_destinations){0}, &devices,
                                    &num_devices);
  if (ls_status_is_ok(status))
    status = ls_copy_to(m->strategy, tensor, devices, num_devices, &made);
  ls_release(m->strategy->allocator, devices);
  ls_release(m->strategy->allocator, items);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

ls_nest ls_all_reduce_merged(ls_strategy *strategy, ls_reduce_op op,
                             ls_nest args) {
  merged_leaf m = {.strategy = strategy, .op = op};
  return ls_nest_map(args, merge_leaf, &m);
}

ls_nest ls_all_gather_merged(ls_strategy *strategy, int axis, ls_nest args) {
  merged_leaf m = {.strategy = strategy, .axis = axis, .gathers = true};
  return ls_nest_map(args, merge_leaf, &m);
}
