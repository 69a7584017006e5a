// SPDX-License-Identifier: Apache-2.0
#include "support/gradient_check.h"

#include <math.h>

#include "lockstep/function.h"
#include "runtime/own.h"
#include "support/expect.h"

// Numbers that look random and are the same everywhere.
static double noise(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) * 0x1p-53;
}

static ls_array *draw(ls_shape shape, double low, double high, uint64_t seed) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F64, shape, &array));
  uint64_t state = seed * 977 + 13;
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_f64(array, i, low + (high - low) * noise(&state));
  return array;
}

// The sum of a value's elements, each with a weight of its own.
static ls_tensor weighted_sum(ls_tensor value, uint64_t seed) {
  LS_OWN(ls_array, weights) = draw(ls_tensor_shape(value), 0.5, 1.5, seed);
  return ls_reduce_sum(ls_mul(value, ls_constant(weights)), LS_ALL_AXES);
}

// One check: the case, and how often it is differentiated before.
typedef struct check {
  const gradient_case *row;
  int order;
} check;

static ls_nest gradients_of(ls_tensor y, const ls_tensor *xs, size_t count) {
  const ls_nest ys[] = {ls_leaf(y)};
  ls_nest leaves[CHECK_MAX_INPUTS], grads[CHECK_MAX_INPUTS];
  for (size_t i = 0; i < count; ++i)
    leaves[i] = ls_leaf(xs[i]);
  const ls_status status =
      ls_gradients(ys, 1, leaves, count,
                   &(ls_gradient_options){.unconnected_zero = true}, grads);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return ls_nest_sequence(LS_KIND_LIST, grads, count);
}

// The scalar that is differentiated: of order 0 the weighted sum of the
// results, of order 1 that of the gradients of it.
static ls_nest scalar_of(const check *c, const ls_tensor *xs) {
  ls_tensor scalar =
      weighted_sum(c->row->function(xs, c->row->count, c->row->user), 1);
  if (c->order == 0) return ls_leaf(scalar);
  const ls_nest grads = gradients_of(scalar, xs, c->row->count);
  if (ls_nest_is_failed(grads)) return grads;
  for (size_t i = 0; i < c->row->count; ++i) {
    const ls_tensor part = weighted_sum(ls_nest_tensor(grads, i), 2 + i);
    scalar = i == 0 ? part : ls_add(scalar, part);
  }
  ls_nest_release(grads);
  return ls_leaf(scalar);
}

static void take_inputs(ls_nest args, size_t count, ls_tensor *xs) {
  for (size_t i = 0; i < count; ++i)
    xs[i] = ls_nest_tensor(args, i);
}

static ls_nest value_body(ls_nest args, void *user) {
  const check *c = user;
  ls_tensor xs[CHECK_MAX_INPUTS];
  take_inputs(args, c->row->count, xs);
  return scalar_of(c, xs);
}

static ls_nest gradient_body(ls_nest args, void *user) {
  const check *c = user;
  ls_tensor xs[CHECK_MAX_INPUTS];
  take_inputs(args, c->row->count, xs);
  const ls_nest scalar = scalar_of(c, xs);
  if (ls_nest_is_failed(scalar)) return scalar;
  return gradients_of(scalar.as.tensor, xs, c->row->count);
}

static ls_nest inputs_nest(ls_array *const *inputs, size_t count) {
  ls_nest leaves[CHECK_MAX_INPUTS];
  for (size_t i = 0; i < count; ++i)
    leaves[i] = ls_nest_array(ls_array_retain(inputs[i]));
  return ls_nest_sequence(LS_KIND_LIST, leaves, count);
}

static double value_at(ls_function *value, ls_nest args, ls_nest *result) {
  expect_ok(ls_function_call(value, args, result));
  return ls_array_f64(ls_nest_as_array(*result), 0);
}

// Moves one element and sees what becomes of the value.
static double quotient(ls_function *value, ls_nest args, ls_array *input,
                       int64_t element, ls_nest *result) {
  const double x = ls_array_f64(input, element);
  const double step = 1e-5 * fmax(1, fabs(x));
  ls_array_set_f64(input, element, x + step);
  const double above = value_at(value, args, result);
  ls_array_set_f64(input, element, x - step);
  const double below = value_at(value, args, result);
  ls_array_set_f64(input, element, x);
  return (above - below) / (2 * step);
}

static void check_order(const gradient_case *row, int order) {
  check c = {row, order};
  LS_OWN(ls_function, value) = NULL;
  LS_OWN(ls_function, gradient) = NULL;
  expect_ok(ls_function_create(
      &(ls_function_options){.call = value_body, .user = &c}, &value));
  expect_ok(ls_function_create(
      &(ls_function_options){.call = gradient_body, .user = &c}, &gradient));
  const bool given = row->low != 0 || row->high != 0;
  ls_array *inputs[CHECK_MAX_INPUTS];
  for (size_t i = 0; i < row->count; ++i)
    inputs[i] = draw(row->shapes[i], given ? row->low : -2,
                     given ? row->high : 2, 10 + i);
  LS_OWN(ls_nest, args) = inputs_nest(inputs, row->count);
  LS_OWN(ls_nest, grads) = ls_none();
  LS_OWN(ls_nest, result) = ls_none();
  expect_ok(ls_function_call(gradient, args, &grads));
  for (size_t i = 0; i < row->count; ++i) {
    const ls_array *got = ls_nest_as_array(ls_nest_item(grads, i));
    for (int64_t k = 0; k < ls_array_num_elements(inputs[i]); ++k) {
      const double want = quotient(value, args, inputs[i], k, &result);
      const double have = ls_array_f64(got, k);
      if (!(fabs(want - have) <= 1e-6 * fmax(1, fabs(want))))
        fail_msg("%s, order %d: d/dx%zu[%lld] is %.9g, by differences %.9g",
                 row->name, order + 1, i, (long long)k, have, want);
    }
  }
  for (size_t i = 0; i < row->count; ++i)
    ls_array_release(inputs[i]);
}

void expect_gradients(const gradient_case *row, int times) {
  for (int order = 0; order < times; ++order)
    check_order(row, order);
}

// ---- At a place ------------------------------------------------------------
static ls_nest gradient_of(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const plain_function *function = user;
  const ls_nest ys[] = {ls_leaf((*function)(x))}, xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  const ls_status status = ls_gradients(
      ys, 1, xs, 1, &(ls_gradient_options){.unconnected_zero = true}, grads);
  return ls_status_is_ok(status) ? grads[0] : ls_fail(status);
}

ls_status gradient_at(plain_function function, ls_dtype dtype, const double *x,
                      int64_t count, ls_nest *out_gradient) {
  LS_OWN(ls_function, f) = NULL;
  ls_array *array = NULL;
  expect_ok(ls_function_create(
      &(ls_function_options){.call = gradient_of, .user = &function}, &f));
  expect_ok(ls_array_create(dtype, LS_SHAPE(count), &array));
  for (int64_t i = 0; i < count; ++i)
    ls_array_set_f64(array, i, x[i]);
  LS_OWN(ls_nest, args) = LS_LIST(ls_nest_array(array));
  *out_gradient = ls_none();
  return ls_function_call(f, args, out_gradient);
}

void expect_gradient_at(plain_function function, ls_dtype dtype,
                        const double *x, const double *want, int64_t count,
                        double tolerance) {
  LS_OWN(ls_nest, gradient) = ls_none();
  expect_ok(gradient_at(function, dtype, x, count, &gradient));
  for (int64_t i = 0; i < count; ++i) {
    const double got = ls_array_f64(ls_nest_as_array(gradient), i);
    if (got != want[i] && !(fabs(got - want[i]) <= tolerance) &&
        !(isnan(got) && isnan(want[i])))
      fail_msg("element %lld is %g, wanted %g", (long long)i, got, want[i]);
  }
}
