// SPDX-License-Identifier: Apache-2.0
//
// What follows the gradient of a maximum of windows: a relu's gradient, asked
// of the maxima, with the same bits; sums over all places.
#include <math.h>
#include <string.h>

#include "lockstep/function_plan.h"
#include "lockstep/gradients.h"
#include "lockstep/ops.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/values.h"

enum { COUNT = 2 * 6 * 7 * 5 };

typedef struct pool {
  ls_shape window;
  ls_window_options options;
} pool;

static ls_tensor weighted(const pool *p, ls_tensor y) {
  const ls_tensor top = ls_max_pool(y, p->window, &p->options);
  const ls_tensor loss = ls_mul(top, ls_add_scalar(ls_square(top), -0.5));
  return ls_reduce_sum(loss, LS_ALL_AXES);
}

static ls_tensor gradient(ls_tensor loss, ls_tensor x) {
  const ls_nest y = ls_leaf(loss), xs = ls_leaf(x);
  ls_nest dx = {0};
  expect_ok(ls_gradients(&y, 1, &xs, 1, NULL, &dx));
  return dx.as.tensor;
}

static ls_nest whole(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  return ls_leaf(gradient(weighted(user, ls_relu(x)), x));
}

// The same in two steps, so that no relu is seen beside the windows.
static ls_nest by_hand(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor y = ls_relu(x);
  const ls_tensor zero = ls_scalar(ls_tensor_dtype(x), 0);
  const ls_tensor d = gradient(weighted(user, y), y);
  return ls_leaf(ls_select(ls_greater(x, zero), d, ls_mul(zero, ls_abs(d))));
}

static ls_nest call(ls_function *function, ls_array *x) {
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(ls_array_retain(x)));
  return call_results(function, args);
}

static void check(ls_dtype dtype, pool p) {
  LS_OWN(ls_array, x) = array_of_numbers(dtype, LS_SHAPE(2, 6, 7, 5), 3);
  ls_function *functions[2] = {NULL, NULL};
  ls_nest results[2];
  for (int i = 0; i < 2; ++i) {
    const ls_function_options options = {.call = i == 0 ? whole : by_hand,
                                         .user = &p};
    expect_ok(ls_function_create(&options, &functions[i]));
    results[i] = call(functions[i], x);
  }
  const ls_array *got = ls_nest_as_array(results[0]);
  assert_int_equal(ls_array_num_elements(got), COUNT);
  assert_memory_equal(ls_array_data(got),
                      ls_array_data(ls_nest_as_array(results[1])),
                      COUNT * ls_dtype_size(dtype));
  for (int i = 0; i < 2; ++i) {
    ls_nest_release(results[i]);
    ls_function_release(functions[i]);
  }
}

TEST(the_maxima_are_asked_and_the_bits_stay) {
  const pool plain = {.window = LS_SHAPE(2, 2)};
  check(LS_DTYPE_F32, plain);
  check(LS_DTYPE_F64, plain);
  const pool overlapping = {
      .window = LS_SHAPE(3, 3),
      .options = {.strides = LS_SHAPE(2, 2), .padding = LS_PADDING_SAME}};
  check(LS_DTYPE_F32, overlapping);
  check(LS_DTYPE_BF16, overlapping);
}

// relu_grad comes before window_max_grad, and once.
TEST(the_relu_output_is_not_read_again) {
  pool p = {.window = LS_SHAPE(2, 2)};
  LS_OWN(ls_function, function) = unnamed_function(whole, &p);
  LS_OWN(ls_array, x) = array_of_numbers(LS_DTYPE_F32, LS_SHAPE(2, 6, 7, 5), 3);
  ls_nest_release(call(function, x));
  LS_OWN(printed, text) = NULL;
  expect_ok(ls_function_print_lowered(function, &text));
  const char *mask = strstr(text, "relu_grad");
  const char *give = strstr(text, "window_max_grad");
  assert_non_null(mask);
  assert_non_null(give);
  assert_true(mask < give);
  assert_null(strstr(give + 1, "window_max_grad"));
}

// The gradient before the windows, summed over all places, as a bias wants it.
static ls_nest sums(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor places = gradient(weighted(user, x), x);
  return ls_leaf(ls_reduce_sum(places, LS_AXES(0, 1, 2)));
}

// The same, of something that does not come of windows alone.
static ls_nest sums_of_twice(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor places = gradient(weighted(user, x), x);
  const ls_tensor twice = ls_add(places, places);
  return ls_leaf(ls_mul_scalar(ls_reduce_sum(twice, LS_AXES(0, 1, 2)), 0.5));
}

static ls_array *run_sums(ls_callback callback, pool *p, bool *out_few) {
  LS_OWN(ls_function, function) = unnamed_function(callback, p);
  LS_OWN(ls_array, x) = array_of_numbers(LS_DTYPE_F64, LS_SHAPE(2, 6, 7, 5), 3);
  LS_OWN(ls_nest, result) = call(function, x);
  LS_OWN(printed, text) = NULL;
  expect_ok(ls_function_print_lowered(function, &text));
  *out_few = strstr(text, "window_max_grad") == NULL;
  return ls_array_retain(ls_nest_as_array(result));
}

TEST(sums_over_places_are_sums_over_windows) {
  const ls_window_options kinds[] = {
      {0}, {.strides = LS_SHAPE(2, 2), .padding = LS_PADDING_SAME}};
  for (size_t k = 0; k < 2; ++k) {
    pool p = {.window = LS_SHAPE(3, 2), .options = kinds[k]};
    bool few = false;
    LS_OWN(ls_array, got) = run_sums(sums, &p, &few);
    assert_true(few);
    LS_OWN(ls_array, want) = run_sums(sums_of_twice, &p, &few);
    assert_false(few);
    for (size_t i = 0; i < 5; ++i)
      assert_true(fabs(((const double *)ls_array_data(got))[i] -
                       ((const double *)ls_array_data(want))[i]) < 1e-10);
  }
}

// Taps that are farther apart than the input is long may all miss it: such a
// window gives its gradient to no element.
TEST(windows_without_elements_add_nothing_to_sums) {
  const ls_shape far[] = {LS_SHAPE(10, 1), LS_SHAPE(1, 8)};
  for (size_t k = 0; k < 2; ++k) {
    pool p = {.window = LS_SHAPE(2, 2),
              .options = {.dilations = far[k], .padding = LS_PADDING_SAME}};
    bool few = false;
    LS_OWN(ls_array, got) = run_sums(sums, &p, &few);
    LS_OWN(ls_array, want) = run_sums(sums_of_twice, &p, &few);
    for (size_t i = 0; i < 5; ++i)
      assert_true(fabs(((const double *)ls_array_data(got))[i] -
                       ((const double *)ls_array_data(want))[i]) < 1e-10);
  }
}

// A gradient of a value that all replicas share, beside rows of each.
static ls_nest shared_sums(ls_nest args, void *user) {
  const pool p = {.window = LS_SHAPE(2, 2)};
  const ls_tensor x = ls_constant(user);
  const ls_tensor d = gradient(weighted(&p, ls_relu(x)), x);
  return LS_TUPLE(ls_leaf(ls_reduce_sum(d, LS_AXES(0, 1, 2))),
                  ls_leaf(ls_square(ls_nest_tensor(args, 0))));
}

static const void *shared_bytes(ls_nest results) {
  return ls_array_data(
      ls_nest_as_array(ls_distributed_component(ls_nest_item(results, 0), 0)));
}

TEST(replicas_of_other_shapes_share_the_same_bits) {
  LS_OWN(ls_array, x) =
      array_of_numbers(LS_DTYPE_F32, LS_SHAPE(9, 16, 16, 5), 3);
  ls_nest results[2];
  for (int64_t i = 0; i < 2; ++i) {
    LS_OWN(ls_nest, args) = LS_TUPLE(
        split_of(2, array_of_numbers(LS_DTYPE_F32, LS_SHAPE(4 - i), 4)));
    results[i] = call_on(2, shared_sums, x, args, 1);
  }
  assert_memory_equal(shared_bytes(results[0]), shared_bytes(results[1]),
                      5 * sizeof(float));
  for (int i = 0; i < 2; ++i)
    ls_nest_release(results[i]);
}
