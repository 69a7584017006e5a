// SPDX-License-Identifier: Apache-2.0
//
// What a strategy's reductions do beside handing over to its cross-device ops:
// values of one replica, weights, results in replicas.
#include <math.h>
#include <string.h>

#include "distribute/own.h"
#include "lockstep/function.h"
#include "lockstep/gradients.h"
#include "lockstep/strategy_extended.h"
#include "support/placed.h"
#include "support/values.h"

// ---- One replica -----------------------------------------------------------
static ls_status count_components(void *self, ls_reduce_op op, ls_nest value,
                                  ls_destinations where, ls_nest *out_value) {
  LS_OWN(ls_cross_device, usual) = NULL;
  (void)op;
  *(int *)self += ls_distributed_count(value) == 1 &&
                  ls_distributed_kind_of(value) == LS_PER_REPLICA;
  expect_contains(ls_distributed_device(value, 0), "CPU:0");
  expect_ok(ls_reduce_to_one_create(NULL, &usual));
  return ls_cross_device_reduce(usual, LS_REDUCE_SUM, value, where, out_value);
}

TEST(on_one_device_a_value_is_that_replicas) {
  LS_SPEC("M128");
  static const ls_cross_device_table table = {.name = "counts",
                                              .reduce = count_components};
  int wrapped = 0;
  ls_cross_device *ops = NULL;
  LS_OWN(ls_strategy, strategy) = mirrored_of(1);
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  expect_ok(ls_cross_device_create(&table, &wrapped, &ops));
  expect_ok(ls_strategy_set_cross_device(strategy, ops));
  ls_cross_device_release(ops);
  const ls_nest x = ls_leaf(scalar_of(4));
  LS_OWN(ls_nest, mirrored) =
      distributed_numbers(LS_MIRRORED, (double[]){6, 6}, 2);
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
  LS_OWN(ls_variable, v) = variable_in(
      two, (variable_kind){.synchronization = LS_SYNCHRONIZATION_ON_READ,
                           .aggregation = LS_AGGREGATION_SUM});
  set_components(v, (double[]){3, 4}, 2);
  LS_OWN(ls_nest, whole) = ls_nest_variable(v);
  expect_ok(ls_strategy_reduce_to(
      two, LS_REDUCE_SUM, whole, (ls_destinations){.device = "/cpu:1"}, &made));
  assert_true(number_of(made) == 7);
}

// ---- Weights ---------------------------------------------------------------
enum { REPLICAS = 5 };

typedef struct weighed {
  const double *values, *weights;
  size_t num_weights;
} weighed;

static ls_nest own_value(const weighed *w) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(REPLICAS), &array));
  for (int64_t i = 0; i < REPLICAS; ++i)
    ls_array_set_f64(array, i, w->values[i]);
  const ls_tensor all = ls_constant(array);
  return LS_TUPLE(ls_leaf(ls_gather(all, ls_replica_id(), 0)));
}

static ls_nest weigh(ls_nest args, void *user) {
  const weighed *w = user;
  (void)args;
  LS_OWN(ls_nest, given) = own_value(w);
  return ls_replica_weighted_mean(ls_replica_context(), given, w->weights,
                                  w->num_weights);
}

static ls_nest plain_mean(ls_nest args, void *user) {
  (void)args;
  LS_OWN(ls_nest, given) = own_value(user);
  return ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_MEAN, given);
}

static float first_number(ls_nest made) {
  ls_nest leaf = ls_nest_item(made, 0);
  if (leaf.kind == LS_KIND_DISTRIBUTED)
    leaf = ls_distributed_component(leaf, 0);
  return (float)number_of(leaf);
}

TEST(replicas_are_weighed) {
  LS_SPEC("M183");
  const double nan = (double)NAN;
  static const double numbers[] = {0.1, 0.7, 1e6, 0.3, -7};
  static const double broken[] = {0.1, 0.7, (double)NAN, 0.3, -7};
  static const double ones[] = {1, 1, 1, 1, 1}, none[REPLICAS] = {0};
  static const double some[] = {1, 3, 0, 2, 1};
  const float by_hand =
      (((float)0.1 + 3 * (float)0.7) + 2 * (float)0.3 + -7.0f) * (1.0f / 7);
  LS_OWN(ls_strategy, strategy) = mirrored_of(REPLICAS);
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
    for (size_t i = 0; i < 4; ++i)
      ls_nest_release(made[i]);
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
}

TEST(weight_zero_is_absent_from_the_tree) {
  LS_SPEC("M183");
  // Without replica 1: a + (c + d), not (a + c) + d.
  static const float a = 1e8f, c = 3, d = 3;
  const double numbers[] = {(double)a, (double)NAN, (double)c, (double)d};
  static const double weights[] = {1, 0, 1, 1}, zeros[4] = {0};
  static const double negative[] = {1, -1, 1, 1};
  LS_OWN(ls_strategy, strategy) = mirrored_of(4);
  LS_OWN(ls_nest, value) = per_replica_scalars(numbers, 4);
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
  expect_status(ls_strategy_reduce_with(
                    strategy, LS_REDUCE_MEAN, value,
                    &(ls_reduce_options){.weights = negative, .num_weights = 4},
                    &made),
                LS_INVALID_ARGUMENT, "weight 1 is -1");
  expect_status(ls_strategy_reduce_with(
                    strategy, LS_REDUCE_SUM, value,
                    &(ls_reduce_options){.weights = weights, .num_weights = 4},
                    &made),
                LS_INVALID_ARGUMENT, "for MEAN");
}

// ---- Nests in replicas -----------------------------------------------------
static ls_nest reduce_and_gather(ls_nest args, void *user) {
  (void)user;
  ls_replica *replica = ls_replica_context();
  const ls_nest sums = ls_replica_all_reduce(replica, LS_REDUCE_SUM, args);
  const ls_nest all = ls_replica_all_gather(replica, args, 0);
  return LS_TUPLE(sums, all);
}

// {"a": [x]}, x of as many rows as the replica's number and one more.
static ls_nest uneven_rows(int replicas, bool even) {
  ls_nest parts[8];
  for (int r = 0; r < replicas; ++r) {
    const double numbers[] = {1 + r, 10 + r, 100 + r};
    parts[r] = ls_nest_array(
        array_of(LS_DTYPE_F32, LS_SHAPE(even ? 2 : r + 1), numbers));
  }
  static const char *const keys[] = {"a"};
  const ls_nest list =
      LS_LIST(ls_nest_distributed(LS_PER_REPLICA, parts, (size_t)replicas));
  return LS_TUPLE(ls_nest_dict("", keys, &list, 1));
}

static ls_nest leaf_of_result(ls_nest made, size_t which) {
  const ls_nest dict = ls_nest_item(ls_nest_item(made, which), 0);
  assert_int_equal(dict.kind, LS_KIND_DICT);
  const ls_nest list = ls_nest_find(dict, "a");
  assert_int_equal(list.kind, LS_KIND_LIST);
  return ls_nest_item(list, 0);
}

static void expect_each(ls_nest leaf, const double *numbers, int64_t count) {
  for (size_t r = 0; r < ls_distributed_count(leaf); ++r) {
    const ls_nest part = ls_distributed_component(leaf, r);
    LS_OWN(ls_array, array) = NULL;
    if (part.kind == LS_KIND_ARRAY)
      array = ls_array_retain(ls_nest_as_array(part));
    else
      expect_ok(ls_tensor_value(part.as.tensor, &array));
    assert_int_equal(ls_array_num_elements(array), count);
    for (int64_t i = 0; i < count; ++i)
      assert_true(ls_array_f64(array, i) == numbers[i]);
  }
}

static ls_nest gather_only(ls_nest args, void *user) {
  (void)user;
  return LS_TUPLE(ls_none(),
                  ls_replica_all_gather(ls_replica_context(), args, 0));
}

TEST(every_replica_gets_the_same_nest) {
  LS_SPEC("M133");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  for (int traced = 0; traced < 2; ++traced)
    for (int even = 0; even < 2; ++even) {
      LS_OWN(ls_nest, args) = uneven_rows(3, even == 1);
      const ls_callback callback = even ? reduce_and_gather : gather_only;
      LS_OWN(ls_nest, made) = traced ? call_on(3, callback, NULL, args, 1)
                                     : run_on(strategy, callback, args, NULL);
      if (even) {
        expect_each(leaf_of_result(made, 0), (double[]){6, 33}, 2);
        expect_each(leaf_of_result(made, 1), (double[]){1, 10, 2, 11, 3, 12},
                    6);
      } else {  // Sizes may differ along the axis.
        expect_each(leaf_of_result(made, 1), (double[]){1, 2, 11, 3, 12, 102},
                    6);
      }
    }
}

// The gradient of each replica's sum of id * reduce(x).
static ls_nest differentiate(ls_nest args, void *user) {
  const ls_reduce_op op = *(const ls_reduce_op *)user;
  const ls_nest x = ls_nest_item(args, 0);
  const ls_tensor id =
      ls_add_scalar(ls_convert(ls_replica_id(), LS_DTYPE_F32), 1);
  const ls_nest all = ls_replica_all_reduce(ls_replica_context(), op, x);
  const ls_nest y =
      ls_leaf(ls_reduce_sum(ls_mul(ls_nest_tensor(all, 0), id), LS_ALL_AXES));
  ls_nest gradient = ls_none();
  expect_ok(ls_gradients(&y, 1, &x, 1, NULL, &gradient));
  return gradient;
}

TEST(the_gradient_of_a_reduction_is_one) {
  LS_SPEC("M133");
  for (ls_reduce_op op = LS_REDUCE_SUM; op <= LS_REDUCE_MEAN; ++op) {
    LS_OWN(ls_nest, args) = LS_TUPLE(
        split_of(3, array_of(LS_DTYPE_F32, LS_SHAPE(3), (double[]){1, 2, 3})));
    LS_OWN(ls_nest, made) = call_on(3, differentiate, &op, args, 1);
    const double wanted = op == LS_REDUCE_SUM ? 6 : 2;
    for (size_t r = 0; r < 3; ++r)
      assert_true(fabs(number_of(made.kind == LS_KIND_DISTRIBUTED
                                     ? ls_distributed_component(made, r)
                                     : made) -
                       wanted) < 1e-6);
  }
}

static ls_nest gather_slices(ls_nest args, void *user) {
  (void)args;
  (void)user;
  LS_OWN(ls_nest, rows) =
      ls_nest_slices(ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(1, 2), 1)),
                     ls_fill(LS_DTYPE_I64, LS_SHAPE(1), 0), ls_failed_tensor());
  return ls_replica_all_gather(ls_replica_context(), rows, 0);
}

TEST(sets_that_cannot_gather_say_so_three_times) {
  LS_SPEC("M133");
  for (int set = 0; set < 3; ++set) {
    LS_OWN_BEGUN(logged_runtime, log, logged_runtime_begin);
    LS_OWN(ls_strategy, strategy) = mirrored_of(3);
    ls_cross_device *ops = NULL;
    if (set == 1) expect_ok(ls_nccl_all_reduce_create((ls_opt){0}, &ops));
    if (set == 2) expect_ok(ls_hierarchical_copy_create((ls_opt){0}, &ops));
    expect_ok(ls_strategy_set_cross_device(strategy, ops));
    ls_cross_device_release(ops);
    for (int i = 0; i < 5; ++i) {
      LS_OWN(ls_nest, args) = uneven_rows(3, false);
      LS_OWN(ls_nest, made) = run_on(strategy, gather_only, args, NULL);
      expect_each(leaf_of_result(made, 1), (double[]){1, 2, 11, 3, 12, 102}, 6);
    }
    assert_int_equal(count_logged(&log, "warning: gather by "),
                     set == 0 ? 0 : 3);
    ls_nest made = ls_none();
    expect_status(ls_strategy_run(strategy, ls_plain(gather_slices, NULL),
                                  ls_none(), &made),
                  LS_UNIMPLEMENTED, "all_gather of IndexedSlices");
  }
}

// ---- Variables -------------------------------------------------------------
static ls_nest assign_own(ls_nest args, void *user) {
  (void)args;
  ls_variable_assign(user, scalar_of(1 + ls_replica_number()));
  return ls_none();
}

static ls_status give_forty(void *self, ls_reduce_op op, ls_nest value,
                            ls_destinations where, ls_nest *out_value) {
  LS_OWN(ls_cross_device, usual) = NULL;
  (void)op;
  ++*(int *)self;
  assert_int_equal(ls_distributed_count(value), 2);
  expect_ok(ls_reduce_to_one_create(NULL, &usual));
  return ls_cross_device_reduce(usual, LS_REDUCE_SUM, ls_leaf(scalar_of(40)),
                                where, out_value);
}

TEST(variables_aggregate_by_the_users_table) {
  LS_SPEC("M68");
  static const ls_cross_device_table table = {.name = "forty",
                                              .reduce = give_forty};
  int calls = 0;
  LS_OWN(ls_cross_device, ops) = NULL;
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  expect_ok(ls_cross_device_create(&table, &calls, &ops));
  LS_OWN(ls_variable, written) =
      variable_in(strategy, (variable_kind){.aggregation = LS_AGGREGATION_SUM});
  LS_OWN(ls_variable, read) = variable_in(
      strategy, (variable_kind){.synchronization = LS_SYNCHRONIZATION_ON_READ,
                                .aggregation = LS_AGGREGATION_MEAN});
  for (int own = 0; own < 2; ++own) {
    if (own) expect_ok(ls_strategy_set_cross_device(strategy, ops));
    ls_nest_release(run_on(strategy, assign_own, ls_none(), written));
    expect_components(written, own ? (double[]){40, 40} : (double[]){3, 3}, 2);
    set_components(read, (double[]){2, 4}, 2);
    {
      LS_STRATEGY_SCOPE(strategy);
      assert_true(number_of(ls_leaf(ls_variable_read(read))) == (own ? 40 : 3));
    }
  }
  assert_int_equal(calls, 2);
}
