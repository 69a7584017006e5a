// SPDX-License-Identifier: Apache-2.0
//
// Cross-device ops inside: what the sets are made of.
#ifndef LS_DISTRIBUTE_CROSS_DEVICE_CROSS_DEVICE_H_
#define LS_DISTRIBUTE_CROSS_DEVICE_CROSS_DEVICE_H_

#include "distribute/values/values.h"
#include "lockstep/cross_device.h"

struct ls_cross_device {
  ls_object object;
  ls_allocator *allocator;
  const ls_cross_device_table *table;
  void *self;
  bool built_in;
};

// A built-in set: adds in the canonical order and may be lowered to the
// engine's all_reduce.
ls_status ls_cross_device_make(const ls_cross_device_table *table, void *self,
                               bool built_in, ls_cross_device **out_ops);
// By collectives of this implementation, for ls_cross_device_auto.
ls_status ls_collective_create(const char *implementation,
                               ls_cross_device **out_ops);
// Reduces as reduce_to_one does with default options: the fallback of other
// sets.
ls_status ls_reduce_to_one(ls_reduce_op op, ls_nest value,
                           ls_destinations where, ls_nest *out_value);
ls_status ls_gather_to_one(ls_nest value, int axis, ls_destinations where,
                           ls_nest *out_value);

// The results of a call, taken over: as a list, if it went well.
ls_status ls_list_results(ls_status status, const ls_nest *results,
                          size_t count, ls_nest *out_list);

// ---- One value from several ------------------------------------------------
// The sum or mean (or largest, smallest) of some tensors, along the canonical
// tree over their positions. A mean of integers is a float: f64 of 32 and 64
// bits, else f32.
//   LS_INVALID_ARGUMENT  shapes that differ.
ls_status ls_reduce_tensors(ls_reduce_op op, const ls_tensor *items,
                            size_t count, ls_tensor *out_tensor);
// The same (SUM or MEAN) for one value of each replica of a strategy: a table
// of the user's own is asked.
ls_status ls_strategy_combine(ls_strategy *strategy, ls_reduce_op op,
                              const ls_tensor *items, size_t count,
                              ls_tensor *out_tensor);
// The same of components, whose order is that of replica ids: a tensor or, when
// all of them are, slices. `accumulate` (NULL: the tree) adds in its place. The
// caller owns the result.
ls_status ls_reduce_parts(ls_reduce_op op, const ls_components *parts,
                          ls_accumulate_function accumulate, void *user,
                          ls_nest *out_value);
// Returns true if a component, or an item of a map output, is slices; joins
// such components.
bool ls_has_sparse_parts(const ls_components *parts);
ls_status ls_join_parts(ls_reduce_op op, const ls_components *parts,
                        ls_nest *out_value);
// sum times 1 / total, reciprocal and product in f64 for f64, else in f32; with
// `divide`, and of integers, a true division.
ls_tensor ls_mean_of_sum(ls_tensor sum, double total, bool divide);

// The tensors behind each other along an axis.
ls_status ls_gather_tensors(const ls_tensor *items, size_t count, int axis,
                            ls_tensor *out_tensor);
// The values of a leaf's components as tensors, in order: of a distributed
// value, of a distributed variable, of map outputs all their items. `*items` is
// released with the allocator.
ls_status ls_component_tensors(ls_nest leaf, ls_allocator *allocator,
                               ls_tensor **items, size_t *out_count);
// OK when all have one type and shapes that can be equal; failed tensors do not
// count.
ls_status ls_check_same_shapes(const ls_tensor *items, size_t count);
// OK for SUM and MEAN.
ls_status ls_check_reduce_op(ls_reduce_op op);

// A copy of a tensor or of slices on each device, as a Mirrored.
ls_status ls_copy_to(ls_nest value, const ls_device_set *devices,
                     ls_nest *out_value);

// ---- Reduce ----------------------------------------------------------------
// A reduction of a strategy, leaf by leaf.
typedef struct ls_strategy_reduction {
  ls_strategy *strategy;
  ls_reduce_op op;
  const ls_reduce_options *options;
  ls_destinations where;
} ls_strategy_reduction;

bool ls_has_components(ls_nest leaf);
bool ls_has_axes(const ls_strategy_reduction *r);
bool ls_is_host_zero(ls_nest leaf);
// Returns true if a leaf is a value of each replica, not the same on all.
bool ls_is_of_replicas(ls_nest leaf);
// Unwraps a value on one device; takes `value` over.
ls_nest ls_without_wrapper(ls_nest value);
// Wraps a value as that of the only replica.
ls_status ls_wrap_one(const ls_strategy *strategy, ls_nest leaf,
                      ls_nest *out_value);

// Reduces a leaf to one value, the caller's: by the cross-device ops; of
// components, within them first, arrays to arrays; of a value that is the same
// on all replicas.
ls_status ls_reduce_by_ops(const ls_strategy_reduction *r, ls_reduce_op op,
                           ls_nest value, ls_nest *out_value);
ls_status ls_reduce_components(const ls_strategy_reduction *r, ls_nest leaf,
                               ls_nest *out_value);
ls_status ls_refuse_sum(const ls_strategy_reduction *r, ls_nest leaf);
ls_status ls_reduce_one_value(const ls_strategy_reduction *r, ls_nest leaf,
                              ls_nest *out_value);

// ---- Within ----------------------------------------------------------------
// The part of a reduction within each replica, before the sum over all, and
// with that sum afterwards: sums along axes, weights.
typedef struct ls_within {
  ls_nest value;   // A PerReplica, to be summed; none: nothing has weight.
  double total;    // What a mean divides the sum by: elements, or weights.
  ls_tensor late;  // More of it, of sizes not known while building; or failed.
  bool divides;    // By a division, else by the reciprocal.
  ls_dtype dtype;  // Of the components as they were.
  ls_tensor like;  // One of them.
} ls_within;

// Sums each component along the options' axes. The caller releases
// out_within->value.
//   LS_INVALID_ARGUMENT  an axis that there is not.
ls_status ls_sum_within(ls_nest leaf, const ls_reduce_options *options,
                        ls_within *out_within);
// Multiplies the components by their weights; those of weight 0 are absent.
//   LS_INVALID_ARGUMENT  another number of weights, a negative one.
ls_status ls_weigh(ls_nest leaf, const ls_reduce_options *options,
                   ls_within *out_within);
// Makes the result of the sum over all components, a tensor leaf, the caller's.
ls_status ls_finish_within(ls_reduce_op op, const ls_within *within,
                           ls_nest sum, ls_nest *out_value);

#endif  // LS_DISTRIBUTE_CROSS_DEVICE_CROSS_DEVICE_H_
