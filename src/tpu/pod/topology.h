// SPDX-License-Identifier: Apache-2.0
// Topologies and device assignments, inside.
#ifndef LS_TPU_POD_TOPOLOGY_H_
#define LS_TPU_POD_TOPOLOGY_H_

#include "base/memory/allocator.h"
#include "lockstep/object.h"
#include "lockstep/topology.h"
#include "tpu/pod/system_id.h"

enum { LS_MAX_MESH_CORES = 1 << 20 };

struct ls_topology {
  ls_object object;
  ls_allocator *allocator;
  int32_t mesh[LS_MESH_RANK];
  int32_t num_tasks, per_task;
  ls_coordinate *places;  // By task, then by device.
  int32_t *owners;        // By place, row by row: its device's number among all
                          // places; -1: missing.
  char *serialized, *hardware;
  size_t serialized_size, hardware_size;
  ls_system_id *system;  // Whose it is; NULL: not known. Set while it is made.
};

// Parts of a topology. Bytes are copied, places taken over, also after a
// failure.
typedef struct ls_topology_parts {
  int32_t mesh[LS_MESH_RANK];
  int32_t num_tasks, per_task;
  ls_coordinate *places;
  const void *serialized, *hardware;  // NULL: it is written; there is none.
  size_t serialized_size, hardware_size;
  ls_system_id *system;  // NULL: not known.
} ls_topology_parts;
ls_status ls_topology_make(ls_allocator *allocator,
                           const ls_topology_parts *parts,
                           ls_topology **out_topology);

static inline size_t ls_topology_num_places(const ls_topology *topology) {
  return (size_t)topology->num_tasks * (size_t)topology->per_task;
}
size_t ls_topology_num_missing(const ls_topology *topology);
// The number of a device among all; -1: missing.
//   LS_INVALID_ARGUMENT  outside the mesh.
LS_MUST_USE ls_status ls_topology_owner(const ls_topology *topology,
                                        ls_coordinate place,
                                        int32_t *out_owner);

// Reads [a, b, 4] integers, `shape` being "i32[2,3,4]" and the like; the caller
// gives the places back. An integer beyond 32 bits is the largest one there.
bool ls_coordinates_fit(const ls_array *coordinates);
ls_coordinate *ls_coordinates_read(ls_allocator *allocator,
                                   const ls_array *coordinates);

// "(0, 1, 0, 1)", for messages.
enum { LS_COORDINATE_TEXT = 64 };
const char *ls_coordinate_text(ls_coordinate place,
                               char text[LS_COORDINATE_TEXT]);
// "[2, 2, 1, 2]"; what does not fit is left out.
const char *ls_sizes_text(const int32_t *sizes, size_t count,
                          char text[LS_COORDINATE_TEXT]);

// ---- Device assignments ----------------------------------------------------
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

#endif  // LS_TPU_POD_TOPOLOGY_H_
