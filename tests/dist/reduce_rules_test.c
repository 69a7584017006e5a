// SPDX-License-Identifier: Apache-2.0
//
// What a strategy's reductions do beside handing over to its cross-device ops:
// values of one replica, weights, results in replicas.
#include <math.h>
#include <string.h>

#include "lockstep/function.h"
#include "support/placed.h"
#include "support/values.h"

// ---- One replica -----------------------------------------------------------
static ls_status count_components(void *self, ls_reduce_op op, ls_nest value,
                                  ls_destinations where, ls_nest *out_value) {
  ls_cross_device *usual = NULL;
  (void)op;
  *(int *)self += ls_distributed_count(value) == 1 &&
                  ls_distributed_kind_of(value) == LS_PER_REPLICA;
  expect_contains(ls_distributed_device(value, 0), "CPU:0");
  expect_ok(ls_reduce_to_one_create(NULL, &usual));
  const ls_status status =
      ls_cross_device_reduce(usual, LS_REDUCE_SUM, value, where, out_value);
  ls_cross_device_release(usual);
  return status;
}

static void on_one_device_a_value_is_that_replicas(void **state) {
  (void)state;
  LS_SPEC("M128");
  static const ls_cross_device_table table = {.name = "counts",
                                              .reduce = count_components};
  int wrapped = 0;
  ls_cross_device *ops = NULL;
  ls_strategy *strategy = mirrored_of(1), *two = mirrored_of(2);
  expect_ok(ls_cross_device_create(&table, &wrapped, &ops));
  expect_ok(ls_strategy_set_cross_device(strategy, ops));
  ls_cross_device_release(ops);
  const ls_nest x = ls_leaf(scalar_of(4));
  const ls_nest mirrored = distributed_numbers(LS_MIRRORED, (double[]){6, 6}, 2);
  ls_nest made = ls_none();
  expect_ok(ls_strategy_reduce_to(strategy, LS_REDUCE_SUM, x,
                                  (ls_destinations){.device = "/cpu:1"},
                                  &made));
  assert_true(number_of(made) == 4);
  expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_SUM, x, &made));
  assert_true(number_of(made) == 4);
  assert_int_equal(wrapped, 2);
  // With two it must be a value of each; ON_READ variables are.
  expect_status(ls_strategy_reduce_to(two, LS_REDUCE_SUM, x,
                                      (ls_destinations){.device = "/cpu:1"},
                                      &made),
                LS_INVALID_ARGUMENT, "one value");
  expect_status(ls_strategy_reduce_to(two, LS_REDUCE_SUM, mirrored,
                                      (ls_destinations){.device = "/cpu:1"},
                                      &made),
                LS_INVALID_ARGUMENT, "mirrored");
  ls_variable *v = variable_in(
      two, (variable_kind){.synchronization = LS_SYNCHRONIZATION_ON_READ,
                           .aggregation = LS_AGGREGATION_SUM});
  set_components(v, (double[]){3, 4}, 2);
  const ls_nest whole = ls_nest_variable(v);
  expect_ok(ls_strategy_reduce_to(two, LS_REDUCE_SUM, whole,
                                  (ls_destinations){.device = "/cpu:1"},
                                  &made));
  assert_true(number_of(made) == 7);
  ls_nest_release(whole);
  ls_variable_release(v);
  ls_nest_release(mirrored);
  ls_strategy_release(two);
  ls_strategy_release(strategy);
}

// ---- Weights ---------------------------------------------------------------
enum { REPLICAS = 5 };

typedef struct weighed {
  const double *values, *weights;
  size_t num_weights;
} weighed;

static ls_nest own_value(const weighed *w) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(REPLICAS), &array));
  for (int64_t i = 0; i < REPLICAS; ++i)
    ls_array_set_f64(array, i, w->values[i]);
  const ls_tensor all = ls_constant(array);
  ls_array_release(array);
  return LS_TUPLE(ls_leaf(ls_gather(all, ls_replica_id(), 0)));
}

static ls_nest weigh(ls_nest args, void *user) {
  const weighed *w = user;
  (void)args;
  const ls_nest given = own_value(w);
  const ls_nest made = ls_replica_weighted_mean(ls_replica_context(), given,
                                                w->weights, w->num_weights);
  ls_nest_release(given);
  return made;
}

static ls_nest plain_mean(ls_nest args, void *user) {
  (void)args;
  const ls_nest given = own_value(user);
  const ls_nest made =
      ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_MEAN, given);
  ls_nest_release(given);
  return made;
}

static float first_number(ls_nest made) {
  ls_nest leaf = ls_nest_item(made, 0);
  if (leaf.kind == LS_KIND_DISTRIBUTED) leaf = ls_distributed_component(leaf, 0);
  return (float)number_of(leaf);
}

static void replicas_are_weighed(void **state) {
  (void)state;
  LS_SPEC("M183");
  const double nan = (double)NAN;
  static const double numbers[] = {0.1, 0.7, 1e6, 0.3, -7};
  static const double broken[] = {0.1, 0.7, (double)NAN, 0.3, -7};
  static const double ones[] = {1, 1, 1, 1, 1}, none[REPLICAS] = {0};
  static const double some[] = {1, 3, 0, 2, 1};
  const float by_hand =
      (((float)0.1 + 3 * (float)0.7) + 2 * (float)0.3 + -7.0f) * (1.0f / 7);
  ls_strategy *strategy = mirrored_of(REPLICAS);
  for (int traced = 0; traced < 2; ++traced) {
    ls_nest made[4] = {{0}};
    weighed w[] = {{broken, some, REPLICAS},
                   {numbers, ones, REPLICAS},
                   {numbers, ones, REPLICAS},
                   {numbers, none, REPLICAS}};
    for (size_t i = 0; i < 4; ++i) {
      const ls_callback callback = i == 2 ? plain_mean : weigh;
      if (traced)
        made[i] = call_on(REPLICAS, callback, &w[i], ls_none(), 1);
      else
        made[i] = run_on(strategy, callback, ls_none(), &w[i]);
    }
    // ((w0 + w1) + (absent + w3)) + w4
    assert_true(first_number(made[0]) == by_hand);
    const float weighted = first_number(made[1]), plain = first_number(made[2]);
    assert_memory_equal(&weighted, &plain, sizeof(plain));
    assert_true(isnan(first_number(made[3])));
    for (size_t i = 0; i < 4; ++i) ls_nest_release(made[i]);
  }
  static const double negative[] = {1, 1, -1, 1, 1};
  const double unknown[] = {1, 1, nan, 1, 1};
  const weighed wrong[] = {{numbers, negative, REPLICAS},
                           {numbers, unknown, REPLICAS},
                           {numbers, ones, 4}};
  static const char *const says[] = {"weight 2 is -1", "weight 2", "4 weights"};
  for (size_t i = 0; i < 3; ++i) {
    ls_nest made = ls_none();
    expect_status(ls_strategy_run(strategy,
                                  ls_plain(weigh, (void *)(uintptr_t)&wrong[i]),
                                  ls_none(), &made),
                  LS_INVALID_ARGUMENT, says[i]);
  }
  ls_strategy_release(strategy);
}

static void weight_zero_is_absent_from_the_tree(void **state) {
  (void)state;
  LS_SPEC("M183");
  // Without replica 1: a + (c + d), not (a + c) + d.
  static const float a = 1e8f, c = 3, d = 3;
  const double numbers[] = {(double)a, (double)NAN, (double)c, (double)d};
  static const double weights[] = {1, 0, 1, 1}, zeros[4] = {0};
  static const double negative[] = {1, -1, 1, 1};
  ls_strategy *strategy = mirrored_of(4);
  const ls_nest value = per_replica_scalars(numbers, 4);
  ls_nest made = ls_none();
  expect_ok(ls_strategy_reduce_with(
      strategy, LS_REDUCE_MEAN, value,
      &(ls_reduce_options){.weights = weights, .num_weights = 4}, &made));
  const float wanted = (a + (c + d)) * (1.0f / 3);
  assert_true((a + c) + d != a + (c + d));
  assert_true((float)number_of(made) == wanted);
  expect_ok(ls_strategy_reduce_with(
      strategy, LS_REDUCE_MEAN, value,
      &(ls_reduce_options){.weights = zeros, .num_weights = 4}, &made));
  assert_true(isnan(number_of(made)));
  expect_status(
      ls_strategy_reduce_with(
          strategy, LS_REDUCE_MEAN, value,
          &(ls_reduce_options){.weights = negative, .num_weights = 4}, &made),
      LS_INVALID_ARGUMENT, "weight 1 is -1");
  expect_status(
      ls_strategy_reduce_with(
          strategy, LS_REDUCE_SUM, value,
          &(ls_reduce_options){.weights = weights, .num_weights = 4}, &made),
      LS_INVALID_ARGUMENT, "for MEAN");
  ls_nest_release(value);
  ls_strategy_release(strategy);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(on_one_device_a_value_is_that_replicas),
      cmocka_unit_test(replicas_are_weighed),
      cmocka_unit_test(weight_zero_is_absent_from_the_tree),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  expect_ok(ls_runtime_destroy(NULL));
  return failed;
}
