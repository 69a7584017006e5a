// SPDX-License-Identifier: Apache-2.0
//
// Distributed values: where their parts are, and which is a replica's.
#ifndef LS_DISTRIBUTE_VALUES_VALUES_H_
#define LS_DISTRIBUTE_VALUES_VALUES_H_

#include "distribute/base/strategy.h"
#include "lockstep/cross_device.h"

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

// ---- Devices of values and destinations (destinations.c) -------------------
// Canonical names, in an order.
typedef struct ls_device_set {
  ls_allocator *allocator;
  ls_device_name *names;
  size_t count;
} ls_device_set;

void ls_device_set_deinit(ls_device_set *set);
LS_OWNED_STRUCT(ls_device_set, ls_device_set_deinit)
// Returns true if both have the same names, in any order.
bool ls_device_set_match(const ls_device_set *a, const ls_device_set *b);
// Returns the position of a name, or the number of names.
size_t ls_device_set_find(const ls_device_set *set, const char *name);
bool ls_device_set_has_cpu(const ls_device_set *set);
// Writes the names with commas between them, cut to `size`; returns `buffer`.
const char *ls_device_set_print(const ls_device_set *set, char *buffer,
                                size_t size);

// The components of a value: items lent, in the order of replica ids where the
// strategy in force knows their devices, else as they are stored. A tensor, or
// anything else that has no components, is one.
typedef struct ls_components {
  ls_nest *items;
  ls_device_set devices;  // Empty names: not known.
} ls_components;

ls_status ls_components_init(ls_components *parts, ls_nest value);
void ls_components_deinit(ls_components *parts);
LS_OWNED_STRUCT(ls_components, ls_components_deinit)

// Returns true if a destination is empty.
bool ls_destinations_is_none(ls_destinations where);
// Finds the devices of a destination, of an empty one those of `value`.
//   LS_INVALID_ARGUMENT  names `destinations`.
ls_status ls_destination_set(ls_destinations where, ls_nest value,
                             ls_device_set *out_set);

#endif  // LS_DISTRIBUTE_VALUES_VALUES_H_
