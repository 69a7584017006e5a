// SPDX-License-Identifier: Apache-2.0
#include "tpu/pod/topology.h"

#include <stdio.h>

#include "base/require.h"
#include "tpu/own.h"

static void destroy_assignment(ls_object *object) {
  ls_device_assignment *assignment = (ls_device_assignment *)object;
  ls_topology_release(assignment->topology);
  ls_release(assignment->allocator, assignment->places);
  ls_release(assignment->allocator, assignment);
}

static void print_assignment(const ls_object *object, char *buffer,
                             size_t size) {
  const ls_device_assignment *assignment = (const ls_device_assignment *)object;
  snprintf(buffer, size, "device assignment of %d replicas of %d cores",
           assignment->num_replicas, assignment->cores_per_replica);
}

static const ls_object_type assignment_type = {.name = "device assignment",
                                               .destroy = destroy_assignment,
                                               .print = print_assignment};

// ---- Making ----------------------------------------------------------------
static ls_status used_twice(const ls_device_assignment *assignment,
                            ls_coordinate place, int32_t first,
                            int32_t second) {
  const int32_t cores = assignment->cores_per_replica;
  char text[LS_COORDINATE_TEXT];
  return ls_invalid_argument(
      "coordinate %s is used twice: by logical core %d of replica %d, and by "
      "logical core %d of replica %d",
      ls_coordinate_text(place, text), first % cores, first / cores,
      second % cores, second / cores);
}

// Checks that each coordinate has a device and is used once.
static ls_status check_places(const ls_device_assignment *assignment) {
  const ls_topology *topology = assignment->topology;
  const int32_t count =
      assignment->num_replicas * assignment->cores_per_replica;
  // Per device, the replica that uses it, counted from 1.
  LS_OWN_ARRAY_OR_RETURN(assignment->allocator, int32_t, users,
                         ls_topology_num_places(topology));
  for (int32_t i = 0; i < count; ++i) {
    const ls_coordinate place = assignment->places[i];
    char text[LS_COORDINATE_TEXT];
    int32_t owner = 0;
    LS_RETURN_IF_ERROR(ls_topology_owner(topology, place, &owner));
    if (owner < 0)
      return ls_invalid_argument("coordinate %s has no device: it is missing",
                                 ls_coordinate_text(place, text));
    if (users[owner] != 0)
      return used_twice(assignment, place, users[owner] - 1, i);
    users[owner] = i + 1;
  }
  return ls_ok();
}

ls_status ls_device_assignment_make(ls_topology *topology, int32_t num_replicas,
                                    int32_t cores_per_replica,
                                    ls_coordinate *places,
                                    ls_device_assignment **out_assignment) {
  ls_allocator *allocator = topology->allocator;
  LS_OWN(ls_device_assignment, assignment) =
      ls_new(allocator, ls_device_assignment);
  *out_assignment = NULL;
  if (assignment == NULL) {
    ls_release(allocator, places);
    return ls_out_of_memory();
  }
  ls_object_init(&assignment->object, &assignment_type);
  assignment->allocator = allocator;
  assignment->topology = ls_topology_retain(topology);
  assignment->num_replicas = num_replicas;
  assignment->cores_per_replica = cores_per_replica;
  assignment->places = places;
  LS_RETURN_IF_ERROR(check_places(assignment));
  return ls_hand_over(&assignment, out_assignment);
}

ls_status ls_device_assignment_create(ls_topology *topology,
                                      const ls_array *cores,
                                      ls_device_assignment **out_assignment) {
  LS_REQUIRE_OUT(out_assignment, topology, cores);
  const ls_dtype dtype = ls_array_dtype(cores);
  const ls_shape shape = ls_array_shape(cores);
  if (!ls_coordinates_fit(cores))
    return ls_invalid_argument("core assignment %s must be integers of shape "
                               "[replica, logical core, 4]",
                               LS_SHAPE_TEXT(dtype, shape));
  if (shape.dim[0] == 0 || shape.dim[1] == 0)
    return ls_invalid_argument("core assignment %s is empty: at least one "
                               "replica of one logical core is needed",
                               LS_SHAPE_TEXT(dtype, shape));
  const size_t most = ls_topology_num_places(topology);
  if (shape.dim[0] * shape.dim[1] > (int64_t)most)
    return ls_invalid_argument("core assignment %s has more cores than the "
                               "mesh, %zu: some are used twice",
                               LS_SHAPE_TEXT(dtype, shape), most);
  ls_coordinate *places = ls_coordinates_read(topology->allocator, cores);
  return places != NULL
             ? ls_device_assignment_make(topology, (int32_t)shape.dim[0],
                                         (int32_t)shape.dim[1], places,
                                         out_assignment)
             : ls_out_of_memory();
}

ls_status ls_single_core_assignment(ls_array **out_cores) {
  LS_REQUIRE_OUT(out_cores);
  return ls_array_create(LS_DTYPE_I32, LS_SHAPE(1, 1, LS_MESH_RANK), out_cores);
}

LS_COUNTED(ls_device_assignment)

// ---- Look up ---------------------------------------------------------------
ls_topology *
ls_device_assignment_topology(const ls_device_assignment *assignment) {
  return assignment->topology;
}

int32_t
ls_device_assignment_num_replicas(const ls_device_assignment *assignment) {
  return assignment->num_replicas;
}

int32_t ls_device_assignment_num_cores_per_replica(
    const ls_device_assignment *assignment) {
  return assignment->cores_per_replica;
}

ls_status ls_device_assignment_place(const ls_device_assignment *assignment,
                                     int32_t replica, int32_t core,
                                     ls_coordinate *out_place) {
  LS_REQUIRE_OUT(out_place, assignment);
  if (replica < 0 || replica >= assignment->num_replicas || core < 0 ||
      core >= assignment->cores_per_replica)
    return ls_invalid_argument("there is no replica %d logical core %d in an "
                               "assignment of %d replicas of %d cores",
                               replica, core, assignment->num_replicas,
                               assignment->cores_per_replica);
  *out_place =
      assignment
          ->places[(size_t)replica * (size_t)assignment->cores_per_replica +
                   (size_t)core];
  return ls_ok();
}

ls_status ls_device_assignment_ordinal(const ls_device_assignment *assignment,
                                       int32_t replica, int32_t core,
                                       int32_t *out_ordinal) {
  LS_REQUIRE_OUT(out_ordinal);
  ls_coordinate place;
  LS_RETURN_IF_ERROR(
      ls_device_assignment_place(assignment, replica, core, &place));
  return ls_topology_ordinal_at(assignment->topology, place, out_ordinal);
}

ls_status ls_device_assignment_device(const ls_device_assignment *assignment,
                                      int32_t replica, int32_t core,
                                      const char *job,
                                      ls_device_name *out_name) {
  LS_REQUIRE_OUT(out_name);
  ls_coordinate place;
  LS_RETURN_IF_ERROR(
      ls_device_assignment_place(assignment, replica, core, &place));
  return ls_topology_device_at(assignment->topology, place, job, out_name);
}

ls_status ls_device_assignment_host(const ls_device_assignment *assignment,
                                    int32_t replica, int32_t core,
                                    const char *job, ls_device_name *out_name) {
  LS_REQUIRE_OUT(out_name);
  ls_coordinate place;
  LS_RETURN_IF_ERROR(
      ls_device_assignment_place(assignment, replica, core, &place));
  return ls_topology_host_at(assignment->topology, place, job, out_name);
}

ls_status
ls_device_assignment_replicas_on(const ls_device_assignment *assignment,
                                 int32_t task, int32_t core, int32_t *replicas,
                                 size_t capacity, size_t *out_count) {
  LS_REQUIRE_OUT(out_count, assignment);
  LS_REQUIRE_ITEMS(replicas, capacity);
  const bool has_core = core >= 0 && core < assignment->cores_per_replica;
  for (int32_t r = 0; has_core && r < assignment->num_replicas; ++r) {
    ls_coordinate place;
    int32_t place_task = 0;
    LS_RETURN_IF_ERROR(ls_device_assignment_place(assignment, r, core, &place));
    LS_RETURN_IF_ERROR(
        ls_topology_task_at(assignment->topology, place, &place_task));
    if (place_task != task) continue;
    if (*out_count < capacity) replicas[*out_count] = r;
    ++*out_count;
  }
  return *out_count > 0
             ? ls_ok()
             : ls_invalid_argument(
                   "no replica has its logical core %d on task %d", core, task);
}
