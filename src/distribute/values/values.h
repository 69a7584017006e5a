// SPDX-License-Identifier: Apache-2.0
//
// Distributed values: where their parts are, and which is a replica's.
#ifndef LS_DISTRIBUTE_VALUES_VALUES_H_
#define LS_DISTRIBUTE_VALUES_VALUES_H_

#include "distribute/base/strategy.h"

// The device where a leaf is said to be, "" when nowhere.
const char *ls_leaf_device(ls_nest leaf);
// The same of a component of a distributed value; canonical.
ls_status ls_component_device(ls_nest value, size_t index,
                              ls_device_name *out_name);
// Returns true if a replica's value may lie on `name`: it is the replica's
// device, or the CPU of its host. Both are canonical.
bool ls_device_serves(const char *name, const char *device);

// Replica `id`'s part of arguments: component `id`, or the one that is said to
// be on its device.
//   LS_INVALID_ARGUMENT  there is none; names the device.
ls_status ls_select_for(const ls_strategy *strategy, int32_t id, ls_nest args,
                        ls_nest *out_args);

// Returns true if the thread is in a replicated computation, in which the
// variable is the replica's own.
bool ls_variable_is_replicated(const ls_variable *variable);

// One op after all of these: a no-op for each of their devices, in sorted
// order, and one over those; with one device that alone. Default name
// "group_deps".
ls_op ls_group_by_device(const ls_op *ops, size_t count, const char *name);

#endif  // LS_DISTRIBUTE_VALUES_VALUES_H_
