// SPDX-License-Identifier: Apache-2.0
//
// The makers of mathematical functions, each once, as a user calls them.
#include <math.h>
#include <string.h>

#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"

static double item(ls_tensor tensor) {
  double value = 0;
  expect_ok(ls_tensor_item(tensor, &value));
  return value;
}

static ls_tensor f64(double value) { return ls_scalar(LS_DTYPE_F64, value); }
static ls_tensor i32(int64_t value) {
  return ls_scalar_i64(LS_DTYPE_I32, value);
}
static ls_tensor truth(bool value) {
  return ls_scalar_i64(LS_DTYPE_BOOL, value);
}

static void expect_number(ls_tensor tensor, double want) {
  const double got = item(tensor);
  if (!(fabs(got - want) <= 1e-14 * fabs(want)))
    fail_msg("%.17g, wanted %.17g", got, want);
}

TEST(functions_of_numbers_compute_what_they_are_called) {
  expect_number(ls_expm1(f64(1e-9)), expm1(1e-9));
  expect_number(ls_log1p(f64(1e-9)), log1p(1e-9));
  expect_number(ls_ceil(f64(1.25)), 2);
  expect_number(ls_floor(f64(-1.25)), -2);
  expect_number(ls_round(f64(2.5)), 2);
  expect_number(ls_round_away(f64(2.5)), 3);
  expect_number(ls_cos(f64(2)), cos(2));
  expect_number(ls_sin(f64(2)), sin(2));
  expect_number(ls_tan(f64(2)), tan(2));
  expect_number(ls_cbrt(f64(27)), 3);
  expect_number(ls_erfc(f64(2)), erfc(2));
  expect_number(ls_atan2(f64(-1), f64(-2)), atan2(-1, -2));
  expect_number(ls_remainder(f64(-7), f64(4)), -3);
  expect_number(ls_is_finite(f64(INFINITY)), 0);
  expect_number(ls_is_finite(f64(1)), 1);
}

TEST(activations_compute_what_they_are_called) {
  const double s = 1 / (1 + exp(-2.0));
  const double u = 0.7978845608028654 * (2 + 0.044715 * 8);
  expect_number(ls_softplus(f64(2)), log(1 + exp(2)));
  expect_number(ls_gelu(f64(2)), 1 + tanh(u));  // x / 2 is 1.
  expect_number(ls_gelu_grad(f64(3), f64(0)), 1.5);
  expect_number(ls_silu(f64(2)), 2 * s);
  expect_number(ls_elu(f64(2), 3), 2);
  expect_number(ls_elu(f64(-2), 1), expm1(-2));
  expect_number(ls_elu(f64(-2), 3), 3 * expm1(-2));
  expect_number(ls_leaky_relu(f64(2), 0.5), 2);
  expect_number(ls_leaky_relu(f64(-2), 0.5), -1);
}

TEST(bits_compute_what_they_are_called) {
  expect_number(ls_not(i32(5)), -6);
  expect_number(ls_and(i32(12), i32(10)), 8);
  expect_number(ls_or(i32(12), i32(10)), 14);
  expect_number(ls_xor(i32(12), i32(10)), 6);
  expect_number(ls_xor(truth(true), truth(true)), 0);
  expect_number(ls_shift_left(i32(-3), i32(2)), -12);
  expect_number(ls_shift_right_arithmetic(i32(-12), i32(2)), -3);
  expect_number(ls_shift_right_logical(i32(-1), i32(28)), 15);
  expect_number(ls_popcount(i32(-1)), 32);
  expect_number(ls_count_leading_zeros(i32(1)), 31);
  expect_number(ls_bitcast(ls_scalar(LS_DTYPE_F32, 1), LS_DTYPE_I32),
                0x3F800000);
  const ls_tensor same = i32(1);
  assert_true(ls_tensor_equal(ls_bitcast(same, LS_DTYPE_I32), same));
}

TEST(reductions_compute_what_they_are_called) {
  const ls_tensor x =
      ls_add_scalar(ls_iota(LS_DTYPE_F64, LS_SHAPE(2, 3), 1), 1);
  expect_number(ls_reduce_product(x, LS_ALL_AXES), 36);
  const ls_tensor kept = ls_reduce_product_keep(x, LS_AXES(-1));
  assert_true(ls_shape_equal(ls_tensor_shape(kept), LS_SHAPE(2, 1)));
  const ls_tensor above = ls_greater(x, f64(1));
  expect_number(ls_reduce_and(above, LS_ALL_AXES), 0);
  expect_number(ls_reduce_or(above, LS_ALL_AXES), 1);
  expect_number(ls_reduce_and(ls_reduce_or(above, LS_AXES(1)), LS_ALL_AXES), 1);
}

// ---- Random ----------------------------------------------------------------
static ls_nest draws(ls_nest args, void *user) {
  (void)args;
  (void)user;
  const ls_random_options fixed = {.seed = 3, .fixed = true};
  const ls_tensor order = ls_random_permutation(LS_DTYPE_I32, 50, NULL);
  return LS_TUPLE(ls_leaf(order),
                  ls_leaf(ls_random_permutation(LS_DTYPE_I64, 50, &fixed)),
                  ls_leaf(ls_random_unsigned(LS_DTYPE_U32, LS_SHAPE(8), NULL)),
                  ls_leaf(ls_random_truncated_normal(LS_DTYPE_F32, LS_SHAPE(99),
                                                     5, 0.5, NULL)));
}

static const ls_array *leaf(ls_nest nest, size_t index) {
  return ls_nest_as_array(ls_nest_item(nest, index));
}

static bool equal_leaves(ls_nest a, ls_nest b, size_t index) {
  const ls_array *x = leaf(a, index), *y = leaf(b, index);
  return memcmp(ls_array_data(x), ls_array_data(y), ls_array_size(x)) == 0;
}

TEST(random_makers_draw_anew_unless_fixed) {
  LS_OWN(ls_function, f) = unnamed_function(draws, NULL);
  LS_OWN(ls_nest, first) = call_results(f, ls_none());
  LS_OWN(ls_nest, second) = call_results(f, ls_none());
  for (size_t i = 0; i < 4; ++i)
    assert_true(equal_leaves(first, second, i) == (i == 1));
  for (size_t k = 0; k < 2; ++k) {
    uint64_t seen = 0;
    for (int64_t i = 0; i < 50; ++i)
      seen |= UINT64_C(1) << ls_array_i64(leaf(first, k), i);
    assert_true(seen == (UINT64_C(1) << 50) - 1);
  }
  for (int64_t i = 0; i < 99; ++i)
    assert_true(fabs(ls_array_f64(leaf(first, 3), i) - 5) <= 1);
}

TEST(what_cannot_be_is_refused) {
  double value = 0;
  expect_status(
      ls_tensor_item(ls_random_permutation(LS_DTYPE_I32, -1, NULL), &value),
      LS_INVALID_ARGUMENT, "a permutation of -1");
  expect_status(
      ls_tensor_item(ls_random_permutation(LS_DTYPE_F32, 4, NULL), &value),
      LS_UNIMPLEMENTED, "random_permutation returns i32 or i64, not f32");
  expect_status(ls_tensor_item(
                    ls_random_unsigned(LS_DTYPE_I8, LS_SHAPE(2), NULL), &value),
                LS_UNIMPLEMENTED, "random_bits returns u32 or u64, not i8");
  expect_status(ls_tensor_item(ls_bitcast(f64(1), LS_DTYPE_F32), &value),
                LS_UNIMPLEMENTED, "bitcast from f64 to f32");
  expect_status(ls_tensor_item(ls_sin(i32(1)), &value), LS_INVALID_ARGUMENT,
                "sin takes floats, got i32[]");
  expect_status(ls_tensor_item(ls_elu(ls_sin(i32(1)), 1), &value),
                LS_INVALID_ARGUMENT, "sin takes floats, got i32[]");
  expect_status(ls_tensor_item(ls_leaky_relu(ls_sin(i32(1)), 1), &value),
                LS_INVALID_ARGUMENT, "sin takes floats, got i32[]");
}
