// SPDX-License-Identifier: Apache-2.0
// Functions on the devices of a plug-in, beside the CPU engine.
#include <math.h>

#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/plugin.h"
#include "support/values.h"

static ls_nest add_to_variable(ls_nest args, void *user) {
  ls_variable *variable = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_variable_assign_add(variable, x);
  return ls_leaf(ls_mul(ls_variable_read(variable), x));
}

TEST(a_function_updates_a_variable_on_a_device) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_variable, variable) =
      variable_of("v", LS_DTYPE_F32, LS_SHAPE(2), (const double[]){1, 2});
  LS_OWN(ls_function, function) = function_of(add_to_variable, variable);
  for (int i = 1; i <= 3; ++i) {
    LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (const float[]){10, 20}));
    LS_OWN(ls_nest, results) = call_results(function, args);
    assert_true(nest_element(results, 1) == 20 * (2 + 20 * i));
  }
  expect_variable(variable, (const double[]){31, 62}, 2, 0);
  set_variable(variable, (const double[]){0, 1});
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (const float[]){10, 20}));
  LS_OWN(ls_nest, results) = call_results(function, args);
  assert_true(nest_element(results, 1) == 20 * 21);
  expect_variable(variable, (const double[]){10, 21}, 2, 0);
}

// XLA ends the process at an empty slice of an empty operand.
static ls_nest slice_nothing(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor parts[] = {x, ls_slice_axis(x, 0, 1, 1), x};
  return ls_leaf(ls_slice_axis(ls_concatenate(parts, 3, 0), 0, 2, 2));
}

TEST(empty_parts_of_values_are_left_out) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_function, function) = function_of(slice_nothing, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (const float[]){10, 20}));
  LS_OWN(ls_nest, results) = call_results(function, args);
  assert_int_equal(ls_array_num_elements(ls_nest_as_array(results)), 0);
}

static ls_nest scan_from_both_ends(ls_nest args, void *user) {
  (void)user;
  const ls_tensor a = ls_nest_tensor(args, 0), b = ls_nest_tensor(args, 1);
  const ls_tensor back = ls_linear_scan(ls_reverse(a, LS_AXES(0)), b, 0, true);
  return LS_TUPLE(ls_leaf(ls_linear_scan(a, b, 0, false)),
                  ls_leaf(ls_reverse(back, LS_AXES(0))));
}

TEST(products_that_a_scan_does_not_need_may_overflow) {
  static const double want[] = {1, 1e30, 1, 2};
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_function, function) = function_of(scan_from_both_ends, NULL);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(vector_nest(4, (const float[]){1e30F, 1e30F, 0, 1}),
               vector_nest(4, (const float[]){1, 1, 1, 1}));
  LS_OWN(ls_nest, results) = call_results(function, args);
  for (size_t k = 0; k < 2; ++k)
    for (int i = 0; i < 4; ++i)
      assert_true(fabs(nest_element(ls_nest_item(results, k), i) - want[i]) <=
                  1e-6 * want[i]);
}

// Takes as many elements of an empty vector as `user` says.
static ls_nest take_from_nothing(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const int *count = user;
  const ls_tensor none = ls_slice_axis(x, 0, 2, 2);
  const ls_tensor at = ls_convert(ls_slice_axis(x, 0, 0, *count), LS_DTYPE_I32);
  return ls_leaf(ls_gather(none, at, 0));
}

TEST(nothing_can_be_taken_from_an_empty_axis) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  for (int count = 0; count < 2; ++count) {
    LS_OWN(ls_function, function) = function_of(take_from_nothing, &count);
    LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (const float[]){10, 20}));
    LS_OWN(ls_nest, results) = ls_none();
    const ls_status status = ls_function_call(function, args, &results);
    expect_status(status, count == 0 ? LS_OK : LS_UNIMPLEMENTED,
                  count == 0 ? "" : "its axis is empty");
    if (count == 0)
      assert_int_equal(ls_array_num_elements(ls_nest_as_array(results)), 0);
  }
}

// ---- Loops -----------------------------------------------------------------
static ls_nest double_variable(ls_nest values, void *user) {
  ls_variable *variable = user;
  (void)ls_variable_assign(variable,
                           ls_mul_scalar(ls_variable_read(variable), 2));
  return ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1));
}

static ls_nest loop_over_variable(ls_nest args, void *user) {
  (void)args;
  return ls_step_while(always_true, double_variable, user,
                       ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), 5);
}

TEST(a_loop_of_steps_updates_a_variable_on_a_device) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_variable, variable) =
      variable_of("v", LS_DTYPE_F32, LS_SHAPE(2), (const double[]){1, 3});
  LS_OWN(ls_function, function) = function_of(loop_over_variable, variable);
  for (int i = 1; i <= 3; ++i) {
    LS_OWN(ls_nest, results) = call_results(function, (ls_nest){0});
    assert_true(nest_element(results, 0) == 5);
  }
  expect_variable(variable, (const double[]){32768, 3 * 32768}, 2, 0);
}
