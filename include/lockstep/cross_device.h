// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Cross-device ops: how the values of several devices become one, or one
// becomes several. A strategy has a set of them, which can be replaced.
//
// The built-in sets differ in where they put their ops, what they copy and how
// they pack small values, never in a bit of the results: whatever the set, the
// values are added along the canonical binary tree on replica ids. Sparse
// slices are the exception: they are put behind each other in replica order,
// and duplicate rows are added where they are applied, in that order.
//
// What goes in: a distributed value or variable, one component per replica; or
// a tensor or leaf of slices, which counts as one of a single replica. A
// component that is none, or a map output without items, is absent: nothing is
// added in its place and it does not count. The items of a map output are added
// from left to right, and each counts.
//
// Counted, immutable.
//
// Threads: a set never changes, and is used by any number of threads at the
// same time.
#ifndef LOCKSTEP_CROSS_DEVICE_H_
#define LOCKSTEP_CROSS_DEVICE_H_

#include "lockstep/distributed.h"
#include "lockstep/ops.h"
#include "lockstep/slices.h"

#ifdef __cplusplus
extern "C" {
#endif

// Where a value goes: a device's name, several names, or a distributed value,
// variable or tensor that is there. Names are resolved against the current
// device scope. Nothing given, or an empty list: where the value to reduce is;
// on a strategy's broadcast all its devices.
typedef struct ls_destinations {
  const char *device;
  const char *const *devices;
  size_t num_devices;
  ls_nest value;  // Lent. None: not given.
} ls_destinations;

// ---- A table of functions --------------------------------------------------
// What a set does; static data. The arguments have been checked before: `op` is
// SUM or MEAN, values are as above, destinations have devices. Values are lent,
// results the caller's.
typedef struct ls_cross_device_table {
  const char *name;
  // One value to its destinations, a Mirrored also on one device.
  ls_status (*reduce)(void *self, ls_reduce_op op, ls_nest value,
                      ls_destinations where, ls_nest *out_value);
  // Several; results[i] of pair i.
  ls_status (*batch_reduce)(void *self, ls_reduce_op op, const ls_nest *values,
                            const ls_destinations *where, size_t count,
                            ls_nest *results);
  // A copy on each destination. NULL: plain copies.
  ls_status (*broadcast)(void *self, ls_nest value, ls_destinations where,
                         ls_nest *out_value);
  // The components behind each other along an axis, to the destinations.
  ls_status (*gather)(void *self, ls_nest value, int axis,
                      ls_destinations where, ls_nest *out_value);
  void (*release)(void *self);  // When the set goes. May be NULL.
} ls_cross_device_table;

typedef struct ls_cross_device ls_cross_device;
// A set of the caller's own. A strategy calls it for every reduction but
// ls_all_reduce in a compiled step, which is the engine's op; optimizers call
// batch_reduce there too. `self` is taken over on success.
LS_API LS_MUST_USE ls_status ls_cross_device_create(
    const ls_cross_device_table *table, void *self, ls_cross_device **out_ops);
LS_API ls_cross_device *ls_cross_device_retain(ls_cross_device *ops);
LS_API void ls_cross_device_release(ls_cross_device *ops);
// "reduce_to_one", "nccl", "hierarchical_copy", "collective" or its table's
// name. Lent.
LS_API const char *ls_cross_device_name(const ls_cross_device *ops);

// ---- Built-in sets ---------------------------------------------------------
// Adds some values up on the device that is current.
typedef ls_tensor (*ls_accumulate_function)(const ls_tensor *items,
                                            size_t count, void *user);
// Zero in a field means its default.
typedef struct ls_reduce_to_one_options {
  const char *device;  // Where to add. Default: the first destination.
  ls_accumulate_function accumulate;  // Default: ls_add_n.
  void *user;
} ls_reduce_to_one_options;
// Brings all components to one device, adds them there and copies the result to
// the destinations. A strategy's default.
LS_API LS_MUST_USE ls_status ls_reduce_to_one_create(
    const ls_reduce_to_one_options *options, ls_cross_device **out_ops);

// Zero in a field means its default.
typedef struct ls_all_reduce_options {
  const char *algorithm;  // "nccl", the default, or "hierarchical_copy".
  // Above 0: a batch is joined and cut into that many pieces. Default 1. (In
  // one piece where sizes are not known while building.)
  ls_opt num_packs;
  // Else, both above 0: runs of at least two f32 tensors of at most so many
  // bytes become one, up to so many each. Defaults 0 and 10.
  int64_t small_max_bytes;
  ls_opt small_max_group;
} ls_all_reduce_options;
// Gives each device its result where the values are: values whose destinations
// are where they are and that share their devices go together. i32 values,
// slices, map outputs and, one by one, values on CPUs are reduced to one
// device.
//   LS_INVALID_ARGUMENT  another algorithm; less than no packs.
LS_API LS_MUST_USE ls_status ls_all_reduce_ops_create(
    const ls_all_reduce_options *options, ls_cross_device **out_ops);
// The same by one algorithm, with so many packs (not given: 1).
LS_API LS_MUST_USE ls_status
ls_nccl_all_reduce_create(ls_opt num_packs, ls_cross_device **out_ops);
LS_API LS_MUST_USE ls_status
ls_hierarchical_copy_create(ls_opt num_packs, ls_cross_device **out_ops);

// ---- Choosing --------------------------------------------------------------
typedef struct ls_machine_device {
  const char *name;
  const int *links;  // Numbers of the devices it has a direct link to.
  size_t num_links;
} ls_machine_device;
// What there is to choose for. Zero in a field means its default.
typedef struct ls_machine {
  const ls_machine_device *devices;  // Those that are visible, in order.
  size_t num_devices;
  size_t num_physical_gpus;  // Default: as many as visible ones.
  bool has_nccl;
} ls_machine;
// By the devices' links: hierarchical copy on eight GPUs that form a cube mesh
// (as in a DGX-1), else nccl; reduce to one when a device is not visible or no
// GPU, with a warning. Devices that are visible and unused are logged.
LS_API LS_MUST_USE ls_status
ls_cross_device_by_links(const char *const *devices, size_t num_devices,
                         const ls_machine *machine, ls_cross_device **out_ops);
// By their kind: a collective all-reduce on GPUs with NCCL, on more GPUs than
// are physical and on CPUs (in a build graph: reduce to one); reduce to one on
// a mix.
LS_API LS_MUST_USE ls_status ls_cross_device_auto(const char *const *devices,
                                                  size_t num_devices,
                                                  const ls_machine *machine,
                                                  ls_cross_device **out_ops);

// ---- Using a set -----------------------------------------------------------
// Each result is a Mirrored over the destinations, also on one device.
//   LS_INVALID_ARGUMENT  neither SUM nor MEAN; a value or destination that is
//                        none; components of other shapes.
//   LS_UNIMPLEMENTED     the table has no such function.
LS_API LS_MUST_USE ls_status ls_cross_device_reduce(ls_cross_device *ops,
                                                    ls_reduce_op op,
                                                    ls_nest value,
                                                    ls_destinations where,
                                                    ls_nest *out_value);
// A list with one result a pair, in their order. All are checked before any op
// is made.
LS_API LS_MUST_USE ls_status ls_cross_device_batch_reduce(
    ls_cross_device *ops, ls_reduce_op op, const ls_nest *values,
    const ls_destinations *where, size_t count, ls_nest *out_list);
// `value`: a tensor or slices.
LS_API LS_MUST_USE ls_status ls_cross_device_broadcast(ls_cross_device *ops,
                                                       ls_nest value,
                                                       ls_destinations where,
                                                       ls_nest *out_value);
LS_API LS_MUST_USE ls_status ls_cross_device_gather(ls_cross_device *ops,
                                                    ls_nest value, int axis,
                                                    ls_destinations where,
                                                    ls_nest *out_value);

// The sum of one gradient over replicas, with `mean` times 1 / count.
// `*out_not_finite` (may be NULL) tells whether an element of any is infinite
// or no number, a bool scalar.
LS_API LS_MUST_USE ls_status ls_sum_gradient(const ls_tensor *items,
                                             size_t count, bool mean,
                                             ls_tensor *out_sum,
                                             ls_tensor *out_not_finite);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_CROSS_DEVICE_H_
