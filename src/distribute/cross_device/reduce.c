// SPDX-License-Identifier: Apache-2.0
//
// Reduces and gathers in a strategy's cross-replica context: handles some
// values by itself, and passes the others to the strategy's cross-device ops.
#include "base/values/nest_internal.h"
#include "distribute/cross_device/cross_device.h"

#include "base/memory/own.h"
#include "base/require.h"
#include "distribute/context/context.h"
#include "graph/flow.h"
#include "graph/make/make.h"
#include "lockstep/eager.h"
#include "lockstep/strategy_extended.h"

bool ls_has_components(ls_nest leaf) {
  return leaf.kind == LS_KIND_DISTRIBUTED || ls_is_distributed_variable(leaf);
}

bool ls_is_host_zero(ls_nest leaf) {
  return leaf.kind == LS_KIND_SCALAR && ls_nest_number(leaf) == 0;
}

static bool holds_arrays(ls_nest leaf) {
  return leaf.kind == LS_KIND_ARRAY ||
         ls_distributed_component(leaf, 0).kind == LS_KIND_ARRAY;
}

bool ls_has_axes(const ls_strategy_reduction *r) {
  return r->options->axes != NULL && r->options->num_axes > 0;
}

ls_nest ls_without_wrapper(ls_nest value) {
  if (ls_distributed_count(value) != 1) return value;
  const ls_nest only = ls_nest_retain(ls_distributed_component(value, 0));
  ls_nest_release(value);
  return only;
}

// ---- One leaf --------------------------------------------------------------
ls_status ls_reduce_by_ops(const ls_strategy_reduction *r, ls_reduce_op op,
                           ls_nest value, ls_nest *out_value) {
  ls_nest made = ls_none();
  ls_cross_device *ops = r->strategy->cross_device;
  // A strategy without cross-device ops has one replica, whose value is the
  // sum.
  if (ops == NULL) {
    *out_value = ls_nest_retain(ls_distributed_component(value, 0));
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_cross_device_reduce(ops, op, value, r->where, &made));
  *out_value = ls_without_wrapper(made);
  return ls_ok();
}

// Reduces within each replica if there are axes or weights, then over replicas.
static ls_status reduce_parts_of(const ls_strategy_reduction *r, ls_nest leaf,
                                 ls_nest *out_value) {
  const bool weighted = r->options->weights != NULL;
  if (!ls_has_axes(r) && !weighted)
    return ls_reduce_by_ops(r, r->op, leaf, out_value);
  ls_within within;
  LS_RETURN_IF_ERROR(weighted ? ls_weigh(leaf, r->options, &within)
                              : ls_sum_within(r->op, leaf, r->options,
                                              &within));
  LS_OWN(ls_nest, value) = within.value;
  LS_OWN(ls_nest, sum) = ls_none();
  if (value.kind != LS_KIND_NONE)
    LS_RETURN_IF_ERROR(ls_reduce_by_ops(r, LS_REDUCE_SUM, value, &sum));
  return ls_finish_within(r->op, &within, sum, out_value);
}

// Reduces arrays to an array. Temporary values are freed with an eager frame.
static ls_status reduce_to_array(const ls_strategy_reduction *r, ls_nest leaf,
                                 ls_array **out_array) {
  LS_OWN(ls_nest, made) = ls_none();
  ls_tensor tensor = ls_failed_tensor();
  LS_RETURN_IF_ERROR(reduce_parts_of(r, leaf, &made));
  LS_RETURN_IF_ERROR(ls_distributed_as_tensor(made, &tensor));
  return ls_tensor_value(tensor, out_array);
}

static ls_status reduce_arrays(const ls_strategy_reduction *r, ls_nest leaf,
                               ls_nest *out_value) {
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_frame_begin());
  const ls_status status = reduce_to_array(r, leaf, &array);
  LS_RETURN_IF_ERROR(ls_status_join(status, ls_frame_end(NULL)));
  *out_value = ls_nest_array(ls_give(&array));
  return ls_ok();
}

ls_status ls_reduce_components(const ls_strategy_reduction *r, ls_nest leaf,
                               ls_nest *out_value) {
  return holds_arrays(leaf) && ls_graph_is_eager(ls_graph_current())
             ? reduce_arrays(r, leaf, out_value)
             : reduce_parts_of(r, leaf, out_value);
}

ls_status ls_wrap_one(const ls_strategy *strategy, ls_nest leaf,
                      ls_nest *out_value) {
  const ls_nest item = ls_nest_retain(leaf);
  const char *device = ls_strategy_device(strategy, 0);
  return ls_take_nest(ls_nest_distributed_on(LS_PER_REPLICA, &item, &device, 1),
                      out_value);
}

ls_status ls_refuse_sum(const ls_strategy_reduction *r, ls_nest leaf) {
  LS_RETURN_IF_ERROR(ls_nest_status(leaf));
  return ls_invalid_argument(
      "SUM of %s, which is %s: it is not a value of each of the %d replicas",
      LS_NEST_TEXT(leaf), ls_has_components(leaf) ? "mirrored" : "one value",
      r->strategy->num_replicas);
}

bool ls_mean_divides(const ls_strategy_reduction *r, ls_nest leaf) {
  if (r->op != LS_REDUCE_MEAN || r->strategy->num_replicas > 1) return false;
  ls_dtype dtype = LS_DTYPE_NONE;
  if (leaf.kind == LS_KIND_TENSOR) dtype = ls_tensor_dtype(leaf.as.tensor);
  if (leaf.kind == LS_KIND_ARRAY)
    dtype = ls_array_dtype(ls_nest_as_array(leaf));
  return ls_mean_dtype(dtype) != dtype;
}

// Reduces a leaf that is the same on all replicas.
ls_status ls_reduce_one_value(const ls_strategy_reduction *r, ls_nest leaf,
                              ls_nest *out_value) {
  const bool sum = r->op == LS_REDUCE_SUM;
  if (sum && r->strategy->num_replicas > 1 && !ls_is_host_zero(leaf))
    return ls_refuse_sum(r, leaf);
  const bool divides = ls_mean_divides(r, leaf);
  if (ls_has_components(leaf)) {
    ls_tensor tensor;
    LS_RETURN_IF_ERROR(ls_distributed_as_tensor(leaf, &tensor));
    leaf = ls_leaf(tensor);
  }
  if (ls_has_axes(r) || divides || (sum && leaf.kind == LS_KIND_TENSOR)) {
    LS_OWN(ls_nest, wrapped) = ls_none();
    LS_RETURN_IF_ERROR(ls_wrap_one(r->strategy, leaf, &wrapped));
    return ls_reduce_components(r, wrapped, out_value);
  }
  if (r->options->weights != NULL)
    return ls_weigh_one(leaf, r->options, r->strategy->num_replicas, out_value);
  *out_value = ls_nest_retain(leaf);
  return ls_ok();
}

bool ls_is_of_replicas(ls_nest leaf) {
  return ls_has_components(leaf) && !ls_is_mirrored(leaf);
}

static ls_nest reduce_leaf(ls_nest leaf, void *user) {
  const ls_strategy_reduction *r = user;
  ls_nest made = ls_none();
  return ls_made_nest(leaf.kind == LS_KIND_NONE ? ls_ok()
                      : ls_is_of_replicas(leaf)
                          ? ls_reduce_components(r, leaf, &made)
                          : ls_reduce_one_value(r, leaf, &made),
                      &made);
}

// Returns the device on which results are: the current device, else the first
// CPU.
static const char *result_device(void) {
  const char *device = ls_context_current()->scoped.device;
  return device != NULL ? device
                        : "/job:localhost/replica:0/task:0/device:CPU:0";
}

// Returns the device scope for ops; in a replicated computation the ops keep
// their devices.
static const char *scope_device(void) {
  return ls_flow_replicated() != NULL ? "" : result_device();
}

ls_status ls_mirrored_reduce(ls_strategy *strategy, ls_reduce_op op,
                             ls_nest value, const ls_reduce_options *options,
                             ls_nest *out_value) {
  ls_strategy_reduction r = {
      strategy, op, options, {.device = result_device()}};
  return ls_take_nest(ls_nest_map(value, reduce_leaf, &r), out_value);
}

ls_status ls_strategy_reduce_with(ls_strategy *strategy, ls_reduce_op op,
                                  ls_nest value,
                                  const ls_reduce_options *options,
                                  ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, strategy);
  static const ls_reduce_options defaults;
  if (options == NULL) options = &defaults;
  LS_REQUIRE_ITEMS(options->axes, options->num_axes);
  LS_REQUIRE_ITEMS(options->weights, options->num_weights);
  LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  if (op == LS_REDUCE_SUM && options->weights != NULL)
    return ls_invalid_argument("weights are for MEAN, not for SUM");
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&crossing, strategy, "reduce"));
  ls_status status = ls_ok();
  {
    LS_DEVICE_SCOPE(scope_device());
    status = strategy->kind->reduce(strategy, op, value, options, out_value);
  }
  return ls_cross_replica_end(&crossing, status, out_value);
}

ls_status ls_strategy_reduce(ls_strategy *strategy, ls_reduce_op op,
                             ls_nest value, ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, strategy);
  return ls_strategy_reduce_with(strategy, op, value, NULL, out_value);
}

// ---- Reductions for variables ----------------------------------------------
static ls_status combine_by_ops(ls_strategy *strategy, ls_reduce_op op,
                                const ls_tensor *items, size_t count,
                                ls_tensor *out_tensor) {
  LS_OWN_ARRAY_OR_RETURN(strategy->allocator, ls_nest, leaves, count);
  LS_OWN(ls_nest, value) = ls_none();
  LS_OWN(ls_nest, made) = ls_none();
  for (size_t i = 0; i < count; ++i)
    leaves[i] = ls_leaf(items[i]);
  const bool all = count == (size_t)strategy->num_replicas;
  LS_RETURN_IF_ERROR(ls_take_nest(
      ls_nest_distributed_on(LS_PER_REPLICA, leaves,
                             all ? ls_strategy_devices(strategy) : NULL, count),
      &value));
  const ls_strategy_reduction r = {.strategy = strategy,
                                   .where = {.device = result_device()}};
  LS_RETURN_IF_ERROR(ls_reduce_by_ops(&r, op, value, &made));
  return ls_distributed_as_tensor(made, out_tensor);
}

ls_status ls_strategy_combine(ls_strategy *strategy, ls_reduce_op op,
                              const ls_tensor *items, size_t count,
                              ls_tensor *out_tensor) {
  *out_tensor = ls_failed_tensor();
  return strategy->cross_device == NULL || strategy->cross_device->built_in
             ? ls_reduce_tensors(op, items, count, out_tensor)
             : combine_by_ops(strategy, op, items, count, out_tensor);
}

// ---- Gather ----------------------------------------------------------------
typedef struct gathering {
  ls_strategy *strategy;
  int axis;
} gathering;

static ls_nest reduce_gather_leaf(ls_nest leaf, void *user) {
  const gathering *g = user;
  ls_nest made = ls_none();
  if (ls_nest_has_slices(leaf))
    return LS_FAIL(LS_UNIMPLEMENTED, "gather of IndexedSlices");
  if (!ls_has_components(leaf)) return ls_nest_retain(leaf);
  LS_RETURN_FAILED_IF_ERROR(ls_cross_device_gather(
      g->strategy->cross_device, leaf, g->axis,
      (ls_destinations){.device = result_device()}, &made));
  return ls_without_wrapper(made);
}

ls_status ls_mirrored_gather(ls_strategy *strategy, ls_nest value, int axis,
                             ls_nest *out_value) {
  gathering g = {strategy, axis};
  return ls_take_nest(ls_nest_map(value, reduce_gather_leaf, &g), out_value);
}

ls_status ls_strategy_gather(ls_strategy *strategy, ls_nest value, int axis,
                             ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, strategy);
  LS_RETURN_IF_ERROR(ls_strategy_check_has(strategy, "gather"));
  const ls_distribution *entry = ls_distribution_current();
  if (entry != NULL && entry->strategy == strategy && entry->replica != NULL &&
      strategy->kind->distributes)
    return ls_status_annotate(ls_cross_replica_error(strategy, "gather"),
                              "in a replica, all_gather does it");
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&crossing, strategy, "gather"));
  ls_status status = ls_ok();
  {
    LS_DEVICE_SCOPE(scope_device());
    status = strategy->kind->gather(strategy, value, axis, out_value);
  }
  return ls_cross_replica_end(&crossing, status, out_value);
}
