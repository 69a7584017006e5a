// SPDX-License-Identifier: Apache-2.0
//
// Convolutions' gradients where dy is mostly zeros, as the gradient of maxima
// is: three places of four of a window of 2 by 2 get none. Lists of what is not
// 0 take the place of dy, and products by 0 are left out.
//
// Each element has the chain that it has otherwise (convolution.c, weights.c)
// but for the products by 0, and these change no bit: where they would, beside
// what is not finite, they are not left out. (A chain that only products too
// small to be stored have made can be -0 where it would be +0.) So which way a
// band goes is decided where it is multiplied, by counting.
#ifndef LS_ENGINE_CPU_CONV_ZEROS_H_
#define LS_ENGINE_CPU_CONV_ZEROS_H_

#include "engine/cpu/conv/band.h"

// A band is mostly zeros where one value in so many is not 0, at most.
enum { LS_ZEROS_SPARSE = 3 };
// Bytes that may be read behind the weights, for they are read by 16 floats,
// and written behind a list.
enum { LS_ZEROS_ROOM = 64 };

// ---- For the input ---------------------------------------------------------
// A plan's share.
typedef struct ls_conv_zeros {
  const ls_cpu_zeros *kernels;  // NULL: dy is taken as it is.
  ls_conv_phase phase;
  int64_t columns;  // Of the result: channels.
  // Where things lie in scratch.
  size_t begin, list, sums;
} ls_conv_zeros;

// Plans the gradient for an input, by bands, of geometry that is turned already
// and has one phase, for f32; takes scratch from `*end` on.
void ls_conv_zeros_plan(ls_conv_zeros *self, const ls_cpu_zeros *kernels,
                        const ls_conv *conv, const ls_conv_types *types,
                        const ls_conv_bands *bands, size_t *end);
// Multiplies the `lines` lines of outputs that the view is for by `w`, finite
// and packed, into `out`; false, and nothing, unless dy is mostly zeros there.
bool ls_conv_zeros_multiply(const ls_conv_zeros *self, const ls_conv_view *view,
                            int64_t lines, const float *w, float *out,
                            char *scratch);

// ---- For the weights -------------------------------------------------------
// A plan's share: that of one part of the bands.
typedef struct ls_conv_zeros_weights {
  const ls_cpu_zeros *kernels;  // NULL: dy is taken as it is.
  ls_conv_phase phase;
  const ls_conv_types *types;
  int64_t in_channels, out_channels;
  ls_conv_bands bands;
  int64_t units;  // Of 16 sums of an output channel.
  size_t pixels;  // Of a band, at most.
  // Where things lie in scratch.
  size_t x, counts, lists, sums;
} ls_conv_zeros_weights;

// Plans the gradient for weights by parts of bands, for f32.
void ls_conv_zeros_plan_weights(ls_conv_zeros_weights *self,
                                const ls_cpu_zeros *kernels,
                                const ls_conv *conv, const ls_conv_types *types,
                                const ls_conv_bands *bands, size_t *end);
// The sum over the bands [first, end) of all images, into `out`; false, and
// nothing, unless dy is mostly zeros in the first of them.
bool ls_conv_zeros_sum(const ls_conv_zeros_weights *self, const void *x,
                       const float *dy, int64_t first, int64_t end, float *out,
                       char *scratch);

#endif  // LS_ENGINE_CPU_CONV_ZEROS_H_
