// SPDX-License-Identifier: Apache-2.0
//
// Uniform numbers lie in [low, high), whatever is rounded or overflows.
#include <float.h>
#include <math.h>

#include "lockstep/array.h"
#include "lockstep/eager.h"
#include "lockstep/ops.h"
#include "runtime/own.h"
#include "support/expect.h"

enum { COUNT = 20000 };

// Draws numbers, checks that all are in range, and returns their mean.
static double draw(ls_dtype dtype, double low, double high) {
  LS_OWN(ls_array, drawn) = NULL;
  expect_ok(ls_frame_begin());
  expect_ok(ls_tensor_value(
      ls_random_uniform(dtype, LS_SHAPE(COUNT), low, high, NULL), &drawn));
  double mean = 0;
  for (int64_t i = 0; i < COUNT; ++i) {
    const double x = ls_array_f64(drawn, i);
    assert_true(low <= x && x < high);
    mean += x / COUNT;
  }
  expect_ok(ls_frame_end(NULL));
  return mean;
}

TEST(rounding_leaves_uniform_numbers_in_range) {
  draw(LS_DTYPE_BF16, 1.003, 1.02);
  draw(LS_DTYPE_BF16, -1.02, -1.003);
  draw(LS_DTYPE_BF16, 100.3, 200);
  draw(LS_DTYPE_F16, 2049, 2060);
  draw(LS_DTYPE_F16, -2060, -2049);
  draw(LS_DTYPE_F32, 16777217, 16777221);
  draw(LS_DTYPE_F32, 1e8 + 1, 1e8 + 9);
  // One number alone lies there.
  assert_true(fabs(draw(LS_DTYPE_BF16, 0.999, 1.001) - 1) < 1e-6);
  assert_true(draw(LS_DTYPE_F32, -0x1p-30, 0x1p-60) <= 0);
}

TEST(uniform_numbers_fill_a_range_whose_width_overflows) {
  assert_true(fabs(draw(LS_DTYPE_F32, -3e38, 3e38)) < 2e37);
  assert_true(fabs(draw(LS_DTYPE_BF16, -3e38, 3e38)) < 2e37);
  assert_true(fabs(draw(LS_DTYPE_F64, -1.7e308, 1.7e308)) < 1e307);
  draw(LS_DTYPE_F64, -DBL_MAX, DBL_MAX);
  draw(LS_DTYPE_F32, -(double)FLT_MAX, (double)FLT_MAX);
  draw(LS_DTYPE_F16, -60000, 60000);
}

static void expect_refused(ls_dtype dtype, double low, double high,
                           const char *why) {
  expect_ok(ls_frame_begin());
  expect_status(
      ls_tensor_status(ls_random_uniform(dtype, LS_SHAPE(3), low, high, NULL)),
      LS_INVALID_ARGUMENT, why);
  expect_ok(ls_frame_end(NULL));
}

TEST(a_range_without_numbers_is_refused) {
  expect_refused(LS_DTYPE_BF16, 1.003, 1.004, "no number of bf16 lies in");
  expect_refused(LS_DTYPE_F32, 16777217, 16777218, "no number of f32 lies in");
  expect_refused(LS_DTYPE_F32, 0, 1e39, "the ends must be from");
  expect_refused(LS_DTYPE_F64, -(double)INFINITY, 0, "the ends must be from");
}
