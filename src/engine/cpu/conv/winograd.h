// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of 3 by 3 taps by the algorithm F(4x4, 3x3) of Winograd, as
// Lavin and Gray use it (2016): a tile of 4 by 4 outputs takes 36 products of
// channels by channels, where the sum over the taps takes 144.
//
// With the interpolation points 0, a, -a, b, -b and infinity, a = 3/4, b = 3/2
// (half the error of 1 and 2), and the matrices B (6x6), G (6x3) and A (6x4) of
// isa/winograd.h, per tile and channels
//   V = B' x B    of the 6 by 6 inputs under a tile, zeros in the padding
//   U = G w G'    of the taps
//   M = U V       element by element, summed over the input channels
//   y = A' M A    the outputs.
// The gradient for the input is the same with the taps turned around. That for
// the weights is the gradient of this algorithm: with W = A dy A',
//   dU = V W      element by element, summed over all tiles
//   dw = G' dU G.
//
// The arithmetic differs from the sum over taps: its error is some 3 times as
// large, for weights smaller. It is used unless LS_MATH_DIRECT forbids it.
//
// Beside LS_MATH_BF16, U and V are rounded to bf16, in pairs of input channels,
// and M is a sum of their exact products in f32; the error is some 4 times that
// of the sum over taps of rounded operands. The weights' gradient stays f32.
#ifndef LS_ENGINE_CPU_CONV_WINOGRAD_H_
#define LS_ENGINE_CPU_CONV_WINOGRAD_H_

#include "engine/cpu/conv/plan.h"

// Returns true if Winograd may be used, and is faster, for a convolution or its
// input's gradient (with the geometry of the gradient).
bool ls_winograd_fits(const ls_kernel_plan *plan, const ls_conv *conv);
ls_status ls_winograd_convolution(ls_kernel_plan *plan, const ls_conv *conv,
                                  bool turned, ls_cpu_activation activation);

// Returns true if Winograd may be used, and is faster, for the weights'
// gradient; `conv` is the convolution's geometry.
bool ls_winograd_weights_fit(const ls_kernel_plan *plan, const ls_conv *conv);
ls_status ls_winograd_weights(ls_kernel_plan *plan, const ls_conv *conv);

// ---- Tiles -----------------------------------------------------------------
enum {
  LS_WINOGRAD_OUT = 4,  // Outputs of a tile along a side,
  LS_WINOGRAD_IN = 6,   // inputs,
  LS_WINOGRAD_OUTPUTS = LS_WINOGRAD_OUT * LS_WINOGRAD_OUT,
  LS_WINOGRAD_PLANES = LS_WINOGRAD_IN * LS_WINOGRAD_IN,
};

// The division of all images' outputs into tiles.
typedef struct ls_winograd_tiles {
  int64_t rows, columns;  // Tiles of an image.
  int64_t count;          // Tiles of all images.
  int64_t in_height, in_width, out_height, out_width;
  int64_t top, left;  // Position in the input of the first output's first tap.
} ls_winograd_tiles;

ls_winograd_tiles ls_winograd_cut(const ls_conv *conv);

// Returns the floats from one tile's planes to the next's: not a multiple of a
// page, which would map them all to the same cache lines.
static inline int64_t ls_winograd_pitch(int64_t channels) {
  return LS_WINOGRAD_PLANES * channels + 16;
}

// Find the pixels of tile `tile`: its inputs, or its outputs; `outside`
// replaces missing ones. A pixel has `channels` floats.
void ls_winograd_inputs(const ls_winograd_tiles *tiles, int64_t tile,
                        const float *x, int64_t channels, const float *outside,
                        const float **out_pixels);
void ls_winograd_outputs(const ls_winograd_tiles *tiles, int64_t tile, float *y,
                         int64_t channels, float *outside, float **out_pixels);

#endif  // LS_ENGINE_CPU_CONV_WINOGRAD_H_
