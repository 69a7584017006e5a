// SPDX-License-Identifier: Apache-2.0
//
// Collective ops of one process: options, packs, and where results come from.
#include "distribute/own.h"
#include "lockstep/graph_ops.h"
#include "lockstep/multi_worker.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/placed.h"

static const char *const gpus[] = {"/gpu:0", "/gpu:1"};

static ls_status make(size_t devices, int32_t size,
                      ls_collective_options options) {
  LS_OWN(ls_cross_device, ops) = NULL;
  return ls_collective_ops_create(gpus, devices, size, &options, &ops);
}

TEST(a_group_is_so_many_times_the_local_devices) {
  LS_SPEC("M118");
  expect_status(make(2, 3, (ls_collective_options){0}), LS_INVALID_ARGUMENT,
                "group size 3");
  expect_status(make(2, 0, (ls_collective_options){0}), LS_INVALID_ARGUMENT,
                "group size 0");
  expect_status(make(0, 2, (ls_collective_options){0}), LS_INVALID_ARGUMENT,
                "group size 2");
  expect_ok(make(2, 2, (ls_collective_options){0}));
  expect_status(make(2, 6, (ls_collective_options){0}), LS_FAILED_PRECONDITION,
                "3 workers: the runtime has 1 ranks");
}

TEST(options_of_collectives_are_checked_and_merged) {
  LS_SPEC("M119");
  expect_status(make(2, 2, (ls_collective_options){.bytes_per_pack = -5}),
                LS_INVALID_ARGUMENT, "bytes_per_pack -5");
  expect_status(make(2, 2, (ls_collective_options){.timeout_seconds = -1}),
                LS_INVALID_ARGUMENT, "timeout_seconds -1");
  expect_status(make(2, 2,
                     (ls_collective_options){
                         .implementation = (ls_collective_implementation)3}),
                LS_INVALID_ARGUMENT, "implementation 3");
  ls_collective_implementation found;
  expect_ok(ls_collective_implementation_parse("rInG", &found));
  assert_int_equal(found, LS_COLLECTIVE_RING);
  expect_ok(ls_collective_implementation_parse("nccl", &found));
  assert_int_equal(found, LS_COLLECTIVE_NCCL);
  expect_ok(ls_collective_implementation_parse("AUTO", &found));
  assert_int_equal(found, LS_COLLECTIVE_AUTO);
  expect_status(ls_collective_implementation_parse("gloo", &found),
                LS_INVALID_ARGUMENT, "'gloo'");
  const ls_collective_options first = {.bytes_per_pack = 7,
                                       .implementation = LS_COLLECTIVE_RING};
  const ls_collective_options second = {.timeout_seconds = 2,
                                        .implementation = LS_COLLECTIVE_NCCL};
  ls_collective_options merged = ls_collective_options_merge(&first, &second);
  assert_int_equal(merged.bytes_per_pack, 7);
  assert_true(merged.timeout_seconds == 2);
  assert_int_equal(merged.implementation, LS_COLLECTIVE_NCCL);
  merged = ls_collective_options_merge(&second, &first);
  assert_int_equal(merged.implementation, LS_COLLECTIVE_RING);
  merged = ls_collective_options_merge(&second, &(ls_collective_options){0});
  assert_int_equal(merged.implementation, LS_COLLECTIVE_NCCL);
}

// ---- Packs -----------------------------------------------------------------
enum { VALUES = 4 };

// Reduces values of these sizes (-1: not known), and returns the number of
// sums.
static size_t count_sums(int64_t bytes_per_pack, const int64_t *sizes) {
  LS_OWN(ls_cross_device, ops) = NULL;
  expect_ok(ls_collective_ops_create(
      gpus, 2, 2, &(ls_collective_options){.bytes_per_pack = bytes_per_pack},
      &ops));
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_GRAPH_SCOPE(graph);
  ls_nest values[VALUES];
  for (int i = 0; i < VALUES; ++i) {
    double numbers[512];
    for (int k = 0; k < 512; ++k)
      numbers[k] = 10 * i + (k >= sizes[i]);
    const ls_tensor vague =
        sizes[i] < 0 ? ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1), "vague")
                     : ls_failed_tensor();
    values[i] = sizes[i] < 0
                    ? placed_on(gpus, (ls_tensor[]){vague, vague}, 2)
                    : placed_values("GPU", LS_DTYPE_F32, 2, sizes[i], numbers);
  }
  const ls_destinations where[VALUES] = {{0}};
  LS_OWN(ls_nest, list) = ls_none();
  expect_ok(ls_cross_device_batch_reduce(ops, LS_REDUCE_SUM, values, where,
                                         VALUES, &list));
  for (int i = 0; i < VALUES; ++i) {
    double sums[256];
    for (int k = 0; k < 256; ++k)
      sums[k] = 20 * i + 1;
    if (sizes[0] >= 0)
      expect_fetched(ls_nest_item(list, (size_t)i), 1, sums, (size_t)sizes[i]);
    ls_nest_release(values[i]);
  }
  return count_ops(graph, "add_n", NULL);
}

TEST(packs_are_full_with_more_than_so_many_bytes) {
  LS_SPEC("M120");
  // Packed from the end: 128, 32 and 800 bytes, then 4.
  const int64_t sizes[VALUES] = {1, 200, 8, 32};
  assert_int_equal(count_sums(200, sizes), 2);
  assert_int_equal(count_sums(160, sizes), 2);  // 160 are not more than 160.
  assert_int_equal(count_sums(159, sizes), 3);
  assert_int_equal(count_sums(1, sizes), 4);
  assert_int_equal(count_sums(0, sizes), 1);
  const int64_t vague[VALUES] = {-1, 200, 8, 32};
  LS_OWN_BEGUN(logged_runtime, it, logged_runtime_begin);
  assert_int_equal(count_sums(1, vague), 1);
  expect_contains(it.text, "no known size");
}

TEST(packs_are_joined_from_the_end_of_the_batch) {
  LS_SPEC("M120");
  const int64_t sizes[VALUES] = {32, 8, 200, 1};
  // From the end: 4 and 800 bytes, then 32 and 128; from the start it would be
  // three values and one.
  LS_OWN(ls_cross_device, ops) = NULL;
  assert_int_equal(count_sums(200, sizes), 2);
  const int64_t turned[VALUES] = {1, 1, 1, 200};
  assert_int_equal(count_sums(700, turned), 2);
  const int64_t straight[VALUES] = {200, 1, 1, 1};
  assert_int_equal(count_sums(700, straight), 1);
}

// ---- Destinations ----------------------------------------------------------
TEST(a_destination_copies_from_its_own_result_or_the_first) {
  LS_SPEC("M123");
  LS_OWN(ls_cross_device, ops) = NULL;
  expect_ok(ls_collective_ops_create(gpus, 2, 2, NULL, &ops));
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, value) =
        placed_values("GPU", LS_DTYPE_F32, 2, 0, (double[]){3, 4});
    static const char *const three[] = {"/gpu:1", "/gpu:5", "/gpu:7"};
    LS_OWN(ls_nest, made) = ls_none();
    expect_ok(ls_cross_device_reduce(
        ops, LS_REDUCE_SUM, value,
        (ls_destinations){.devices = three, .num_devices = 3}, &made));
    assert_int_equal(ls_distributed_count(made), 3);
    static const char *const sources[] = {"GPU:1", "GPU:0", "GPU:0"};
    for (size_t i = 0; i < 3; ++i) {
      expect_fetched(made, i, (double[]){7}, 1);
      const ls_op copy =
          ls_tensor_op(ls_distributed_component(made, i).as.tensor);
      const char *device = ls_op_device(ls_tensor_op(ls_op_input(copy, 0)));
      expect_contains(device, sources[i]);
    }
    assert_string_equal(component_on(made, 2), "GPU:7");
  }
}

// ---- Memory ----------------------------------------------------------------
MEMORY_TEST(make_ops_for_workers) {
  static const char *const worker[] = {"/job:worker/task:0"};
  static const ls_cluster_job job[] = {{"worker", worker, 1}};
  static const ls_cluster_spec cluster = {job, 1};
  LS_OWN(ls_cross_device, ops) = NULL;
  LS_OWN(ls_cross_device, specs) = NULL;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_RETURN_IF_ERROR(ls_collective_ops_create(gpus, 2, 2, NULL, &ops));
  LS_RETURN_IF_ERROR(ls_spec_all_reduce_create(
      &(ls_spec_all_reduce_options){.workers = worker,
                                    .num_workers = 1,
                                    .gpus_per_worker = 2,
                                    .specs =
                                        &(ls_all_reduce_spec){.name = "nccl"},
                                    .num_specs = 1},
      &specs));
  return ls_multi_worker_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2)},
      &(ls_worker_options){
          .cluster = &cluster, .task_type = "worker", .task_id = LS_SOME(0)},
      &strategy);
}

TEST(each_component_counts_once_wherever_it_is) {
  LS_SPEC("M121");
  static const char *const same[] = {"/gpu:0", "/gpu:0"};
  for (int placed = 0; placed < 2; ++placed)
    for (int batch = 0; batch < 2; ++batch) {
      LS_OWN(ls_cross_device, ops) = NULL;
      expect_ok(ls_collective_ops_create(gpus, 2, 2, NULL, &ops));
      LS_OWN(ls_graph, graph) = graph_named("g");
      LS_GRAPH_SCOPE(graph);
      const ls_nest items[] = {ls_leaf(ls_scalar(LS_DTYPE_F32, 3)),
                               ls_leaf(ls_scalar(LS_DTYPE_F32, 5))};
      LS_OWN(ls_nest, value) =
          placed ? ls_nest_distributed_on(LS_PER_REPLICA, items, same, 2)
                 : ls_nest_distributed(LS_PER_REPLICA, items, 2);
      const ls_destinations where = {.device = batch ? "/gpu:0" : "/cpu:0"};
      LS_OWN(ls_nest, made) = ls_none();
      expect_ok(batch ? ls_cross_device_batch_reduce(ops, LS_REDUCE_SUM, &value,
                                                     &where, 1, &made)
                      : ls_cross_device_reduce(ops, LS_REDUCE_SUM, value, where,
                                               &made));
      expect_fetched(batch ? ls_nest_item(made, 0) : made, 0, (double[]){8}, 1);
    }
}
