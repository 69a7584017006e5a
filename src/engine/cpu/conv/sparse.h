// SPDX-License-Identifier: Apache-2.0
//
// Gradients of convolutions of 3 by 3 taps, computed from the gradient of the
// maxima of 2 by 2 windows of their result (conv_pool_grad_input,
// conv_pool_grad_weights). Each window gives its gradient to one position of
// four, that of its maximum. So the zeros of the result's gradient, dy, are
// skipped, which leaves a quarter of the multiplications, or fewer; and dy
// itself is never stored. If x is a relu's result, the input's gradient is
// written with zeros where x is zero.
//
// The sums are those of a convolution, without products by 0; a product of 0
// and a value that is not finite still makes a NaN. Their order:
//   - dx: for each group of GROUP lines of windows, 32 of dy's channels and
//     line of windows a chain of fused multiply-adds by ascending (window,
//     place, channel), from +0; these are added in order;
//   - dw: a chain over (image, group of lines, window) in each part of the
//     groups, from +0; parts are added in order.
// In bf16 (LS_MATH_BF16) the operands are rounded, and of each two values the
// second is added first: for dx those of 64 channels at a window's place, for
// dw those of a channel in a group. The bits depend neither on threads nor on
// the skipped zeros, as a + 0 = a.
#ifndef LS_ENGINE_CPU_CONV_SPARSE_H_
#define LS_ENGINE_CPU_CONV_SPARSE_H_

#include "engine/cpu/conv/plan.h"
#include "engine/cpu/kernels/kernel.h"

enum {
  LS_SPARSE_SIDE = 3,
  LS_SPARSE_TAPS = LS_SPARSE_SIDE * LS_SPARSE_SIDE,
  LS_SPARSE_SLICE = 16,  // Channels stored side by side.
  LS_SPARSE_PLACES = 4,  // Places in a window.
};

// Reads the geometry of the convolution of x by w whose result's maxima are
// taken.
ls_status ls_conv_read_pooled(const ls_kernel_plan *plan, ls_shape x,
                              ls_shape w, ls_conv *out_conv);
// Returns the number of windows of an image.
int64_t ls_conv_windows(const ls_conv *conv);
// Returns true if dy of an image whose windows have the gradient `d` is not 0
// at a position, which may be outside of the first `lines` lines of windows.
static inline bool ls_conv_has_gradient(const ls_conv *conv, const float *d,
                                        const uint8_t *places, int64_t lines,
                                        int64_t y, int64_t x, int64_t o) {
  const int64_t width = conv->dim[LS_WINDOW_DIMS - 1].out / 2;
  if (y < 0 || x < 0 || y / 2 >= lines || x / 2 >= width) return false;
  const int64_t at = (y / 2 * width + x / 2) * conv->out_channels + o;
  return places[at] == y % 2 * 2 + x % 2 && d[at] != 0;
}

// ---- Pools -----------------------------------------------------------------
// Maxima of windows of 2 by 2, and their positions.

// Numbers of channels must be multiples of this.
enum { LS_POOL_CHANNELS = 16 };

// Computes `count` lines of windows from 2 * count lines of `width` pixels at
// x.
void ls_pool_lines(const ls_cpu_windows *rows, const float *x, int64_t width,
                   int64_t channels, int64_t count, float *max,
                   uint8_t *places);

#endif  // LS_ENGINE_CPU_CONV_SPARSE_H_
