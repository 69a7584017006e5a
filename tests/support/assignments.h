// SPDX-License-Identifier: Apache-2.0
// Topologies of hosts in a row, and assignments on them.
#ifndef LS_TESTS_SUPPORT_ASSIGNMENTS_H_
#define LS_TESTS_SUPPORT_ASSIGNMENTS_H_

#include "lockstep/topology.h"

// Core k of host h is at [h, k, 0, 0]. The caller's.
ls_topology *make_topology(int hosts, int cores);
// Devices of a mesh in the order of their places, dealt to tasks. The caller's.
ls_topology *mesh_topology(const int32_t mesh[4], int32_t tasks,
                           int32_t per_task);
// `at` has host and core of each logical core of each replica. The caller's.
ls_device_assignment *make_assignment(ls_topology *topology, int replicas,
                                      int cores, const int (*at)[2]);

#endif  // LS_TESTS_SUPPORT_ASSIGNMENTS_H_
