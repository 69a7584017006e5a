// SPDX-License-Identifier: Apache-2.0
//
// Distributed values: taken apart, and made from parts.
#include "lockstep/strategy.h"

#include "distribute/own.h"
#include "lockstep/graph.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/replicas.h"

#define LOCAL "/job:localhost/replica:0/task:0/device:"

// ---- Taking apart ----------------------------------------------------------
static ls_nest on_devices(const double *values, const char *const *devices,
                          size_t count) {
  ls_nest items[8];
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_nest_f64(values[i]);
  return ls_nest_distributed_on(LS_PER_REPLICA, items, devices, count);
}

static void expect_unwrapped(ls_strategy *strategy, ls_nest value,
                             const char *text) {
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(ls_strategy_unwrap(strategy, value, &made));
  expect_printed(made, text);
  ls_nest_release(value);
}

TEST(unwrapping_goes_by_device) {
  LS_SPEC("M23 M24 M25");
  static const char *const order[] = {"/gpu:2", "/gpu:10"};
  static const char *const turned[] = {"/gpu:10", "/gpu:2"};
  static const char *const more[] = {"/gpu:2", "/gpu:10", "/gpu:1"};
  LS_OWN(ls_strategy, strategy) = NULL;
  expect_ok(mirrored_with(
      (ls_mirrored_options){.devices = order, .num_devices = 2}, &strategy));
  expect_unwrapped(strategy, on_devices((double[]){1, 2}, order, 2),
                   "[1.0, 2.0]");
  expect_unwrapped(strategy, on_devices((double[]){1, 2}, turned, 2),
                   "[2.0, 1.0]");
  // Other devices: by name, GPU:10 before GPU:2.
  expect_unwrapped(strategy, on_devices((double[]){1, 2, 3}, more, 3),
                   "[3.0, 2.0, 1.0]");
  expect_unwrapped(strategy, ls_nest_f64(4), "[4.0]");
  expect_unwrapped(strategy, ls_none(), "[none]");
  expect_unwrapped(strategy, LS_TUPLE(ls_nest_f64(4), ls_nest_f64(5)),
                   "[(4.0, 5.0)]");
}

TEST(local_results_are_a_tuple) {
  LS_SPEC("V196");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_strategy *usual = NULL;
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(ls_strategy_default(&usual));
  LS_OWN(ls_nest, value) =
      distributed_numbers(LS_PER_REPLICA, (double[]){1, 2}, 2);
  expect_ok(ls_strategy_local_results(strategy, value, &made));
  expect_printed(made, "(1.0, 2.0)");
  ls_nest_release(made);
  const ls_nest nest = LS_LIST(ls_nest_retain(value), ls_nest_f64(7));
  expect_ok(ls_strategy_local_results(strategy, nest, &made));
  expect_printed(made, "([1.0, 7.0], [2.0, 7.0])");
  ls_nest_release(made);
  ls_nest_release(nest);
  const ls_nest leaf = ls_nest_variable(v);
  expect_ok(ls_strategy_local_results(strategy, leaf, &made));
  assert_int_equal(ls_nest_count(made), 2);
  assert_ptr_equal(ls_nest_as_variable(ls_nest_item(made, 1)),
                   ls_variable_component(v, 1));
  ls_nest_release(made);
  ls_nest_release(leaf);
  expect_ok(ls_strategy_local_results(strategy, ls_nest_f64(3), &made));
  expect_printed(made, "(3.0,)");
  ls_nest_release(made);
  expect_ok(ls_strategy_local_results(usual, value, &made));
  assert_int_equal(ls_nest_count(made), 1);
}

static ls_nest number_for(int32_t replica, int32_t replicas, void *user) {
  int *calls = user;
  assert_int_equal(replica, (*calls)++);
  return LS_TUPLE(ls_nest_i64(10 * replica + replicas), ls_nest_f64(5));
}

TEST(values_come_from_a_function) {
  LS_SPEC("V198");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  ls_strategy *usual = NULL;
  int calls = 0;
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(
      ls_strategy_values_from_function(strategy, number_for, &calls, &made));
  assert_int_equal(calls, 3);
  expect_numbers(ls_nest_item(made, 0), (double[]){3, 13, 23}, 3);
  expect_numbers(ls_nest_item(made, 1), (double[]){5, 5, 5}, 3);
  ls_nest_release(made);
  expect_ok(ls_strategy_default(&usual));
  calls = 0;
  expect_ok(ls_strategy_values_from_function(usual, number_for, &calls, &made));
  expect_printed(made, "(1, 5.0)");
}

// ---- One of them -----------------------------------------------------------
typedef struct values {
  ls_nest per_replica, mirrored;
  int count;
} values;

static ls_nest use_values(ls_nest args, void *user) {
  values *v = user;
  const int r = ls_replica_number();
  const ls_nest both[] = {v->per_replica, v->mirrored};
  for (int i = 0; i < 2; ++i) {
    ls_tensor tensor;
    ls_nest got = ls_none();
    expect_ok(ls_distributed_as_tensor(both[i], &tensor));
    assert_true(number_of(ls_leaf(tensor)) == r + 1);
    expect_ok(ls_distributed_get(both[i], NULL, &got));
    assert_true(number_of(got) == r + 1);
  }
  ++v->count;
  (void)args;
  return ls_none();
}

static ls_nest use_in_update(ls_nest args, void *user) {
  values *v = user;
  const ls_nest both[] = {v->per_replica, v->mirrored};
  const double wanted = (double)ls_update_replica_id().value + 1;
  (void)args;
  for (int i = 0; i < 2; ++i) {
    ls_tensor tensor;
    ls_nest got = ls_none();
    expect_ok(ls_distributed_as_tensor(both[i], &tensor));
    assert_true(number_of(ls_leaf(tensor)) == wanted);
    expect_ok(ls_distributed_get(both[i], NULL, &got));
    assert_true(number_of(got) == wanted);
  }
  ++v->count;
  return ls_none();
}

TEST(a_thread_sees_its_component) {
  LS_SPEC("V71 V76 M37");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  values v = {
      .per_replica = distributed_numbers(LS_PER_REPLICA, (double[]){1, 2}, 2),
      .mirrored = distributed_numbers(LS_MIRRORED, (double[]){1, 2}, 2)};
  ls_nest_release(run_on(strategy, use_values, ls_none(), &v));
  assert_int_equal(v.count, 2);
  ls_variable *w = variable_in(strategy, (variable_kind){0});
  ls_nest made = ls_none();
  expect_ok(ls_strategy_update(strategy, w, use_in_update, ls_none(), &v, true,
                               &made));
  assert_int_equal(v.count, 4);
  ls_variable_release(w);
  ls_tensor tensor;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_distributed_as_tensor(v.mirrored, &tensor));
    assert_true(number_of(ls_leaf(tensor)) == 1);
    {
      LS_DEVICE_SCOPE("/cpu:1");
      expect_ok(ls_distributed_as_tensor(v.mirrored, &tensor));
      assert_true(number_of(ls_leaf(tensor)) == 2);
    }
    {
      LS_DEVICE_SCOPE("/cpu:5");
      expect_ok(ls_distributed_as_tensor(v.mirrored, &tensor));
      assert_true(number_of(ls_leaf(tensor)) == 1);
    }
    const ls_status status = ls_distributed_as_tensor(v.per_replica, &tensor);
    expect_contains(ls_status_message(status), "PerReplica");
    expect_status(status, LS_FAILED_PRECONDITION, "run");
  }
  {
    LS_DEVICE_SCOPE("/cpu:1");  // The default context: the primary.
    expect_ok(ls_distributed_as_tensor(v.mirrored, &tensor));
    assert_true(number_of(ls_leaf(tensor)) == 1);
  }
  ls_nest_release(v.per_replica);
  ls_nest_release(v.mirrored);
}

TEST(a_component_is_got_by_device) {
  LS_SPEC("M37");
  static const char *const devices[] = {LOCAL "CPU:0", LOCAL "CPU:1"};
  const ls_nest items[] = {ls_nest_f64(1), ls_nest_f64(2)};
  LS_OWN(ls_nest, value) =
      ls_nest_distributed_on(LS_MIRRORED, items, devices, 2);
  ls_nest got = ls_none();
  expect_ok(ls_distributed_get(value, "cpu:1", &got));
  assert_true(ls_nest_number(got) == 2);
  {
    LS_DEVICE_SCOPE("/cpu:1");
    expect_ok(ls_distributed_get(value, NULL, &got));
    assert_true(ls_nest_number(got) == 2);
    const ls_status status = ls_distributed_get(value, "/gpu:3", &got);
    expect_contains(ls_status_message(status), "GPU:3");
    expect_contains(ls_status_message(status), LOCAL "CPU:0, " LOCAL "CPU:1");
    expect_status(status, LS_INVALID_ARGUMENT,
                  "the current device is '/device:CPU:1'");
  }
  assert_true(ls_distributed_is_on(value, "CPU:1"));
  assert_false(ls_distributed_is_on(value, "/gpu:1"));
  assert_false(ls_distributed_is_on(value, "/nonsense:1"));
}
