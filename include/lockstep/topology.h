// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Positions of the cores of a TPU system, and assignment of replicas to them.
//
// A topology is a mesh of cores, located by x, y, z of their chip and their
// number on it, with the host of each: hosts are tasks, and a core is a TPU of
// its task. A device assignment gives each logical core of each replica a core
// of the mesh. Both never change.
//
// Threads: any number of threads may use a topology or an assignment at the
// same time.
#ifndef LOCKSTEP_TOPOLOGY_H_
#define LOCKSTEP_TOPOLOGY_H_

#include "lockstep/array.h"
#include "lockstep/device_name.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LS_MESH_RANK = 4 };  // x, y, z, core.

// Position of a core.
typedef struct ls_coordinate {
  int32_t at[LS_MESH_RANK];
} ls_coordinate;

// ---- Topologies ------------------------------------------------------------
typedef struct ls_topology ls_topology;

// Creates a topology from the mesh's sizes and the positions of the devices of
// each task: integers of shape [task, device, 4]. The caller owns a reference.
//   LS_INVALID_ARGUMENT  the mesh is not 4 sizes of at least 1, or has more
//                        than 2^20 cores; the coordinates are of another shape,
//                        one lies outside the mesh or occurs twice.
LS_API LS_MUST_USE ls_status ls_topology_create(const int32_t *mesh,
                                                size_t mesh_rank,
                                                const ls_array *coordinates,
                                                ls_topology **out_topology);
// Parses a serialized topology: TensorFlow's TopologyProto. The caller owns a
// reference.
//   LS_INVALID_ARGUMENT  it is none: names the field, its value and what would
//                        be valid.
LS_API LS_MUST_USE ls_status ls_topology_parse(const void *bytes, size_t size,
                                               ls_topology **out_topology);
LS_API ls_topology *ls_topology_retain(ls_topology *topology);
LS_API void ls_topology_release(ls_topology *topology);  // NULL is fine.

// Returns the serialized form; for a parsed topology the bytes it was parsed
// from. Lent.
LS_API const char *ls_topology_serialized(const ls_topology *topology,
                                          size_t *out_size);
// Returns the mesh's four sizes; lent.
LS_API const int32_t *ls_topology_mesh(const ls_topology *topology);
LS_API int ls_topology_mesh_rank(const ls_topology *topology);  // 4.
LS_API int32_t ls_topology_num_tasks(const ls_topology *topology);
LS_API int32_t ls_topology_num_devices_per_task(const ls_topology *topology);
// Returns the hardware's features: a serialized TPUHardwareFeature as the
// system gave it, 0 bytes if it gave none. Lent.
LS_API const char *ls_topology_hardware(const ls_topology *topology,
                                        size_t *out_size);
// Lists positions of the mesh without a device, row by row: returns their
// number, and writes the first `capacity` of them.
LS_API size_t ls_topology_missing(const ls_topology *topology,
                                  ls_coordinate *places, size_t capacity);
// Gets the position of a device.
//   LS_INVALID_ARGUMENT  there is no such task or device.
LS_API LS_MUST_USE ls_status ls_topology_place_of(const ls_topology *topology,
                                                  int32_t task, int32_t device,
                                                  ls_coordinate *out_place);

// Get what is at a position: the task, the device's number there, its name
// "/task:1/device:TPU:3" and its host's "/task:1/device:CPU:0", prefixed with
// "/job:J" if a job is given (NULL: none).
//   LS_INVALID_ARGUMENT  the position is outside the mesh, or no device is
//                        there.
LS_API LS_MUST_USE ls_status ls_topology_task_at(const ls_topology *topology,
                                                 ls_coordinate place,
                                                 int32_t *out_task);
LS_API LS_MUST_USE ls_status ls_topology_ordinal_at(const ls_topology *topology,
                                                    ls_coordinate place,
                                                    int32_t *out_ordinal);
LS_API LS_MUST_USE ls_status ls_topology_device_at(const ls_topology *topology,
                                                   ls_coordinate place,
                                                   const char *job,
                                                   ls_device_name *out_name);
LS_API LS_MUST_USE ls_status ls_topology_host_at(const ls_topology *topology,
                                                 ls_coordinate place,
                                                 const char *job,
                                                 ls_device_name *out_name);

// ---- Device assignments ----------------------------------------------------
typedef struct ls_device_assignment ls_device_assignment;

// Order of replicas on the mesh.
typedef enum ls_device_order {
  // A ring if replicas can form one, else the mesh's order.
  LS_DEVICE_ORDER_AUTO,
  LS_DEVICE_ORDER_RING,
  LS_DEVICE_ORDER_MESH,
} ls_device_order;

// Cores of a replica. Zero in a field means its default.
typedef struct ls_device_assignment_options {
  // Number of a replica's cores along each axis. Default all 1.
  const int32_t *shape;
  size_t shape_rank;
  // Distance of its cores along each axis. Default all 1.
  const int32_t *stride;
  size_t stride_rank;
  ls_opt num_replicas;  // Default 1.
  ls_device_order order;
} ls_device_assignment_options;

// Assigns cores to replicas. If the topology has missing devices, cores are
// assigned in the order of tasks and their devices. The caller owns a
// reference.
//   LS_INVALID_ARGUMENT  shape or stride are not 4 numbers of at least 1, or do
//                        not fit the mesh; more replicas than fit; a ring where
//                        there is none.
LS_API LS_MUST_USE ls_status ls_device_assignment_build(
    ls_topology *topology, const ls_device_assignment_options *options,
    ls_device_assignment **out_assignment);
// Creates an assignment from the position of each core, integers of shape
// [replica, logical core, 4]. The caller owns a reference.
//   LS_INVALID_ARGUMENT  another shape, or an empty one; a position outside the
//                        mesh, without a device, or used twice.
LS_API LS_MUST_USE ls_status
ls_device_assignment_create(ls_topology *topology, const ls_array *cores,
                            ls_device_assignment **out_assignment);
// Returns the array for one replica on the first core of a mesh, [[[0, 0, 0,
// 0]]]. The caller owns it.
LS_API LS_MUST_USE ls_status ls_single_core_assignment(ls_array **out_cores);
LS_API ls_device_assignment *
ls_device_assignment_retain(ls_device_assignment *assignment);
LS_API void ls_device_assignment_release(ls_device_assignment *assignment);

LS_API ls_topology *
ls_device_assignment_topology(const ls_device_assignment *assignment);
LS_API int32_t
ls_device_assignment_num_replicas(const ls_device_assignment *assignment);
LS_API int32_t ls_device_assignment_num_cores_per_replica(
    const ls_device_assignment *assignment);
// Get the position of a replica's logical core, the device's number in its
// task, its name and its host's, as of the topology.
//   LS_INVALID_ARGUMENT  there is no such replica or logical core.
LS_API LS_MUST_USE ls_status ls_device_assignment_place(
    const ls_device_assignment *assignment, int32_t replica, int32_t core,
    ls_coordinate *out_place);
LS_API LS_MUST_USE ls_status ls_device_assignment_ordinal(
    const ls_device_assignment *assignment, int32_t replica, int32_t core,
    int32_t *out_ordinal);
LS_API LS_MUST_USE ls_status ls_device_assignment_device(
    const ls_device_assignment *assignment, int32_t replica, int32_t core,
    const char *job, ls_device_name *out_name);
LS_API LS_MUST_USE ls_status ls_device_assignment_host(
    const ls_device_assignment *assignment, int32_t replica, int32_t core,
    const char *job, ls_device_name *out_name);
// Lists the replicas whose logical core `core` is on a task, smallest first:
// sets their number, and writes the first `capacity` of them.
//   LS_INVALID_ARGUMENT  there is none.
LS_API LS_MUST_USE ls_status ls_device_assignment_replicas_on(
    const ls_device_assignment *assignment, int32_t task, int32_t core,
    int32_t *replicas, size_t capacity, size_t *out_count);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TOPOLOGY_H_
