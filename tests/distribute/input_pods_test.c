// SPDX-License-Identifier: Apache-2.0
// Input of strategies whose replicas are on several hosts.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "data/dataset.h"
#include "distribute/input/input.h"
#include "distribute/own.h"
#include "graph/context.h"
#include "lockstep/eager.h"
#include "lockstep/element_spec.h"
#include "lockstep/files.h"
#include "support/inputs.h"
#include "support/replicas.h"

// ---- Where values are put ---------------------------------------------------
TEST(values_go_to_devices_or_stay_on_hosts) {
  LS_SPEC("T136 T137 T151");
  // Replicas that go to and fro between hosts.
  const char *const devices[] = {
      "/job:worker/task:0/device:TPU:0", "/job:worker/task:1/device:TPU:0",
      "/job:worker/task:0/device:TPU:1", "/job:worker/task:1/device:TPU:1"};
  LS_OWN(ls_strategy, pod) = pod_of(devices, 4);
  LS_OWN(ls_nest, data) = distributed(pod, number_batches(8, 4), NULL);
  assert_string_equal(ls_distributed_dataset_placement(data, 2),
                      "/job:worker/replica:0/task:0/device:TPU:1");
  ls_distributed_iterator *iterator = iterator_on(data);
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_distributed_iterator_next(iterator, &element));
  for (int r = 0; r < 4; ++r) {
    char want[80];
    snprintf(want, sizeof(want), "/job:worker/replica:0/task:%d/device:TPU:%d",
             r % 2, r / 2);
    assert_string_equal(ls_distributed_device(element, (size_t)r), want);
    assert_int_equal(
        ls_array_i64(
            ls_nest_as_array(ls_distributed_component(element, (size_t)r)), 0),
        r);
  }
  ls_distributed_iterator_release(iterator);
  data = distributed(pod, number_batches(8, 4),
                     &(ls_input_options){.fetch_to_device = LS_FLAG_OFF});
  assert_string_equal(ls_distributed_dataset_placement(data, 3),
                      "/job:worker/replica:0/task:1/device:CPU:0");
  assert_string_equal(ls_distributed_dataset_placement(data, 4), "");
}

static int64_t calls;
static ls_status count_call(void *user, int64_t index, ls_nest out) {
  (void)user;
  __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST);
  ls_array_set_i64(ls_nest_as_array(out), 0, index);
  return ls_ok();
}

static ls_dataset *counted_numbers(int64_t count) {
  return ls_dataset_from_function(
      &(ls_index_options){.size = count,
                          .element = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR),
                          .get = count_call});
}

// Waits for so many reads, and a little longer for more.
static void expect_calls(int64_t most) {
  for (int k = 0; k < 2000; ++k) {
    const int64_t now = __atomic_load_n(&calls, __ATOMIC_SEQ_CST);
    assert_true(now <= most);
    if (now == most && k > 20) break;
    ls_runtime_sleep(ls_runtime_current(), 1000000);
  }
  assert_int_equal(__atomic_load_n(&calls, __ATOMIC_SEQ_CST), most);
}

TEST(a_buffer_of_none_reads_nothing_ahead) {
  LS_SPEC("T137 V200");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  const struct {
    ls_opt size;
    int64_t most;  // Batches read after the first one was given.
  } cases[] = {{LS_SOME(0), 1}, {{0}, 2}, {LS_SOME(3), 4}};
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    calls = 0;
    LS_OWN(ls_nest, element) = ls_none();
    LS_OWN(ls_distributed_iterator, iterator) = iterator_on(distributed(
        two,
        ls_dataset_batch(counted_numbers(80), &(ls_batch_options){.size = 4}),
        &(ls_input_options){.per_replica_buffer_size = cases[i].size}));
    expect_ok(ls_distributed_iterator_next(iterator, &element));
    expect_calls(4 * cases[i].most);
  }
  expect_refused(two, number_batches(8, 4),
                 &(ls_input_options){.per_replica_buffer_size = LS_SOME(-1)},
                 LS_INVALID_ARGUMENT, "per_replica_buffer_size -1");
  expect_refused(
      two, number_batches(8, 4),
      &(ls_input_options){.per_replica_buffer_size = LS_SOME(INT64_MAX / 2 + 1),
                          .whole_elements = true},
      LS_INVALID_ARGUMENT, "must be 0 (none) to 1048576");
}

// Whole elements are read ahead where graphs are built.
TEST(devices_have_buffers_in_graphs) {
  LS_SPEC("M60 M62");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  const struct {
    bool in_graph;
    ls_flag prefetch;
    ls_opt size;
    int64_t reads;  // Once the first elements were given.
  } cases[] = {{false, LS_FLAG_DEFAULT, {0}, 2},
               {false, LS_FLAG_DEFAULT, LS_SOME(3), 2},
               {true, LS_FLAG_DEFAULT, {0}, 4},
               {true, LS_FLAG_OFF, {0}, 2},
               {true, LS_FLAG_ON, LS_SOME(3), 8}};
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    LS_OWN(ls_graph, graph) = NULL;
    ls_nest data = ls_none();
    LS_OWN(ls_nest, element) = ls_none();
    const ls_input_options options = {.whole_elements = true,
                                      .prefetch = cases[i].prefetch,
                                      .per_replica_buffer_size = cases[i].size};
    calls = 0;
    expect_ok(ls_graph_create("input", &graph));
    if (cases[i].in_graph) {
      LS_GRAPH_SCOPE(graph);
      data = distributed(two, counted_numbers(40), &options);
    } else {
      data = distributed(two, counted_numbers(40), &options);
    }
    LS_OWN(ls_distributed_iterator, iterator) = iterator_on(data);
    expect_ok(ls_distributed_iterator_next(iterator, &element));
    expect_calls(cases[i].reads);
  }
}

// ---- Sharding over hosts ----------------------------------------------------
static const ls_input_options by_file = {.sharding = LS_SHARD_FILE};
static const ls_input_options off = {.sharding = LS_SHARD_OFF};
static const ls_input_options automatic = {.sharding = LS_SHARD_AUTO};

static ls_dataset *file_batches(int64_t files, int64_t rows, int64_t size) {
  return ls_dataset_batch(numbers_in_files(files, rows),
                          &(ls_batch_options){.size = size});
}

TEST(part_i_goes_to_replica_i_whatever_the_hosts) {
  LS_SPEC("T148 T151 M181");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  LS_OWN(ls_strategy, one) = mirrored_of(4);
  ls_strategy *const both[] = {pod, one};
  for (int i = 0; i < 2; ++i) {
    EXPECT_DEALT_ON(both[i], number_batches(7, 4), NULL, "[0] [1] [2] [3]",
                    "[4] [5] [6] []");
    EXPECT_DEALT_ON(both[i], file_batches(2, 4, 8), NULL,
                    "[0 1] [2 3] [10 11] [12 13]");
  }
}

TEST(rounded_parts_are_dealt_to_hosts_in_turns) {
  LS_SPEC("T148");
  const ls_input_options up = {.round_up = true};
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  EXPECT_DEALT_ON(pod, number_batches(4, 4), &up, "[0] [2] [1] [3]");
  EXPECT_DEALT_ON(pod, number_batches(6, 6), &up, "[0 1] [4 5] [2 3] []");
  expect_refused(
      pod, number_batches(4, 4),
      &(ls_input_options){.round_up = true, .sharding = LS_SHARD_OFF},
      LS_INVALID_ARGUMENT, "round_up");
}

TEST(hosts_read_their_files) {
  LS_SPEC("T147 T149 T152 M176");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  // 2 files of 7 rows; batches of 7 on 2 hosts of 2: [2,2,2,1] and [2,1,2,2].
  const char *const steps[] = {"[0 1] [2 3] [10 11] [12]",
                               "[4 5] [6] [13 14] [15 16]"};
  const ls_input_options *const both[] = {&by_file, &automatic};
  for (size_t i = 0; i < LS_COUNT_OF(both); ++i)
    expect_dealt_on(pod, file_batches(2, 7, 7), both[i], steps, 2);
  // Three files, of which the first host has two. Hosts that end get empty
  // values while others have some,
  EXPECT_DEALT_ON(pod, file_batches(3, 4, 5), &by_file, "[0 1] [2] [10] [11]",
                  "[3] [20] [12 13] []", "[21 22] [23] [] []");
  // but where all shapes are known.
  EXPECT_DEALT_ON(pod, file_batches(3, 4, 4), &by_file, "[0] [1] [10] [11]",
                  "[2] [3] [12] [13]");
}

// Two files of 3 records of 4 bytes.
TEST(files_of_every_kind_are_dealt) {
  LS_SPEC("T147");
  char folder[] = "/tmp/lockstep-XXXXXX", paths[2][64];
  assert_non_null(mkdtemp(folder));
  const ls_file_system *system = ls_file_system_system();
  const char *const listed[] = {paths[0], paths[1]};
  for (int i = 0; i < 2; ++i) {
    snprintf(paths[i], sizeof(paths[i]), "%s/%c.bin", folder, 'a' + i);
    expect_ok(system->write(system->user, paths[i],
                            i == 0 ? "aaaabbbbcccc" : "ddddeeeeffff", 12));
  }
  ls_strategy *pod = pod_of_tasks(2, 1);
  for (int whole = 0; whole < 2; ++whole) {
    ls_dataset *records =
        ls_dataset_records(listed, 2, &(ls_records_options){.size = 4});
    if (!whole)
      records = ls_dataset_batch(records, &(ls_batch_options){.size = 2});
    LS_OWN(ls_distributed_iterator, iterator) = iterator_on(
        distributed(pod, records,
                    &(ls_input_options){.sharding = LS_SHARD_AUTO,
                                        .whole_elements = whole == 1}));
    LS_OWN(ls_nest, element) = ls_none();
    expect_ok(ls_distributed_iterator_next(iterator, &element));
    for (size_t r = 0; r < 2; ++r)
      assert_int_equal(*(const char *)ls_array_data(ls_nest_as_array(
                           ls_distributed_component(element, r))),
                       r == 0 ? 'a' : 'd');
  }
  ls_strategy_release(pod);
  for (int i = 0; i < 2; ++i)
    expect_ok(system->remove(system->user, paths[i]));
  rmdir(folder);
}

TEST(without_sharding_each_host_reads_all) {
  LS_SPEC("T147 T149 M67");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  // Each step uses 6 rows, of which host 1 reads others than host 0.
  EXPECT_DEALT_ON(pod, number_batches(6, 6), &off, "[0 1] [2 3] [0] [1]",
                  "[4] [5] [2 3] [4 5]");
  // The sizes go on over borders of batches.
  EXPECT_DEALT_ON(pod, number_batches(5, 3), &off, "[0] [1] [0] []",
                  "[2] [] [1] [2]", "[3] [4] [3] []", "[] [] [4] []");
}

TEST(a_piece_over_the_border_of_batches_is_one_array) {
  LS_SPEC("T149");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(2, 1);
  // Batches of 3, 3 and 1 rows, twice; sizes 2 and 1 in turns.
  EXPECT_DEALT_ON(pod, ls_dataset_repeat(number_batches(7, 3), 2), &off,
                  "[0 1] [0]", "[2] [1 2]", "[3 4] [3]", "[5] [4 5]",
                  "[6 0] [6]", "[1] [0 1]", "[2 3] [2]", "[4] [3 4]",
                  "[5 6] [5]", "[] [6]");
}

TEST(automatic_sharding_without_files_is_of_data) {
  LS_SPEC("T147 T148");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(2, 1);
  EXPECT_DEALT_ON(pod, number_batches(4, 4), &automatic, "[0 1] [2 3]");
  EXPECT_DEALT_ON(pod, number_batches(4, 4),
                  &(ls_input_options){.sharding = LS_SHARD_DATA},
                  "[0 1] [2 3]");
}

TEST(a_hint_is_replaced_by_a_shard) {
  LS_SPEC("T147");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(2, 1);
  const ls_input_options hint = {.sharding = LS_SHARD_HINT};
  ls_dataset *hinted =
      ls_dataset_batch(ls_dataset_shard_hint(ls_dataset_range(0, 8, 1)),
                       &(ls_batch_options){.size = 4});
  EXPECT_DEALT_ON(pod, ls_dataset_retain(hinted), &hint, "[0 2] [1 3]",
                  "[4 6] [5 7]");
  // Else it changes nothing.
  EXPECT_DEALT_ON(pod, hinted, NULL, "[0 1] [2 3]", "[4 5] [6 7]");
  expect_refused(pod, number_batches(4, 4), &hint, LS_INVALID_ARGUMENT,
                 "put ls_dataset_shard_hint");
}

TEST(sharding_is_refused_where_it_cannot_be) {
  LS_SPEC("T147 T146 M176");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  LS_OWN(ls_strategy, uneven) = pod_of_tasks(3, 2);
  expect_refused(pod, number_batches(4, 4), &by_file, LS_NOT_FOUND,
                 "none of its sources reads files");
  expect_refused(uneven, number_batches(4, 4), NULL, LS_INVALID_ARGUMENT,
                 "3 replicas on 2 hosts");
  expect_refused(uneven, file_batches(2, 4, 4), &by_file, LS_INVALID_ARGUMENT,
                 "3 replicas on 2 hosts");
  // Rows, and not batched.
  const ls_nest rows = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(4, 3));
  expect_refused(pod, ls_dataset_from_arrays(rows), &off, LS_INVALID_ARGUMENT,
                 "without batches");
}

TEST(batches_of_no_size_in_common_are_rounded_up) {
  LS_SPEC("T149");
  // Each host cuts each of its batches for all replicas.
  LS_OWN(ls_strategy, pod) = pod_of_tasks(2, 1);
  LS_OWN(ls_distributed_iterator, iterator) =
      iterator_on(distributed(pod, number_batches(5, 3), &off));
  iterator->data->batch_rows = -1;
  EXPECT_DEALT(iterator, "[0 1] [0 1]", "[2] [2]", "[3] [3]", "[4] [4]");
}

// ---- Whole elements on hosts ------------------------------------------------
TEST(workers_take_elements_in_turns) {
  LS_SPEC("M67");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  ls_input_options whole = {.whole_elements = true};
  EXPECT_DEALT_ON(pod, ls_dataset_range(0, 10, 1), &whole, "0 2 1 3",
                  "4 6 5 7");
  EXPECT_DEALT_ON(pod, numbers_in_files(2, 4), &whole, "0 1 10 11",
                  "2 3 12 13");
  whole.sharding = LS_SHARD_DATA;
  EXPECT_DEALT_ON(pod, numbers_in_files(2, 4), &whole, "0 2 1 3",
                  "10 12 11 13");
  whole.sharding = LS_SHARD_OFF;
  EXPECT_DEALT_ON(pod, ls_dataset_range(0, 4, 1), &whole, "0 1 0 1", "2 3 2 3");
}

// ---- What elements are ------------------------------------------------------
TEST(each_replica_has_its_part_of_the_spec) {
  LS_SPEC("T150");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  const struct {
    ls_dataset *dataset;
    int64_t rows;
  } cases[] = {{whole_batches(16, 8), 2},
               {whole_batches(16, 6), -1},
               {number_batches(15, 8), -1}};
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    LS_OWN(ls_nest, data) = distributed(pod, cases[i].dataset, NULL);
    LS_OWN(ls_nest, spec) = ls_none();
    expect_ok(ls_distributed_dataset_spec(data, &spec));
    assert_int_equal(ls_distributed_count(spec), 4);
    for (size_t r = 0; r < 4; ++r) {
      const ls_leaf_spec *of =
          ls_nest_as_spec(ls_distributed_component(spec, r));
      assert_int_equal(of->type.shape.rank, 1);
      assert_int_equal(of->type.shape.dim[0], cases[i].rows);
    }
  }
}

static ls_nest make_none(void *user, int64_t index) {
  (void)user;
  (void)index;
  return LS_FAIL(LS_INTERNAL, "nobody reads it");
}

static ls_dataset *of_kind(ls_leaf_kind kind) {
  const ls_leaf_spec odd = {.kind = kind,
                            .type = {LS_DTYPE_F32, LS_SHAPE(4, 3)}};
  const char *const keys[] = {"a", "b"};
  return ls_dataset_from_function(&(ls_index_options){
      .size = 4,
      .element =
          LS_TUPLE(ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(4)),
                   ls_nest_dict("", keys,
                                (const ls_nest[]){
                                    ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(4)),
                                    ls_nest_spec_of(&odd)},
                                2)),
      .make = make_none});
}

TEST(only_dense_leaves_are_fetched_to_devices) {
  LS_SPEC("T145 T142");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(2, 1);
  const char *const says[] = {"leaf [1]['b'] of a data set", "is sparse",
                              "fetch_to_device"};
  for (size_t i = 0; i < LS_COUNT_OF(says); ++i)
    expect_refused(pod, of_kind(LS_LEAF_SPARSE), NULL, LS_INVALID_ARGUMENT,
                   says[i]);
  expect_refused(pod, of_kind(LS_LEAF_RAGGED), NULL, LS_INVALID_ARGUMENT,
                 "is ragged");
  ls_nest_release(
      distributed(pod, of_kind(LS_LEAF_RAGGED),
                  &(ls_input_options){.fetch_to_device = LS_FLAG_OFF}));
  // What replicas have is looked through.
  const ls_leaf_spec sparse = {.kind = LS_LEAF_SPARSE,
                               .type = {LS_DTYPE_F32, LS_SHAPE(4, 3)}};
  const ls_nest parts[] = {ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(4, 3)),
                           ls_nest_spec_of(&sparse)};
  LS_OWN(ls_nest, specs) =
      LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, parts, 2));
  expect_status(ls_input_check_dense(specs, "a pod"), LS_INVALID_ARGUMENT,
                "leaf [0] of a data set for a pod is sparse");
}

TEST(a_data_set_has_no_pipeline_a_replica) {
  LS_SPEC("T142 V200 M180");
  const ls_input_options per_replica = {.replication = LS_PIPELINE_PER_REPLICA};
  LS_OWN(ls_strategy, pod) = pod_of_tasks(2, 1);
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  ls_strategy *usual = NULL;
  expect_ok(ls_strategy_default(&usual));
  ls_strategy *const all[] = {pod, two, usual};
  for (size_t i = 0; i < LS_COUNT_OF(all); ++i)
    expect_refused(all[i], number_batches(4, 2), &per_replica, LS_UNIMPLEMENTED,
                   "distribute_datasets_from_function");
  // It comes before the check of leaves.
  expect_refused(pod, of_kind(LS_LEAF_SPARSE), &per_replica, LS_UNIMPLEMENTED,
                 "PER_REPLICA");
  // Where a data set is made is nobody's business who gives one.
  EXPECT_DEALT_ON(pod, number_batches(2, 2),
                  &(ls_input_options){.place_dataset_on_device = true},
                  "[0] [1]");
}

TEST(options_that_there_are_not_are_refused) {
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  const struct {
    ls_input_options options;
    const char *says;
  } cases[] = {
      {{.fetch_to_device = (ls_flag)7}, "fetch_to_device 7"},
      {{.prefetch = (ls_flag)7}, "prefetch 7"},
      {{.replication = (ls_replication_mode)7}, "replication 7"},
      {{.sharding = (ls_shard_policy)7}, "sharding 7"},
      {{.whole_elements = true, .round_up = true}, "whole_elements"},
      {{.prefetch = LS_FLAG_OFF}, "prefetch is for whole_elements"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i)
    expect_refused(two, number_batches(4, 2), &cases[i].options,
                   LS_INVALID_ARGUMENT, cases[i].says);
}
