// SPDX-License-Identifier: Apache-2.0
//
// What reductions of a strategy have in common, leaf by leaf.
#ifndef LS_DISTRIBUTE_CROSS_DEVICE_REDUCE_H_
#define LS_DISTRIBUTE_CROSS_DEVICE_REDUCE_H_

#include "distribute/cross_device/cross_device.h"

typedef struct ls_reduction {
  ls_strategy *strategy;
  ls_reduce_op op;
  const ls_reduce_options *options;
  ls_destinations where;
} ls_reduction;

bool ls_has_components(ls_nest leaf);
bool ls_has_axes(const ls_reduction *r);
bool ls_is_host_zero(ls_nest leaf);
// Whether a leaf is a value of each replica, not one that is the same on all.
bool ls_is_of_replicas(ls_nest leaf);
// What is on one device is that device's value; takes `value` over.
ls_nest ls_without_wrapper(ls_nest value);
// A value as that of the only replica.
ls_status ls_wrap_one(const ls_strategy *strategy, ls_nest leaf,
                      ls_nest *out_value);

// Each of these makes one value of a leaf, the caller's: by the cross-device
// ops as it is; of components, within them first, arrays of arrays; of what is
// the same on all replicas.
ls_status ls_reduce_by_ops(const ls_reduction *r, ls_reduce_op op,
                           ls_nest value, ls_nest *out_value);
ls_status ls_reduce_components(const ls_reduction *r, ls_nest leaf,
                               ls_nest *out_value);
ls_status ls_refuse_sum(const ls_reduction *r, ls_nest leaf);
ls_status ls_reduce_one_value(const ls_reduction *r, ls_nest leaf,
                              ls_nest *out_value);

#endif  // LS_DISTRIBUTE_CROSS_DEVICE_REDUCE_H_
