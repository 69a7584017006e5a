// SPDX-License-Identifier: Apache-2.0
// Compares gradients with finite differences, in f64.
#ifndef LS_TESTS_SUPPORT_GRADIENT_CHECK_H_
#define LS_TESTS_SUPPORT_GRADIENT_CHECK_H_

#include "lockstep/gradients.h"

enum { CHECK_MAX_INPUTS = 8 };

// What is differentiated: makes a value of any shape of f64 from `count` ones.
typedef ls_tensor (*checked_function)(const ls_tensor *xs, size_t count,
                                      const void *user);

// A case. Inputs are drawn from [low, high), the same each time.
typedef struct gradient_case {
  const char *name;
  checked_function function;
  const void *user;
  ls_shape shapes[CHECK_MAX_INPUTS];
  size_t count;
  double low, high;  // Both 0: -2 to 2.
} gradient_case;

// Defines such a function, make_<name>, by its body.
#define CODE(name, ...)                                                        \
  static ls_tensor make_##name(const ls_tensor *xs, size_t count,              \
                               const void *user) {                             \
    (void)count;                                                               \
    (void)user;                                                                \
    __VA_ARGS__                                                                \
  }

// Expects that the gradient of a weighted sum of the results with respect to
// each input is the difference quotient. `times` 2: and that the same holds
// for the gradient of a weighted sum of those gradients.
void expect_gradients(const gradient_case *row, int times);

// The gradient of a function's value at a list of numbers, in a function of its
// own.
typedef ls_tensor (*plain_function)(ls_tensor x);
ls_status gradient_at(plain_function function, ls_dtype dtype, const double *x,
                      int64_t count, ls_nest *out_gradient);
// Expects that each element is the wanted one, but for `tolerance`.
void expect_gradient_at(plain_function function, ls_dtype dtype,
                        const double *x, const double *want, int64_t count,
                        double tolerance);

#endif  // LS_TESTS_SUPPORT_GRADIENT_CHECK_H_
