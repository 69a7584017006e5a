// SPDX-License-Identifier: Apache-2.0
// Compiled steps whose replicas have arguments of other shapes.
#include <math.h>
#include <string.h>

#include "distribute/own.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

static ls_nest rows_of(int replicas, int64_t rows) {
  return LS_TUPLE(
      split_of(replicas, array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows, 3), 5)));
}

static ls_nest run_rows(int replicas, int64_t rows, ls_callback callback,
                        void *user) {
  LS_OWN(ls_nest, args) = rows_of(replicas, rows);
  return call_on(replicas, callback, user, args, 2);
}

static const ls_array *part(ls_nest result, size_t leaf, size_t replica) {
  return ls_nest_as_array(
      ls_distributed_component(ls_nest_item(result, leaf), replica));
}

// ---- Shapes ----------------------------------------------------------------
static ls_nest rows_and_sums(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor sum = ls_reduce_sum(x, LS_AXES(0));
  const ls_tensor all = ls_all_reduce(LS_REDUCE_SUM, sum);
  return LS_TUPLE(ls_leaf(ls_mul_scalar(x, 2)),
                  ls_leaf(ls_add(x, ls_mul_scalar(all, 0.5))), ls_leaf(all),
                  ls_leaf(ls_dim_size(x, 0)),
                  ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_dim_size(x, 0))));
}

TEST(each_replica_has_rows_of_its_own_number) {
  for (int replicas = 1; replicas <= 9; ++replicas)
    for (int64_t rows = 1; rows <= 10; ++rows) {
      LS_OWN(ls_array, x) =
          array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows, 3), 5);
      LS_OWN(ls_nest, got) = run_rows(replicas, rows, rows_and_sums, NULL);
      double sum[3] = {0};
      for (int64_t i = 0; i < 3 * rows; ++i)
        sum[i % 3] += ls_array_f64(x, i);
      int64_t at = 0;
      for (size_t r = 0; r < (size_t)replicas; ++r) {
        const int64_t own =
            rows / replicas + ((int64_t)r < rows % replicas ? 1 : 0);
        assert_int_equal(ls_array_shape(part(got, 0, r)).dim[0], own);
        assert_int_equal(ls_array_i64(part(got, 3, r), 0), own);
        assert_int_equal(ls_array_i64(part(got, 4, r), 0), rows);
        for (int64_t i = 0; i < 3 * own; ++i, ++at) {
          const double value = ls_array_f64(x, at);
          assert_true(ls_array_f64(part(got, 0, r), i) == 2 * value);
          assert_true(fabs(ls_array_f64(part(got, 1, r), i) - value -
                           sum[i % 3] / 2) < 1e-5);
        }
        for (int64_t i = 0; i < 3; ++i)
          assert_true(fabs(ls_array_f64(part(got, 2, r), i) - sum[i]) < 1e-5);
      }
      assert_int_equal(at, 3 * rows);
    }
}

// A number of rows that is a constant of the step too: in one class it is the
// same value, in others it is not.
static ls_nest count_beside_constants(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor three = ls_scalar_i64(LS_DTYPE_I64, 3);
  const ls_tensor first = ls_all_reduce(LS_REDUCE_SUM, three);
  ls_variable_assign_add(user, first);
  const ls_tensor again =
      ls_all_reduce(LS_REDUCE_SUM, ls_mul(ls_dim_size(x, 0), first));
  const ls_tensor sum = ls_reduce_sum(x, LS_ALL_AXES);
  const ls_tensor mine =
      ls_add(ls_convert(ls_add(again, three), LS_DTYPE_F32), sum);
  const ls_tensor most = ls_all_reduce(LS_REDUCE_MAX, ls_dim_size(x, 0));
  ls_variable_assign_add(user, ls_mul(three, most));
  return LS_TUPLE(ls_leaf(mine), ls_leaf(most), ls_leaf(again), ls_leaf(sum));
}

TEST(sizes_that_equal_constants_are_told_apart) {
  for (int64_t rows = 7; rows <= 9; ++rows) {
    const double zero = 0;
    LS_OWN(ls_variable, v) = variable_of("v", LS_DTYPE_I64, LS_SCALAR, &zero);
    LS_OWN(ls_nest, got) = run_rows(3, rows, count_beside_constants, v);
    for (size_t r = 0; r < 3; ++r) {
      assert_int_equal(ls_array_i64(part(got, 1, r), 0), 3);
      assert_int_equal(ls_array_i64(part(got, 2, r), 0), rows * 9);
      assert_true(fabs(ls_array_f64(part(got, 0, r), 0) -
                       ls_array_f64(part(got, 3, r), 0) -
                       (double)(rows * 9 + 3)) < 1e-4);
    }
    const double twice = 2 * (9 + 9);
    expect_variable(v, &twice, 1, 0);
  }
}

// ---- Loops -----------------------------------------------------------------
static ls_nest below_four(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar_i64(LS_DTYPE_I64, 4)));
}

static ls_nest add_everywhere(ls_nest values, void *user) {
  const ls_tensor x = *(const ls_tensor *)user;
  const ls_tensor sum = ls_all_reduce(
      LS_REDUCE_SUM,
      ls_reduce_sum(ls_add(x, ls_nest_tensor(values, 1)), LS_ALL_AXES));
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                  ls_leaf(ls_mul_scalar(sum, 0.125)));
}

static ls_nest meet_in_a_loop(ls_nest args, void *user) {
  (void)user;
  ls_tensor x = ls_nest_tensor(args, 0);
  LS_OWN(ls_nest, last) = ls_while(
      below_four, add_everywhere, &x,
      LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)),
               ls_leaf(ls_reduce_sum(ls_mul_scalar(x, 0), LS_ALL_AXES))),
      0);
  return LS_TUPLE(ls_leaf(ls_nest_tensor(last, 1)));
}

TEST(replicas_of_all_sizes_meet_in_loops) {
  for (int64_t rows = 3; rows <= 8; ++rows) {
    LS_OWN(ls_nest, whole) = run_rows(1, rows, meet_in_a_loop, NULL);
    LS_OWN(ls_nest, parts) = run_rows(5, rows, meet_in_a_loop, NULL);
    for (size_t r = 0; r < 5; ++r)
      assert_true(fabs(ls_array_f64(part(parts, 0, r), 0) -
                       ls_array_f64(part(whole, 0, 0), 0)) < 1e-3);
  }
}

// ---- Refusals --------------------------------------------------------------
static ls_nest reduce_rows(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_nest_tensor(args, 0)));
}

static void expect_refused(ls_callback callback, void *user, ls_code code,
                           const char *part_of_message) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_function, function) = unnamed_function(callback, user);
  LS_OWN(ls_nest, args) = rows_of(3, 8);
  ls_nest result = {0};
  expect_status(ls_strategy_run(strategy, ls_traced(function), args, &result),
                code, part_of_message);
}

TEST(other_shapes_cannot_be_reduced) {
  expect_refused(reduce_rows, NULL, LS_INVALID_ARGUMENT,
                 "f32[3,3] on replica 0 and f32[2,3] on replica 2");
}

static ls_nest write_own_count(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  return ls_leaf(ls_variable_assign(user, ls_dim_size(x, 0)));
}

TEST(what_differs_between_classes_is_not_one_value) {
  const double zero = 0;
  LS_OWN(ls_variable, v) = variable_of("v", LS_DTYPE_I64, LS_SCALAR, &zero);
  expect_refused(write_own_count, v, LS_UNIMPLEMENTED, "'v'");
}

// ---- Counts ----------------------------------------------------------------
static ls_nest give_count(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_tensor count;
  const bool differ = ls_replica_examples(&count);
  ls_tensor own;
  expect_status(ls_replica_set_examples(ls_replica_context(), x),
                LS_INVALID_ARGUMENT, "a scalar");
  expect_ok(ls_replica_set_examples(ls_replica_context(),
                                    ls_scalar(LS_DTYPE_F32, 4)));
  assert_true(ls_replica_examples(&own));
  return LS_TUPLE(ls_leaf(differ ? count : ls_scalar_i64(LS_DTYPE_I64, -1)),
                  ls_leaf(own));
}

TEST(a_replica_knows_its_examples) {
  for (int compiled = 0; compiled < 2; ++compiled)
    for (int64_t rows = 4; rows <= 5; ++rows) {
      expect_ok(ls_frame_begin());
      ls_strategy *strategy = mirrored_of(2);
      const ls_nest args = rows_of(2, rows);
      ls_nest got = compiled ? call_on(2, give_count, NULL, args, 1)
                             : run_on(strategy, give_count, args, NULL);
      for (size_t r = 0; r < 2; ++r) {
        const ls_nest own = ls_distributed_component(ls_nest_item(got, 0), r);
        assert_true(number_of(own) == (rows == 4 ? -1 : r == 0 ? 3 : 2));
      }
      ls_nest_release(got);
      ls_nest_release(args);
      ls_strategy_release(strategy);
      expect_ok(ls_frame_end(NULL));
    }
}
