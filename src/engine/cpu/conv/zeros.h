// SPDX-License-Identifier: Apache-2.0
//
// Gradients of convolutions where dy is mostly zeros, like the gradient of
// maxima, which is zero in three positions of four in a window of 2 by 2. Lists
// of nonzero values replace dy, and products by 0 are skipped.
//
// Each element has the same chain as otherwise (convolution.c, weights.c)
// except for the products by 0, which change no bit unless a factor is not
// finite: then they are not skipped. (A chain whose products all underflow can
// be -0 instead of +0.) Each band counts its zeros to decide which way to
// compute.
#ifndef LS_ENGINE_CPU_CONV_ZEROS_H_
#define LS_ENGINE_CPU_CONV_ZEROS_H_

#include "engine/cpu/conv/plan.h"

// A band counts as mostly zeros if at most one in this many values is nonzero.
enum { LS_ZEROS_SPARSE = 3 };
// Bytes that may be read past the weights, which are read 16 floats at a time,
// and written past a list.
enum { LS_ZEROS_ROOM = 64 };

// ---- For the input ---------------------------------------------------------
// Parameters of a plan for the gradient of an input.
typedef struct ls_conv_zeros {
  const ls_cpu_zeros *kernels;  // NULL: multiplies all of dy.
  ls_conv_phase phase;
  int64_t columns;  // Channels of the result.
  // Offsets in scratch.
  size_t begin, list, sums;
} ls_conv_zeros;

// Plans the gradient for an input, by bands, for f32; the geometry is that of
// the gradient, with one phase. Reserves scratch at `*end`.
void ls_conv_zeros_plan(ls_conv_zeros *self, const ls_cpu_zeros *kernels,
                        const ls_conv *conv, const ls_conv_types *types,
                        const ls_conv_bands *bands, size_t *end);
// Multiplies the `lines` lines of outputs under the view by `w`, finite and
// packed, into `out`; returns false, and does nothing, unless dy is mostly
// zeros there.
bool ls_conv_zeros_multiply(const ls_conv_zeros *self, const ls_conv_view *view,
                            int64_t lines, const float *w, float *out,
                            char *scratch);

// ---- For the weights -------------------------------------------------------
// Parameters of a plan for the gradient of weights, for one part of the bands.
typedef struct ls_conv_zeros_weights {
  const ls_cpu_zeros *kernels;  // NULL: multiplies all of dy.
  ls_conv_phase phase;
  const ls_conv_types *types;
  int64_t in_channels, out_channels;
  ls_conv_bands bands;
  int64_t units;  // Units of 16 sums of an output channel.
  size_t pixels;  // Most pixels of a band.
  // Offsets in scratch.
  size_t x, counts, lists, sums;
} ls_conv_zeros_weights;

// Plans the gradient for weights by parts of bands, for f32.
void ls_conv_zeros_plan_weights(ls_conv_zeros_weights *self,
                                const ls_cpu_zeros *kernels,
                                const ls_conv *conv, const ls_conv_types *types,
                                const ls_conv_bands *bands, size_t *end);
// Writes the sum over the bands [first, end) of all images to `out`; returns
// false, and does nothing, unless dy is mostly zeros in the first of them.
bool ls_conv_zeros_sum(const ls_conv_zeros_weights *self, const void *x,
                       const float *dy, int64_t first, int64_t end, float *out,
                       char *scratch);

#endif  // LS_ENGINE_CPU_CONV_ZEROS_H_
