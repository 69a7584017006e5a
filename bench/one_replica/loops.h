// SPDX-License-Identifier: Apache-2.0
//
// The loops of the reference models that are neither products nor in the
// engine's table of kernels. Compiled for the machine at hand.
//
// All counts of floats are multiples of 16.

#ifndef BENCH_ONE_REPLICA_LOOPS_H_
#define BENCH_ONE_REPLICA_LOOPS_H_

#include <stddef.h>
#include <stdint.h>

// One step of Adam (0.9, 0.999, 1e-8); `rate` has the bias correction in it.
void loop_adam(float *value, float *mean, float *square, const float *gradient,
               float rate, size_t n);

// dst = gelu(x) in its tanh form; grad = grad * gelu'(x).
void loop_gelu(float *dst, const float *x, size_t n);
void loop_gelu_grad(float *grad, const float *x, size_t n);

// Layer norm of rows of x, each also copied to `copy` unless that is NULL.
// moments: per row the mean and 1 / deviation.
void loop_layer_norm(float *dst, float *copy, float *moments, const float *x,
                     const float *gain, const float *bias, size_t rows,
                     size_t width);
// dx += gradient; sums: the gradients of gain, then of bias, of these rows.
void loop_layer_norm_grad(float *dx, float *sums, const float *dy,
                          const float *x, const float *moments,
                          const float *gain, size_t rows, size_t width);

// Row i becomes softmax(scale * row) over its first i + 1 columns, 0 elsewhere.
void loop_causal_softmax(float *x, size_t rows, float scale);
// grad: of the softmax in, of the scores before the scale out.
void loop_causal_softmax_grad(float *grad, const float *softmax, size_t rows,
                              float scale);

// 2x2 max pooling of `planes` planes of size x size pixels of 16 channels.
void loop_pool(float *dst, const float *x, size_t planes, size_t size);
// Its gradient and that of the relu before it; the first maximum takes it all.
void loop_pool_relu_grad(float *dx, const float *dy, const float *x,
                         const float *y, size_t planes, size_t size);

#endif  // BENCH_ONE_REPLICA_LOOPS_H_
