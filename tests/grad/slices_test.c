// SPDX-License-Identifier: Apache-2.0
// The gradient of a lookup: rows and where they belong, to be seen as such.
#include "base/memory/allocator.h"
#include "lockstep/function.h"
#include "lockstep/gradients.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/spec.h"

enum { ROWS = 6, WIDTH = 2 };

static ls_tensor integers(ls_dtype dtype, ls_shape shape,
                          const int64_t *items) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(dtype, shape, &array));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_i64(array, i, items[i]);
  return ls_constant(array);
}
#define INDICES(dtype, shape, ...)                                             \
  integers((dtype), (shape), (const int64_t[]){__VA_ARGS__})

static ls_tensor gradient_of(ls_tensor y, ls_variable *x) {
  const ls_nest ys = ls_leaf(y);
  LS_OWN(ls_nest, xs) = ls_nest_variable(x);
  ls_nest gradient = ls_none();
  expect_ok(ls_gradients(&ys, 1, &xs, 1, NULL, &gradient));
  return ls_nest_tensor(gradient, 0);
}

static ls_tensor sum_of(ls_tensor x) { return ls_reduce_sum(x, LS_ALL_AXES); }

// Looks up (3, 0) and, doubled, ((5, 3), (9, 3)).
static ls_tensor look_up(ls_variable *table) {
  const ls_tensor one = ls_gather(ls_variable_read(table),
                                  INDICES(LS_DTYPE_I32, LS_SHAPE(2), 3, 0), 0);
  const ls_tensor two =
      ls_gather(ls_variable_read(table),
                INDICES(LS_DTYPE_I64, LS_SHAPE(2, 2), 5, 3, 9, 3), 0);
  return ls_add(sum_of(one), ls_mul_scalar(sum_of(two), 2));
}

static ls_nest give_parts(ls_nest args, void *user) {
  (void)args;
  const ls_tensor gradient = gradient_of(look_up(user), user);
  ls_tensor indices, values;
  if (!ls_tensor_is_slices(gradient, &indices, &values))
    return LS_FAIL(LS_INTERNAL, "the gradient is dense");
  return LS_TUPLE(ls_leaf(indices), ls_leaf(values), ls_leaf(gradient));
}

static ls_nest give_mixed(ls_nest args, void *user) {
  (void)args;
  const ls_tensor y = ls_add(look_up(user), sum_of(ls_variable_read(user)));
  const ls_tensor gradient = gradient_of(y, user);
  ls_tensor indices, values;
  if (ls_tensor_is_slices(gradient, &indices, &values) ||
      !ls_tensor_is_failed(indices) || !ls_tensor_is_failed(values))
    return LS_FAIL(LS_INTERNAL, "the gradient has parts");
  return LS_TUPLE(ls_leaf(gradient));
}

static ls_nest call(ls_callback callback) {
  LS_OWN(ls_variable, table) = NULL;
  expect_ok(
      ls_variable_create(&(ls_variable_options){.name = "table",
                                                .dtype = LS_DTYPE_F32,
                                                .shape = LS_SHAPE(ROWS, WIDTH)},
                         &table));
  LS_OWN(ls_function, function) = unnamed_function(callback, table);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_none());
  return call_results(function, args);
}

// `want`: one number a row.
static void expect_rows(ls_nest leaf, size_t count, const double *want) {
  const ls_array *array = ls_nest_as_array(leaf);
  assert_int_equal(ls_array_shape(array).dim[0], count);
  const int64_t width = ls_array_num_elements(array) / (int64_t)count;
  for (size_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < width; ++k)
      assert_true(ls_array_f64(array, (int64_t)i * width + k) == want[i]);
}
#define EXPECT_ROWS(leaf, ...)                                                 \
  expect_rows((leaf), sizeof((double[]){__VA_ARGS__}) / sizeof(double),        \
              (double[]){__VA_ARGS__})

TEST(lookups_give_their_rows_one_behind_the_other) {
  LS_SPEC("O199");
  LS_OWN(ls_nest, result) = call(give_parts);
  EXPECT_ROWS(ls_nest_item(result, 0), 3, 0, 5, 3, 5, 3);  // 9 was taken for 5.
  EXPECT_ROWS(ls_nest_item(result, 1), 1, 1, 2, 2, 2, 2);
  EXPECT_ROWS(ls_nest_item(result, 2), 1, 0, 0, 1 + 2 + 2, 0, 2 + 2);
}

// Row 3, by a rule of its own.
static ls_nest row_3(ls_nest inputs, void *user) {
  (void)user;
  return ls_leaf(ls_gather(ls_nest_tensor(inputs, 0),
                           INDICES(LS_DTYPE_I32, LS_SHAPE(1), 3), 0));
}

static ls_nest gradient_of_row_3(ls_nest inputs, ls_nest outputs,
                                 ls_nest gradients, void *user) {
  (void)outputs, (void)user;
  return ls_leaf(ls_indexed_slices(INDICES(LS_DTYPE_I32, LS_SHAPE(1), 3),
                                   ls_nest_tensor(gradients, 0),
                                   ls_nest_tensor(inputs, 0)));
}

static ls_nest give_parts_of_two_types(ls_nest args, void *user) {
  (void)args;
  const ls_tensor table = ls_variable_read(user);
  const ls_nest row =
      ls_custom_gradient(row_3, gradient_of_row_3, NULL, ls_leaf(table));
  const ls_tensor y = ls_add(
      sum_of(ls_nest_tensor(row, 0)),
      sum_of(ls_gather(table, INDICES(LS_DTYPE_I64, LS_SHAPE(2), 5, 3), 0)));
  ls_tensor indices, values;
  if (!ls_tensor_is_slices(gradient_of(y, user), &indices, &values))
    return LS_FAIL(LS_INTERNAL, "the gradient is dense");
  return LS_TUPLE(ls_leaf(indices), ls_leaf(values));
}

TEST(indices_of_two_types_become_wide) {
  LS_OWN(ls_nest, result) = call(give_parts_of_two_types);
  EXPECT_ROWS(ls_nest_item(result, 0), 3, 5, 3);
  EXPECT_ROWS(ls_nest_item(result, 1), 1, 1, 1);
  assert_int_equal(ls_array_dtype(ls_nest_as_array(ls_nest_item(result, 0))),
                   LS_DTYPE_I64);
}

TEST(beside_a_dense_gradient_they_are_dense) {
  LS_SPEC("O199");
  LS_OWN(ls_nest, result) = call(give_mixed);
  EXPECT_ROWS(ls_nest_item(result, 0), 2, 1, 1, 6, 1, 5);
}

static ls_nest sum_small(ls_nest args, void *user) {
  (void)user;
  const ls_tensor values = ls_nest_tensor(args, 0);
  const ls_tensor zeros = ls_fill(LS_DTYPE_BF16, LS_SHAPE(2), 0);
  const ls_tensor indices = ls_fill(LS_DTYPE_I32, LS_SHAPE(512), 1);
  return ls_leaf(ls_indexed_slices(indices, values, zeros));
}

TEST(small_floats_are_rounded_once) {
  LS_OWN(ls_function, function) = unnamed_function(sum_small, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_zeros(LS_DTYPE_BF16, LS_SHAPE(512)));
  for (int64_t i = 0; i < 512; ++i)
    ls_array_set_f64(ls_nest_as_array(ls_nest_item(args, 0)), i, 1);
  LS_OWN(ls_nest, result) = call_results(function, args);
  EXPECT_ROWS(result, 0, 512);  // One after another in bf16 they stop at 256.
}

// Adds the slices to a table without rows.
static ls_nest gradient_of_no_rows(ls_nest args, void *user) {
  (void)user;
  const ls_tensor values = ls_nest_tensor(args, 0);
  const ls_tensor table = ls_fill(LS_DTYPE_F32, LS_SHAPE(0, 2), 0);
  const ls_tensor indices = ls_fill(LS_DTYPE_I32, LS_SHAPE(3), 0);
  const ls_nest y = ls_leaf(sum_of(ls_indexed_slices(indices, values, table)));
  const ls_nest x = ls_leaf(values);
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&y, 1, &x, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? gradient : ls_fail(status);
}

TEST(slices_of_no_rows_have_a_gradient_of_0) {
  LS_OWN(ls_function, function) = unnamed_function(gradient_of_no_rows, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(3, 2)));
  LS_OWN(ls_nest, result) = call_results(function, args);
  EXPECT_ROWS(result, 0, 0, 0);
}

static ls_nest make_misfit(ls_nest args, void *user) {
  const ls_tensor indices = ls_fill(LS_DTYPE_I32, LS_SHAPE(3), 0);
  return ls_leaf(ls_indexed_slices(indices, ls_nest_tensor(args, 0),
                                   *(const bool *)user
                                       ? ls_scalar(LS_DTYPE_F32, 0)
                                       : ls_nest_tensor(args, 0)));
}

TEST(values_that_do_not_fit_are_refused) {
  static const char *const wanted[] = {"must be numbers f32[3,4], are f32[2,4]",
                                       "has no slices"};
  for (int i = 0; i < 2; ++i) {
    bool scalar = i == 1;
    LS_OWN(ls_function, function) = unnamed_function(make_misfit, &scalar);
    LS_OWN(ls_nest, args) =
        LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2, 4)));
    ls_nest result = ls_none();
    expect_status(ls_function_call(function, args, &result),
                  LS_INVALID_ARGUMENT, wanted[i]);
  }
}
