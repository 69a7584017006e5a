// SPDX-License-Identifier: Apache-2.0
#include "lockstep/function_plan.h"
#include "lockstep/strategy.h"

#include <string.h>

#include "distribute/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/spec.h"

// Values whose sum depends on the order of addition.
static ls_array *numbers(int64_t count) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(count), &array));
  uint32_t state = 7;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    ls_array_set_f64(array, i,
                     ((double)(state >> 8) / (1 << 24) - 0.5) *
                         (i % 3 == 0 ? 1e6 : 1e-3));
  }
  return array;
}

// The canonical tree: cut at the largest power of two below n.
static float tree(const float *values, int n) {
  if (n == 1) return values[0];
  int half = 1;
  while (half * 2 < n)
    half *= 2;
  return tree(values, half) + tree(values + half, n - half);
}

static ls_nest sum_of_row(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor row = ls_reduce_sum(x, LS_ALL_AXES);
  return LS_TUPLE(ls_leaf(row), ls_leaf(ls_all_reduce(LS_REDUCE_SUM, row)),
                  ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, row)),
                  ls_leaf(ls_all_reduce(LS_REDUCE_MAX, row)));
}

static float component(ls_nest result, size_t leaf, size_t replica) {
  const ls_nest value = ls_nest_item(result, leaf);
  const ls_nest part = ls_distributed_count(value) != 0
                           ? ls_distributed_component(value, replica)
                           : value;
  float got = 0;
  memcpy(&got, ls_array_data(ls_nest_as_array(part)), sizeof(got));
  return got;
}

TEST(sums_over_replicas_follow_the_canonical_tree) {
  LS_SPEC("V180 V185");
  static const int counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 64, 1000};
  LS_OWN(ls_function, f) = function_of(sum_of_row, NULL);
  for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); ++c) {
    const int n = counts[c];
    LS_OWN(ls_strategy, strategy) = mirrored_of(n);
    LS_OWN(ls_array, array) = numbers(n);
    const float *values = ls_array_data(array);
    ls_nest split = {0};
    expect_ok(ls_strategy_split(strategy, array, &split));
    LS_OWN(ls_nest, args) = LS_TUPLE(split);
    LS_OWN(ls_nest, result) = strategy_results(strategy, ls_traced(f), args);
    const float sum = tree(values, n);
    float max = values[0];
    for (int r = 0; r < n; ++r)
      max = values[r] > max ? values[r] : max;
    for (int r = 0; r < n; ++r) {
      assert_true(component(result, 0, (size_t)r) == values[r]);
      assert_true(component(result, 1, (size_t)r) == sum);
      assert_true(component(result, 2, (size_t)r) ==
                  (n == 1 ? sum : sum * (1.0f / (float)n)));
      assert_true(component(result, 3, (size_t)r) == max);
    }
    // The same order from outside.
    LS_OWN(ls_nest, reduced) = {0};
    expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_SUM,
                                 ls_nest_item(result, 0), &reduced));
    float outside = 0;
    memcpy(&outside, ls_array_data(ls_nest_as_array(reduced)), sizeof(float));
    assert_true(outside == sum);
  }
}

static ls_nest use_id(ls_nest args, void *user) {
  int *traced = user;
  (void)args;
  assert_int_equal(ls_replica_number(), *traced % 4);
  assert_int_equal(ls_num_replicas(), 4);
  ++*traced;
  const ls_tensor id = ls_replica_id();
  return ls_leaf(ls_mul(id, ls_scalar_i64(LS_DTYPE_I32, 10)));
}

TEST(each_replica_has_its_id) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(4);
  int traced = 0;
  LS_OWN(ls_function, f) = function_of(use_id, &traced);
  LS_OWN(ls_nest, result) = strategy_results(strategy, ls_traced(f), ls_none());
  assert_int_equal(traced, 4);
  for (size_t r = 0; r < 4; ++r)
    assert_int_equal(
        ls_array_i64(ls_nest_as_array(ls_distributed_component(result, r)), 0),
        10 * (int)r);
  expect_ok(ls_strategy_run(strategy, ls_traced(f), ls_none(), &result));
  assert_int_equal(traced, 4);
  assert_int_equal(ls_replica_number(), 0);
}

// What a trace knows of its strategy is not that of another one.
static ls_nest name_strategy(ls_nest args, void *user) {
  (void)args;
  ls_strategy **seen = user;
  *seen = ls_strategy_current();
  return ls_leaf(ls_replica_id());
}

TEST(each_strategy_has_traces_of_its_own) {
  ls_strategy *strategies[2] = {mirrored_of(3), mirrored_of(3)};
  ls_strategy *seen = NULL;
  LS_OWN(ls_function, f) = function_of(name_strategy, &seen);
  LS_OWN(ls_nest, result) = {0};
  for (int i = 0; i < 4; ++i) {
    expect_ok(
        ls_strategy_run(strategies[i % 2], ls_traced(f), ls_none(), &result));
    assert_ptr_equal(seen, strategies[i < 2 ? i : 1]);
  }
  assert_int_equal(ls_function_num_traces(f), 2);
  // One made where another one has been is not taken for it.
  ls_strategy_release(strategies[0]);
  strategies[0] = mirrored_of(3);
  expect_ok(ls_strategy_run(strategies[0], ls_traced(f), ls_none(), &result));
  assert_int_equal(ls_function_num_traces(f), 3);
  ls_strategy_release(strategies[0]);
  ls_strategy_release(strategies[1]);
}

static ls_nest differs(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  return ls_leaf(ls_replica_number() == 2 ? ls_exp(x) : ls_neg(x));
}

TEST(a_replica_whose_ops_differ_is_named) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_function, f) = function_of(differs, NULL);
  LS_OWN(ls_array, array) = numbers(3);
  ls_nest split = {0}, result = {0};
  expect_ok(ls_strategy_split(strategy, array, &split));
  LS_OWN(ls_nest, args) = LS_TUPLE(split);
  expect_status(ls_strategy_run(strategy, ls_traced(f), args, &result),
                LS_UNIMPLEMENTED, "replica 2");
}

static ls_nest fails_on_one(ls_nest args, void *user) {
  (void)user;
  if (ls_replica_number() == 1) return LS_FAIL(LS_ABORTED, "not today");
  return ls_leaf(ls_neg(ls_nest_tensor(args, 0)));
}

TEST(a_failing_replica_ends_the_run_with_its_status) {
  LS_SPEC("V169 V213");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_function, f) = function_of(fails_on_one, NULL);
  LS_OWN(ls_array, array) = numbers(3);
  ls_nest split = {0}, result = {0};
  expect_ok(ls_strategy_split(strategy, array, &split));
  LS_OWN(ls_nest, args) = LS_TUPLE(split);
  const ls_status status =
      ls_strategy_run(strategy, ls_traced(f), args, &result);
  assert_memory_equal(ls_status_message(status), "not today", 9);
  expect_status(status, LS_ABORTED, "replica 1");
  assert_int_equal(ls_replica_number(), 0);
}

static ls_nest write_variable(ls_nest args, void *user) {
  const ls_tensor mine = ls_reduce_sum(ls_nest_tensor(args, 0), LS_ALL_AXES);
  const ls_tensor all = ls_all_reduce(LS_REDUCE_SUM, mine);
  ls_variable_assign_add(user, all);
  return ls_leaf(ls_variable_read(user));
}

TEST(a_uniform_write_happens_once) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(5);
  LS_OWN(ls_variable, v) = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "v", .dtype = LS_DTYPE_F32}, &v));
  LS_OWN(ls_function, f) = function_of(write_variable, v);
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(5), &array));
  for (int i = 0; i < 5; ++i)
    ls_array_set_f64(array, i, i);
  ls_nest split = {0};
  LS_OWN(ls_nest, result) = {0};
  expect_ok(ls_strategy_split(strategy, array, &split));
  LS_OWN(ls_nest, args) = LS_TUPLE(split);
  for (int step = 1; step <= 3; ++step) {
    expect_ok(ls_strategy_run(strategy, ls_traced(f), args, &result));
    for (size_t r = 0; r < 5; ++r)
      assert_true(
          ls_array_f64(ls_nest_as_array(ls_distributed_component(result, r)),
                       0) == 10 * step);
  }
}

TEST(wrong_numbers_of_replicas_are_refused) {
  ls_strategy *strategy = NULL;
  expect_status(
      ls_mirrored_strategy_create(
          &(ls_mirrored_options){.num_replicas = LS_SOME(0)}, &strategy),
      LS_INVALID_ARGUMENT, "0 replicas");
  assert_null(strategy);
  LS_OWN(ls_strategy, four) = mirrored_of(4);
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_function, f) = function_of(sum_of_row, NULL);
  LS_OWN(ls_array, array) = numbers(2);
  ls_nest split = {0}, result = {0};
  expect_ok(ls_strategy_split(two, array, &split));
  LS_OWN(ls_nest, args) = LS_TUPLE(split);
  expect_status(ls_strategy_run(four, ls_traced(f), args, &result),
                LS_INVALID_ARGUMENT, "2 components");
}

TEST(a_split_is_even_and_shares_the_array) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(4);
  LS_OWN(ls_array, array) = numbers(10);
  LS_OWN(ls_nest, split) = {0};
  expect_ok(ls_strategy_split(strategy, array, &split));
  static const int64_t sizes[] = {3, 3, 2, 2};
  const float *at = ls_array_data(array);
  for (size_t r = 0; r < 4; ++r) {
    const ls_array *part = ls_nest_as_array(ls_distributed_component(split, r));
    assert_int_equal(ls_array_num_elements(part), sizes[r]);
    assert_ptr_equal(ls_array_data(part), at);
    at += sizes[r];
  }
}
