// SPDX-License-Identifier: Apache-2.0
//
// 3x3 convolutions of stride 1 by oneDNN, in blocks of images.
//
// A primitive is made for one block. It has user scratchpads, and memory
// objects for each thread, so that threads may share it. Primitives live until
// the program ends.

#ifndef BENCH_ONE_REPLICA_CONVOLUTION_H_
#define BENCH_ONE_REPLICA_CONVOLUTION_H_

#include "one_replica/model.h"

dnnl_stream_t convolution_stream(void);  // The caller destroys it.

// relu(x * w + b) on square images. One channel of input, or multiples of 16
// channels, which are stored in groups of 16 (nChw16c).
typedef struct convolution_shape {
  size_t size, in, out;
  bool winograd;
  bool data;  // The gradient of x is wanted.
} convolution_shape;

typedef struct convolution {
  convolution_shape shape;
  size_t images, blocks;  // A block has `images` images.
  parameter w, b;
  size_t weights;  // Floats of w.
  float *parts;    // The blocks' gradients of w, then those of b.
  struct primitive *forward, *backward_data, *backward_weights;
  float *turned;  // w as backward_data wants it, where it differs.
} convolution;

// Images that a block has in a lane of that many.
size_t convolution_images(const bench_lane *lane);

// One layer with its parameters.
convolution lane_convolution(bench_lane *lane, const convolution_shape *shape);
void emit_convolution(bench_lane *lane, const convolution *layer,
                      const float *x, float *y);
// dx = the gradient of x, which is the output of a relu.
void emit_convolution_data(bench_lane *lane, const convolution *layer,
                           const float *dy, const float *x, float *dx);
// The gradients of w and b, one part a block; then their sum in order.
void emit_convolution_weights(bench_lane *lane, const convolution *layer,
                              const float *x, const float *dy);
void emit_convolution_sums(bench_lane *lane, const convolution *layer);

#endif  // BENCH_ONE_REPLICA_CONVOLUTION_H_
