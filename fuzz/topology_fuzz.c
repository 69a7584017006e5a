// SPDX-License-Identifier: Apache-2.0
// Any bytes give a topology or a status; a topology gives the bytes back, and
// its places are those of its devices.
#include <stdlib.h>
#include <string.h>

#include "lockstep/topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const ls_topology *topology) {
  const int32_t tasks = ls_topology_num_tasks(topology);
  const int32_t devices = ls_topology_num_devices_per_task(topology);
  for (int32_t t = 0; devices > 0 && t < tasks; ++t)
    for (int32_t d = 0; d < devices; ++d) {
      ls_coordinate place;
      int32_t task = -1, ordinal = -1;
      ls_status status = ls_topology_place_of(topology, t, d, &place);
      if (ls_status_is_ok(status))
        status = ls_topology_task_at(topology, place, &task);
      if (ls_status_is_ok(status))
        status = ls_topology_ordinal_at(topology, place, &ordinal);
      if (!ls_status_is_ok(status) || task != t || ordinal != d) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ls_topology *topology = NULL;
  ls_status status = ls_topology_parse(data, size, &topology);
  if (ls_status_is_ok(status) != (topology != NULL)) abort();
  if (topology != NULL) {
    size_t length = 0;
    const char *bytes = ls_topology_serialized(topology, &length);
    if (length != size || (size > 0 && memcmp(bytes, data, size) != 0)) abort();
    check(topology);
  }
  ls_status_free(status);
  ls_topology_release(topology);
  return 0;
}
