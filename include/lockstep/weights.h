// SPDX-License-Identifier: Apache-2.0
// Layer: nn
//
// Weights: variables whose initial value is drawn by their name, and
// initializers.
//
// Threads: an initializer is a plain value; creating a variable is as in
// ls_variable_create.
#ifndef LOCKSTEP_WEIGHTS_H_
#define LOCKSTEP_WEIGHTS_H_

#include "lockstep/ops.h"
#include "lockstep/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Initializers ----------------------------------------------------------
// Makes the initial value of a weight: a plain value. Zeroed: the default of
// the call that takes it. A custom initializer has a `draw` and two numbers;
// `random` selects the random numbers.
typedef struct ls_initializer {
  ls_tensor (*draw)(const struct ls_initializer *self, ls_dtype dtype,
                    ls_shape shape, const ls_random_options *random);
  double a, b;
} ls_initializer;

LS_API ls_initializer ls_init_zeros(void);
LS_API ls_initializer ls_init_ones(void);
LS_API ls_initializer ls_init_constant(double value);
LS_API ls_initializer ls_init_uniform(double low, double high);
LS_API ls_initializer ls_init_normal(double mean, double deviation);
// Normal, drawn again beyond two deviations from the mean.
LS_API ls_initializer ls_init_truncated_normal(double mean, double deviation);

// A weight of shape [in, out] has these fans; one of [h, w, in, out], or with
// further leading dimensions, has h w in and h w out; other ranks count all
// elements as both. Normal ones are not truncated.
//
// Variance 2 / (fan in + fan out): Glorot and Bengio, 2010. The uniform lies
// within +-sqrt(6 / (fan in + fan out)).
LS_API ls_initializer ls_init_glorot_uniform(void);
LS_API ls_initializer ls_init_glorot_normal(void);
// Variance 2 / fan in: He et al., 2015.
LS_API ls_initializer ls_init_he_uniform(void);
LS_API ls_initializer ls_init_he_normal(void);
// Variance 1 / fan in: LeCun et al., 1998.
LS_API ls_initializer ls_init_lecun_uniform(void);
LS_API ls_initializer ls_init_lecun_normal(void);
// Returns `gain` times a matrix with orthonormal rows or columns, whichever are
// fewer, drawn evenly among all such: the orthogonal factor of a normal matrix.
// All dimensions but the last are rows.
LS_API ls_initializer ls_init_orthogonal(double gain);

// ---- Weights ---------------------------------------------------------------
// Options of a weight. Zero in a field means its default.
typedef struct ls_weight_options {
  const char *name;  // Name within the current name scope. Default "weight".
  ls_shape shape;    // Must be known. Default: a scalar.
  ls_dtype dtype;    // Default f32.
  ls_initializer initializer;  // Default ls_init_glorot_uniform.
  int64_t seed;
  ls_flag trainable;  // Default on.
} ls_weight_options;

// Creates a variable whose initial value depends only on the options and the
// variable's full name ("hidden/kernel"), so that it is the same in eager, in
// sessions, and whatever was created before it. Two weights with one seed and
// one full name start with the same value: give the layers of a model different
// names. The caller owns a reference.
LS_API LS_MUST_USE ls_status ls_weight_create(const ls_weight_options *options,
                                              ls_variable **out_variable);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_WEIGHTS_H_
