// SPDX-License-Identifier: Apache-2.0
// Cross-device ops, private part: functions of which tables are made.
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

// Makes cross-device ops from a table. A built-in table adds in canonical order
// and may be lowered to the engine's all_reduce.
ls_status ls_cross_device_make(const ls_cross_device_table *table, void *self,
                               bool built_in, ls_cross_device **out_ops);
// Makes collective ops for the devices of one process, for
// ls_cross_device_auto.
ls_status ls_collective_create(const char *implementation,
                               ls_cross_device **out_ops);
// Returns the time limit of collective ops, in nanoseconds; 0 for others and
// for NULL.
int64_t ls_cross_device_limit(const ls_cross_device *ops);
// Reduces on one device as reduce_to_one does by default, and gathers there:
// used by other tables where they have no own way.
ls_status ls_reduce_to_one(ls_reduce_op op, ls_nest value,
                           ls_destinations where, ls_nest *out_value);
ls_status ls_gather_to_one(ls_nest value, int axis, ls_destinations where,
                           ls_nest *out_value);

// How a table of all-reduces works.
typedef struct ls_reduce_plan {
  ls_allocator *allocator;
  const char *algorithm;  // Static text.
  bool hierarchical;
  int64_t num_packs, small_max_bytes, small_max_group;
  bool by_size;  // Packs of more than bytes_per_pack bytes, from the end.
  int64_t bytes_per_pack;
  bool needs_shapes;            // Shapes of batches must be known.
  struct ls_collective *group;  // Members in other processes; NULL: none.
} ls_reduce_plan;
// Makes ops from a table whose functions begin with those below.
ls_status ls_all_reduce_make(const ls_cross_device_table *table,
                             ls_reduce_plan how, ls_cross_device **out_ops);
ls_status ls_all_reduce_one(void *self, ls_reduce_op op, ls_nest value,
                            ls_destinations where, ls_nest *out_value);
ls_status ls_all_reduce_batch(void *self, ls_reduce_op op,
                              const ls_nest *values,
                              const ls_destinations *where, size_t count,
                              ls_nest *results);
ls_status ls_all_reduce_gather(void *self, ls_nest value, int axis,
                               ls_destinations where, ls_nest *out_value);
void ls_all_reduce_release(void *self);
// Reduces in a build graph, on every device of the value, and copies from
// there: to a destination among these from its own result, to another from the
// first.
ls_status ls_all_reduce_spread(void *self, ls_reduce_op op, ls_nest value,
                               ls_destinations where, ls_nest *out_value);
// Returns true in a build graph, where ops and their devices are visible.
bool ls_in_build_graph(void);

// Makes a list of a call's results, which are taken over, if `status` is OK.
ls_status ls_list_results(ls_status status, const ls_nest *results,
                          size_t count, ls_nest *out_list);

// ---- One value from several ------------------------------------------------
// Computes the sum, mean, maximum or minimum of tensors along the canonical
// tree over their positions. A mean of integers is a float: f64 for 32 and 64
// bits, else f32.
//   LS_INVALID_ARGUMENT  shapes differ
ls_status ls_reduce_tensors(ls_reduce_op op, const ls_tensor *items,
                            size_t count, ls_tensor *out_tensor);
// Computes the SUM or MEAN of one value per replica of a strategy, with the
// user's cross-device table if there is one.
ls_status ls_strategy_combine(ls_strategy *strategy, ls_reduce_op op,
                              const ls_tensor *items, size_t count,
                              ls_tensor *out_tensor);
// Reduces components in order of replica ids to a tensor, or to slices if all
// are slices. `accumulate` adds the components (NULL: adds along the canonical
// tree). The caller owns the result.
ls_status ls_reduce_parts(ls_reduce_op op, const ls_components *parts,
                          ls_accumulate_function accumulate, void *user,
                          ls_nest *out_value);
// Returns true if a component, or an item of a map output, is slices.
bool ls_has_sparse_parts(const ls_components *parts);
// Returns sum times 1 / total. Reciprocal and product are in f64 for f64, else
// in f32. With `divide`, and for integers, divides the sum by the total.
ls_tensor ls_mean_of_sum(ls_tensor sum, double total, bool divide);

// Concatenates tensors along an axis.
ls_status ls_gather_tensors(const ls_tensor *items, size_t count, int axis,
                            ls_tensor *out_tensor);
// Concatenates the components, each a tensor, along an axis.
ls_status ls_gather_parts(const ls_components *parts, int axis,
                          ls_nest *out_value);
// Lists the components of a distributed value or variable as tensors, in order;
// map outputs contribute all items. The caller frees `*items`.
ls_status ls_component_tensors(ls_nest leaf, ls_allocator *allocator,
                               ls_tensor **items, size_t *out_count);
// Checks that tensors have one type and compatible shapes; failed tensors are
// left out.
ls_status ls_check_same_shapes(const ls_tensor *items, size_t count);
// Checks that `op` is SUM or MEAN.
ls_status ls_check_reduce_op(ls_reduce_op op);

// Copies a tensor or slices to each device; the result is a Mirrored.
ls_status ls_copy_to(ls_nest value, const ls_device_set *devices,
                     ls_nest *out_value);

// ---- Reduce ----------------------------------------------------------------
// A reduction by a strategy, leaf by leaf.
typedef struct ls_strategy_reduction {
  ls_strategy *strategy;
  ls_reduce_op op;
  const ls_reduce_options *options;
  ls_destinations where;
} ls_strategy_reduction;

bool ls_has_components(ls_nest leaf);
bool ls_has_axes(const ls_strategy_reduction *r);
bool ls_is_host_zero(ls_nest leaf);
// Returns true if a leaf has one value for each replica, and these may differ.
bool ls_is_of_replicas(ls_nest leaf);
// Returns the only component of a value on one device; takes `value` over.
ls_nest ls_without_wrapper(ls_nest value);
// Returns true for an integer value of the only replica: its mean is a float.
bool ls_mean_divides(const ls_strategy_reduction *r, ls_nest leaf);
// Wraps a value as the value of the only replica.
ls_status ls_wrap_one(const ls_strategy *strategy, ls_nest leaf,
                      ls_nest *out_value);

// Reduces a leaf with the cross-device ops to one value, which the caller owns.
// ls_reduce_components first reduces within each component, and makes an array
// from arrays. ls_reduce_one_value takes a value that is the same on all
// replicas.
ls_status ls_reduce_by_ops(const ls_strategy_reduction *r, ls_reduce_op op,
                           ls_nest value, ls_nest *out_value);
ls_status ls_reduce_components(const ls_strategy_reduction *r, ls_nest leaf,
                               ls_nest *out_value);
ls_status ls_refuse_sum(const ls_strategy_reduction *r, ls_nest leaf);
ls_status ls_reduce_one_value(const ls_strategy_reduction *r, ls_nest leaf,
                              ls_nest *out_value);
// Copies a value that is the same on all replicas to its destinations.
ls_status ls_copy_one_value(const ls_strategy_reduction *r, ls_nest value,
                            ls_nest *out_value);

// ---- Within ----------------------------------------------------------------
// The part of a reduction within each replica, before the sum over replicas,
// and the correction after the sum: for sums along axes, and for weights.
typedef struct ls_within {
  ls_nest value;   // A PerReplica to be summed; none: all weights are 0.
  double total;    // Divisor of a mean: number of elements, or sum of weights.
  ls_tensor late;  // Factor of the divisor known only at run time, or failed.
  bool divides;    // True to divide, false to multiply by the reciprocal.
  ls_dtype dtype;  // Original type of the components.
  ls_tensor like;  // One of the components.
} ls_within;

// Sums each component along the options' axes, for a SUM or a MEAN. The caller
// releases out_within->value.
//   LS_INVALID_ARGUMENT  no such axis
ls_status ls_sum_within(ls_reduce_op op, ls_nest leaf,
                        const ls_reduce_options *options,
                        ls_within *out_within);
// Multiplies the components by their weights; components with weight 0 are left
// out.
//   LS_INVALID_ARGUMENT  wrong number of weights, or a negative one
ls_status ls_weigh(ls_nest leaf, const ls_reduce_options *options,
                   ls_within *out_within);
// Makes the weighted mean of a value that is the same on all replicas: the
// value itself, or NaN if all weights are 0.
//   LS_INVALID_ARGUMENT  wrong number of weights, or a negative one
ls_status ls_weigh_one(ls_nest leaf, const ls_reduce_options *options,
                       int32_t num_replicas, ls_nest *out_value);
// Makes the result from the sum over all components. It is a tensor, and the
// caller owns it.
ls_status ls_finish_within(ls_reduce_op op, const ls_within *within,
                           ls_nest sum, ls_nest *out_value);

// ---- Packing ---------------------------------------------------------------
// Packing: moves several tensors of a batch over the devices as one. Each
// device has a row of tensors, and tensors of one value are in one column.
// Groups of columns are flattened, joined, possibly cut into pieces, and
// unpacked afterwards.

// The tensors of one device.
typedef struct ls_tensor_row {
  ls_tensor *items;
  size_t count;
} ls_tensor_row;

// Allocates rows of `count` tensors each in one block, released with
// rows[0].items and rows. NULL without memory.
ls_tensor_row *ls_tensor_rows(ls_allocator *allocator, size_t num_rows,
                              size_t count);
void ls_tensor_rows_release(ls_allocator *allocator, ls_tensor_row *rows);

// Columns that are packed together.
typedef struct ls_pack_group {
  size_t *columns;
  size_t count;
  size_t pieces;  // 0: a single column that is not packed.
} ls_pack_group;

// Packed tensors, and how they are packed.
typedef struct ls_packed {
  ls_allocator *allocator;
  const ls_tensor_row *rows;  // The unpacked rows, borrowed.
  size_t num_rows;
  const ls_device_set *devices;  // Devices of the rows, borrowed.
  const char *scope;  // Name scope of packing and unpacking ops, or NULL.
  const char *unpack_scope;
  ls_pack_group *groups;
  size_t num_groups;
  size_t *columns;        // Columns of all groups.
  ls_tensor_row *flat;    // Flattened tensors of groups with pieces.
  ls_tensor_row *pieces;  // The tensors to reduce.
} ls_packed;

// Joins all columns of a dtype, with dtypes in order of appearance, and cuts
// each joined tensor into `num_packs` pieces; the last piece takes the
// remainder. Makes one piece if sizes are not known while building.
//   LS_INVALID_ARGUMENT  no packs; rows of different lengths
ls_status ls_pack_joined(const ls_tensor_row *rows, size_t num_rows,
                         const ls_device_set *devices, int64_t num_packs,
                         ls_packed *out_packed);
// Joins runs of two to `max_group` (default 16) consecutive f32 columns of at
// most `max_bytes` (default 1 MiB) each; the other columns follow unpacked.
//   LS_INVALID_ARGUMENT  a limit below 1; rows of different lengths
ls_status ls_pack_small(const ls_tensor_row *rows, size_t num_rows,
                        const ls_device_set *devices, ls_opt max_bytes,
                        ls_opt max_group, ls_packed *out_packed);
// Joins columns from the last to the first into packs by size: the next pack
// begins when one has more than `most` bytes. 0, or sizes that are not known: a
// single pack. Each type of a pack is joined for itself.
ls_status ls_pack_by_size(const ls_tensor_row *rows, size_t num_rows,
                          const ls_device_set *devices, int64_t most,
                          ls_packed *out_packed);
// Unpacks reduced pieces into `rows`, with the original shapes.
ls_status ls_unpack(const ls_packed *packed, const ls_tensor_row *reduced,
                    ls_tensor_row *rows);
void ls_packed_deinit(ls_packed *packed);
LS_OWNED_STRUCT(ls_packed, ls_packed_deinit)

// Splits ascending indices into runs of two to `limit` (0: 32) consecutive
// ones, written as first and last index, and single indices. Both outputs have
// room for `count` items.
typedef struct ls_index_range {
  size_t first, last;
} ls_index_range;
void ls_index_ranges(const size_t *indices, size_t count, size_t limit,
                     ls_index_range *ranges, size_t *out_num_ranges,
                     size_t *singles, size_t *out_num_singles);

// ---- Hierarchical ----------------------------------------------------------
// Hierarchical copies. Each half of the devices has a main device; the two main
// devices alternate from value to value.
//
// Reduces the `index`-th value of a batch: sums `items`, one per device, on the
// first main device, copies the sum to the other, and from each to the devices
// of its half; with an odd number of devices the second half has one more. The
// sum is in canonical order, regardless of the halves.
void ls_hierarchical_copy(const ls_tensor *items, const ls_device_set *devices,
                          size_t index, ls_tensor *out_items);

#endif  // LS_DISTRIBUTE_CROSS_DEVICE_CROSS_DEVICE_H_
