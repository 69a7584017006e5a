// SPDX-License-Identifier: Apache-2.0
// Topologies from bytes: TensorFlow's TopologyProto.
//   repeated int32 mesh_shape = 1; int32 num_tasks = 2;
//   int32 num_tpu_devices_per_task = 3; repeated int32 device_coordinates = 4;
//   TPUHardwareFeature tpu_hardware_feature = 5;
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "io/protobuf/protobuf.h"
#include "tpu/pod/topology.h"

typedef struct numbers {
  int32_t *items;
  size_t count, capacity;
} numbers;

typedef struct proto {
  ls_allocator *allocator;
  numbers mesh, coordinates;
  int32_t num_tasks, per_task;
  // A repeated message field is the concatenation of its parts.
  ls_text hardware;
} proto;

static void proto_deinit(proto *in) {
  ls_text_deinit(&in->hardware);
  ls_release(in->allocator, in->mesh.items);
  ls_release(in->allocator, in->coordinates.items);
}
LS_OWNED_STRUCT(proto, proto_deinit)

static bool add_number(proto *in, numbers *list, uint64_t value) {
  if (!LS_GROW(in->allocator, list->items, list->capacity, list->count + 1))
    return false;
  list->items[list->count++] = (int32_t)(uint32_t)value;
  return true;
}

static ls_status wrong_field(const ls_proto_field *field, const char *name,
                             const char *wanted) {
  return ls_invalid_argument("topology: field %u, %s, is no %s", field->number,
                             name, wanted);
}

// Reads a repeated field in packed or unpacked form.
static ls_status topology_parse_read_numbers(proto *in,
                                             const ls_proto_field *field,
                                             const char *name, numbers *list) {
  if (field->type == LS_PROTO_VARINT)
    return add_number(in, list, field->value) ? ls_ok() : ls_out_of_memory();
  if (field->type != LS_PROTO_BYTES)
    return wrong_field(field, name, "list of integers");
  ls_proto_input packed = ls_proto_message(field);
  while (packed.at < packed.end) {
    uint64_t value = 0;
    if (!ls_proto_read_varint(&packed, &value))
      return wrong_field(field, name, "list of integers: one is cut off");
    if (!add_number(in, list, value)) return ls_out_of_memory();
  }
  return ls_ok();
}

static ls_status topology_parse_read_number(const ls_proto_field *field,
                                            const char *name, int32_t *out) {
  if (field->type != LS_PROTO_VARINT)
    return wrong_field(field, name, "integer");
  *out = (int32_t)(uint32_t)field->value;
  return ls_ok();
}

static ls_status read_field(proto *in, const ls_proto_field *field) {
  switch (field->number) {
  case 1:
    return topology_parse_read_numbers(in, field, "mesh_shape", &in->mesh);
  case 2:
    return topology_parse_read_number(field, "num_tasks", &in->num_tasks);
  case 3:
    return topology_parse_read_number(field, "num_tpu_devices_per_task",
                                      &in->per_task);
  case 4:
    return topology_parse_read_numbers(in, field, "device_coordinates",
                                       &in->coordinates);
  case 5:
    if (field->type != LS_PROTO_BYTES)
      return wrong_field(field, "tpu_hardware_feature", "message");
    ls_text_append_bytes(&in->hardware, field->at, field->value);
    return ls_text_status(&in->hardware);
  default:
    return ls_ok();
  }
}

static ls_status topology_parse_check(const proto *in) {
  char text[LS_COORDINATE_TEXT];
  bool fits = in->mesh.count == LS_MESH_RANK;
  for (size_t i = 0; fits && i < LS_MESH_RANK; ++i)
    fits = in->mesh.items[i] > 0;
  if (!fits)
    return ls_invalid_argument(
        "topology: mesh_shape %s must be 4 sizes of at least 1",
        ls_sizes_text(in->mesh.items, in->mesh.count, text));
  if (in->num_tasks < 0)
    return ls_invalid_argument("topology: num_tasks %d must not be negative",
                               in->num_tasks);
  if (in->per_task < 0)
    return ls_invalid_argument(
        "topology: num_tpu_devices_per_task %d must not be negative",
        in->per_task);
  // The product fits into 64 bits: two 31-bit numbers and a factor of 4.
  const uint64_t wanted =
      (uint64_t)in->num_tasks * (uint64_t)in->per_task * LS_MESH_RANK;
  if (in->coordinates.count != wanted)
    return ls_invalid_argument("topology: device_coordinates has %zu numbers; "
                               "%d tasks x %d devices x 4 are %llu",
                               in->coordinates.count, in->num_tasks,
                               in->per_task, (unsigned long long)wanted);
  for (size_t i = 0; i < in->coordinates.count; ++i)
    if (in->coordinates.items[i] < 0)
      return ls_invalid_argument("topology: device_coordinates has a %d, which "
                                 "must not be negative, at place %zu",
                                 in->coordinates.items[i], i);
  return ls_ok();
}

static ls_status read_fields(proto *in, const void *bytes, size_t size) {
  ls_proto_input rest = ls_proto_message_of((ls_bytes){bytes, size});
  ls_proto_field field = {0};
  while (ls_proto_next(&rest, &field))
    LS_RETURN_IF_ERROR(read_field(in, &field));
  if (field.wrong == NULL) return ls_ok();
  return ls_invalid_argument(
      "topology: %s at byte %lld: it is no serialized TopologyProto",
      field.wrong, (long long)(field.begin - (const unsigned char *)bytes));
}

ls_status ls_topology_parse(const void *bytes, size_t size,
                            ls_topology **out_topology) {
  LS_REQUIRE_OUT(out_topology);
  LS_REQUIRE_ITEMS(bytes, size);
  if (bytes == NULL) bytes = "";
  LS_OWN(proto, in) = {.allocator = ls_current_allocator()};
  ls_text_init(&in.hardware, in.allocator);
  LS_RETURN_IF_ERROR(read_fields(&in, bytes, size));
  LS_RETURN_IF_ERROR(topology_parse_check(&in));
  ls_topology_parts parts = {.num_tasks = in.num_tasks,
                             .per_task = in.per_task,
                             .serialized = bytes,
                             .serialized_size = size,
                             .hardware = ls_text_data(&in.hardware),
                             .hardware_size = in.hardware.size};
  memcpy(parts.mesh, in.mesh.items, sizeof(parts.mesh));
  const size_t count = in.coordinates.count / LS_MESH_RANK;
  LS_SET_ARRAY_OR_RETURN(in.allocator, ls_coordinate, parts.places, count);
  if (count > 0)
    memcpy(parts.places, in.coordinates.items, count * sizeof(*parts.places));
  return ls_topology_make(in.allocator, &parts, out_topology);
}
