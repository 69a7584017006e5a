// SPDX-License-Identifier: Apache-2.0
#include "tpu/pod/topology.h"

#include <stdio.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "io/protobuf/protobuf.h"
#include "tpu/own.h"

// ---- Texts -----------------------------------------------------------------
static const char *topology_list(const int32_t *numbers, size_t count,
                                 const char *ends,
                                 char text[LS_COORDINATE_TEXT]) {
  size_t at = (size_t)snprintf(text, 2, "%c", ends[0]);
  // Stops while the longest number, a comma and the ending still fit.
  for (size_t i = 0; i < count && at < LS_COORDINATE_TEXT - 16; ++i)
    at += (size_t)snprintf(text + at, LS_COORDINATE_TEXT - at, "%s%d",
                           i == 0 ? "" : ", ", numbers[i]);
  snprintf(text + at, LS_COORDINATE_TEXT - at, "%c", ends[1]);
  return text;
}

const char *ls_coordinate_text(ls_coordinate place,
                               char text[LS_COORDINATE_TEXT]) {
  return topology_list(place.at, LS_MESH_RANK, "()", text);
}

// Prints sizes. If the list is too long for the text, its count is wrong, and
// the text is cut off.
const char *ls_sizes_text(const int32_t *sizes, size_t count,
                          char text[LS_COORDINATE_TEXT]) {
  if (count <= 2 * (size_t)LS_MESH_RANK)
    return topology_list(sizes, count, "[]", text);
  snprintf(text, LS_COORDINATE_TEXT, "of %zu sizes", count);
  return text;
}

// ---- Making ----------------------------------------------------------------
static void destroy_topology(ls_object *object) {
  ls_topology *topology = (ls_topology *)object;
  ls_release(topology->allocator, topology->places);
  ls_release(topology->allocator, topology->owners);
  ls_release(topology->allocator, topology->serialized);
  ls_release(topology->allocator, topology->hardware);
  ls_object_release(topology->system);
  ls_release(topology->allocator, topology);
}

static void print_topology(const ls_object *object, char *buffer, size_t size) {
  const ls_topology *topology = (const ls_topology *)object;
  char mesh[LS_COORDINATE_TEXT];
  snprintf(buffer, size, "topology %s, %d tasks of %d devices",
           ls_sizes_text(topology->mesh, LS_MESH_RANK, mesh),
           topology->num_tasks, topology->per_task);
}

static const ls_object_type topology_type = {
    .name = "topology", .destroy = destroy_topology, .print = print_topology};

static ls_status count_mesh(const int32_t mesh[LS_MESH_RANK],
                            size_t *out_count) {
  int64_t count = 1;
  for (int k = 0; k < LS_MESH_RANK; ++k) {
    char text[LS_COORDINATE_TEXT];
    if (mesh[k] < 1)
      return ls_invalid_argument(
          "mesh_shape %s must have 4 sizes (x, y, z, core) of at least 1",
          ls_sizes_text(mesh, LS_MESH_RANK, text));
    count *= mesh[k];
    if (mesh[k] > LS_MAX_MESH_CORES || count > LS_MAX_MESH_CORES)
      return ls_invalid_argument("mesh_shape %s has more than %d cores",
                                 ls_sizes_text(mesh, LS_MESH_RANK, text),
                                 LS_MAX_MESH_CORES);
  }
  *out_count = (size_t)count;
  return ls_ok();
}

// Returns a coordinate's row-by-row index; -1 if the coordinate is outside the
// mesh.
static int64_t position_of(const ls_topology *topology, ls_coordinate place) {
  int64_t position = 0;
  for (int k = 0; k < LS_MESH_RANK; ++k) {
    if (place.at[k] < 0 || place.at[k] >= topology->mesh[k]) return -1;
    position = position * topology->mesh[k] + place.at[k];
  }
  return position;
}

static ls_status outside_mesh(const ls_topology *topology,
                              ls_coordinate place) {
  char at[LS_COORDINATE_TEXT], mesh[LS_COORDINATE_TEXT];
  return ls_invalid_argument("coordinate %s is outside the mesh %s",
                             ls_coordinate_text(place, at),
                             ls_sizes_text(topology->mesh, LS_MESH_RANK, mesh));
}

static ls_status set_owners(ls_topology *topology, size_t mesh_size) {
  LS_SET_ARRAY_OR_RETURN(topology->allocator, int32_t, topology->owners,
                         mesh_size);
  for (size_t i = 0; i < mesh_size; ++i)
    topology->owners[i] = -1;
  for (size_t i = 0; i < ls_topology_num_places(topology); ++i) {
    const ls_coordinate place = topology->places[i];
    const int64_t position = position_of(topology, place);
    char text[LS_COORDINATE_TEXT];
    if (position < 0) return outside_mesh(topology, place);
    if (topology->owners[position] >= 0)
      return ls_invalid_argument(
          "coordinate %s is of two devices: task %d device %d, and task %d "
          "device %d",
          ls_coordinate_text(place, text),
          topology->owners[position] / topology->per_task,
          topology->owners[position] % topology->per_task,
          (int)i / topology->per_task, (int)i % topology->per_task);
    topology->owners[position] = (int32_t)i;
  }
  return ls_ok();
}

// Writes a TopologyProto as proto3 does, leaving out zero fields.
static void write_proto(const ls_topology *topology, ls_text *out) {
  ls_proto_i32s(out, 1, topology->mesh, LS_MESH_RANK);
  if (topology->num_tasks != 0) ls_proto_i64(out, 2, topology->num_tasks);
  if (topology->per_task != 0) ls_proto_i64(out, 3, topology->per_task);
  ls_proto_i32s(out, 4, (const int32_t *)topology->places,
                LS_MESH_RANK * ls_topology_num_places(topology));
  if (topology->hardware_size > 0)
    ls_proto_bytes(out, 5, topology->hardware, topology->hardware_size);
}

static ls_status set_bytes(ls_topology *topology,
                           const ls_topology_parts *parts) {
  ls_allocator *allocator = topology->allocator;
  topology->hardware_size = parts->hardware_size;
  topology->hardware =
      ls_copy_text(allocator, parts->hardware, parts->hardware_size);
  if (topology->hardware == NULL) return ls_out_of_memory();
  if (parts->serialized != NULL) {
    topology->serialized_size = parts->serialized_size;
    topology->serialized =
        ls_copy_text(allocator, parts->serialized, parts->serialized_size);
  } else {
    ls_text text = {.allocator = allocator};
    write_proto(topology, &text);
    topology->serialized_size = text.size;
    topology->serialized = ls_text_finish(&text);
  }
  return topology->serialized != NULL ? ls_ok() : ls_out_of_memory();
}

ls_status ls_topology_make(ls_allocator *allocator,
                           const ls_topology_parts *parts,
                           ls_topology **out_topology) {
  LS_OWN(ls_topology, topology) = ls_new(allocator, ls_topology);
  size_t mesh_size = 0;
  *out_topology = NULL;
  if (topology == NULL) {
    ls_release(allocator, parts->places);
    return ls_out_of_memory();
  }
  ls_object_init(&topology->object, &topology_type);
  topology->allocator = allocator;
  memcpy(topology->mesh, parts->mesh, sizeof(topology->mesh));
  topology->num_tasks = parts->num_tasks;
  topology->per_task = parts->per_task;
  topology->places = parts->places;
  topology->system = ls_object_retain(parts->system);
  LS_RETURN_IF_ERROR(count_mesh(topology->mesh, &mesh_size));
  LS_RETURN_IF_ERROR(set_owners(topology, mesh_size));
  LS_RETURN_IF_ERROR(set_bytes(topology, parts));
  return ls_hand_over(&topology, out_topology);
}

bool ls_coordinates_fit(const ls_array *coordinates) {
  const ls_shape shape = ls_array_shape(coordinates);
  return shape.rank == 3 && shape.dim[2] == LS_MESH_RANK &&
         ls_dtype_is_integer(ls_array_dtype(coordinates));
}

ls_coordinate *ls_coordinates_read(ls_allocator *allocator,
                                   const ls_array *coordinates) {
  const size_t count = (size_t)ls_array_num_elements(coordinates);
  ls_coordinate *places =
      ls_new_array(allocator, ls_coordinate, count / LS_MESH_RANK);
  for (size_t i = 0; places != NULL && i < count; ++i) {
    const int64_t value = ls_array_i64(coordinates, (int64_t)i);
    places[i / LS_MESH_RANK].at[i % LS_MESH_RANK] =
        value < INT32_MIN   ? INT32_MIN
        : value > INT32_MAX ? INT32_MAX
                            : (int32_t)value;
  }
  return places;
}

ls_status ls_topology_create(const int32_t *mesh, size_t mesh_rank,
                             const ls_array *coordinates,
                             ls_topology **out_topology) {
  LS_REQUIRE_OUT(out_topology);
  LS_REQUIRE_ITEMS(mesh, mesh_rank);
  LS_REQUIRE(coordinates);
  char text[LS_COORDINATE_TEXT];
  if (mesh_rank != LS_MESH_RANK)
    return ls_invalid_argument(
        "mesh_shape %s must have 4 sizes (x, y, z, core) of at least 1",
        ls_sizes_text(mesh, mesh_rank, text));
  const ls_dtype dtype = ls_array_dtype(coordinates);
  const ls_shape shape = ls_array_shape(coordinates);
  if (!ls_coordinates_fit(coordinates))
    return ls_invalid_argument("device coordinates %s on a mesh of mesh_shape "
                               "%s must be integers of shape [task, device, 4]",
                               LS_SHAPE_TEXT(dtype, shape),
                               ls_sizes_text(mesh, mesh_rank, text));
  if (shape.dim[0] > INT32_MAX || shape.dim[1] > INT32_MAX)
    return ls_invalid_argument("device coordinates %s are of too many devices",
                               LS_SHAPE_TEXT(dtype, shape));
  ls_topology_parts parts = {.num_tasks = (int32_t)shape.dim[0],
                             .per_task = (int32_t)shape.dim[1]};
  size_t mesh_size = 0;
  memcpy(parts.mesh, mesh, sizeof(parts.mesh));
  LS_RETURN_IF_ERROR(count_mesh(parts.mesh, &mesh_size));
  ls_allocator *allocator = ls_current_allocator();
  parts.places = ls_coordinates_read(allocator, coordinates);
  return parts.places != NULL
             ? ls_topology_make(allocator, &parts, out_topology)
             : ls_out_of_memory();
}

LS_COUNTED(ls_topology)

// ---- Read ------------------------------------------------------------------
const char *ls_topology_serialized(const ls_topology *topology,
                                   size_t *out_size) {
  *out_size = topology->serialized_size;
  return topology->serialized;
}

const char *ls_topology_hardware(const ls_topology *topology,
                                 size_t *out_size) {
  *out_size = topology->hardware_size;
  return topology->hardware;
}

const int32_t *ls_topology_mesh(const ls_topology *topology) {
  return topology->mesh;
}

int ls_topology_mesh_rank(const ls_topology *topology) {
  (void)topology;
  return LS_MESH_RANK;
}

int32_t ls_topology_num_tasks(const ls_topology *topology) {
  return topology->num_tasks;
}

int32_t ls_topology_num_devices_per_task(const ls_topology *topology) {
  return topology->per_task;
}

size_t ls_topology_num_missing(const ls_topology *topology) {
  size_t size = 1;
  for (int k = 0; k < LS_MESH_RANK; ++k)
    size *= (size_t)topology->mesh[k];
  return size - ls_topology_num_places(topology);
}

size_t ls_topology_missing(const ls_topology *topology, ls_coordinate *places,
                           size_t capacity) {
  const size_t count = ls_topology_num_missing(topology);
  const size_t wanted = count < capacity ? count : capacity;
  for (size_t i = 0, found = 0; found < wanted; ++i) {
    if (topology->owners[i] >= 0) continue;
    size_t rest = i;
    for (int k = LS_MESH_RANK - 1; k >= 0; --k) {
      places[found].at[k] = (int32_t)(rest % (size_t)topology->mesh[k]);
      rest /= (size_t)topology->mesh[k];
    }
    ++found;
  }
  return count;
}

ls_status ls_topology_place_of(const ls_topology *topology, int32_t task,
                               int32_t device, ls_coordinate *out_place) {
  LS_REQUIRE_OUT(out_place, topology);
  if (task < 0 || task >= topology->num_tasks || device < 0 ||
      device >= topology->per_task)
    return ls_invalid_argument(
        "there is no task %d device %d in a topology of %d tasks of %d devices",
        task, device, topology->num_tasks, topology->per_task);
  *out_place =
      topology
          ->places[(size_t)task * (size_t)topology->per_task + (size_t)device];
  return ls_ok();
}

ls_status ls_topology_owner(const ls_topology *topology, ls_coordinate place,
                            int32_t *out_owner) {
  const int64_t position = position_of(topology, place);
  if (position < 0) return outside_mesh(topology, place);
  *out_owner = topology->owners[position];
  return ls_ok();
}

static ls_status topology_look_up(const ls_topology *topology,
                                  ls_coordinate place, int32_t *out_task,
                                  int32_t *out_ordinal) {
  char text[LS_COORDINATE_TEXT];
  int32_t owner = 0;
  LS_RETURN_IF_ERROR(ls_topology_owner(topology, place, &owner));
  if (owner < 0)
    return ls_invalid_argument("coordinate %s has no device: it is missing",
                               ls_coordinate_text(place, text));
  *out_task = owner / topology->per_task;
  *out_ordinal = owner % topology->per_task;
  return ls_ok();
}

ls_status ls_topology_task_at(const ls_topology *topology, ls_coordinate place,
                              int32_t *out_task) {
  LS_REQUIRE_OUT(out_task, topology);
  int32_t ordinal = 0;
  return topology_look_up(topology, place, out_task, &ordinal);
}

ls_status ls_topology_ordinal_at(const ls_topology *topology,
                                 ls_coordinate place, int32_t *out_ordinal) {
  LS_REQUIRE_OUT(out_ordinal, topology);
  int32_t task = 0;
  return topology_look_up(topology, place, &task, out_ordinal);
}

static ls_status name_at(const ls_topology *topology, ls_coordinate place,
                         const char *job, bool is_host,
                         ls_device_name *out_name) {
  int32_t task = 0, ordinal = 0;
  out_name->text[0] = '\0';
  LS_RETURN_IF_ERROR(topology_look_up(topology, place, &task, &ordinal));
  const bool has_job = job != NULL && job[0] != '\0';
  const int length = snprintf(out_name->text, sizeof(out_name->text),
                              "%s%s/task:%d/device:%s:%d",
                              has_job ? "/job:" : "", has_job ? job : "", task,
                              is_host ? "CPU" : "TPU", is_host ? 0 : ordinal);
  if (length < (int)sizeof(out_name->text)) return ls_ok();
  out_name->text[0] = '\0';
  return ls_invalid_argument("job '%.80s...' is too long for a device's name",
                             job);
}

ls_status ls_topology_device_at(const ls_topology *topology,
                                ls_coordinate place, const char *job,
                                ls_device_name *out_name) {
  LS_REQUIRE_OUT(out_name, topology);
  return name_at(topology, place, job, false, out_name);
}

ls_status ls_topology_host_at(const ls_topology *topology, ls_coordinate place,
                              const char *job, ls_device_name *out_name) {
  LS_REQUIRE_OUT(out_name, topology);
  return name_at(topology, place, job, true, out_name);
}
