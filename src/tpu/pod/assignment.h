// SPDX-License-Identifier: Apache-2.0
// Device assignments, as this layer sees them.
#ifndef LS_TPU_POD_ASSIGNMENT_H_
#define LS_TPU_POD_ASSIGNMENT_H_

#include "tpu/pod/topology.h"

struct ls_device_assignment {
  ls_object object;
  ls_allocator *allocator;
  ls_topology *topology;
  int32_t num_replicas, cores_per_replica;
  ls_coordinate *places;  // By replica, then by logical core.
};

// Takes over the places, whatever happens, and checks them.
LS_MUST_USE ls_status ls_device_assignment_make(
    ls_topology *topology, int32_t num_replicas, int32_t cores_per_replica,
    ls_coordinate *places, ls_device_assignment **out_assignment);

#endif  // LS_TPU_POD_ASSIGNMENT_H_
