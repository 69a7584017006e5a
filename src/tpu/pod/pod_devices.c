// SPDX-License-Identifier: Apache-2.0
// The shape of a pod whose cores are the devices of the runtime's back end.
#include "base/require.h"
#include "tpu/pod/pod.h"

// Numbers the hosts from 0 and counts them; checks that all have as many
// devices.
static ls_status number_hosts(ls_device_location *devices, int32_t count,
                              int32_t *out_hosts) {
  int32_t hosts = 0, per_host = 0;
  for (int32_t numbered = 0; numbered < count; ++hosts) {
    int32_t least = INT32_MAX, found = 0;
    for (int32_t i = 0; i < count; ++i)
      if (devices[i].host >= hosts && devices[i].host < least)
        least = devices[i].host;
    for (int32_t i = 0; i < count; ++i) {
      if (devices[i].host != least) continue;
      devices[i].host = hosts;
      ++found;
    }
    if (hosts == 0) per_host = found;
    if (found != per_host)
      return ls_failed_precondition(
          "a TPU system of the runtime's %d devices: host 0 has %d of them, "
          "host %d has %d (num_devices)",
          count, per_host, hosts, found);
    numbered += found;
  }
  *out_hosts = hosts;
  return ls_ok();
}

// Moves the coordinates to the origin, and measures the mesh.
static void measure_mesh(ls_device_location *devices, int32_t count,
                         int32_t mesh[LS_MESH_RANK]) {
  for (int k = 0; k < LS_MESH_RANK; ++k) {
    int32_t least = devices[0].at[k], most = least;
    for (int32_t i = 1; i < count; ++i) {
      if (devices[i].at[k] < least) least = devices[i].at[k];
      if (devices[i].at[k] > most) most = devices[i].at[k];
    }
    for (int32_t i = 0; i < count; ++i)
      devices[i].at[k] -= least;
    mesh[k] = most - least + 1;
  }
}

ls_status ls_pod_shape_of_devices(ls_runtime *runtime, ls_pod_shape *out_shape,
                                  ls_device_location **out_devices) {
  ls_backend *backend = NULL;
  ls_device_facts facts;
  LS_RETURN_IF_ERROR(ls_runtime_backend(runtime, &backend));
  LS_RETURN_IF_ERROR(ls_device_describe(runtime, &facts));
  LS_NEW_ARRAY_OR_RETURN(ls_runtime_allocator(runtime), ls_device_location,
                         devices, (size_t)facts.count);
  out_shape->devices = *out_devices = devices;
  out_shape->num_devices = facts.count;
  for (int32_t i = 0; i < facts.count; ++i)
    LS_RETURN_IF_ERROR(backend->vtable->locate(backend, i, &devices[i]));
  measure_mesh(devices, facts.count, out_shape->mesh);
  return number_hosts(devices, facts.count, &out_shape->hosts);
}
