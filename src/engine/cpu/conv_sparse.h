// SPDX-License-Identifier: Apache-2.0
//
// Gradients of convolutions of 3 by 3 taps whose outputs' gradient, dy, is
// mostly zeros: it comes from maxima of windows, of which each gives its
// gradient to one place of four or more. What is 0 is left out, which makes it
// a quarter of the multiplications, or fewer.
//
// The sums are those of a convolution, without products by 0; so what is not
// finite meets no zeros. Their order:
//   dx   for each line of dy and 32 of its channels a chain of fused
//        multiply-adds by ascending (pixel, channel), from +0; these are added
//        in order;
//   dw   a chain over (image, group of lines, pixel) in each part of the
//        groups, from +0; parts are added in order.
// Neither depends on threads, nor a chain on what is left out, as a + 0 = a.
#ifndef LS_ENGINE_CPU_CONV_SPARSE_H_
#define LS_ENGINE_CPU_CONV_SPARSE_H_

#include "engine/cpu/conv_plan.h"

// Whether operand `dy` of the plan's node is so, and the geometry of the
// convolution one that this can do.
bool ls_conv_is_sparse(const ls_kernel_plan *plan, uint32_t dy,
                       const ls_conv *conv);

// Plans for the gradients; `conv` is the convolution's, whose flops the plan
// has.
ls_status ls_conv_sparse_input(ls_kernel_plan *plan, const ls_conv *conv);
ls_status ls_conv_sparse_weights(ls_kernel_plan *plan, const ls_conv *conv);

// ---- Shared by both --------------------------------------------------------
enum {
  LS_SPARSE_SIDE = 3,
  LS_SPARSE_TAPS = LS_SPARSE_SIDE * LS_SPARSE_SIDE,
  LS_SPARSE_SLICE = 16,  // Channels that lie side by side.
  LS_SPARSE_LEAST = 4,   // Places for each value that is not 0, at least.
};

// Copies a line of `in` channels between pixels side by side and slices, of
// which each has `plane` floats: pixels [begin, end) of the line, which are
// `before` pixels further on in slices.
void ls_conv_slice_line(float *slices, size_t plane, const float *line,
                        int64_t channels, int64_t begin, int64_t end,
                        int64_t before);
void ls_conv_unslice_line(float *line, const float *slices, size_t plane,
                          int64_t channels, int64_t begin, int64_t end,
                          int64_t before);

#endif  // LS_ENGINE_CPU_CONV_SPARSE_H_
