// SPDX-License-Identifier: Apache-2.0
//
// Values of several replicas made one: the ops behind reduce, gather and
// broadcast.
#ifndef LS_DIST_CROSS_DEVICE_H_
#define LS_DIST_CROSS_DEVICE_H_

#include "dist/strategy.h"

// The sum or mean (or largest, smallest) of some tensors, along the canonical
// tree over their positions. A mean of integers is a float: f64 of 32 and 64
// bits, else f32.
//   LS_INVALID_ARGUMENT  shapes that differ.
ls_status ls_reduce_tensors(ls_reduce_op op, const ls_tensor *items,
                            size_t count, const ls_reduce_options *options,
                            ls_tensor *out_tensor);
// The tensors behind each other along an axis.
ls_status ls_gather_tensors(const ls_tensor *items, size_t count, int axis,
                            ls_tensor *out_tensor);
// The values of a leaf's components as tensors, in order: of a distributed
// value, of a distributed variable, of map outputs all their items. `*items` is
// released with the allocator.
ls_status ls_component_tensors(ls_nest leaf, ls_allocator *allocator,
                               ls_tensor **items, size_t *out_count);
// The status of a tensor that was just made: why it failed.
ls_status ls_made_status(ls_tensor tensor);
// OK for SUM and MEAN.
ls_status ls_check_reduce_op(ls_reduce_op op);
// A tensor on each of some devices: a tensor on one, else a Mirrored.
ls_status ls_copy_to(ls_strategy *strategy, ls_tensor tensor,
                     const ls_device_name *devices, size_t count,
                     ls_nest *out_value);
// The devices of a destination; all of the strategy's if none is given.
ls_status ls_destination_devices(ls_strategy *strategy, ls_destinations where,
                                 ls_device_name **out_devices,
                                 size_t *out_count);

#endif  // LS_DIST_CROSS_DEVICE_H_
