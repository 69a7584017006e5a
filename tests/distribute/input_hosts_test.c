// SPDX-License-Identifier: Apache-2.0
// Whose input a host reads, and how much of a batch a replica gets.
#include "distribute/base/strategy.h"
#include "distribute/input/feed.h"
#include "lockstep/distribute_input.h"
#include "support/fault.h"
#include "support/spec.h"

#define HOST(task) "/job:worker/replica:0/task:" #task "/device:CPU:0"
#define TPU(task, n) "/job:worker/replica:0/task:" #task "/device:TPU:" #n

// ---- Host maps --------------------------------------------------------------
static void expect_host(const ls_host_map *map, size_t h, const char *name,
                        size_t first, const char *const *devices,
                        size_t count) {
  assert_string_equal(map->hosts[h].name, name);
  assert_int_equal(map->hosts[h].first, first);
  assert_int_equal(map->hosts[h].count, count);
  for (size_t i = 0; i < count; ++i)
    assert_string_equal(map->hosts[h].devices[i], devices[i]);
}

static ls_host_map map_of(const char *const *devices, size_t count,
                          bool to_hosts) {
  ls_host_map map = {0};
  expect_ok(
      ls_host_map_init(&map, ls_allocator_system(), devices, count, to_hosts));
  return map;
}

TEST(hosts_stand_in_the_order_in_which_replicas_name_them) {
  LS_SPEC("T135 T136");
  const char *const devices[] = {TPU(1, 0), TPU(1, 2), TPU(0, 0), TPU(0, 2)};
  LS_OWN(ls_host_map, map) = map_of(devices, 4, false);
  assert_int_equal(map.num_hosts, 2);
  assert_int_equal(map.num_values, 4);
  expect_host(&map, 0, HOST(1), 0, devices, 2);
  expect_host(&map, 1, HOST(0), 2, devices + 2, 2);
  ls_host_map_deinit(&map);
  // The other map has each host once a replica.
  map = map_of(devices, 4, true);
  const char *const hosts[] = {HOST(1), HOST(1), HOST(0), HOST(0)};
  expect_host(&map, 0, HOST(1), 0, hosts, 2);
  expect_host(&map, 1, HOST(0), 2, hosts + 2, 2);
}

TEST(values_are_numbered_host_by_host) {
  LS_SPEC("T151");
  // Replicas that go to and fro between hosts.
  const char *const devices[] = {TPU(0, 0), TPU(1, 0), TPU(0, 1), TPU(1, 1)};
  LS_OWN(ls_host_map, map) = map_of(devices, 4, false);
  const char *const first[] = {TPU(0, 0), TPU(0, 1)};
  const char *const second[] = {TPU(1, 0), TPU(1, 1)};
  expect_host(&map, 0, HOST(0), 0, first, 2);
  expect_host(&map, 1, HOST(1), 2, second, 2);
}

TEST(ranks_with_replicas_are_hosts) {
  const char *const devices[] = {
      "/job:localhost/replica:0/task:0/device:CPU:0",
      "/job:localhost/replica:0/task:0/device:CPU:1",
      "/job:localhost/replica:0/task:0/device:CPU:2",
      "/job:localhost/replica:0/task:0/device:CPU:3",
      "/job:localhost/replica:0/task:0/device:CPU:4"};
  const ls_communicator communicator = {.rank = 1, .ranks = 2};
  ls_host_map map = {0};
  expect_ok(ls_host_map_init_ranks(&map, ls_allocator_system(), devices, 5,
                                   false, &communicator));
  assert_int_equal(map.num_hosts, 2);
  expect_host(&map, 0, devices[0], 0, devices, 2);
  expect_host(&map, 1, devices[0], 2, devices + 2, 3);
  assert_true(map.hosts[0].is_other);
  assert_false(map.hosts[1].is_other);
  expect_status(ls_host_map_check_even(&map), LS_INVALID_ARGUMENT,
                "5 replicas on 2 hosts");
  ls_host_map_deinit(&map);
  // More ranks than replicas.
  const ls_communicator many = {.rank = 0, .ranks = 4};
  expect_ok(ls_host_map_init_ranks(&map, ls_allocator_system(), devices, 3,
                                   false, &many));
  assert_int_equal(map.num_hosts, 3);
  assert_int_equal(map.num_values, 3);
  for (size_t h = 0; h < 3; ++h)
    assert_true(map.hosts[h].is_other);
  ls_host_map_deinit(&map);
}

TEST(hosts_without_the_same_number_of_replicas_are_uneven) {
  LS_SPEC("T146");
  const char *const devices[] = {TPU(0, 0), TPU(0, 1), TPU(0, 2), TPU(1, 0)};
  LS_OWN(ls_host_map, map) = map_of(devices, 4, false);
  expect_status(ls_host_map_check_even(&map), LS_INVALID_ARGUMENT,
                "has 1 of the 4 replicas on 2 hosts");
  ls_host_map_deinit(&map);
  map = map_of(devices + 1, 3, false);
  expect_status(ls_host_map_check_even(&map), LS_INVALID_ARGUMENT,
                "3 replicas on 2 hosts");
}

MEMORY_TEST(map_the_hosts) {
  const char *const devices[] = {TPU(0, 0), TPU(0, 1), TPU(1, 0), TPU(1, 1)};
  ls_allocator *allocator = ls_runtime_allocator(ls_runtime_current());
  LS_OWN(ls_host_map, map) = {0};
  return ls_host_map_init(&map, allocator, devices, 4, false);
}

// ---- Sizes ------------------------------------------------------------------
enum { MOST = 5 };

TEST(parts_that_are_rounded_up_leave_the_last_ones_short) {
  LS_SPEC("M65 T148");
  const struct {
    int64_t rows, parts, want[MOST];
  } cases[] = {
      {4, 3, {2, 2, 0}}, {8, 3, {3, 3, 2}}, {5, 4, {2, 2, 1, 0}},
      {1, 2, {1, 0}},    {0, 2, {0, 0}},    {9, 1, {9}},
  };
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    const ls_row_shares shares = {.parts = cases[i].parts, .round_up = true};
    for (int64_t p = 0; p < cases[i].parts; ++p)
      assert_int_equal(ls_shares_rows(&shares, cases[i].rows, p),
                       cases[i].want[p]);
    assert_int_equal(ls_shares_begin(&shares, cases[i].rows, cases[i].parts),
                     cases[i].rows);
  }
}

TEST(a_host_cuts_by_a_list_that_is_its_own_part_ahead) {
  LS_SPEC("M176 T149");
  const int64_t first[] = {2, 2, 2, 1}, second[] = {2, 1, 2, 2};
  const ls_row_shares shares = {.parts = 4};
  for (int64_t i = 0; i < 8; ++i) {
    assert_int_equal(ls_cyclic_rows(&shares, 7, 0, i), first[i % 4]);
    assert_int_equal(ls_cyclic_rows(&shares, 7, 2, i), second[i % 4]);
  }
  // Each step uses 7 rows.
  for (int64_t step = 0; step < 6; ++step) {
    int64_t used = 0;
    for (int64_t i = 0; i < 2; ++i)
      used += ls_cyclic_rows(&shares, 7, 0, 2 * step + i) +
              ls_cyclic_rows(&shares, 7, 2, 2 * step + i);
    assert_int_equal(used, 7);
  }
}

TEST(parts_are_dealt_to_hosts_in_turns) {
  LS_SPEC("T148");
  assert_int_equal(ls_sharded_part(2, 0, 0), 0);
  assert_int_equal(ls_sharded_part(2, 0, 1), 2);
  assert_int_equal(ls_sharded_part(2, 1, 0), 1);
  assert_int_equal(ls_sharded_part(2, 1, 1), 3);
}

TEST(a_slice_has_the_rows_that_reach_its_bytes) {
  LS_SPEC("T155");
  assert_int_equal(ls_slice_rows(64 << 20, 784), 85599);
  assert_int_equal(ls_slice_rows(12, 12), 1);
  assert_int_equal(ls_slice_rows(13, 12), 2);
  assert_int_equal(ls_slice_rows(1, 1 << 30), 1);
  assert_int_equal(ls_slice_rows(8, 0), 8);
}

// ---- Contexts ---------------------------------------------------------------
TEST(a_context_divides_a_global_batch) {
  LS_SPEC("V199 T141 M66");
  int64_t size = 0;
  const ls_input_context of_four = {.num_replicas = 4};
  expect_ok(ls_input_context_per_replica_batch_size(of_four, 64, &size));
  assert_int_equal(size, 16);
  expect_status(ls_input_context_per_replica_batch_size(of_four, 63, &size),
                LS_INVALID_ARGUMENT, "a global batch of 63 on 4 replicas");
  assert_int_equal(size, 0);
  // One that says nothing is of 1 replica.
  expect_ok(ls_input_context_per_replica_batch_size((ls_input_context){0}, 63,
                                                    &size));
  assert_int_equal(size, 63);
  expect_status(ls_input_context_per_replica_batch_size(of_four, 64, NULL),
                LS_INVALID_ARGUMENT, "out_size is NULL");
}

TEST(contexts_say_which_of_how_many_they_are) {
  LS_SPEC("V199");
  char text[80];
  assert_string_equal(ls_input_context_print(
                          (ls_input_context){.num_pipelines = 3, .pipeline = 2},
                          text, sizeof(text)),
                      "input pipeline 2 of 3");
  assert_string_equal(
      ls_input_context_print((ls_input_context){0}, text, sizeof(text)),
      "input pipeline 0 of 1");
  assert_string_equal(ls_value_context_print(1, 4, text, sizeof(text)),
                      "replica 1 of 4");
}
