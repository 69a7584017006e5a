// SPDX-License-Identifier: Apache-2.0
// Topologies and device assignments, private part.
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
  ls_coordinate *places;  // Ordered by task, then by device.
  // For each coordinate, row by row: the number of its device, or -1.
  int32_t *owners;
  char *serialized, *hardware;
  size_t serialized_size, hardware_size;
  // The system of the topology; NULL: not known. Does not change.
  ls_system_id *system;
};

// The parts of a new topology. The topology copies the bytes; its maker takes
// over the coordinates even on failure.
typedef struct ls_topology_parts {
  int32_t mesh[LS_MESH_RANK];
  int32_t num_tasks, per_task;
  ls_coordinate *places;
  // NULL: serialized is written, hardware is empty.
  const void *serialized, *hardware;
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
// Returns the number of the device at a coordinate, -1 if there is none.
//   LS_INVALID_ARGUMENT  outside the mesh
LS_MUST_USE ls_status ls_topology_owner(const ls_topology *topology,
                                        ls_coordinate place,
                                        int32_t *out_owner);

// Returns true if the array has integers and the shape [a, b, 4].
// ls_coordinates_read reads such an array; the caller frees the coordinates. An
// integer beyond 32 bits is clamped.
bool ls_coordinates_fit(const ls_array *coordinates);
ls_coordinate *ls_coordinates_read(ls_allocator *allocator,
                                   const ls_array *coordinates);

// Size of a buffer for a coordinate's text, such as "(0, 1, 0, 1)".
enum { LS_COORDINATE_TEXT = 64 };
const char *ls_coordinate_text(ls_coordinate place,
                               char text[LS_COORDINATE_TEXT]);
// Prints sizes as text, such as "[2, 2, 1, 2]"; leaves out sizes that do not
// fit.
const char *ls_sizes_text(const int32_t *sizes, size_t count,
                          char text[LS_COORDINATE_TEXT]);

// ---- Device assignments ----------------------------------------------------
struct ls_device_assignment {
  ls_object object;
  ls_allocator *allocator;
  ls_topology *topology;
  int32_t num_replicas, cores_per_replica;
  ls_coordinate *places;  // Ordered by replica, then by logical core.
};

// Checks the coordinates and makes an assignment. Takes the coordinates over,
// even if it fails.
LS_MUST_USE ls_status ls_device_assignment_make(
    ls_topology *topology, int32_t num_replicas, int32_t cores_per_replica,
    ls_coordinate *places, ls_device_assignment **out_assignment);

#endif  // LS_TPU_POD_TOPOLOGY_H_
