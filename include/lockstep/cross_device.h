// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Cross-device ops: how the values of several devices are reduced to one, or
// one is broadcast to several. A strategy has a set of them, which can be
// replaced.
//
// The built-in sets differ in where they place their ops, what they copy and
// how they pack small values, never in a bit of the results: in every set the
// values are added along the canonical binary tree on replica ids. Sparse
// slices are the exception: they are concatenated in replica order, and
// duplicate rows are added when they are applied, in that order.
//
// Inputs: a distributed value or variable, one component per replica; or a
// tensor or leaf of slices, which counts as that of a single replica. A
// component that is a none leaf, or a map output without items, is absent: it
// contributes nothing and is not counted. The items of a map output are added
// from left to right, and each is counted.
//
// Sets are reference-counted and immutable.
//
// Threads: a set never changes, and any number of threads may use it at the
// same time.
#ifndef LOCKSTEP_CROSS_DEVICE_H_
#define LOCKSTEP_CROSS_DEVICE_H_

#include "lockstep/distributed.h"
#include "lockstep/ops.h"
#include "lockstep/slices.h"

#ifdef __cplusplus
extern "C" {
#endif

// Destination of a value: a device's name, several names, or a distributed
// value, variable or tensor that is there already. Names are resolved against
// the current device scope. Zeroed, or an empty list: where the value to reduce
// is; for a strategy's broadcast all its devices.
typedef struct ls_destinations {
  const char *device;
  const char *const *devices;
  size_t num_devices;
  ls_nest value;  // Lent. None: not given.
} ls_destinations;

// ---- A table of functions --------------------------------------------------
// Functions of a set; static data. The caller has checked the arguments: `op`
// is SUM or MEAN, values are as above, destinations have devices. Values are
// lent; the caller owns the results.
typedef struct ls_cross_device_table {
  const char *name;
  // Reduces one value to its destinations; a Mirrored also on one device.
  ls_status (*reduce)(void *self, ls_reduce_op op, ls_nest value,
                      ls_destinations destinations, ls_nest *out_value);
  // Reduces several values; results[i] belongs to pair i.
  ls_status (*batch_reduce)(void *self, ls_reduce_op op, const ls_nest *values,
                            const ls_destinations *destinations, size_t count,
                            ls_nest *results);
  // Copies a value to each destination. NULL: plain copies.
  ls_status (*broadcast)(void *self, ls_nest value,
                         ls_destinations destinations, ls_nest *out_value);
  // Concatenates the components along an axis, at the destinations.
  ls_status (*gather)(void *self, ls_nest value, int axis,
                      ls_destinations destinations, ls_nest *out_value);
  // Called when the set is destroyed. May be NULL.
  void (*release)(void *self);
} ls_cross_device_table;

typedef struct ls_cross_device ls_cross_device;
// Creates a set from the caller's functions. A strategy calls it for every
// reduction except ls_all_reduce in a compiled step, which is the engine's op;
// optimizers call batch_reduce there too. `self` is taken over on success.
LS_API LS_MUST_USE ls_status ls_cross_device_create(
    const ls_cross_device_table *table, void *self, ls_cross_device **out_ops);
LS_API ls_cross_device *ls_cross_device_retain(ls_cross_device *ops);
LS_API void ls_cross_device_release(ls_cross_device *ops);
// Returns "reduce_to_one", "nccl", "hierarchical_copy", "collective" or its
// table's name. Lent.
LS_API const char *ls_cross_device_name(const ls_cross_device *ops);

// ---- Built-in sets ---------------------------------------------------------
// Adds several values on the current device.
typedef ls_tensor (*ls_accumulate_function)(const ls_tensor *items,
                                            size_t count, void *user);
// Zero in a field means its default.
typedef struct ls_reduce_to_one_options {
  const char *device;  // Device to add on. Default: the first destination.
  ls_accumulate_function accumulate;  // Default: ls_add_n.
  void *user;
} ls_reduce_to_one_options;
// Creates a set that copies all components to one device, adds them there and
// copies the result to the destinations. A strategy's default.
LS_API LS_MUST_USE ls_status ls_reduce_to_one_create(
    const ls_reduce_to_one_options *options, ls_cross_device **out_ops);

// Zero in a field means its default.
typedef struct ls_all_reduce_options {
  const char *algorithm;  // "nccl", the default, or "hierarchical_copy".
  // Above 0: a batch is concatenated and cut into this many packs. Default 1.
  // (One pack where sizes are not known while building.)
  ls_opt num_packs;
  // Otherwise, if both are above 0: sequences of at least two f32 tensors of at
  // most small_max_bytes bytes are joined, up to small_max_group tensors each.
  // Defaults 0 and 10.
  int64_t small_max_bytes;
  ls_opt small_max_group;
} ls_all_reduce_options;
// Creates a set that leaves each device's result where the values are: values
// that are to stay on their own devices, and share these, are reduced together.
// i32 values, slices, map outputs and, one by one, values on CPUs are reduced
// to one device.
//   LS_INVALID_ARGUMENT  an unknown algorithm; num_packs below 0.
LS_API LS_MUST_USE ls_status ls_all_reduce_ops_create(
    const ls_all_reduce_options *options, ls_cross_device **out_ops);
// Create such a set for one algorithm, with `num_packs` packs (not given: 1).
LS_API LS_MUST_USE ls_status
ls_nccl_all_reduce_create(ls_opt num_packs, ls_cross_device **out_ops);
LS_API LS_MUST_USE ls_status
ls_hierarchical_copy_create(ls_opt num_packs, ls_cross_device **out_ops);

// ---- Choosing --------------------------------------------------------------
typedef struct ls_machine_device {
  const char *name;
  const int *links;  // Indices of the devices it has a direct link to.
  size_t num_links;
} ls_machine_device;
// Description of the machine to choose for. Zero in a field means its default.
typedef struct ls_machine {
  const ls_machine_device *devices;  // Visible devices, in order.
  size_t num_devices;
  size_t num_physical_gpus;  // Default: as many as visible ones.
  bool has_nccl;
} ls_machine;
// Chooses by the devices' links: hierarchical copy on eight GPUs that form a
// cube mesh (as in a DGX-1), otherwise nccl; reduce to one, with a warning,
// when a device is not visible or is not a GPU. Logs devices that are visible
// and unused. The caller owns the set.
LS_API LS_MUST_USE ls_status
ls_cross_device_by_links(const char *const *devices, size_t num_devices,
                         const ls_machine *machine, ls_cross_device **out_ops);
// Chooses by the devices' kinds: a collective all-reduce on GPUs with NCCL, on
// more GPUs than are physical and on CPUs (in a build graph: reduce to one);
// reduce to one on a mix. The caller owns the set.
LS_API LS_MUST_USE ls_status ls_cross_device_auto(const char *const *devices,
                                                  size_t num_devices,
                                                  const ls_machine *machine,
                                                  ls_cross_device **out_ops);

// ---- Calls of a set --------------------------------------------------------
// Reduces a value; the result is a Mirrored over the destinations, also on one
// device.
//   LS_INVALID_ARGUMENT  the op is neither SUM nor MEAN; a value or destination
//                        is none; components differ in shape.
//   LS_UNIMPLEMENTED     the table has no such function.
LS_API LS_MUST_USE ls_status
ls_cross_device_reduce(ls_cross_device *ops, ls_reduce_op op, ls_nest value,
                       ls_destinations destinations, ls_nest *out_value);
// Reduces several values into a list with one result per pair, in order. All
// are checked before any op is made.
LS_API LS_MUST_USE ls_status ls_cross_device_batch_reduce(
    ls_cross_device *ops, ls_reduce_op op, const ls_nest *values,
    const ls_destinations *destinations, size_t count, ls_nest *out_list);
// Broadcasts `value`, a tensor or slices.
LS_API LS_MUST_USE ls_status
ls_cross_device_broadcast(ls_cross_device *ops, ls_nest value,
                          ls_destinations destinations, ls_nest *out_value);
LS_API LS_MUST_USE ls_status
ls_cross_device_gather(ls_cross_device *ops, ls_nest value, int axis,
                       ls_destinations destinations, ls_nest *out_value);

// Sums one gradient over replicas and, with `mean`, multiplies it by 1 / count.
// `*out_not_finite` (may be NULL), a bool scalar, is true if any element is
// infinite or NaN.
LS_API LS_MUST_USE ls_status ls_sum_gradient(const ls_tensor *items,
                                             size_t count, bool mean,
                                             ls_tensor *out_sum,
                                             ls_tensor *out_not_finite);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_CROSS_DEVICE_H_
