// SPDX-License-Identifier: Apache-2.0
//
// Sparse slices through cross-device ops.
#include "lockstep/graph_ops.h"
#include "lockstep/slices.h"

#include <string.h>

#include "base/values/nest_internal.h"
#include "distribute/own.h"
#include "support/function.h"
#include "support/placed.h"
#include "support/replicas.h"
#include "support/values.h"

static const ls_destinations here = {.device = "/cpu:0"};

// Slices of rows of two, on a device; `dense` rows in all, 0: not said.
static ls_nest rows_at(const char *device, ls_dtype index_type,
                       const double *indices, const double *values,
                       int64_t count, int64_t dense) {
  ls_nest made = ls_none();
  {
    LS_DEVICE_SCOPE(device);
    const ls_tensor shape = dense == 0 ? ls_failed_tensor()
                                       : eager_of(LS_DTYPE_I64, LS_SHAPE(2),
                                                  (double[]){(double)dense, 2});
    made = ls_nest_slices(
        ls_leaf(eager_of(LS_DTYPE_F32, LS_SHAPE(count, 2), values)),
        eager_of(index_type, LS_SHAPE(count), indices), shape);
  }
  expect_ok(ls_nest_status(made));
  return made;
}

static ls_nest two_of(ls_nest a, ls_nest b) {
  const ls_nest items[] = {a, b};
  static const char *const devices[] = {LOCAL_DEVICE "CPU:0",
                                        LOCAL_DEVICE "CPU:1"};
  return ls_nest_distributed_on(LS_PER_REPLICA, items, devices, 2);
}

// [[1, 2]] at 1 on one replica, [[3, 4], [5, 6]] at 1 and 3 on the other.
static ls_nest example(ls_dtype first, ls_dtype second) {
  return two_of(rows_at("/cpu:0", first, (double[]){1}, (double[]){1, 2}, 1, 5),
                rows_at("/cpu:1", second, (double[]){1, 3},
                        (double[]){3, 4, 5, 6}, 2, 0));
}

static ls_slices_parts parts_of(ls_nest leaf) {
  ls_slices_parts parts;
  const ls_nest item = leaf.kind == LS_KIND_DISTRIBUTED
                           ? ls_distributed_component(leaf, 0)
                           : leaf;
  expect_ok(ls_slices_parts_of(item, &parts));
  return parts;
}

static void expect_slices(ls_nest leaf, const double *indices,
                          const double *values, size_t count) {
  const ls_slices_parts parts = parts_of(leaf);
  expect_tensor(parts.indices, indices, count, 0);
  expect_tensor(parts.values, values, 2 * count, 0);
}

static ls_tensor never_called(const ls_tensor *items, size_t count,
                              void *user) {
  (void)count;
  *(bool *)user = true;
  return items[0];
}

TEST(slices_are_put_behind_each_other) {
  LS_SPEC("M107 M109");
  bool called = false;
  LS_OWN(ls_cross_device, ops) = NULL;
  expect_ok(ls_reduce_to_one_create(
      &(ls_reduce_to_one_options){.accumulate = never_called, .user = &called},
      &ops));
  LS_OWN(ls_nest, value) = example(LS_DTYPE_I64, LS_DTYPE_I64);
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_SUM, value, here, &made));
  expect_slices(made, (double[]){1, 1, 3}, (double[]){1, 2, 3, 4, 5, 6}, 3);
  expect_tensor(parts_of(made).dense_shape, (double[]){5, 2}, 2, 0);
  ls_nest_release(made);
  expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_MEAN, value, here, &made));
  expect_slices(made, (double[]){1, 1, 3}, (double[]){.5, 1, 1.5, 2, 2.5, 3},
                3);
  ls_nest_release(made);
  assert_false(called);
  // One is itself.
  const ls_nest one = ls_distributed_component(value, 1);
  expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_MEAN, one, here, &made));
  expect_slices(made, (double[]){1, 3}, (double[]){3, 4, 5, 6}, 2);
}

TEST(a_dense_value_makes_all_dense) {
  LS_SPEC("M107");
  LS_OWN(ls_cross_device, ops) = to_one();
  const ls_nest dense = ls_leaf(eager_of(LS_DTYPE_F32, LS_SHAPE(4, 2),
                                         (double[]){1, 1, 1, 1, 1, 1, 1, 1}));
  // Twice the same row.
  LS_OWN(ls_nest, value) =
      two_of(rows_at("/cpu:0", LS_DTYPE_I32, (double[]){2, 2},
                     (double[]){1, 2, 10, 20}, 2, 0),
             dense);
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_SUM, value, here, &made));
  expect_tensor(ls_nest_tensor(ls_distributed_component(made, 0), 0),
                (double[]){1, 1, 1, 1, 12, 23, 1, 1}, 8, 0);
}

TEST(indices_of_two_types_become_the_wider) {
  LS_SPEC("M108");
  LS_OWN(ls_cross_device, ops) = to_one();
  static const ls_dtype types[][3] = {
      {LS_DTYPE_I32, LS_DTYPE_I64, LS_DTYPE_I64},
      {LS_DTYPE_I64, LS_DTYPE_I32, LS_DTYPE_I64},
      {LS_DTYPE_I32, LS_DTYPE_I32, LS_DTYPE_I32}};
  for (size_t i = 0; i < 3; ++i) {
    LS_OWN(ls_nest, value) = example(types[i][0], types[i][1]);
    LS_OWN(ls_nest, made) = ls_none();
    expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_SUM, value, here, &made));
    assert_int_equal(ls_tensor_dtype(parts_of(made).indices), types[i][2]);
    expect_slices(made, (double[]){1, 1, 3}, (double[]){1, 2, 3, 4, 5, 6}, 3);
  }
  // Rows of rows: 1 and 0 of the rows 7 and 4 are 4 and 7.
  const ls_nest inner = rows_at("/cpu:0", LS_DTYPE_I32, (double[]){1, 0},
                                (double[]){1, 2, 3, 4}, 2, 0);
  const ls_nest nested = ls_nest_slices(
      inner, eager_of(LS_DTYPE_I64, LS_SHAPE(2), (double[]){7, 4}),
      ls_failed_tensor());
  LS_OWN(ls_nest, value) =
      two_of(nested, rows_at("/cpu:1", LS_DTYPE_I64, (double[]){0},
                             (double[]){5, 6}, 1, 0));
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_SUM, value, here, &made));
  expect_slices(made, (double[]){4, 7, 0}, (double[]){1, 2, 3, 4, 5, 6}, 3);
}

TEST(a_broadcast_copies_every_part) {
  LS_SPEC("M110");
  LS_OWN(ls_cross_device, ops) = to_one();
  static const char *const devices[] = {"/cpu:1", "/cpu:2"};
  for (int64_t dense = 0; dense <= 5; dense += 5) {
    LS_OWN(ls_nest, value) = rows_at("/cpu:0", LS_DTYPE_I64, (double[]){3},
                                     (double[]){1, 2}, 1, dense);
    const ls_slices_parts was = parts_of(value);
    LS_OWN(ls_nest, made) = ls_none();
    expect_ok(ls_cross_device_broadcast(
        ops, value, (ls_destinations){.devices = devices, .num_devices = 2},
        &made));
    assert_true(ls_is_mirrored(made));
    for (size_t i = 0; i < 2; ++i) {
      const ls_nest copy = ls_distributed_component(made, i);
      const ls_slices_parts parts = parts_of(copy);
      const char *device = i == 0 ? LOCAL_DEVICE "CPU:1" : LOCAL_DEVICE "CPU:2";
      expect_slices(copy, (double[]){3}, (double[]){1, 2}, 1);
      assert_string_equal(ls_op_device(ls_tensor_op(parts.values)), device);
      assert_string_equal(ls_op_device(ls_tensor_op(parts.indices)), device);
      assert_false(ls_tensor_equal(parts.values, was.values));
      assert_int_equal(parts.dense_shape.ref != 0, dense != 0);
      if (dense == 0) continue;
      expect_tensor(parts.dense_shape, (double[]){5, 2}, 2, 0);
      assert_string_equal(ls_op_device(ls_tensor_op(parts.dense_shape)),
                          device);
    }
  }
}

TEST(all_reduce_takes_slices_to_one_device) {
  LS_SPEC("M111");
  LS_OWN_BEGUN(logged_runtime, log, logged_runtime_begin);
  LS_OWN(ls_cross_device, ops) = NULL;
  expect_ok(ls_nccl_all_reduce_create(LS_SOME(1), &ops));
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    static const char *const gpus[] = {LOCAL_DEVICE "GPU:0",
                                       LOCAL_DEVICE "GPU:1"};
    ls_nest slices[2], values[3], made = ls_none();
    for (size_t i = 0; i < 2; ++i) {
      LS_DEVICE_SCOPE(gpus[i]);
      slices[i] = ls_nest_slices(
          ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(1, 2), 1 + (double)i)),
          ls_fill(LS_DTYPE_I64, LS_SHAPE(1), (double)i), ls_failed_tensor());
    }
    values[0] = placed_values("GPU", LS_DTYPE_F32, 2, 0, (double[]){1, 2});
    values[1] = ls_nest_distributed_on(LS_PER_REPLICA, slices, gpus, 2);
    values[2] = placed_values("GPU", LS_DTYPE_F32, 2, 0, (double[]){5, 6});
    const ls_destinations where[3] = {{.device = NULL}};
    expect_ok(ls_cross_device_batch_reduce(ops, LS_REDUCE_SUM, values, where, 3,
                                           &made));
    // The dense ones went together, and come back where they were.
    assert_int_equal(count_ops(graph, "add_n", NULL), 1);
    expect_fetched(ls_nest_item(made, 0), 1, (double[]){3}, 1);
    expect_fetched(ls_nest_item(made, 2), 0, (double[]){11}, 1);
    const ls_slices_parts parts = parts_of(ls_nest_item(made, 1));
    expect_fetched(ls_leaf(parts.values), 0, (double[]){1, 1, 2, 2}, 4);
    expect_fetched(ls_leaf(parts.indices), 0, (double[]){0, 1}, 2);
    ls_nest_release(made);
    for (int i = 0; i < 12; ++i) {
      expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_SUM, values[1],
                                       (ls_destinations){0}, &made));
      ls_nest_release(made);
    }
    for (size_t i = 0; i < 3; ++i)
      ls_nest_release(values[i]);
  }
  assert_int_equal(count_logged(&log, "warning: all-reduce of sparse slices"),
                   10);
}

TEST(slices_are_found_in_nests) {
  LS_SPEC("M112");
  const ls_nest x = ls_leaf(scalar_of(1));
  LS_OWN(ls_nest, some) =
      rows_at("/cpu:0", LS_DTYPE_I64, (double[]){3}, (double[]){1, 2}, 1, 0);
  const ls_nest with[] = {
      ls_nest_retain(some), LS_LIST(x, LS_TUPLE(x, ls_nest_retain(some))),
      two_of(ls_nest_retain(some), ls_nest_retain(some)),
      ls_nest_distributed(LS_MAP_OUTPUT, (ls_nest[]){ls_nest_retain(some)}, 1),
      LS_LIST(two_of(ls_nest_retain(some), ls_nest_retain(some)))};
  const ls_nest without[] = {x, ls_none(), LS_LIST(x), two_of(x, x),
                             // Not all components are.
                             two_of(ls_nest_retain(some), x),
                             ls_nest_distributed(LS_MAP_OUTPUT, NULL, 0)};
  for (size_t i = 0; i < sizeof(with) / sizeof(*with); ++i) {
    assert_true(ls_nest_has_slices(with[i]));
    ls_nest_release(with[i]);
  }
  for (size_t i = 0; i < sizeof(without) / sizeof(*without); ++i) {
    assert_false(ls_nest_has_slices(without[i]));
    ls_nest_release(without[i]);
  }
  ls_slices_parts parts;
  expect_status(ls_slices_parts_of(x, &parts), LS_INVALID_ARGUMENT, "slices");
  LS_OWN(ls_nest, wrong) =
      ls_nest_slices(ls_nest_i64(3), x.as.tensor, ls_failed_tensor());
  expect_status(ls_nest_status(wrong), LS_INVALID_ARGUMENT, "cannot be 3");
}

TEST(slices_of_slices_are_levels) {
  const ls_tensor index = eager_of(LS_DTYPE_I64, LS_SHAPE(1), (double[]){0});
  LS_OWN(ls_nest, nest) =
      rows_at("/cpu:0", LS_DTYPE_I64, (double[]){0}, (double[]){5, 6}, 1, 0);
  for (int i = 0; i < LS_NEST_MAX_DEPTH; ++i) {
    nest = ls_nest_slices(nest, index, ls_failed_tensor());
    expect_ok(ls_nest_status(nest));
  }
  expect_slices(nest, (double[]){0}, (double[]){5, 6}, 1);
  nest = ls_nest_slices(nest, index, ls_failed_tensor());
  expect_status(ls_nest_status(nest), LS_INVALID_ARGUMENT,
                "more than 256 levels");
}

static ls_nest reduce_slices(ls_nest args, void *user) {
  (void)user;
  return ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_MEAN, args);
}

TEST(a_strategy_reduces_slices) {
  LS_SPEC("V191");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_nest, value) = example(LS_DTYPE_I64, LS_DTYPE_I64);
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_SUM, value, &made));
  assert_int_equal(made.kind, LS_KIND_SLICES);
  expect_slices(made, (double[]){1, 1, 3}, (double[]){1, 2, 3, 4, 5, 6}, 3);
  ls_nest_release(made);
  expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_MEAN, value, &made));
  expect_slices(made, (double[]){1, 1, 3}, (double[]){.5, 1, 1.5, 2, 2.5, 3},
                3);
  ls_nest_release(made);
  // Also from within the replicas, each of which gets all.
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_retain(value));
  made = run_on(strategy, reduce_slices, args, NULL);
  for (size_t i = 0; i < 2; ++i)
    expect_slices(ls_distributed_component(ls_nest_item(made, 0), i),
                  (double[]){1, 1, 3}, (double[]){.5, 1, 1.5, 2, 2.5, 3}, 3);
}
