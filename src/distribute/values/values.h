// SPDX-License-Identifier: Apache-2.0
//
// Distributed values: where their components are, and which is a replica's.
#ifndef LS_DISTRIBUTE_VALUES_VALUES_H_
#define LS_DISTRIBUTE_VALUES_VALUES_H_

#include "distribute/base/strategy.h"
#include "lockstep/cross_device.h"

// Returns the device that a leaf names, "" if none.
const char *ls_leaf_device(ls_nest leaf);
// Finds the canonical device of a component of a distributed value.
ls_status ls_component_device(ls_nest value, size_t index,
                              ls_device_name *out_name);
// Returns true if a replica's value may be on `name`: the replica's device, or
// its host's CPU. The names are canonical.
bool ls_device_serves(const char *name, const char *device);

// Selects replica `id`'s part of arguments: component `id`, or the one that
// names its device.
//   LS_INVALID_ARGUMENT  there is none: names the device
ls_status ls_select_for(const ls_strategy *strategy, int32_t id, ls_nest args,
                        ls_nest *out_args);

// Returns true if the thread is in a replicated computation, where the variable
// means the replica's own.
bool ls_variable_is_replicated(const ls_variable *variable);

// Makes one op that runs after all of these: a no-op for each of their devices,
// in sorted order, and one after those; with one device only that. Default name
// "group_deps".
ls_op ls_group_by_device(const ls_op *ops, size_t count, const char *name);

// ---- Devices of values and destinations (destinations.c) -------------------
// An ordered set of canonical device names.
typedef struct ls_device_set {
  ls_allocator *allocator;
  ls_device_name *names;
  size_t count;
} ls_device_set;

void ls_device_set_deinit(ls_device_set *set);
LS_OWNED_STRUCT(ls_device_set, ls_device_set_deinit)
// Returns true if two sets have the same names, in any order.
bool ls_device_set_match(const ls_device_set *a, const ls_device_set *b);
// Returns the position of a name, or the number of names.
size_t ls_device_set_find(const ls_device_set *set, const char *name);
bool ls_device_set_has_cpu(const ls_device_set *set);
// Writes the names separated by commas, cut to `size`; returns `buffer`.
const char *ls_device_set_print(const ls_device_set *set, char *buffer,
                                size_t size);

// The components of a value, borrowed: in order of replica ids if the current
// strategy knows their devices, else as stored. A tensor, or anything else
// without components, counts as one.
typedef struct ls_components {
  ls_nest *items;
  ls_device_set devices;  // Empty names: not known.
} ls_components;

ls_status ls_components_init(ls_components *parts, ls_nest value);
void ls_components_deinit(ls_components *parts);
LS_OWNED_STRUCT(ls_components, ls_components_deinit)

// Returns true if a destination is empty.
bool ls_destinations_is_none(ls_destinations where);
// Finds the devices of a destination; of an empty one those of `value`.
//   LS_INVALID_ARGUMENT  names `destinations`
ls_status ls_destination_set(ls_destinations where, ls_nest value,
                             ls_device_set *out_set);

#endif  // LS_DISTRIBUTE_VALUES_VALUES_H_
