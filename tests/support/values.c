// SPDX-License-Identifier: Apache-2.0
#include "support/values.h"

#include <math.h>

#include "distribute/own.h"
#include "lockstep/gradients.h"

ls_array *array_of(ls_dtype dtype, ls_shape shape, const double *values) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(dtype, shape, &array));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_f64(array, i, values[i]);
  return array;
}

void fill_numbers(double *values, size_t count, uint32_t seed) {
  uint32_t state = seed * 2654435761u + 12345u;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = (double)(state >> 8) / (1 << 23) - 1;
  }
}

ls_array *array_of_numbers(ls_dtype dtype, ls_shape shape, uint32_t seed) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(dtype, shape, &array));
  double value = 0;
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i) {
    fill_numbers(&value, 1, seed * 7919u + (uint32_t)i);
    ls_array_set_f64(array, i, value);
  }
  return array;
}

// ---- Eager -----------------------------------------------------------------
ls_tensor eager_of(ls_dtype dtype, ls_shape shape, const double *values) {
  LS_OWN(ls_array, array) = array_of(dtype, shape, values);
  return ls_tensor_from_array(array);
}

double item_of(ls_tensor value) {
  double result = 0;
  expect_ok(ls_tensor_item(value, &result));
  return result;
}

static void expect_near(const char *what, size_t i, double got, double wanted,
                        double tolerance) {
  if (fabs(got - wanted) <= tolerance * (1 + fabs(wanted))) return;
  fail_msg("%s, element %zu: got %.17g, wanted %.17g", what, i, got, wanted);
}

void expect_tensor(ls_tensor value, const double *wanted, size_t count,
                   double tolerance) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_tensor_value(value, &array));
  assert_int_equal(ls_array_num_elements(array), count);
  for (size_t i = 0; i < count; ++i)
    expect_near("tensor", i, ls_array_f64(array, (int64_t)i), wanted[i],
                tolerance);
}

void expect_tensor_of(ls_tensor value, ls_shape shape, const double *wanted,
                      double tolerance) {
  assert_true(ls_shape_equal(ls_tensor_shape(value), shape));
  expect_tensor(value, wanted, (size_t)ls_shape_num_elements(shape), tolerance);
}

// ---- Variables -------------------------------------------------------------
ls_variable *variable_of(const char *name, ls_dtype dtype, ls_shape shape,
                         const double *values) {
  ls_variable *variable = NULL;
  LS_OWN(ls_array, array) = array_of(dtype, shape, values);
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = name, .initial_array = array}, &variable));
  return variable;
}

ls_array *tensor_array(ls_tensor tensor) {
  ls_array *array = NULL;
  expect_ok(ls_tensor_value(tensor, &array));
  return array;
}

ls_array *variable_array(ls_variable *variable) {
  ls_array *array = NULL;
  expect_ok(ls_variable_value(variable, &array));
  return array;
}

ls_array *session_array(ls_session *session, ls_variable *variable) {
  ls_array *array = NULL;
  expect_ok(ls_session_variable_value(session, variable, &array));
  return array;
}

void set_variable(ls_variable *variable, const double *values) {
  LS_OWN(ls_array, array) = array_of(ls_variable_dtype(variable),
                                     ls_variable_shape(variable), values);
  expect_ok(ls_variable_set_value(variable, array));
}

void read_variable(ls_variable *variable, double *values, size_t capacity) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_variable_value(variable, &array));
  const size_t count = (size_t)ls_array_num_elements(array);
  for (size_t i = 0; i < count && i < capacity; ++i)
    values[i] = ls_array_f64(array, (int64_t)i);
}

void expect_variable(ls_variable *variable, const double *wanted, size_t count,
                     double tolerance) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_variable_value(variable, &array));
  assert_int_equal(ls_array_num_elements(array), count);
  for (size_t i = 0; i < count; ++i)
    expect_near(ls_variable_name(variable), i, ls_array_f64(array, (int64_t)i),
                wanted[i], tolerance);
}

// ---- Functions -------------------------------------------------------------
ls_nest call_on(int replicas, ls_callback callback, void *user, ls_nest args,
                int times) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_function, function) = NULL;
  ls_nest results = {0};
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &strategy));
  expect_ok(ls_function_create(
      &(ls_function_options){.call = callback, .user = user}, &function));
  for (int i = 0; i < times; ++i)
    expect_ok(ls_strategy_run(strategy, ls_traced(function), args, &results));
  return results;
}

ls_nest split_of(int replicas, ls_array *array) {
  LS_OWN(ls_strategy, strategy) = NULL;
  ls_nest split = {0};
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &strategy));
  expect_ok(ls_strategy_split(strategy, array, &split));
  ls_array_release(array);
  return split;
}

// ---- Gradients -------------------------------------------------------------
typedef struct differentiated {
  ls_callback loss;
  void *user;
  ls_variable *const *variables;
  size_t count;
} differentiated;

enum { MAX_DIFFERENTIATED = 8, MAX_ELEMENTS = 512 };

static ls_nest with_gradients(ls_nest args, void *user) {
  const differentiated *d = user;
  ls_nest items[1 + MAX_DIFFERENTIATED], xs[MAX_DIFFERENTIATED];
  items[0] = d->loss(args, d->user);
  for (size_t i = 0; i < d->count; ++i)
    xs[i] = ls_nest_variable(d->variables[i]);
  const ls_status status =
      ls_gradients(&items[0], 1, xs, d->count, NULL, items + 1);
  for (size_t i = 0; i < d->count; ++i)
    ls_nest_release(xs[i]);
  return ls_status_is_ok(status)
             ? ls_nest_sequence(LS_KIND_TUPLE, items, 1 + d->count)
             : ls_fail(status);
}

static double loss_now(ls_function *function, ls_nest args, ls_nest *results) {
  expect_ok(ls_function_call(function, args, results));
  return ls_array_f64(ls_nest_as_array(ls_nest_item(*results, 0)), 0);
}

static double quotient(ls_function *function, ls_nest args, ls_nest *results,
                       ls_variable *variable, double *values, size_t k) {
  const double was = values[k], step = 1e-5;
  values[k] = was + step;
  set_variable(variable, values);
  const double more = loss_now(function, args, results);
  values[k] = was - step;
  set_variable(variable, values);
  const double less = loss_now(function, args, results);
  values[k] = was;
  set_variable(variable, values);
  return (more - less) / (2 * step);
}

void expect_variable_gradients(ls_callback loss, void *user, ls_nest args,
                               ls_variable *const *variables, size_t count,
                               double tolerance) {
  assert_true(count <= MAX_DIFFERENTIATED);
  differentiated d = {loss, user, variables, count};
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, gradients) = {0};
  LS_OWN(ls_nest, results) = {0};
  expect_ok(ls_function_create(
      &(ls_function_options){.call = with_gradients, .user = &d}, &function));
  static double values[MAX_ELEMENTS];
  for (size_t i = 0; i < count; ++i) {
    fill_numbers(values, MAX_ELEMENTS, 17 + (uint32_t)i);
    set_variable(variables[i], values);
  }
  expect_ok(ls_function_call(function, args, &gradients));
  for (size_t i = 0; i < count; ++i) {
    const ls_array *gradient = ls_nest_as_array(ls_nest_item(gradients, 1 + i));
    const size_t size = (size_t)ls_array_num_elements(gradient);
    assert_true(size <= MAX_ELEMENTS);
    fill_numbers(values, MAX_ELEMENTS, 17 + (uint32_t)i);
    for (size_t k = 0; k < size; k += 1 + size / 16)
      expect_near(ls_variable_name(variables[i]), k,
                  ls_array_f64(gradient, (int64_t)k),
                  quotient(function, args, &results, variables[i], values, k),
                  tolerance);
  }
}

ls_nest vector_nest(size_t count, const float *values) {
  ls_array *array = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE((int64_t)count), values,
                                 &array));
  return ls_nest_array(array);
}

ls_tensor eager_vector(ls_dtype dtype, const double *values, int64_t count) {
  LS_OWN(ls_array, array) = array_of(dtype, LS_SHAPE(count), values);
  return ls_tensor_from_array(array);
}

void expect_eager_vector(ls_nest leaf, const double *values, int64_t count) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_tensor_value(ls_nest_tensor(leaf, 0), &array));
  assert_int_equal(ls_array_num_elements(array), count);
  for (int64_t i = 0; i < count; ++i)
    if (ls_array_f64(array, i) != values[i])
      fail_msg("element %d is %g, wanted %g", (int)i, ls_array_f64(array, i),
               values[i]);
}

double nest_element(ls_nest leaf, int64_t index) {
  return ls_array_f64(ls_nest_as_array(leaf), index);
}

double session_number(ls_session *session, ls_variable *variable) {
  LS_OWN(ls_array, value) = NULL;
  expect_ok(ls_session_variable_value(session, variable, &value));
  return ls_array_f64(value, 0);
}

ls_variable *f32_variable(const char *name, double value) {
  ls_variable *variable = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = name,
                             .initial_value = ls_scalar(LS_DTYPE_F32, value)},
      &variable));
  return variable;
}
