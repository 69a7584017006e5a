// SPDX-License-Identifier: Apache-2.0
#include "distribute/cross_device/hierarchical.h"

static ls_tensor copy_on(const char *device, ls_tensor x) {
  ls_tensor made = ls_failed_tensor();
  {
    LS_DEVICE_SCOPE(device);
    made = ls_identity(x);
  }
  return made;
}

void ls_hierarchical_copy(const ls_tensor *items, const ls_device_set *devices,
                          size_t index, ls_tensor *out_items) {
  const size_t count = devices->count, half = count / 2;
  if (count == 1) {
    out_items[0] = copy_on(devices->names[0].text, items[0]);
    return;
  }
  const size_t mains[2] = {index % count, (index % count + half) % count};
  ls_tensor total = ls_failed_tensor(), copies[2];
  {
    LS_DEVICE_SCOPE(devices->names[mains[0]].text);
    total = ls_add_n(items, count);
  }
  for (size_t i = 0; i < 2; ++i)
    copies[i] = copy_on(devices->names[mains[i]].text, total);
  // The first main device serves its own half, the second the other.
  const bool first_half = mains[0] < half;
  for (size_t d = 0; d < count; ++d)
    out_items[d] = copy_on(devices->names[d].text,
                           copies[(d < half) == first_half ? 0 : 1]);
}
