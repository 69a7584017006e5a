// SPDX-License-Identifier: Apache-2.0
// Layer: nn
//
// Layers, losses, metrics and optimizers: what models are written with.
//
// All of it is made of ops, so it works in functions, build graphs and eager
// alike, on one replica or many.
#ifndef LOCKSTEP_NN_H_
#define LOCKSTEP_NN_H_

#include "lockstep/ops.h"
#include "lockstep/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Weights ---------------------------------------------------------------
// An initializer makes the first value of a weight. `random` is what to draw
// with. A weight of shape [in, out] has these fans; one of [h, w, in, out] has
// h w in and h w out; other ranks count all elements as both.
typedef ls_tensor (*ls_initializer)(ls_dtype dtype, ls_shape shape,
                                    const ls_random_options *random);
// Uniform within +-sqrt(6 / (fan in + fan out)): Glorot and Bengio, 2010.
LS_API ls_tensor ls_glorot_uniform(ls_dtype dtype, ls_shape shape,
                                   const ls_random_options *random);
// Normal with deviation sqrt(2 / fan in), not truncated: He et al., 2015.
LS_API ls_tensor ls_he_normal(ls_dtype dtype, ls_shape shape,
                              const ls_random_options *random);
LS_API ls_tensor ls_zeros(ls_dtype dtype, ls_shape shape,
                          const ls_random_options *random);
LS_API ls_tensor ls_ones(ls_dtype dtype, ls_shape shape,
                         const ls_random_options *random);

// How to make a weight. Zero in a field means its default.
typedef struct ls_weight_options {
  const char *name;  // Within the current name scope. Default "weight".
  ls_shape shape;    // Must be known. Default: a scalar.
  ls_dtype dtype;    // Default f32.
  ls_initializer initializer;  // Default ls_glorot_uniform.
  int64_t seed;
  ls_flag trainable;  // Default on.
} ls_weight_options;

// Creates a variable whose first value depends on nothing but the options and
// the variable's full name ("hidden/kernel"), so that it is the same in eager,
// in sessions, and whatever was made before it. Two weights of one seed and
// one full name start alike: give the layers of a model different names. The
// caller owns a reference.
LS_API LS_MUST_USE ls_status ls_weight_create(const ls_weight_options *options,
                                              ls_variable **out_variable);

// ---- Layers ----------------------------------------------------------------
// activation(x kernel + bias).
typedef struct ls_dense_layer ls_dense_layer;

// How to make a dense layer. Zero in a field means its default.
typedef struct ls_dense_options {
  const char *name;  // A name scope. Default "dense".
  int64_t inputs;    // Required: the size of x's last dimension.
  int64_t units;     // Required: the size of the result's.
  ls_activation activation;
  bool no_bias;
  ls_dtype dtype;                     // Default f32.
  ls_initializer kernel_initializer;  // Default ls_glorot_uniform.
  ls_initializer bias_initializer;    // Default ls_zeros.
  int64_t seed;
} ls_dense_options;

// Creates the layer with its variables "<name>/kernel" [inputs, units] and
// "<name>/bias" [units]. The caller owns it.
//   LS_INVALID_ARGUMENT  inputs or units below 1.
LS_API LS_MUST_USE ls_status ls_dense_layer_create(
    const ls_dense_options *options, ls_dense_layer **out_layer);
LS_API void ls_dense_layer_destroy(ls_dense_layer *layer);  // NULL is fine.
// x is [..., inputs], the result [..., units].
LS_PLACED ls_tensor ls_dense_layer_apply(const ls_dense_layer *layer,
                                         ls_tensor x);
// Lent; the bias is NULL without one.
LS_API ls_variable *ls_dense_layer_kernel(const ls_dense_layer *layer);
LS_API ls_variable *ls_dense_layer_bias(const ls_dense_layer *layer);

// ---- Losses and metrics ----------------------------------------------------
// The mean over all rows of -log_softmax(logits)[label], a scalar. logits is
// [..., classes], labels [...] of integers.
LS_PLACED ls_tensor ls_mean_softmax_cross_entropy(ls_tensor logits,
                                                  ls_tensor labels);
// The part of rows whose largest logit is the label's, an f32 scalar.
LS_PLACED ls_tensor ls_accuracy(ls_tensor logits, ls_tensor labels);
// Their number, an f32 scalar.
LS_PLACED ls_tensor ls_count_correct(ls_tensor logits, ls_tensor labels);

// ---- Optimizers ------------------------------------------------------------
// Changes variables so that a loss gets smaller. Counted. It holds what it
// remembers of each variable (slots) as variables of their own.
typedef struct ls_optimizer ls_optimizer;

// Stochastic gradient descent. Zero in a field means its default.
typedef struct ls_sgd_options {
  double learning_rate;  // Default 0.01.
  int64_t decay_steps;   // The rate falls in a line to 0 over so many steps:
                         // step i, from 0, has rate (1 - i / decay_steps).
                         // Default: it stays.
  double momentum;  // v' = momentum v + g; w' = w - rate v'. Default: none.
  bool nesterov;    // w' = w - rate (momentum v' + g).
} ls_sgd_options;
// The caller owns a reference.
//   LS_INVALID_ARGUMENT  a rate, a number of steps or a momentum that is
//                        negative or no number, or nesterov without momentum.
LS_API LS_MUST_USE ls_status ls_sgd_create(const ls_sgd_options *options,
                                           ls_optimizer **out_optimizer);

LS_API ls_optimizer *ls_optimizer_retain(ls_optimizer *optimizer);
LS_API void ls_optimizer_release(ls_optimizer *optimizer);  // NULL is fine.

// In a function or build graph: one step down the gradient of `loss`, a scalar,
// in every trainable variable that was read on the way to it. On many replicas
// every variable moves by the mean of the replicas' gradients, which is that of
// the whole batch when the replicas have equally many examples. Returns an op
// that runs after all updates, to be fetched in a session; in a function they
// run at each call anyway.
LS_PLACED ls_op ls_optimizer_minimize(ls_optimizer *optimizer, ls_tensor loss);
// The same for gradients that are known already, such as those of a tape in
// eager: `gradients[i]` belongs to `variables[i]`; a none leaves it alone.
LS_PLACED ls_op ls_optimizer_apply(ls_optimizer *optimizer,
                                   ls_variable *const *variables,
                                   const ls_nest *gradients, size_t count);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_NN_H_
