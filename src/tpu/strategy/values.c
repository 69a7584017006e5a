// SPDX-License-Identifier: Apache-2.0
//
// Reductions, gathers and broadcasts of TPU strategies. In a computation the
// replicas do them collectively. Outside, components are combined on the
// strategy's host and copied from there.

#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "base/values/numbers.h"
#include "distribute/cross_device/cross_device.h"
#include "graph/compare/compare.h"
#include "graph/make/make.h"
#include "lockstep/cross_replica.h"
#include "lockstep/strategy_extended.h"
#include "runtime/eager/eager.h"
#include "tpu/replicate/replicate.h"
#include "tpu/strategy/strategy.h"

// ---- In a computation ------------------------------------------------------
static bool in_computation(void) { return ls_tpu_context_current() != NULL; }

// Returns true for a leaf that has its own value on each replica.
static bool values_is_value(ls_nest leaf) {
  return leaf.kind == LS_KIND_TENSOR || leaf.kind == LS_KIND_VARIABLE ||
         leaf.kind == LS_KIND_DISTRIBUTED || leaf.kind == LS_KIND_SLICES;
}

// Converts a replica's slices to a dense tensor with all rows; their number
// must be known.
static ls_status make_dense(ls_nest leaf, ls_tensor *out_tensor) {
  ls_slices_parts parts;
  LS_RETURN_IF_ERROR(ls_slices_parts_of(leaf, &parts));
  const ls_array *array = parts.dense_shape.ref != 0
                              ? ls_tensor_known_value(parts.dense_shape)
                              : NULL;
  if (array == NULL || ls_array_num_elements(array) > LS_MAX_RANK)
    return ls_invalid_argument(
        "slices '%s' are reduced in a replicated computation, where they are "
        "made dense: their dense shape is to be known while building",
        ls_tensor_name(parts.values));
  ls_shape shape = {.rank = (int32_t)ls_array_num_elements(array)};
  for (int32_t i = 0; i < shape.rank; ++i)
    shape.dim[i] = ls_array_i64(array, i);
  const ls_tensor like =
      ls_broadcast(ls_scalar(ls_tensor_dtype(parts.values), 0), shape);
  *out_tensor = ls_indexed_slices(parts.indices, parts.values, like);
  return ls_made_status(*out_tensor);
}

static ls_status own_value(ls_nest leaf, ls_tensor *out_tensor) {
  return leaf.kind == LS_KIND_SLICES
             ? make_dense(leaf, out_tensor)
             : ls_distributed_as_tensor(leaf, out_tensor);
}

// Reduces over replicas; a mean of 16-bit floats is rounded once, one of
// integers is summed in i64.
static ls_tensor values_reduce_together(ls_reduce_op op, ls_tensor x) {
  if (op == LS_REDUCE_SUM) return ls_cross_replica_sum(x, NULL);
  const ls_dtype dtype = ls_tensor_dtype(x);
  x = ls_is_half(dtype) ? ls_convert(x, LS_DTYPE_F32) : ls_widen_integers(x);
  x = ls_mean_of_sum(ls_cross_replica_sum(x, NULL),
                     (double)ls_context_replicas(), false);
  const ls_dtype mean = ls_mean_dtype(dtype);
  return ls_tensor_dtype(x) == mean ? x : ls_convert(x, mean);
}

static ls_status reduce_in_computation(ls_reduce_op op, ls_nest leaf,
                                       ls_nest *out_value) {
  if (op != LS_REDUCE_SUM && op != LS_REDUCE_MEAN)
    return ls_unimplemented("reduce_to by %s in a replicated computation: SUM "
                            "and MEAN are possible",
                            LS_REDUCE_OP_TEXT(op));
  ls_tensor x;
  LS_RETURN_IF_ERROR(own_value(leaf, &x));
  x = ls_same_note(values_reduce_together(op, x));
  *out_value = ls_leaf(x);
  return ls_made_status(x);
}

// Reduces along axes within each replica, then over replicas. An unknown size
// may differ between replicas.
static ls_status reduce_within(ls_reduce_op op, ls_nest leaf,
                               const ls_reduce_options *options,
                               ls_nest *out_value) {
  if (options->weights != NULL)
    return ls_unimplemented(
        "a weighted mean of a strategy in a replicated computation: a replica "
        "has ls_replica_weighted_mean for it");
  ls_tensor x;
  ls_within within;
  LS_RETURN_IF_ERROR(own_value(leaf, &x));
  const ls_nest item = ls_leaf(x);
  LS_OWN(ls_nest, wrapped) = ls_nest_distributed(LS_PER_REPLICA, &item, 1);
  LS_RETURN_IF_ERROR(ls_sum_within(op, wrapped, options, &within));
  LS_OWN(ls_nest, value) = within.value;
  const ls_tensor own = ls_nest_tensor(ls_distributed_component(value, 0), 0);
  const ls_nest sum = ls_leaf(ls_cross_replica_sum(own, NULL));
  within.total *= ls_context_replicas();
  if (within.late.ref != 0)
    within.late = ls_cross_replica_sum(within.late, NULL);
  LS_RETURN_IF_ERROR(ls_made_status(sum.as.tensor));
  return ls_finish_within(op, &within, sum, out_value);
}

// ---- Outside: components ---------------------------------------------------
typedef struct on_host {
  ls_allocator *allocator;
  char host[];
} on_host;

// Copies a value from the host to the devices of its destinations.
static ls_status send(const on_host *self, ls_nest value, ls_nest one,
                      ls_destinations where, ls_nest *out_value) {
  ls_device_set devices;
  LS_RETURN_IF_ERROR(ls_destination_set(where, value, &devices));
  const bool stays =
      devices.count == 1 && strcmp(devices.names[0].text, self->host) == 0;
  const char *host = self->host;
  const ls_nest item = ls_nest_retain(one);
  const ls_status status =
      stays ? ls_take_nest(ls_nest_distributed_on(LS_MIRRORED, &item, &host, 1),
                           out_value)
            : ls_copy_to(one, &devices, out_value);
  if (!stays) ls_nest_release(item);
  ls_device_set_deinit(&devices);
  return status;
}

static ls_status values_reduce(void *self, ls_reduce_op op, ls_nest value,
                               ls_destinations where, ls_nest *out_value) {
  const on_host *on = self;
  LS_OWN(ls_components, parts) = {0};
  LS_OWN(ls_nest, sum) = ls_none();
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_components_init(&parts, value));
  {
    LS_DEVICE_SCOPE(on->host);
    LS_RETURN_IF_ERROR(ls_reduce_parts(op, &parts, NULL, NULL, &sum));
  }
  return send(on, value, sum, where, out_value);
}

static ls_status values_batch_reduce(void *self, ls_reduce_op op,
                                     const ls_nest *values,
                                     const ls_destinations *where, size_t count,
                                     ls_nest *results) {
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        values_reduce(self, op, values[i], where[i], &results[i]));
  return ls_ok();
}

static ls_status values_gather(void *self, ls_nest value, int axis,
                               ls_destinations where, ls_nest *out_value) {
  const on_host *on = self;
  ls_tensor made = ls_failed_tensor();
  LS_OWN(ls_components, parts) = {0};
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_components_init(&parts, value));
  const size_t count = parts.devices.count;
  LS_OWN_ARRAY_OR_RETURN(on->allocator, ls_tensor, items, count);
  {
    LS_DEVICE_SCOPE(on->host);
    for (size_t i = 0; i < count; ++i)
      LS_RETURN_IF_ERROR(ls_distributed_as_tensor(parts.items[i], &items[i]));
    LS_RETURN_IF_ERROR(ls_gather_tensors(items, count, axis, &made));
  }
  return send(on, value, ls_leaf(made), where, out_value);
}

static void values_release(void *self) {
  on_host *on = self;
  ls_release(on->allocator, on);
}

static const ls_cross_device_table table = {.name = "tpu",
                                            .reduce = values_reduce,
                                            .batch_reduce = values_batch_reduce,
                                            .gather = values_gather,
                                            .release = values_release};

ls_status ls_tpu_cross_device_create(const char *host,
                                     ls_cross_device **out_ops) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t size = strlen(host) + 1;
  *out_ops = NULL;
  on_host *self = ls_allocate_zeroed(allocator, 1, sizeof(*self) + size);
  if (self == NULL) return ls_out_of_memory();
  self->allocator = allocator;
  memcpy(self->host, host, size);
  const ls_status status = ls_cross_device_make(&table, self, true, out_ops);
  if (!ls_status_is_ok(status)) values_release(self);
  return status;
}

// ---- A single value --------------------------------------------------------
// Reduces a value without components, which is the same on all replicas.
static ls_status reduce_one(const ls_strategy_reduction *r, ls_nest value,
                            ls_nest *out_value) {
  if (value.kind == LS_KIND_NONE) return ls_refuse_sum(r, value);
  if ((r->op == LS_REDUCE_MEAN && !ls_mean_divides(r, value)) ||
      ls_is_host_zero(value)) {
    *out_value = ls_nest_retain(value);
    return ls_nest_status(value);
  }
  return r->strategy->num_replicas > 1 ? ls_refuse_sum(r, value)
                                       : ls_copy_one_value(r, value, out_value);
}

// ---- Functions of the class ------------------------------------------------
ls_status ls_tpu_class_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                 ls_nest value, ls_destinations where,
                                 ls_nest *out_value) {
  static const ls_reduce_options no_options;
  const ls_strategy_reduction r = {strategy, op, &no_options, where};
  if (in_computation() && values_is_value(value))
    return reduce_in_computation(op, value, out_value);
  LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  return ls_has_components(value) ? ls_reduce_by_ops(&r, op, value, out_value)
                                  : reduce_one(&r, value, out_value);
}

ls_status ls_tpu_class_batch_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                       const ls_nest *values,
                                       const ls_destinations *where,
                                       size_t count, ls_nest *results) {
  if (!in_computation()) LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        ls_tpu_class_reduce_to(strategy, op, values[i], where[i], &results[i]));
  return ls_ok();
}

static ls_nest values_reduce_leaf(ls_nest leaf, void *user) {
  const ls_strategy_reduction *r = user;
  const bool within = ls_has_axes(r) || r->options->weights != NULL;
  ls_nest made = ls_none();
  ls_status status = ls_ok();
  if (leaf.kind == LS_KIND_NONE) return leaf;
  if (in_computation() && values_is_value(leaf))
    status = within ? reduce_within(r->op, leaf, r->options, &made)
                    : reduce_in_computation(r->op, leaf, &made);
  else
    status = ls_has_components(leaf) ? ls_reduce_components(r, leaf, &made)
                                     : ls_reduce_one_value(r, leaf, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

ls_status ls_tpu_class_reduce(ls_strategy *strategy, ls_reduce_op op,
                              ls_nest value, const ls_reduce_options *options,
                              ls_nest *out_value) {
  const char *device = ls_context_current()->scoped.device;
  ls_strategy_reduction r = {strategy, op, options, {.device = device}};
  return ls_take_nest(ls_nest_map(value, values_reduce_leaf, &r), out_value);
}

// Repeats a tensor `count` times along a new first axis.
static ls_tensor copies_of(ls_tensor x, int64_t count) {
  const ls_shape own = ls_tensor_shape(x);
  ls_shape one = {.rank = own.rank + 1, .dim = {1}}, all;
  bool known = true;
  if (own.rank < 0 || own.rank == LS_MAX_RANK)
    return ls_make_failed(
        "broadcast_to",
        ls_unimplemented("a broadcast of %s: a rank below %d is to be known",
                         LS_SHAPE_TEXT(ls_tensor_dtype(x), own), LS_MAX_RANK));
  for (int32_t i = 0; i < own.rank; ++i) {
    one.dim[i + 1] = own.dim[i];
    known = known && own.dim[i] >= 0;
  }
  all = one;
  all.dim[0] = count;
  x = ls_reshape(x, one);
  if (known) return ls_broadcast(x, all);
  const ls_tensor zeros =
      ls_broadcast(ls_scalar_i64(LS_DTYPE_I32, 0), LS_SHAPE(count));
  return ls_gather(x, zeros, 0);
}

// Broadcasts the first replica's value to all replicas; an exchange sends one
// copy to each.
ls_status ls_tpu_class_broadcast_to(ls_strategy *strategy, ls_nest value,
                                    ls_destinations where, ls_nest *out_value) {
  (void)where;
  if (!in_computation() || !values_is_value(value)) {
    *out_value = ls_nest_retain(value);
    return ls_nest_status(value);
  }
  const int64_t replicas = strategy->num_replicas;
  ls_tensor x;
  LS_RETURN_IF_ERROR(own_value(value, &x));
  const ls_tensor copies = copies_of(x, replicas);
  const ls_tensor all =
      ls_cross_replica_all_to_all(copies, 0, 0, replicas, NULL);
  const ls_tensor first = ls_gather(all, ls_scalar_i64(LS_DTYPE_I32, 0), 0);
  *out_value = ls_leaf(ls_same_note(first));
  return ls_made_status(out_value->as.tensor);
}

// Returns true for a tensor that is one for all replicas: from outside, or
// reduced or gathered by the merge call in progress.
static bool is_common(ls_tensor x) {
  if (ls_is_from_outside(NULL, x)) return true;
  if (!ls_same_is_noted(x)) return false;
  const ls_distribution *around = ls_distribution_current();
  while (around != NULL && around->replica == NULL)
    around = around->outer;
  if (around == NULL) return true;
  // Graphs deeper than the merge call's are regions that it has made.
  const ls_replica *replica = around->replica;
  const int depth = ls_graph_resolve(x.graph)->depth;
  return depth > replica->merged_depth ||
         (depth == replica->merged_depth &&
          ls_ref_id(x.ref) >= replica->first_merged);
}

static ls_nest gather_own(ls_nest leaf, void *user) {
  const int axis = *(const int *)user;
  ls_tensor own, x;
  if (leaf.kind == LS_KIND_SLICES)
    return LS_FAIL(LS_UNIMPLEMENTED, "gather of IndexedSlices");
  if (leaf.kind == LS_KIND_DISTRIBUTED)
    return LS_FAIL(LS_UNIMPLEMENTED,
                   "gather of components in a replicated computation: in a "
                   "replica use ls_replica_all_gather");
  if (!values_is_value(leaf) ||
      (leaf.kind == LS_KIND_TENSOR && is_common(leaf.as.tensor)))
    return ls_nest_retain(leaf);
  LS_RETURN_FAILED_IF_ERROR(own_value(leaf, &own));
  LS_RETURN_FAILED_IF_ERROR(ls_gather_tensors(&own, 1, axis, &x));
  return ls_leaf(ls_context_replicas() == 1 ? x : ls_all_gather(x, axis));
}

ls_status ls_tpu_class_gather(ls_strategy *strategy, ls_nest value, int axis,
                              ls_nest *out_value) {
  return in_computation()
             ? ls_take_nest(ls_nest_map(value, gather_own, &axis), out_value)
             : ls_mirrored_gather(strategy, value, axis, out_value);
}
