// SPDX-License-Identifier: Apache-2.0
// Short ways to values, for tests: arrays, eager tensors and variables from
// lists of numbers and back, and functions that are called once.
#ifndef LS_TESTS_SUPPORT_VALUES_H_
#define LS_TESTS_SUPPORT_VALUES_H_

#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "support/expect.h"

// An array of these numbers; the caller releases it.
ls_array *array_of(ls_dtype dtype, ls_shape shape, const double *values);
// Numbers from -1 to 1 that look random, a function of `seed` alone.
void fill_numbers(double *values, size_t count, uint32_t seed);
ls_array *array_of_numbers(ls_dtype dtype, ls_shape shape, uint32_t seed);

// Of an open frame.
ls_tensor eager_of(ls_dtype dtype, ls_shape shape, const double *values);
double item_of(ls_tensor value);
void expect_tensor(ls_tensor value, const double *wanted, size_t count,
                   double tolerance);
void expect_tensor_of(ls_tensor value, ls_shape shape, const double *wanted,
                      double tolerance);

// A variable with these first values; the caller releases it.
ls_variable *variable_of(const char *name, ls_dtype dtype, ls_shape shape,
                         const double *values);
// The values of a tensor, of a variable, and of one in a session. The caller's.
ls_array *tensor_array(ls_tensor tensor);
ls_array *variable_array(ls_variable *variable);
ls_array *session_array(ls_session *session, ls_variable *variable);
void set_variable(ls_variable *variable, const double *values);
// Up to `capacity` values.
void read_variable(ls_variable *variable, double *values, size_t capacity);
void expect_variable(ls_variable *variable, const double *wanted, size_t count,
                     double tolerance);

// Calls a new function of `callback` `times` times with `args`, a lent nest,
// split among `replicas` where it is distributed. The result is the caller's.
ls_nest call_on(int replicas, ls_callback callback, void *user, ls_nest args,
                int times);
// One split argument: dimension 0 of the array is dealt to the replicas. The
// array is released; the nest is the caller's.
ls_nest split_of(int replicas, ls_array *array);

// Expects that the gradient of `loss`, called with `args`, for each of the
// variables (f64, set by fill_numbers) is the difference quotient.
void expect_variable_gradients(ls_callback loss, void *user, ls_nest args,
                               ls_variable *const *variables, size_t count,
                               double tolerance);

// Vectors: of f32 as a nest, and eager ones of any type.
ls_nest vector_nest(size_t count, const float *values);
ls_tensor eager_vector(ls_dtype dtype, const double *values, int64_t count);
// Expects that the tensor in a leaf holds these values.
void expect_eager_vector(ls_nest leaf, const double *values, int64_t count);
// Element `index` of the array in a leaf.
double nest_element(ls_nest leaf, int64_t index);
// The first element of a variable in a session.
double session_number(ls_session *session, ls_variable *variable);
// An f32 scalar variable with this first value; the caller releases it.
ls_variable *f32_variable(const char *name, double value);

#endif  // LS_TESTS_SUPPORT_VALUES_H_
