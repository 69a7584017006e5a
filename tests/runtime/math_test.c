// SPDX-License-Identifier: Apache-2.0
//
// What each arithmetic does to a convolution, seen by its bits.
#include <string.h>

#include "lockstep/ops.h"
#include "lockstep/runtime.h"
#include "support/values.h"

enum { SIDE = 9, CHANNELS = 32 };

typedef struct convolution {
  int64_t taps;
  ls_convolution_options how;
} convolution;

static ls_nest convolve(ls_nest args, void *user) {
  const convolution *self = user;
  return ls_leaf(ls_convolution(ls_nest_tensor(args, 0),
                                ls_nest_tensor(args, 1), &self->how));
}

static ls_nest convolved(ls_math math, convolution self) {
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(&(ls_runtime_options){.math = math}, &runtime));
  ls_runtime_make_current(runtime);
  ls_function *function = NULL;
  expect_ok(ls_function_create(
      &(ls_function_options){.call = convolve, .user = &self}, &function));
  const ls_shape x = LS_SHAPE(2, SIDE, SIDE, CHANNELS);
  const ls_shape w = LS_SHAPE(self.taps, self.taps, CHANNELS, CHANNELS);
  const ls_nest args =
      LS_TUPLE(ls_nest_array(array_of_numbers(LS_DTYPE_F32, x, 3)),
               ls_nest_array(array_of_numbers(LS_DTYPE_F32, w, 5)));
  ls_nest y = {0};
  expect_ok(ls_function_call(function, args, &y));
  ls_nest_release(args);
  ls_function_release(function);
  ls_runtime_make_current(NULL);
  expect_ok(ls_runtime_destroy(runtime));
  return y;
}

static bool agree(ls_math a, ls_math b, convolution self) {
  const ls_nest x = convolved(a, self), y = convolved(b, self);
  const ls_array *left = ls_nest_as_array(x), *right = ls_nest_as_array(y);
  const bool same = memcmp(ls_array_data(left), ls_array_data(right),
                           ls_array_size(left)) == 0;
  ls_nest_release(x);
  ls_nest_release(y);
  return same;
}

static const ls_convolution_options strided = {.strides = LS_SHAPE(2, 2)};

static void three_by_three_taps_go_by_winograd_unless_direct(void **state) {
  (void)state;
  const convolution plain = {.taps = 3};
  assert_false(agree(LS_MATH_FAST, LS_MATH_DIRECT, plain));
  // Faster than sums of rounded products, and closer.
  assert_true(agree(LS_MATH_FAST, LS_MATH_BF16, plain));
}

static void other_taps_are_rounded_by_bf16_alone(void **state) {
  (void)state;
  const convolution others[] = {{.taps = 1}, {.taps = 2}, {3, strided}};
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); ++i) {
    assert_true(agree(LS_MATH_FAST, LS_MATH_DIRECT, others[i]));
    assert_false(agree(LS_MATH_FAST, LS_MATH_BF16, others[i]));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(three_by_three_taps_go_by_winograd_unless_direct),
      cmocka_unit_test(other_taps_are_rounded_by_bf16_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
