// SPDX-License-Identifier: Apache-2.0
#include "lockstep/topology.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "support/assignments.h"
#include "support/fault.h"
#include "support/spec.h"
#include "tpu/own.h"

TEST(a_mesh_has_four_sizes_of_at_least_one) {
  LS_SPEC("T31");
  static const struct {
    int32_t mesh[5];
    size_t rank;
    const char *part;
  } rows[] = {
      {{2, 2, 1, 2, 1}, 5, "[2, 2, 1, 2, 1]"},
      {{2, 2, 2}, 3, "[2, 2, 2]"},
      {{0}, 0, "[]"},
      {{2, 0, 1, 2}, 4, "[2, 0, 1, 2]"},
      {{2, 2, 1, -1}, 4, "[2, 2, 1, -1]"},
      {{1 << 20, 2, 1, 1}, 4, "1048576"},
      {{INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX}, 4, "more than"},
  };
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_I32, LS_SHAPE(1, 1, 4), &array));
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_topology *topology = NULL;
    expect_status(
        ls_topology_create(rows[i].mesh, rows[i].rank, array, &topology),
        LS_INVALID_ARGUMENT, rows[i].part);
    assert_null(topology);
  }
}

TEST(coordinates_are_by_task_and_device) {
  LS_SPEC("T31");
  static const int32_t mesh[4] = {2, 2, 1, 2};
  const struct {
    ls_dtype dtype;
    ls_shape shape;
    const char *part;
  } rows[] = {
      {LS_DTYPE_I32, LS_SHAPE(4, 4), "i32[4,4]"},
      {LS_DTYPE_I32, LS_SHAPE(1, 1, 1, 4), "i32[1,1,1,4]"},
      {LS_DTYPE_I32, LS_SHAPE(2, 2, 3), "i32[2,2,3]"},
      {LS_DTYPE_F32, LS_SHAPE(1, 1, 4), "f32[1,1,4]"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_array, array) = NULL;
    ls_topology *topology = NULL;
    expect_ok(ls_array_create(rows[i].dtype, rows[i].shape, &array));
    ls_status status = ls_topology_create(mesh, 4, array, &topology);
    assert_non_null(status);
    expect_contains(ls_status_message(status), "[2, 2, 1, 2]");
    expect_status(status, LS_INVALID_ARGUMENT, rows[i].part);
  }
}

TEST(a_topology_tells_where_devices_are) {
  LS_SPEC("T32");
  static const int32_t mesh[4] = {2, 2, 1, 2};
  LS_OWN(ls_topology, topology) = mesh_topology(mesh, 2, 4);
  assert_int_equal(ls_topology_mesh_rank(topology), 4);
  assert_memory_equal(ls_topology_mesh(topology), mesh, sizeof(mesh));
  assert_int_equal(ls_topology_num_tasks(topology), 2);
  assert_int_equal(ls_topology_num_devices_per_task(topology), 4);
  assert_int_equal(ls_topology_missing(topology, NULL, 0), 0);
  int32_t task = -1, ordinal = -1;
  const ls_coordinate place = {{1, 0, 0, 1}};
  expect_ok(ls_topology_task_at(topology, place, &task));
  expect_ok(ls_topology_ordinal_at(topology, place, &ordinal));
  assert_int_equal(task, 1);
  assert_int_equal(ordinal, 1);
  ls_coordinate back;
  expect_ok(ls_topology_place_of(topology, 1, 1, &back));
  assert_memory_equal(&back, &place, sizeof(place));
  expect_status(ls_topology_place_of(topology, 2, 0, &back),
                LS_INVALID_ARGUMENT, "task 2 device 0");
  expect_status(ls_topology_place_of(topology, 0, 4, &back),
                LS_INVALID_ARGUMENT, "task 0 device 4");
}

TEST(missing_devices_come_row_by_row) {
  LS_SPEC("T32 T43");
  static const int32_t mesh[4] = {2, 2, 1, 2};
  // (0, 0, 0, 0), (0, 0, 0, 1), (1, 1, 0, 0)
  static const int32_t data[] = {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0};
  LS_OWN(ls_array, array) = NULL;
  LS_OWN(ls_topology, topology) = NULL;
  expect_ok(
      ls_array_create_copy(LS_DTYPE_I32, LS_SHAPE(3, 1, 4), data, &array));
  expect_ok(ls_topology_create(mesh, 4, array, &topology));
  static const ls_coordinate wanted[] = {{{0, 1, 0, 0}},
                                         {{0, 1, 0, 1}},
                                         {{1, 0, 0, 0}},
                                         {{1, 0, 0, 1}},
                                         {{1, 1, 0, 1}}};
  ls_coordinate got[8] = {0};
  assert_int_equal(ls_topology_missing(topology, got, 8), 5);
  assert_memory_equal(got, wanted, sizeof(wanted));
  memset(got, 0, sizeof(got));
  assert_int_equal(ls_topology_missing(topology, got, 2), 5);
  assert_memory_equal(got, wanted, 2 * sizeof(*wanted));
  assert_int_equal(got[2].at[0], 0);
  int32_t task = 0;
  ls_device_name name;
  expect_status(ls_topology_task_at(topology, wanted[0], &task),
                LS_INVALID_ARGUMENT, "(0, 1, 0, 0) has no device");
  expect_status(ls_topology_host_at(topology, wanted[4], NULL, &name),
                LS_INVALID_ARGUMENT, "(1, 1, 0, 1)");
}

TEST(names_have_a_job_when_one_is_given) {
  LS_SPEC("T33");
  static const int32_t mesh[4] = {2, 2, 1, 2};
  LS_OWN(ls_topology, topology) = mesh_topology(mesh, 2, 4);
  const ls_coordinate place = {{1, 1, 0, 0}};
  ls_device_name name;
  expect_ok(ls_topology_device_at(topology, place, NULL, &name));
  assert_string_equal(name.text, "/task:1/device:TPU:2");
  expect_ok(ls_topology_host_at(topology, place, NULL, &name));
  assert_string_equal(name.text, "/task:1/device:CPU:0");
  expect_ok(ls_topology_device_at(topology, place, "worker", &name));
  assert_string_equal(name.text, "/job:worker/task:1/device:TPU:2");
  expect_ok(ls_topology_host_at(topology, place, "worker", &name));
  assert_string_equal(name.text, "/job:worker/task:1/device:CPU:0");
  char job[400];
  memset(job, 'j', sizeof(job) - 1);
  job[sizeof(job) - 1] = '\0';
  expect_status(ls_topology_device_at(topology, place, job, &name),
                LS_INVALID_ARGUMENT, "too long");
}

TEST(coordinates_lie_inside_and_are_used_once) {
  LS_SPEC("T43");
  static const int32_t mesh[4] = {2, 1, 1, 2};
  static const struct {
    int32_t data[8];
    const char *part;
  } rows[] = {
      {{0, 0, 0, 0, 2, 0, 0, 0}, "(2, 0, 0, 0) is outside the mesh [2"},
      {{0, 0, 0, 0, 0, 0, 0, -1}, "(0, 0, 0, -1) is outside"},
      {{1, 0, 0, 1, 1, 0, 0, 1}, "(1, 0, 0, 1) is of two devices"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_array, array) = NULL;
    ls_topology *topology = NULL;
    expect_ok(ls_array_create_copy(LS_DTYPE_I32, LS_SHAPE(1, 2, 4),
                                   rows[i].data, &array));
    expect_status(ls_topology_create(mesh, 4, array, &topology),
                  LS_INVALID_ARGUMENT, rows[i].part);
  }
}

// ---- Bytes -----------------------------------------------------------------
// mesh 2x1x1x2, one task of 4 devices, hardware {embedding_feature: 2}.
static const unsigned char small[] = {0x0a, 4,  2, 1, 1, 2,              //
                                      0x10, 1,                           //
                                      0x18, 4,                           //
                                      0x22, 16, 0, 0, 0, 0, 0, 0, 0, 1,  //
                                      1,    0,  0, 0, 1, 0, 0, 1,        //
                                      0x2a, 2,  8, 2};

TEST(the_wire_format_is_topology_proto) {
  LS_SPEC("T34");
  LS_OWN(ls_topology, topology) = NULL;
  expect_ok(ls_topology_parse(small, sizeof(small), &topology));
  static const int32_t mesh[4] = {2, 1, 1, 2};
  assert_memory_equal(ls_topology_mesh(topology), mesh, sizeof(mesh));
  assert_int_equal(ls_topology_num_tasks(topology), 1);
  assert_int_equal(ls_topology_num_devices_per_task(topology), 4);
  const ls_coordinate place = {{1, 0, 0, 1}};
  int32_t ordinal = 0;
  expect_ok(ls_topology_ordinal_at(topology, place, &ordinal));
  assert_int_equal(ordinal, 3);
  size_t size = 0;
  const char *hardware = ls_topology_hardware(topology, &size);
  assert_int_equal(size, 2);
  assert_memory_equal(hardware, "\x08\x02", 2);
  const char *bytes = ls_topology_serialized(topology, &size);
  assert_int_equal(size, sizeof(small));
  assert_memory_equal(bytes, small, sizeof(small));
  ls_topology_release(topology);

  // The same made of numbers is the same bytes, without the hardware.
  topology = mesh_topology(mesh, 1, 4);
  bytes = ls_topology_serialized(topology, &size);
  assert_int_equal(size, sizeof(small) - 4);
  assert_memory_equal(bytes, small, size);
  ls_topology_hardware(topology, &size);
  assert_int_equal(size, 0);
}

TEST(what_was_serialized_parses_to_the_same) {
  LS_SPEC("T34");
  static const int32_t mesh[4] = {16, 16, 2, 2};
  LS_OWN(ls_topology, topology) = mesh_topology(mesh, 16, 64);
  LS_OWN(ls_topology, again) = NULL;
  size_t size = 0, size_again = 0;
  const char *bytes = ls_topology_serialized(topology, &size);
  expect_ok(ls_topology_parse(bytes, size, &again));
  const char *bytes_again = ls_topology_serialized(again, &size_again);
  assert_int_equal(size, size_again);
  assert_memory_equal(bytes, bytes_again, size);
  for (int32_t t = 0; t < 16; ++t)
    for (int32_t d = 0; d < 64; ++d) {
      ls_coordinate a, b;
      expect_ok(ls_topology_place_of(topology, t, d, &a));
      expect_ok(ls_topology_place_of(again, t, d, &b));
      assert_memory_equal(&a, &b, sizeof(a));
    }
}

// Numbers one by one, a later one that wins, an unknown field: all of it legal,
// and given back as it came.
TEST(bytes_come_back_as_they_were) {
  LS_SPEC("T34");
  static const unsigned char odd[] = {
      8,    1, 8,    1, 8,    1, 8,    1,   // mesh, not packed
      0x78, 7,                              // field 15
      0x10, 9, 0x10, 1,                     // tasks twice
      0x18, 1,                              //
      0x20, 0, 0x22, 2, 0,    0, 0x20, 0,   // coordinates, mixed
      0x2a, 2, 8,    1, 0x2a, 2, 0x10, 1};  // hardware in two parts
  LS_OWN(ls_topology, topology) = NULL;
  expect_ok(ls_topology_parse(odd, sizeof(odd), &topology));
  size_t size = 0;
  const char *bytes = ls_topology_serialized(topology, &size);
  assert_int_equal(size, sizeof(odd));
  assert_memory_equal(bytes, odd, size);
  assert_int_equal(ls_topology_num_tasks(topology), 1);
  const char *hardware = ls_topology_hardware(topology, &size);
  assert_int_equal(size, 4);
  assert_memory_equal(hardware, "\x08\x01\x10\x01", 4);
}

#define MINUS_1 "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
#define MESH "\x0a\x04\x01\x01\x01\x02"

TEST(what_does_not_fit_is_refused_by_field_and_value) {
  LS_SPEC("T35");
  static const struct {
    const char *bytes;
    size_t size;
    const char *parts[2];
  } rows[] = {
#define ROW(text, a, b)                                                        \
  {                                                                            \
    text, sizeof(text) - 1, { a, b }                                           \
  }
      ROW("", "mesh_shape", "[]"),
      ROW("\x0a\x03\x02\x01\x02", "mesh_shape", "[2, 1, 2]"),
      ROW("\x0a\x04\x02\x00\x01\x02", "mesh_shape", "[2, 0, 1, 2]"),
      ROW("\x0a\x0d\x02\x01\x01" MINUS_1, "mesh_shape", "[2, 1, 1, -1]"),
      ROW(MESH "\x10" MINUS_1, "num_tasks", "-1"),
      ROW(MESH "\x10\x01\x18" MINUS_1, "num_tpu_devices_per_task", "-1"),
      ROW(MESH "\x10\x01\x18\x02\x22\x03\x01\x01\x01", "device_coordinates",
          "3 numbers"),
      ROW(MESH "\x10\x01\x18\x02\x22\x04\x00\x00\x00\x00", "device_coordinates",
          "1 tasks x 2 devices x 4 are 8"),
      ROW(MESH "\x10\x01\x18\x01\x22\x0d\x00\x00\x00" MINUS_1,
          "device_coordinates", "-1"),
      ROW(MESH "\x10\x01\x18\x01\x22\x04\x00\x00\x00\x02", "(0, 0, 0, 2)",
          "outside"),
      ROW(MESH "\x12\x01\x01", "field 2, num_tasks", "integer"),
      ROW("\x0d\x01\x01\x01\x02", "field 1, mesh_shape", "list"),
      ROW(MESH "\x28\x01", "field 5", "message"),
      ROW(MESH "\x22\x01\x80", "field 4, device_coordinates", "cut off"),
      ROW(MESH "\x22\x09", "longer than its message", "byte 6"),
      ROW("\x07", "byte 0", "TopologyProto"),
#undef ROW
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_topology *topology = NULL;
    ls_status status =
        ls_topology_parse(rows[i].bytes, rows[i].size, &topology);
    assert_null(topology);
    assert_non_null(status);
    expect_contains(ls_status_message(status), rows[i].parts[0]);
    expect_status(status, LS_INVALID_ARGUMENT, rows[i].parts[1]);
  }
  ls_topology *topology = NULL;
  expect_status(ls_topology_parse(NULL, 3, &topology), LS_INVALID_ARGUMENT,
                "bytes is NULL");
}

MEMORY_TEST(make_topologies) {
  LS_OWN(ls_topology, parsed) = NULL;
  LS_OWN(ls_topology, made) = NULL;
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_topology_parse(small, sizeof(small), &parsed));
  static const int32_t mesh[4] = {2, 1, 1, 1};
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_I64, LS_SHAPE(1, 1, 4), &array));
  return ls_topology_create(mesh, 4, array, &made);
}
