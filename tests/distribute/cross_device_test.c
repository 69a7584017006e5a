// SPDX-License-Identifier: Apache-2.0
//
// Sets of cross-device ops: tables, what they take, and reducing to one device.
#include "lockstep/cross_device.h"
#include "lockstep/graph_ops.h"
#include "lockstep/strategy_extended.h"

#include <stdlib.h>
#include <string.h>

#include "distribute/own.h"
#include "support/function.h"
#include "support/placed.h"
#include "support/replicas.h"

static const ls_destinations at_value;  // None given.

// ---- Tables ----------------------------------------------------------------
typedef struct own_set {
  int reduced, batches, released;
  size_t last_count;
} own_set;

// Ten for every value, on one device.
static ls_status give_ten(void *self, ls_reduce_op op, ls_nest value,
                          ls_destinations where, ls_nest *out_value) {
  own_set *own = self;
  (void)op;
  (void)value;
  (void)where;
  ++own->reduced;
  const ls_nest ten = ls_leaf(ls_scalar(LS_DTYPE_F32, 10));
  const char *device = LOCAL_DEVICE "CPU:0";
  *out_value = ls_nest_distributed_on(LS_MIRRORED, &ten, &device, 1);
  return ls_nest_status(*out_value);
}

static ls_status give_tens(void *self, ls_reduce_op op, const ls_nest *values,
                           const ls_destinations *where, size_t count,
                           ls_nest *results) {
  own_set *own = self;
  ++own->batches;
  own->last_count = count;
  for (size_t i = 0; i < count; ++i) {
    const ls_status status =
        give_ten(self, op, values[i], where[i], &results[i]);
    if (!ls_status_is_ok(status)) return status;
  }
  return ls_ok();
}

static void note_release(void *self) { ++((own_set *)self)->released; }

TEST(a_table_of_ones_own_is_called) {
  LS_SPEC("M68");
  static const ls_cross_device_table table = {.name = "tens",
                                              .reduce = give_ten,
                                              .batch_reduce = give_tens,
                                              .release = note_release};
  own_set own = {0};
  ls_cross_device *ops = NULL;
  expect_ok(ls_cross_device_create(&table, &own, &ops));
  assert_string_equal(ls_cross_device_name(ops), "tens");
  const ls_destinations here = {.device = "/cpu:0"};
  const ls_nest x = ls_leaf(scalar_of(3));
  ls_nest made = ls_none();
  expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_SUM, x, here, &made));
  expect_numbers(made, (double[]){10}, 1);
  ls_nest_release(made);
  const ls_nest both[] = {x, x};
  const ls_destinations where[] = {here, here};
  expect_ok(
      ls_cross_device_batch_reduce(ops, LS_REDUCE_MEAN, both, where, 2, &made));
  assert_int_equal(own.last_count, 2);
  assert_int_equal(own.reduced, 3);
  ls_nest_release(made);
  // Not in the table: gather is refused, a broadcast copies.
  expect_status(ls_cross_device_gather(ops, x, 0, here, &made),
                LS_UNIMPLEMENTED, "gather");
  expect_ok(ls_cross_device_broadcast(ops, x, here, &made));
  expect_numbers(made, (double[]){3}, 1);
  ls_nest_release(made);
  ls_cross_device_release(ops);
  assert_int_equal(own.released, 1);
}

TEST(what_a_table_lacks_is_named) {
  LS_SPEC("M68");
  static const ls_cross_device_table nothing = {0};
  LS_OWN(ls_cross_device, ops) = NULL;
  ls_nest made = ls_none();
  const ls_nest x = ls_leaf(scalar_of(3));
  const ls_destinations here = {.device = "/cpu:0"};
  expect_status(ls_cross_device_create(NULL, NULL, &ops), LS_INVALID_ARGUMENT,
                "NULL");
  expect_ok(ls_cross_device_create(&nothing, NULL, &ops));
  expect_status(ls_cross_device_reduce(ops, LS_REDUCE_SUM, x, here, &made),
                LS_UNIMPLEMENTED, "no reduce");
  expect_status(
      ls_cross_device_batch_reduce(ops, LS_REDUCE_SUM, &x, &here, 1, &made),
      LS_UNIMPLEMENTED, "no batch_reduce");
  expect_status(ls_cross_device_gather(ops, x, 0, here, &made),
                LS_UNIMPLEMENTED, "no gather");
}

// A strategy calls the table wherever it reduces.
static ls_nest reduce_two(ls_nest args, void *user) {
  (void)args;
  (void)user;
  LS_OWN(ls_nest, given) =
      LS_LIST(ls_leaf(scalar_of(1)), ls_leaf(scalar_of(2)));
  return ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_SUM, given);
}

static ls_status give_everywhere(void *self, ls_reduce_op op,
                                 const ls_nest *values,
                                 const ls_destinations *where, size_t count,
                                 ls_nest *results) {
  own_set *own = self;
  ++own->batches;
  (void)op;
  for (size_t i = 0; i < count; ++i) {
    own->last_count = ls_distributed_count(values[i]);
    ls_cross_device *usual = to_one();
    const ls_status status = ls_cross_device_broadcast(
        usual, ls_leaf(scalar_of(10)), where[i], &results[i]);
    ls_cross_device_release(usual);
    if (!ls_status_is_ok(status)) return status;
  }
  return ls_ok();
}

TEST(a_strategy_reduces_by_its_table) {
  LS_SPEC("M1 M15 M175");
  static const ls_cross_device_table table = {.name = "own",
                                              .reduce = give_ten,
                                              .batch_reduce = give_everywhere,
                                              .release = note_release};
  own_set own = {0};
  ls_cross_device *ops = NULL;
  ls_strategy *strategy = NULL;
  ls_nest made = ls_none();
  expect_ok(ls_cross_device_create(&table, &own, &ops));
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2),
                             .cross_device = ops,
                             .prefetch = LS_FLAG_OFF},
      &strategy));
  assert_ptr_equal(ls_strategy_cross_device(strategy), ops);
  assert_int_equal(ls_strategy_prefetch(strategy), LS_FLAG_OFF);
  const ls_nest value = per_replica_scalars((double[]){1, 2}, 2);
  const ls_destinations here = {.device = "/cpu:0"};
  expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_SUM, value, &made));
  assert_true(number_of(made) == 10);
  expect_ok(ls_strategy_reduce_to(strategy, LS_REDUCE_SUM, value, here, &made));
  assert_true(number_of(made) == 10);
  const ls_nest both[] = {value, value};
  const ls_destinations where[] = {here, here};
  expect_ok(ls_strategy_batch_reduce_to(strategy, LS_REDUCE_SUM, both, where, 2,
                                        &made));
  assert_int_equal(own.batches, 1);
  assert_true(number_of(ls_nest_item(made, 1)) == 10);
  ls_nest_release(made);
  // In replicas, all leaves in one batch, each with a value of each replica.
  made = run_on(strategy, reduce_two, ls_none(), NULL);
  assert_int_equal(own.batches, 2);
  assert_int_equal(own.last_count, 2);
  expect_numbers(ls_nest_item(made, 1), (double[]){10, 10}, 2);
  ls_nest_release(made);
  // Replaced: the calls that follow use the others.
  assert_int_equal(own.released, 0);
  expect_ok(ls_strategy_set_cross_device(strategy, NULL));
  ls_cross_device_release(ops);
  assert_int_equal(own.released, 1);
  assert_string_equal(ls_cross_device_name(ls_strategy_cross_device(strategy)),
                      "reduce_to_one");
  expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_SUM, value, &made));
  assert_true(number_of(made) == 3);
  ls_strategy_set_prefetch(strategy, LS_FLAG_ON);
  assert_int_equal(ls_strategy_prefetch(strategy), LS_FLAG_ON);
  ls_nest_release(value);
  ls_strategy_release(strategy);
  strategy = mirrored_of(2);  // Nothing asked for.
  assert_string_equal(ls_cross_device_name(ls_strategy_cross_device(strategy)),
                      "reduce_to_one");
  assert_int_equal(ls_strategy_prefetch(strategy), LS_FLAG_DEFAULT);
  ls_strategy_release(strategy);
  expect_ok(ls_strategy_default(&strategy));
  assert_null(ls_strategy_cross_device(strategy));
  expect_status(ls_strategy_set_cross_device(strategy, NULL),
                LS_FAILED_PRECONDITION, "default strategy");
}

// ---- What is reduced -------------------------------------------------------
TEST(only_values_of_replicas_are_reduced) {
  LS_SPEC("M71");
  LS_OWN(ls_cross_device, ops) = to_one();
  const ls_destinations here = {.device = "/cpu:0"};
  ls_nest made = ls_none();
  LS_OWN(ls_nest, list) = LS_LIST(ls_nest_i64(1));
  const ls_nest wrong[] = {ls_nest_f64(2.5), list, ls_none()};
  const char *const says[] = {"2.5", "[1]", "none"};
  for (size_t i = 0; i < 3; ++i)
    expect_status(
        ls_cross_device_reduce(ops, LS_REDUCE_SUM, wrong[i], here, &made),
        LS_INVALID_ARGUMENT, says[i]);
  expect_status(
      ls_cross_device_batch_reduce(ops, LS_REDUCE_SUM, NULL, NULL, 0, &made),
      LS_INVALID_ARGUMENT, "value_destination_pairs");
  // A tensor is one of one replica.
  expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_SUM, ls_leaf(scalar_of(4)),
                                   here, &made));
  expect_numbers(made, (double[]){4}, 1);
  ls_nest_release(made);
  // All pairs are looked at before any op is made.
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, good) =
        placed_values("GPU", LS_DTYPE_F32, 2, 0, (double[]){1, 2});
    const ls_nest pairs[] = {good, ls_nest_i64(7)};
    const ls_destinations where[] = {here, here};
    const size_t before = ls_graph_num_ops(graph);
    expect_status(ls_cross_device_batch_reduce(ops, LS_REDUCE_SUM, pairs, where,
                                               2, &made),
                  LS_INVALID_ARGUMENT, "value_destination_pairs, pair 1");
    assert_int_equal(ls_graph_num_ops(graph), before);
  }
}

TEST(a_broadcast_makes_copies) {
  LS_SPEC("M73");
  LS_OWN(ls_cross_device, ops) = to_one();
  ls_nest made = ls_none();
  ls_tensor x = ls_failed_tensor();
  {
    LS_DEVICE_SCOPE("/cpu:0");
    x = scalar_of(6);
  }
  const char *const devices[] = {"/cpu:0", "/cpu:1"};
  expect_ok(ls_cross_device_broadcast(
      ops, ls_leaf(x), (ls_destinations){.devices = devices, .num_devices = 2},
      &made));
  assert_true(ls_is_mirrored(made));
  expect_numbers(made, (double[]){6, 6}, 2);
  for (size_t i = 0; i < 2; ++i) {
    assert_false(
        ls_nest_is_same(ls_distributed_component(made, i), ls_leaf(x)));
    assert_string_equal(component_on(made, i), i == 0 ? "CPU:0" : "CPU:1");
  }
  ls_nest_release(made);
  expect_status(ls_cross_device_broadcast(ops, ls_nest_f64(1),
                                          (ls_destinations){.device = "/cpu:0"},
                                          &made),
                LS_INVALID_ARGUMENT, "broadcast of 1");
}

TEST(one_component_is_copied) {
  LS_SPEC("M75 M74");
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_cross_device, ops) = to_one();
  {
    LS_GRAPH_SCOPE(graph);
    for (int op = LS_REDUCE_SUM; op <= LS_REDUCE_MEAN; ++op) {
      LS_OWN(ls_nest, value) =
          placed_values("GPU", LS_DTYPE_F32, 1, 0, (double[]){0.1});
      const size_t before = ls_graph_num_ops(graph);
      LS_OWN(ls_nest, made) = ls_none();
      expect_ok(ls_cross_device_reduce(ops, (ls_reduce_op)op, value, at_value,
                                       &made));
      assert_int_equal(ls_graph_num_ops(graph), before + 1);
      assert_true(ls_is_mirrored(made));
      assert_string_equal(component_on(made, 0), "GPU:0");
      assert_false(ls_nest_is_same(ls_distributed_component(made, 0),
                                   ls_distributed_component(value, 0)));
      expect_fetched(made, 0, (double[]){(double)0.1f}, 1);
    }
  }
}

// ---- Reducing to one device ------------------------------------------------
static ls_tensor largest(const ls_tensor *items, size_t count, void *user) {
  *(size_t *)user = count;
  ls_tensor x = items[0];
  for (size_t i = 1; i < count; ++i)
    x = ls_maximum(x, items[i]);
  return x;
}

TEST(values_are_added_on_one_device) {
  LS_SPEC("M78 M15");
  ls_cross_device *ops = NULL;
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, value) =
        placed_values("GPU", LS_DTYPE_F32, 3, 0, (double[]){1, 2, 4});
    ls_nest made = ls_none();
    ops = to_one();
    expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_SUM, value,
                                     (ls_destinations){.device = "/gpu:2"},
                                     &made));
    assert_int_equal(count_ops(graph, "add_n", NULL), 1);
    assert_int_equal(count_ops(graph, "add_n", "GPU:2"), 1);
    assert_int_equal(count_ops(graph, "identity", "GPU:2"), 1);
    expect_fetched(made, 0, (double[]){7}, 1);
    ls_nest_release(made);
    ls_cross_device_release(ops);
    expect_ok(ls_reduce_to_one_create(
        &(ls_reduce_to_one_options){.device = "/cpu:0"}, &ops));
    expect_ok(
        ls_cross_device_reduce(ops, LS_REDUCE_MEAN, value, at_value, &made));
    assert_int_equal(count_ops(graph, "add_n", "CPU:0"), 1);
    static const char *const gpus[] = {"GPU:0", "GPU:1", "GPU:2"};
    for (size_t i = 0; i < 3; ++i) {
      assert_string_equal(component_on(made, i), gpus[i]);
      expect_fetched(made, i, (double[]){(double)(7 * (1.0f / 3))}, 1);
    }
    ls_nest_release(made);
    ls_cross_device_release(ops);
  }
  ls_graph_destroy(graph);
  expect_status(ls_reduce_to_one_create(
                    &(ls_reduce_to_one_options){.device = "/foo:1"}, &ops),
                LS_INVALID_ARGUMENT, "foo");
}

TEST(the_function_that_accumulates_sees_all_values) {
  LS_SPEC("M79 M80");
  size_t seen = 0;
  LS_OWN(ls_cross_device, ops) = NULL;
  expect_ok(ls_reduce_to_one_create(
      &(ls_reduce_to_one_options){.accumulate = largest, .user = &seen}, &ops));
  LS_OWN(ls_nest, value) =
      placed_values("CPU", LS_DTYPE_F32, 4, 0, (double[]){1, 8, 2, 4});
  const ls_destinations where[] = {{.device = "/cpu:0"}, {.device = "/cpu:1"}};
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_SUM, value, where[0], &made));
  assert_int_equal(seen, 4);
  expect_numbers(made, (double[]){8}, 1);
  ls_nest_release(made);
  expect_ok(
      ls_cross_device_reduce(ops, LS_REDUCE_MEAN, value, where[0], &made));
  expect_numbers(made, (double[]){2}, 1);
  ls_nest_release(made);
  // A batch is one after another.
  const ls_nest both[] = {value, value};
  expect_ok(
      ls_cross_device_batch_reduce(ops, LS_REDUCE_MEAN, both, where, 2, &made));
  assert_int_equal(ls_nest_count(made), 2);
  for (size_t i = 0; i < 2; ++i) {
    expect_numbers(ls_nest_item(made, i), (double[]){2}, 1);
    assert_string_equal(component_on(ls_nest_item(made, i), 0),
                        i == 0 ? "CPU:0" : "CPU:1");
  }
}

TEST(what_is_absent_is_not_added) {
  // Items of map outputs from left to right, then the tree over those there.
  LS_SPEC("M81");
  const float a = 1e8f, b = 1, c = -1e8f, d = 3;
  const ls_nest items[] = {ls_leaf(scalar_of((double)a)),
                           ls_leaf(scalar_of((double)b)),
                           ls_leaf(scalar_of((double)c))};
  const ls_nest parts[] = {ls_nest_distributed(LS_MAP_OUTPUT, items, 3),
                           ls_nest_distributed(LS_MAP_OUTPUT, NULL, 0),
                           ls_leaf(scalar_of((double)b)),
                           ls_leaf(scalar_of((double)d))};
  const ls_nest value = ls_nest_distributed(LS_PER_REPLICA, parts, 4);
  LS_OWN(ls_cross_device, ops) = to_one();
  const ls_destinations here = {.device = "/cpu:0"};
  ls_nest made = ls_none();
  const float sum = ((a + b) + c) + (b + d);
  expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_SUM, value, here, &made));
  expect_numbers(made, (double[]){(double)sum}, 1);
  ls_nest_release(made);
  expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_MEAN, value, here, &made));
  expect_numbers(made, (double[]){(double)(sum * (1.0f / 5))}, 1);
  ls_nest_release(made);
  ls_nest_release(value);
  const ls_nest nothing = ls_nest_distributed(LS_MAP_OUTPUT, NULL, 0);
  LS_OWN(ls_nest, empty) = ls_nest_distributed(LS_PER_REPLICA, &nothing, 1);
  expect_status(ls_cross_device_reduce(ops, LS_REDUCE_SUM, empty, here, &made),
                LS_INVALID_ARGUMENT, "must be non-empty");
}

TEST(where_values_go_is_logged_ten_times) {
  LS_SPEC("M82");
  LS_OWN_BEGUN(logged_runtime, it, logged_runtime_begin);
  LS_OWN(ls_cross_device, ops) = to_one();
  const ls_nest x = ls_leaf(scalar_of(1));
  const char *const devices[] = {"/cpu:1", "/cpu:2"};
  for (int i = 0; i < 12; ++i) {
    LS_OWN(ls_nest, made) = ls_none();
    expect_ok(ls_cross_device_reduce(
        ops, LS_REDUCE_SUM, x,
        (ls_destinations){.devices = devices, .num_devices = 2}, &made));
  }
  assert_int_equal(
      count_logged(&it, "info: reduce to " LOCAL_DEVICE "CPU:1, then broadcast "
                        "to " LOCAL_DEVICE "CPU:1, " LOCAL_DEVICE "CPU:2\n"),
      10);
}
