// SPDX-License-Identifier: Apache-2.0
//
// Where values are and where they go: components with their devices, sets of
// devices.
#ifndef LS_DISTRIBUTE_VALUES_DESTINATIONS_H_
#define LS_DISTRIBUTE_VALUES_DESTINATIONS_H_

#include "distribute/base/strategy.h"
#include "lockstep/cross_device.h"

// Canonical names, in an order.
typedef struct ls_device_set {
  ls_allocator *allocator;
  ls_device_name *names;
  size_t count;
} ls_device_set;

void ls_device_set_deinit(ls_device_set *set);
// Whether both have the same names, in whatever order.
bool ls_device_set_match(const ls_device_set *a, const ls_device_set *b);
// The place of a name, or the number of names.
size_t ls_device_set_find(const ls_device_set *set, const char *name);
bool ls_device_set_has_cpu(const ls_device_set *set);
// The names with commas between them, cut to `size`; returns `buffer`.
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

// Whether a destination says nothing.
bool ls_destinations_is_none(ls_destinations where);
// The devices of a destination. None given: those of `value`.
//   LS_INVALID_ARGUMENT  names `destinations`.
ls_status ls_destination_set(ls_destinations where, ls_nest value,
                             ls_device_set *out_set);

#endif  // LS_DISTRIBUTE_VALUES_DESTINATIONS_H_
