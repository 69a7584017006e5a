// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/runtime.h"
#include "lockstep/topology.h"
#include "support/assignments.h"
#include "support/fault.h"
#include "support/spec.h"
#include "tpu/own.h"

#define SIZES(a, b, c, d)                                                      \
  (const int32_t[4]) { a, b, c, d }

// Devices of a mesh in the order of their places; the last `missing` of them
// are left out.
static ls_topology *most_of_mesh(const int32_t mesh[4], int32_t tasks,
                                 int32_t missing) {
  const int32_t count = mesh[0] * mesh[1] * mesh[2] * mesh[3] - missing;
  return mesh_topology(mesh, tasks, count / tasks);
}

// "0000 0001|0010 0011": places of each replica's cores.
static const char *print(const ls_device_assignment *assignment) {
  static char text[4096];
  size_t at = 0;
  text[0] = '\0';
  for (int32_t r = 0; r < ls_device_assignment_num_replicas(assignment); ++r)
    for (int32_t c = 0;
         c < ls_device_assignment_num_cores_per_replica(assignment); ++c) {
      ls_coordinate place;
      expect_ok(ls_device_assignment_place(assignment, r, c, &place));
      at +=
          (size_t)snprintf(text + at, sizeof(text) - at, "%s%d%d%d%d",
                           r + c == 0 ? ""
                           : c == 0   ? "|"
                                      : " ",
                           place.at[0], place.at[1], place.at[2], place.at[3]);
    }
  return text;
}

typedef struct build_case {
  int32_t mesh[4], shape[4], stride[4];
  int replicas;
  ls_device_order order;
  const char *wanted;
} build_case;

static ls_status build(const build_case *row, ls_topology *topology,
                       ls_device_assignment **out) {
  const ls_device_assignment_options options = {
      .shape = row->shape[0] != 0 ? row->shape : NULL,
      .shape_rank = row->shape[0] != 0 ? 4 : 0,
      .stride = row->stride[0] != 0 ? row->stride : NULL,
      .stride_rank = row->stride[0] != 0 ? 4 : 0,
      .num_replicas = row->replicas != 0 ? LS_SOME(row->replicas) : (ls_opt){0},
      .order = row->order};
  return ls_device_assignment_build(topology, &options, out);
}

static void expect_built(const build_case *rows, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    LS_OWN(ls_topology, topology) = most_of_mesh(rows[i].mesh, 1, 0);
    LS_OWN(ls_device_assignment, got) = NULL;
    expect_ok(build(&rows[i], topology, &got));
    if (strcmp(print(got), rows[i].wanted) != 0)
      fail_msg("row %zu: %s, wanted %s", i, print(got), rows[i].wanted);
  }
}

// ---- By hand ---------------------------------------------------------------
TEST(an_assignment_is_replicas_by_cores) {
  LS_SPEC("T36");
  LS_OWN(ls_topology, topology) = most_of_mesh(SIZES(2, 2, 1, 2), 2, 0);
  static const int32_t data[] = {0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0,
                                 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1};
  ls_array *cores = NULL;
  ls_device_assignment *assignment = NULL;
  expect_ok(
      ls_array_create_copy(LS_DTYPE_I32, LS_SHAPE(3, 2, 4), data, &cores));
  expect_ok(ls_device_assignment_create(topology, cores, &assignment));
  assert_int_equal(ls_device_assignment_num_replicas(assignment), 3);
  assert_int_equal(ls_device_assignment_num_cores_per_replica(assignment), 2);
  assert_ptr_equal(ls_device_assignment_topology(assignment), topology);
  assert_string_equal(print(assignment), "0000 0001|1000 1001|0100 0101");
  ls_device_assignment_release(assignment);
  ls_array_release(cores);

  const struct {
    ls_shape shape;
    const char *part;
  } rows[] = {{LS_SHAPE(2, 4), "i32[2,4]"},
              {LS_SHAPE(1, 1, 1, 4), "i32[1,1,1,4]"},
              {LS_SHAPE(1, 1, 3), "i32[1,1,3]"},
              {LS_SHAPE(0, 1, 4), "i32[0,1,4] is empty"},
              {LS_SHAPE(1, 0, 4), "i32[1,0,4] is empty"},
              {LS_SHAPE(9, 1, 4), "more cores than the mesh, 8"}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    expect_ok(ls_array_create(LS_DTYPE_I32, rows[i].shape, &cores));
    expect_status(ls_device_assignment_create(topology, cores, &assignment),
                  LS_INVALID_ARGUMENT, rows[i].part);
    assert_null(assignment);
    ls_array_release(cores);
  }
}

TEST(the_single_core_assignment_is_the_first_core) {
  LS_SPEC("T36");
  LS_OWN(ls_topology, topology) = most_of_mesh(SIZES(2, 2, 1, 2), 2, 0);
  LS_OWN(ls_array, cores) = NULL;
  LS_OWN(ls_device_assignment, assignment) = NULL;
  expect_ok(ls_single_core_assignment(&cores));
  assert_true(ls_shape_equal(ls_array_shape(cores), LS_SHAPE(1, 1, 4)));
  expect_ok(ls_device_assignment_create(topology, cores, &assignment));
  assert_string_equal(print(assignment), "0000");
}

TEST(look_ups_are_by_replica_and_logical_core) {
  LS_SPEC("T37");
  LS_OWN(ls_topology, topology) = most_of_mesh(SIZES(2, 2, 1, 2), 2, 0);
  // Replicas 0 and 3 have their core 0 on task 1, 1 and 2 on task 0.
  static const int32_t data[] = {1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0,
                                 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0,
                                 0, 1, 1, 1, 0, 1, 1, 0, 0, 0};
  LS_OWN(ls_array, cores) = NULL;
  LS_OWN(ls_device_assignment, assignment) = NULL;
  expect_ok(
      ls_array_create_copy(LS_DTYPE_I32, LS_SHAPE(4, 2, 4), data, &cores));
  expect_ok(ls_device_assignment_create(topology, cores, &assignment));
  int32_t ordinal = -1;
  ls_device_name name;
  ls_coordinate place;
  expect_ok(ls_device_assignment_place(assignment, 0, 0, &place));
  assert_memory_equal(&place, data, sizeof(place));
  expect_ok(ls_device_assignment_ordinal(assignment, 0, 0, &ordinal));
  assert_int_equal(ordinal, 1);
  expect_ok(ls_device_assignment_device(assignment, 0, 0, NULL, &name));
  assert_string_equal(name.text, "/task:1/device:TPU:1");
  expect_ok(ls_device_assignment_host(assignment, 0, 0, NULL, &name));
  assert_string_equal(name.text, "/task:1/device:CPU:0");
  expect_ok(ls_device_assignment_device(assignment, 2, 1, "w", &name));
  assert_string_equal(name.text, "/job:w/task:0/device:TPU:1");
  expect_ok(ls_device_assignment_host(assignment, 2, 1, "w", &name));
  assert_string_equal(name.text, "/job:w/task:0/device:CPU:0");

  int32_t replicas[4] = {-1, -1, -1, -1};
  size_t count = 0;
  expect_ok(
      ls_device_assignment_replicas_on(assignment, 1, 0, replicas, 4, &count));
  assert_int_equal(count, 2);
  assert_int_equal(replicas[0], 0);
  assert_int_equal(replicas[1], 3);
  expect_ok(
      ls_device_assignment_replicas_on(assignment, 0, 1, replicas, 1, &count));
  assert_int_equal(count, 2);
  assert_int_equal(replicas[0], 0);
  assert_int_equal(replicas[1], 3);
  expect_status(
      ls_device_assignment_replicas_on(assignment, 5, 1, replicas, 4, &count),
      LS_INVALID_ARGUMENT, "logical core 1 on task 5");
  expect_status(
      ls_device_assignment_replicas_on(assignment, 0, 2, NULL, 0, &count),
      LS_INVALID_ARGUMENT, "logical core 2 on task 0");
  expect_status(ls_device_assignment_device(assignment, 4, 0, NULL, &name),
                LS_INVALID_ARGUMENT, "replica 4 logical core 0");
  expect_status(ls_device_assignment_ordinal(assignment, 0, -1, &ordinal),
                LS_INVALID_ARGUMENT, "logical core -1");
}

TEST(a_core_is_used_once_and_must_be_there) {
  LS_SPEC("T43");
  LS_OWN(ls_topology, topology) = most_of_mesh(SIZES(2, 2, 1, 2), 1, 2);
  static const struct {
    int32_t data[8];
    const char *part;
  } rows[] = {
      {{0, 0, 0, 0, 2, 0, 0, 0}, "(2, 0, 0, 0) is outside"},
      {{0, -1, 0, 0, 0, 0, 0, 0}, "(0, -1, 0, 0) is outside"},
      {{0, 0, 0, 0, 1, 1, 0, 1}, "(1, 1, 0, 1) has no device"},
      {{0, 1, 0, 0, 0, 1, 0, 0}, "(0, 1, 0, 0) is used twice"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_array, cores) = NULL;
    ls_device_assignment *assignment = NULL;
    expect_ok(ls_array_create_copy(LS_DTYPE_I32, LS_SHAPE(2, 1, 4),
                                   rows[i].data, &cores));
    expect_status(ls_device_assignment_create(topology, cores, &assignment),
                  LS_INVALID_ARGUMENT, rows[i].part);
  }
}

// ---- Built -----------------------------------------------------------------
TEST(defaults_are_one_replica_of_one_core) {
  LS_SPEC("T38");
  LS_OWN(ls_topology, topology) = most_of_mesh(SIZES(2, 2, 1, 2), 1, 0);
  LS_OWN(ls_device_assignment, got) = NULL;
  expect_ok(ls_device_assignment_build(topology, NULL, &got));
  assert_string_equal(print(got), "0000");
}

TEST(what_does_not_fit_the_mesh_is_refused) {
  LS_SPEC("T38");
  static const struct {
    build_case c;
    const char *parts[3];
  } rows[] = {
      {{{2, 2, 1, 2}, {1, 0, 1, 1}, {0}, 0, LS_DEVICE_ORDER_AUTO, ""},
       {"shape [1, 0, 1, 1]", "4 sizes", ""}},
      {{{2, 2, 1, 2}, {1, 1, 1, 1}, {1, 1, 1, -2}, 0, LS_DEVICE_ORDER_AUTO, ""},
       {"stride [1, 1, 1, -2]", "4 sizes", ""}},
      {{{2, 2, 1, 2}, {1, 3, 1, 1}, {0}, 0, LS_DEVICE_ORDER_AUTO, ""},
       {"[1, 3, 1, 1]", "[2, 2, 1, 2]", "3"}},
      {{{4, 2, 1, 2}, {2, 1, 1, 1}, {3, 1, 1, 1}, 0, LS_DEVICE_ORDER_AUTO, ""},
       {"[2, 1, 1, 1]", "[3, 1, 1, 1]", "takes 6"}},
      {{{2, 2, 1, 2}, {1, 1, 1, 2}, {0}, 5, LS_DEVICE_ORDER_AUTO, ""},
       {"5 replicas", "1 to 4", "[2, 2, 1, 2]"}},
      {{{2, 2, 1, 2}, {0}, {0}, -1, LS_DEVICE_ORDER_AUTO, ""},
       {"-1 replicas", "1 to 8", ""}},
      // (5 / 4) x 2 along x: a stride leaves room between its cores.
      {{{5, 1, 1, 1}, {2, 1, 1, 1}, {2, 1, 1, 1}, 3, LS_DEVICE_ORDER_AUTO, ""},
       {"3 replicas", "1 to 2", ""}},
      {{{2, 2, 1, 2}, {0}, {0}, 1, (ls_device_order)7, ""},
       {"order 7", "", ""}},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_topology, topology) = most_of_mesh(rows[i].c.mesh, 1, 0);
    ls_device_assignment *got = NULL;
    ls_status status = build(&rows[i].c, topology, &got);
    assert_null(got);
    assert_non_null(status);
    expect_contains(ls_status_message(status), rows[i].parts[0]);
    expect_contains(ls_status_message(status), rows[i].parts[1]);
    expect_status(status, LS_INVALID_ARGUMENT, rows[i].parts[2]);
  }
  LS_OWN(ls_topology, topology) = most_of_mesh(SIZES(2, 2, 1, 2), 1, 0);
  ls_device_assignment *got = NULL;
  expect_status(ls_device_assignment_build(
                    topology,
                    &(ls_device_assignment_options){.shape = SIZES(1, 1, 1, 1),
                                                    .shape_rank = 3},
                    &got),
                LS_INVALID_ARGUMENT, "shape [1, 1, 1]");
  expect_status(ls_device_assignment_build(
                    topology,
                    &(ls_device_assignment_options){.num_replicas = LS_SOME(0)},
                    &got),
                LS_INVALID_ARGUMENT, "0 replicas");
}

TEST(replicas_stand_as_near_to_a_cube_as_can_be) {
  LS_SPEC("T39");
  static const build_case rows[] = {
      // The core axis goes first among equal ones: (2, 1, 1, 2) for 4.
      {{2, 2, 2, 2}, {0}, {0}, 4, LS_DEVICE_ORDER_AUTO, "0000|0001|1000|1001"},
      {{2, 2, 1, 2},
       {0},
       {0},
       8,
       LS_DEVICE_ORDER_MESH,
       "0000|0001|1000|1001|0100|0101|1100|1101"},
      // y has the fewest places but for z, so it is filled before x.
      {{4, 2, 1, 1}, {0}, {0}, 4, LS_DEVICE_ORDER_AUTO, "0000|1000|0100|1100"},
      {{4, 2, 1, 1}, {0}, {0}, 3, LS_DEVICE_ORDER_AUTO, "0000|1000|0100"},
      {{4, 4, 1, 1},
       {0},
       {0},
       5,
       LS_DEVICE_ORDER_AUTO,
       "0000|1000|2000|0100|1100"},
      {{1, 1, 1, 8}, {0}, {0}, 3, LS_DEVICE_ORDER_AUTO, "0000|0001|0002"},
      // Blocks: x, y, z, core row by row.
      {{4, 2, 1, 2},
       {2, 1, 1, 2},
       {0},
       2,
       LS_DEVICE_ORDER_AUTO,
       "0000 0001 1000 1001|2000 2001 3000 3001"},
      // Strides: replicas lie between one another's cores.
      {{4, 1, 1, 1},
       {2, 1, 1, 1},
       {2, 1, 1, 1},
       2,
       LS_DEVICE_ORDER_AUTO,
       "0000 2000|1000 3000"},
      {{8, 1, 1, 1},
       {2, 1, 1, 1},
       {2, 1, 1, 1},
       4,
       LS_DEVICE_ORDER_AUTO,
       "0000 2000|1000 3000|4000 6000|5000 7000"},
  };
  expect_built(rows, LS_COUNT_OF(rows));
}

TEST(full_meshes_are_rings) {
  LS_SPEC("T40");
  static const build_case rows[] = {
      // A ring of replicas, a chip each.
      {{4, 4, 1, 1},
       {0},
       {0},
       16,
       LS_DEVICE_ORDER_AUTO,
       "0000|1000|2000|3000|3100|2100|1100|1200|2200|3200|3300|2300|1300|"
       "0300|0200|0100"},
      {{2, 2, 1, 2},
       {1, 1, 1, 2},
       {0},
       4,
       LS_DEVICE_ORDER_AUTO,
       "0000 0001|1000 1001|1100 1101|0100 0101"},
      {{2, 2, 1, 2},
       {1, 1, 1, 2},
       {0},
       4,
       LS_DEVICE_ORDER_RING,
       "0000 0001|1000 1001|1100 1101|0100 0101"},
      {{2, 2, 1, 2},
       {1, 1, 1, 2},
       {0},
       4,
       LS_DEVICE_ORDER_MESH,
       "0000 0001|1000 1001|0100 0101|1100 1101"},
      // A ring of chips inside of a block.
      {{2, 2, 1, 2},
       {2, 2, 1, 2},
       {0},
       1,
       LS_DEVICE_ORDER_AUTO,
       "0000 0001 1000 1001 1100 1101 0100 0101"},
      // Both.
      {{4, 4, 1, 1},
       {2, 2, 1, 1},
       {0},
       4,
       LS_DEVICE_ORDER_AUTO,
       "0000 1000 1100 0100|2000 3000 3100 2100|2200 3200 3300 2300|"
       "0200 1200 1300 0300"},
      // Not all replicas, not all cores of a chip, a stride: no ring.
      {{2, 2, 1, 2},
       {1, 1, 1, 2},
       {0},
       3,
       LS_DEVICE_ORDER_AUTO,
       "0000 0001|1000 1001|0100 0101"},
      {{2, 2, 1, 2},
       {0},
       {0},
       8,
       LS_DEVICE_ORDER_AUTO,
       "0000|0001|1000|1001|0100|0101|1100|1101"},
      {{2, 4, 1, 1},
       {1, 2, 1, 1},
       {1, 2, 1, 1},
       4,
       LS_DEVICE_ORDER_AUTO,
       "0000 0200|1000 1200|0100 0300|1100 1300"},
  };
  expect_built(rows, LS_COUNT_OF(rows));
}

TEST(a_ring_that_is_asked_for_must_be_there) {
  LS_SPEC("T40");
  static const build_case rows[] = {
      {{2, 2, 1, 2}, {1, 1, 1, 2}, {0}, 3, LS_DEVICE_ORDER_RING, ""},
      {{2, 2, 1, 2}, {0}, {0}, 8, LS_DEVICE_ORDER_RING, ""},
      {{2, 4, 1, 1}, {1, 2, 1, 1}, {1, 2, 1, 1}, 4, LS_DEVICE_ORDER_RING, ""},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_topology, topology) = most_of_mesh(rows[i].mesh, 1, 0);
    ls_device_assignment *got = NULL;
    expect_status(build(&rows[i], topology, &got), LS_INVALID_ARGUMENT,
                  "no ring");
  }
}

TEST(rings_of_lines_flat_and_full_meshes) {
  LS_SPEC("T41");
  static const build_case rows[] = {
      {{4, 1, 1, 1}, {0}, {0}, 4, LS_DEVICE_ORDER_RING, "0000|1000|2000|3000"},
      {{1, 3, 1, 1}, {0}, {0}, 3, LS_DEVICE_ORDER_RING, "0000|0100|0200"},
      {{1, 1, 5, 1},
       {0},
       {0},
       5,
       LS_DEVICE_ORDER_RING,
       "0000|0010|0020|0030|0040"},
      // Two axes: x and z, y and z.
      {{4, 1, 2, 1},
       {0},
       {0},
       8,
       LS_DEVICE_ORDER_RING,
       "0000|1000|2000|3000|3010|2010|1010|0010"},
      {{1, 2, 4, 1},
       {0},
       {0},
       8,
       LS_DEVICE_ORDER_RING,
       "0000|0100|0110|0120|0130|0030|0020|0010"},
      // Three: layer 1 backwards, then down the corner.
      {{2, 2, 2, 1},
       {0},
       {0},
       8,
       LS_DEVICE_ORDER_RING,
       "0000|1000|1100|0100|0110|1110|1010|0010"},
      {{2, 2, 4, 1},
       {0},
       {0},
       16,
       LS_DEVICE_ORDER_RING,
       "0000|1000|1100|0100|0110|1110|1010|1020|1120|0120|0130|1130|1030|"
       "0030|0020|0010"},
  };
  expect_built(rows, LS_COUNT_OF(rows));
}

// Each chip is beside the one before, and the last beside the first.
TEST(a_ring_goes_from_chip_to_chip) {
  LS_SPEC("T41");
  static const int32_t meshes[][4] = {
      {4, 4, 1, 2}, {8, 2, 1, 1}, {4, 1, 6, 2}, {4, 4, 4, 2}, {2, 6, 4, 1}};
  for (size_t i = 0; i < LS_COUNT_OF(meshes); ++i) {
    const int32_t *mesh = meshes[i];
    const int32_t shape[4] = {1, 1, 1, mesh[3]};
    const int chips = mesh[0] * mesh[1] * mesh[2];
    LS_OWN(ls_topology, topology) = most_of_mesh(mesh, 1, 0);
    LS_OWN(ls_device_assignment, got) = NULL;
    expect_ok(ls_device_assignment_build(
        topology,
        &(ls_device_assignment_options){.shape = shape,
                                        .shape_rank = 4,
                                        .num_replicas = LS_SOME(chips),
                                        .order = LS_DEVICE_ORDER_RING},
        &got));
    for (int r = 0; r < chips; ++r) {
      ls_coordinate a, b;
      expect_ok(ls_device_assignment_place(got, r, 0, &a));
      expect_ok(ls_device_assignment_place(got, (r + 1) % chips, 0, &b));
      int steps = 0;
      for (int k = 0; k < 4; ++k)
        steps += a.at[k] > b.at[k] ? a.at[k] - b.at[k] : b.at[k] - a.at[k];
      assert_int_equal(steps, 1);
    }
  }
}

static int warnings;
static void count_warning(void *user, const ls_log_line *line) {
  (void)user;
  if (line->level == LS_LOG_WARNING && strstr(line->text, "odd dimension"))
    ++warnings;
}

TEST(odd_sizes_are_no_ring_and_warn) {
  LS_SPEC("T41");
  static const build_case rows[] = {
      {{3, 2, 1, 1},
       {0},
       {0},
       6,
       LS_DEVICE_ORDER_RING,
       "0000|1000|2000|0100|1100|2100"},
      {{2, 2, 3, 1},
       {0},
       {0},
       12,
       LS_DEVICE_ORDER_RING,
       "0000|1000|0100|1100|0010|1010|0110|1110|0020|1020|0120|1120"},
  };
  ls_runtime *runtime = NULL;
  expect_ok(
      ls_runtime_create(&(ls_runtime_options){.log = count_warning}, &runtime));
  ls_runtime *before = ls_runtime_make_current(runtime);
  warnings = 0;
  expect_built(rows, LS_COUNT_OF(rows));
  assert_int_equal(warnings, 2);
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
}

TEST(missing_devices_are_dealt_in_the_order_of_tasks) {
  LS_SPEC("T42");
  // Tasks of 3 devices in a mesh of 8: (1, 1, 0, x) are missing.
  LS_OWN(ls_topology, topology) = most_of_mesh(SIZES(2, 2, 1, 2), 2, 2);
  ls_device_assignment *got = NULL;
  build_case row = {{0}, {2, 1, 1, 1}, {0}, 3, LS_DEVICE_ORDER_RING, ""};
  expect_ok(build(&row, topology, &got));
  assert_string_equal(print(got), "0000 0001|0100 0101|1000 1001");
  ls_device_assignment_release(got);
  row = (build_case){{0}, {2, 1, 1, 1}, {0}, 4, LS_DEVICE_ORDER_AUTO, ""};
  ls_status status = build(&row, topology, &got);
  assert_non_null(status);
  expect_contains(ls_status_message(status), "4 replicas of 2 cores");
  expect_status(status, LS_INVALID_ARGUMENT, "6 devices");
  row = (build_case){{0}, {1, 1, 1, 1},         {1, 1, 1, 2},
                     1,   LS_DEVICE_ORDER_AUTO, ""};
  expect_status(build(&row, topology, &got), LS_INVALID_ARGUMENT,
                "stride [1, 1, 1, 2]");
}

static ls_status build_once(void *user) {
  ls_topology *topology = user;
  LS_OWN(ls_device_assignment, got) = NULL;
  LS_RETURN_IF_ERROR(ls_device_assignment_build(
      topology,
      &(ls_device_assignment_options){.shape = SIZES(2, 1, 1, 2),
                                      .shape_rank = 4,
                                      .num_replicas = LS_SOME(2)},
      &got));
  return ls_ok();
}

TEST(failed_allocations_are_survived) {
  LS_OWN(ls_topology, topology) = most_of_mesh(SIZES(2, 2, 1, 2), 1, 0);
  REFUSE_EACH(build_once, topology);
}
