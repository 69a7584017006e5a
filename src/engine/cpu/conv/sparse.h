// SPDX-License-Identifier: Apache-2.0
//
// Gradients of convolutions of 3 by 3 taps from that of the maxima of 2 by 2
// windows of their result (conv_pool_grad_input, conv_pool_grad_weights). Each
// window gives its gradient to one place of four, where its maximum stood. So
// what is 0 of the result's gradient, dy, is left out, which makes it a quarter
// of the multiplications, or fewer; and dy itself is never made. Where x was a
// relu's result, the input's gradient is put in place with zeros where x is
// one.
//
// The sums are those of a convolution, without products by 0; where one would
// be by what is not finite, it makes a NaN all the same. Their order:
//   dx   for each group of GROUP lines of windows, 32 of dy's channels and line
//        of windows a chain of fused multiply-adds by ascending (window, place,
//        channel), from +0; these are added in order;
//   dw   a chain over (image, group of lines, window) in each part of the
//        groups, from +0; parts are added in order.
// In bf16 (LS_MATH_BF16) the operands are rounded, and of each two values the
// second is added first: for dx those of 64 channels at a window's place, for
// dw those of a channel in a group.
// Neither depends on threads, nor a chain on what is left out, as a + 0 = a.
#ifndef LS_ENGINE_CPU_CONV_SPARSE_H_
#define LS_ENGINE_CPU_CONV_SPARSE_H_

#include "engine/cpu/conv/plan.h"

enum {
  LS_SPARSE_SIDE = 3,
  LS_SPARSE_TAPS = LS_SPARSE_SIDE * LS_SPARSE_SIDE,
  LS_SPARSE_SLICE = 16,  // Channels that lie side by side.
  LS_SPARSE_PLACES = 4,  // Of a window.
};

// The convolution of x by w whose result's maxima are taken.
ls_status ls_conv_read_pooled(const ls_kernel_plan *plan, ls_shape x,
                              ls_shape w, ls_conv *out_conv);
// Windows of an image.
int64_t ls_conv_windows(const ls_conv *conv);

#endif  // LS_ENGINE_CPU_CONV_SPARSE_H_
