// SPDX-License-Identifier: Apache-2.0
//
// Ops on sizes at the ends of their ranges: none, and as far as a window may
// reach.
#include "lockstep/ops.h"
#include "runtime/own.h"
#include "support/place.h"
#include "support/values.h"

enum { FAR = INT32_MAX };

static void expect_empty(ls_tensor x) {
  LS_OWN(ls_array, value) = NULL;
  expect_ok(ls_tensor_value(x, &value));
  assert_int_equal(ls_array_num_elements(value), 0);
}

static ls_tensor zeros(int64_t rows, int64_t columns) {
  return ls_fill(LS_DTYPE_F32, LS_SHAPE(rows, columns), 0);
}

TEST(results_without_elements_cost_and_touch_nothing) {
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){0});
  const int64_t many = 4000000000;
  expect_empty(ls_reduce_sum(zeros(0, many), LS_AXES(1)));
  expect_empty(ls_reduce_max(zeros(0, many), LS_AXES(1)));
  expect_empty(ls_reduce_sum(ls_fill(LS_DTYPE_F32, LS_SHAPE(many, 0, 3), 0),
                             LS_AXES(0, 2)));
  expect_empty(ls_softmax(zeros(many, 0)));
  expect_empty(ls_layer_norm(zeros(many, 0),
                             ls_fill(LS_DTYPE_F32, LS_SHAPE(0), 1),
                             ls_fill(LS_DTYPE_F32, LS_SHAPE(0), 0), 1e-5));
}

TEST(taps_as_far_apart_as_a_window_may_reach_see_padding) {
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){0});
  const ls_convolution_options far = {.strides = LS_SHAPE(1, FAR),
                                      .dilations = LS_SHAPE(FAR, 1),
                                      .low = LS_SHAPE(FAR, FAR)};
  LS_OWN(ls_array, value) = NULL;
  expect_ok(ls_tensor_value(
      ls_convolution(ls_fill(LS_DTYPE_F32, LS_SHAPE(1, 1, 1, 1), 1),
                     ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 1, 1, 1), 1), &far),
      &value));
  assert_int_equal(ls_array_num_elements(value), 2);
  assert_true(ls_array_f64(value, 0) == 0 && ls_array_f64(value, 1) == 1);
}

TEST(far_windows_of_volumes_need_no_memory) {
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){0});
  enum { APART = 100000 };
  const ls_window_options far = {.strides = LS_SHAPE(1, 1, 1),
                                 .dilations = LS_SHAPE(APART, APART, APART),
                                 .low = LS_SHAPE(APART, APART, APART)};
  LS_OWN(ls_array, value) = NULL;
  expect_ok(ls_tensor_value(
      ls_reduce_window(LS_WINDOW_MAX,
                       ls_fill(LS_DTYPE_F32, LS_SHAPE(1, 1, 1, 1, 1), 3),
                       LS_SHAPE(2, 2, 2), &far),
      &value));
  assert_int_equal(ls_array_num_elements(value), 1);
  assert_true(ls_array_f64(value, 0) == 3);
}
