// SPDX-License-Identifier: Apache-2.0
//
// What each arithmetic does to a convolution, seen by its bits.
#include <math.h>

#include "lockstep/gradients.h"
#include "lockstep/ops.h"
#include "lockstep/runtime.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/place.h"
#include "support/values.h"

enum { SIDE = 9, CHANNELS = 32 };

typedef struct convolution {
  int64_t taps;
  ls_convolution_options how;
} convolution;

// The result, and the input's gradient of its square.
static ls_nest convolve(ls_nest args, void *user) {
  const convolution *self = user;
  const ls_nest x = ls_nest_item(args, 0);
  const ls_tensor y = ls_convolution(ls_nest_tensor(args, 0),
                                     ls_nest_tensor(args, 1), &self->how);
  const ls_nest square = ls_leaf(ls_mul(y, y));
  ls_nest dx = {0};
  expect_ok(ls_gradients(&square, 1, &x, 1, NULL, &dx));
  return LS_TUPLE(ls_leaf(y), dx);
}

static ls_nest convolved(ls_math math, convolution self) {
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){.math = math});
  LS_OWN(ls_function, function) = unnamed_function(convolve, &self);
  const ls_shape x = LS_SHAPE(2, SIDE, SIDE, CHANNELS);
  const ls_shape w = LS_SHAPE(self.taps, self.taps, CHANNELS, CHANNELS);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_array(array_of_numbers(LS_DTYPE_F32, x, 3)),
               ls_nest_array(array_of_numbers(LS_DTYPE_F32, w, 5)));
  return call_results(function, args);
}

// How far value `i` of two results is apart, in shares of its size: the root of
// the mean square.
static double apart(ls_nest got, ls_nest want, size_t i) {
  const ls_array *left = ls_nest_as_array(ls_nest_item(got, i));
  const ls_array *right = ls_nest_as_array(ls_nest_item(want, i));
  const float *a = ls_array_data(left), *b = ls_array_data(right);
  double error = 0, size = 0;
  for (size_t k = 0; k < ls_array_size(left) / sizeof(*a); ++k) {
    error += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
    size += (double)b[k] * (double)b[k];
  }
  return sqrt(error / size);
}

// The same for the arithmetics `a` and `b`; the one that is larger.
static double distance(ls_math a, ls_math b, convolution self) {
  LS_OWN(ls_nest, x) = convolved(a, self);
  LS_OWN(ls_nest, y) = convolved(b, self);
  const double result = apart(x, y, 0), gradient = apart(x, y, 1);
  return fmax(result, gradient);
}

static bool agree(ls_math a, ls_math b, convolution self) {
  return distance(a, b, self) == 0;
}

static const ls_convolution_options strided = {.strides = LS_SHAPE(2, 2)};

TEST(three_by_three_taps_go_by_winograd_unless_direct) {
  const convolution plain = {.taps = 3};
  assert_false(agree(LS_MATH_FAST, LS_MATH_DIRECT, plain));
  assert_false(agree(LS_MATH_BF16, LS_MATH_BF16_DIRECT, plain));
  assert_false(agree(LS_MATH_DIRECT, LS_MATH_BF16_DIRECT, plain));
}

TEST(errors_are_those_that_are_documented) {
  const convolution plain = {.taps = 3};
  const double fast = distance(LS_MATH_FAST, LS_MATH_DIRECT, plain);
  const double bf16 = distance(LS_MATH_BF16, LS_MATH_DIRECT, plain);
  const double sums = distance(LS_MATH_BF16_DIRECT, LS_MATH_DIRECT, plain);
  assert_true(fast < 4e-6);
  assert_true(sums < 0.01);
  assert_true(bf16 < 0.04 && bf16 < 5 * sums);
}

TEST(other_taps_are_rounded_by_bf16_alone) {
  const convolution others[] = {{.taps = 1}, {.taps = 2}, {3, strided}};
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); ++i) {
    assert_true(agree(LS_MATH_FAST, LS_MATH_DIRECT, others[i]));
    assert_false(agree(LS_MATH_FAST, LS_MATH_BF16, others[i]));
    assert_true(agree(LS_MATH_BF16, LS_MATH_BF16_DIRECT, others[i]));
  }
}
