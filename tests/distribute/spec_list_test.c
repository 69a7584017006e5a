// SPDX-License-Identifier: Apache-2.0
//
// All-reduces by lists of specs: refusals, and results in the order of
// the values.
#include "distribute/own.h"
#include "lockstep/graph_ops.h"
#include "lockstep/multi_worker.h"
#include "support/function.h"
#include "support/placed.h"

static const char *const two_workers[] = {"/job:worker/task:0",
                                          "/job:worker/task:1"};

static ls_status make(int workers, int gpus, const ls_all_reduce_spec *specs,
                      size_t count) {
  LS_OWN(ls_cross_device, ops) = NULL;
  return ls_spec_all_reduce_create(
      &(ls_spec_all_reduce_options){.workers = two_workers,
                                    .num_workers = (size_t)workers,
                                    .gpus_per_worker = gpus,
                                    .specs = specs,
                                    .num_specs = count},
      &ops);
}

static void expect_refused(int workers, int gpus, ls_all_reduce_spec spec,
                           const char *part) {
  expect_status(make(workers, gpus, &spec, 1), LS_INVALID_ARGUMENT, part);
}

TEST(specs_have_a_name_shards_and_a_limit) {
  LS_SPEC("M113");
  static const ls_all_reduce_spec none[1];
  expect_ok(make(2, 2, NULL, 0));  // pscpu/pscpu with two shards.
  expect_status(make(1, 4, NULL, 0), LS_INVALID_ARGUMENT,
                "'pscpu/pscpu' with 2 shards on 1 devices");
  expect_status(make(2, 2, none, 0), LS_INVALID_ARGUMENT, "list is empty");
  expect_refused(2, 2, none[0], "spec 0 of an all-reduce, 'NULL'");
  expect_refused(2, 0, (ls_all_reduce_spec){.name = "nccl"},
                 "2 workers with 0 GPUs");
  LS_OWN(ls_cross_device, ops) = NULL;
  expect_status(ls_spec_all_reduce_create(
                    &(ls_spec_all_reduce_options){.workers = two_workers,
                                                  .num_workers = 2,
                                                  .gpus_per_worker = 1,
                                                  .num_packs = LS_SOME(-3)},
                    &ops),
                LS_INVALID_ARGUMENT, "num_packs -3");
}

TEST(algorithms_are_known_by_name) {
  LS_SPEC("M114");
  static const char *const names[] = {"nccl",       "nccl/xring", "nccl/rechd",
                                      "nccl/pscpu", "xring",      "pscpu",
                                      "psgpu",      "pscpu/pscpu"};
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i)
    expect_ok(make(2, 2, &(ls_all_reduce_spec){.name = names[i]}, 1));
  expect_refused(2, 2, (ls_all_reduce_spec){.name = "gloo"}, "'gloo'");
  expect_refused(2, 3, (ls_all_reduce_spec){.name = "nccl/rechd"},
                 "6 devices, which is no power of two");
  expect_refused(1, 1, (ls_all_reduce_spec){.name = "xring"},
                 "at least two tensors");
}

TEST(limits_rise_and_the_last_spec_has_none) {
  LS_SPEC("M115");
  const ls_all_reduce_spec rising[] = {{.name = "pscpu", .limit = LS_SOME(10)},
                                       {.name = "xring", .limit = LS_SOME(20)},
                                       {.name = "nccl"}};
  expect_ok(make(2, 2, rising, 3));
  expect_status(make(2, 2, rising, 2), LS_INVALID_ARGUMENT,
                "spec 1 of 2, 'xring', has limit 20");
  const ls_all_reduce_spec falling[] = {{.name = "pscpu", .limit = LS_SOME(9)},
                                        {.name = "xring", .limit = LS_SOME(9)},
                                        {.name = "nccl", .limit = LS_SOME(-1)}};
  expect_status(make(2, 2, falling, 3), LS_INVALID_ARGUMENT, "limit 9 after 9");
  const ls_all_reduce_spec early[] = {{.name = "pscpu"}, {.name = "nccl"}};
  expect_status(make(2, 2, early, 2), LS_INVALID_ARGUMENT, "spec 0 of 2");
}

TEST(shards_are_at_most_the_devices_that_add) {
  LS_SPEC("M117");
  expect_ok(make(
      2, 3, &(ls_all_reduce_spec){.name = "psgpu", .shards = LS_SOME(6)}, 1));
  expect_refused(2, 3,
                 (ls_all_reduce_spec){.name = "psgpu", .shards = LS_SOME(7)},
                 "7 shards on 6 devices");
  expect_refused(2, 3,
                 (ls_all_reduce_spec){.name = "pscpu", .shards = LS_SOME(3)},
                 "3 shards on 2 devices");
  expect_refused(2, 3,
                 (ls_all_reduce_spec){.name = "nccl", .shards = LS_SOME(0)},
                 "0 shards");
}

// Reduces large, small, large: small ones would be first in a graph of specs.
TEST(results_are_in_the_order_of_the_values) {
  LS_SPEC("M116 M114");
  const ls_all_reduce_spec specs[] = {{.name = "pscpu", .limit = LS_SOME(1)},
                                      {.name = "xring"}};
  LS_OWN(ls_cross_device, ops) = NULL;
  expect_ok(ls_spec_all_reduce_create(
      &(ls_spec_all_reduce_options){.workers = two_workers,
                                    .num_workers = 2,
                                    .gpus_per_worker = 1,
                                    .specs = specs,
                                    .num_specs = 2},
      &ops));
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    ls_nest values[] = {
        placed_values("GPU", LS_DTYPE_F32, 2, 2, (double[]){1, 2, 3, 4}),
        placed_values("GPU", LS_DTYPE_F32, 2, 0, (double[]){5, 6}),
        placed_values("GPU", LS_DTYPE_F32, 2, 2, (double[]){7, 8, 9, 10})};
    const ls_destinations where[3] = {{0}};
    LS_OWN(ls_nest, list) = ls_none();
    expect_ok(ls_cross_device_batch_reduce(ops, LS_REDUCE_SUM, values, where, 3,
                                           &list));
    expect_fetched(ls_nest_item(list, 0), 1, (double[]){4, 6}, 2);
    expect_fetched(ls_nest_item(list, 1), 0, (double[]){11}, 1);
    expect_fetched(ls_nest_item(list, 2), 0, (double[]){16, 18}, 2);
    for (int i = 0; i < 3; ++i)
      ls_nest_release(values[i]);
    const ls_tensor vague = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1), "vague");
    LS_OWN(ls_nest, value) = placed_on((const char *[]){"/gpu:0", "/gpu:1"},
                                       (ls_tensor[]){vague, vague}, 2);
    LS_OWN(ls_nest, refused) = ls_none();
    expect_status(ls_cross_device_batch_reduce(ops, LS_REDUCE_SUM, &value,
                                               where, 1, &refused),
                  LS_INVALID_ARGUMENT, "vague");
  }
}
