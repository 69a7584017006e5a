// SPDX-License-Identifier: Apache-2.0
//
// Hierarchical copy: two main devices, one for each half of the devices, which
// take turns from value to value.
#ifndef LS_DISTRIBUTE_CROSS_DEVICE_HIERARCHICAL_H_
#define LS_DISTRIBUTE_CROSS_DEVICE_HIERARCHICAL_H_

#include "distribute/values/destinations.h"

// One value of a batch, the `index`-th: the sum of `items`, one a device, on
// the first main device, copied to both, and from there to each device of the
// half; of an odd number of devices the second half has one more. The sum is
// one sum in the canonical order, whatever the halves.
void ls_hierarchical_copy(const ls_tensor *items, const ls_device_set *devices,
                          size_t index, ls_tensor *out_items);

#endif  // LS_DISTRIBUTE_CROSS_DEVICE_HIERARCHICAL_H_
