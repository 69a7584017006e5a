// SPDX-License-Identifier: Apache-2.0
//
// Shared plans of convolution kernels: element types, and the depthwise loops.
#ifndef LS_ENGINE_CPU_CONV_PLAN_H_
#define LS_ENGINE_CPU_CONV_PLAN_H_

#include "engine/cpu/conv/conv.h"
#include "engine/cpu/kernels/loops.h"

// Types of stored and of computed elements.
typedef struct ls_conv_types {
  ls_dtype half;  // NONE unless elements are widened to f32.
  size_t size;    // Bytes of a stored element.
  size_t wide;    // Bytes of a computed one: float or double.
  ls_cpu_product_fn *product;
  ls_cpu_product_scratch_fn *product_scratch;
} ls_conv_types;

// Finds the types. `run`: adjacent values along the sums of the products; bf16
// takes them in pairs. Returns UNIMPLEMENTED for types that are not floats.
ls_status ls_conv_types_of(const ls_kernel_plan *plan, int64_t run,
                           ls_conv_types *out);

// Convert `count` stored elements to the type of the computation, and back.
void ls_conv_widen(const ls_conv_types *types, void *target, const void *from,
                   int64_t count);
void ls_conv_narrow(const ls_conv_types *types, void *target, const void *from,
                    int64_t count);
// Convert `count` rows of `n` elements: stored ones are `pitch` bytes apart,
// computed ones follow one another.
void ls_conv_widen_rows(const ls_conv_types *types, void *target,
                        const void *from, int64_t pitch, int64_t n,
                        int64_t count);
void ls_conv_narrow_rows(const ls_conv_types *types, void *target,
                         int64_t pitch, const void *from, int64_t n,
                         int64_t count);
// Convert elements that are `pitch` apart.
void ls_conv_widen_column(const ls_conv_types *types, void *target,
                          int64_t pitch, const void *from, int64_t count);

// Reserves `size` bytes of scratch at `*end`; returns their offset.
static inline size_t ls_conv_place(size_t *end, size_t size) {
  const size_t begin = *end;
  *end += ls_round_to_line(size);
  return begin;
}

// Returns 2 x the multiply-adds of all outputs; counts the padding, but not the
// gaps of a dilated input.
double ls_conv_flops(const ls_conv *conv);

// Returns the number of parts, each with sums of its own, to which `pieces` of
// a weights' gradient are distributed: at least 1. `pixels` is the size of the
// work.
int64_t ls_conv_parts(const ls_conv *conv, int64_t pieces, int64_t pixels,
                      size_t element_size);

// Returns true if groups have so few output channels that those of all groups
// are computed side by side.
bool ls_conv_fits_depthwise(const ls_kernel_plan *plan, const ls_conv *conv,
                            const ls_conv_types *types);
// Plan such groups; ls_conv_depthwise for a convolution or its input's
// gradient, the other for the weights' gradient.
ls_status ls_conv_depthwise(ls_kernel_plan *plan, const ls_conv *conv,
                            const ls_conv_types *types,
                            ls_cpu_activation activation);
ls_status ls_conv_depthwise_weights(ls_kernel_plan *plan, const ls_conv *conv,
                                    const ls_conv_types *types);
// Plans sums, means or maxima of the windows of floats that the plan's node
// describes, or the gradient of sums or means.
ls_status ls_conv_window_sums(ls_kernel_plan *plan, bool gradient);

// ---- Bands -----------------------------------------------------------------
// Views in place of panels. If the taps of a line are adjacent in the input,
// the panel of a band of output lines is a view of the input's lines with each
// value stored once, which ls_cpu_product reads. Where taps reach the padding
// the lines are first copied with zeros around them, which costs a small part
// of making a panel; so are the channels of one of several groups, and 16-bit
// floats, which are widened.

// The division of each image's output lines into bands. Zero-initialized:
// panels are used.
typedef struct ls_conv_bands {
  int64_t lines;  // Most lines of a band.
  // Bands of an image; in a phase with fewer lines some are empty.
  int64_t per_image;
  size_t bytes;  // Bytes of scratch for the copied lines.
} ls_conv_bands;

// Chooses bands of about `pixels` outputs. Returns false if the geometry needs
// panels.
bool ls_conv_cut_bands(const ls_conv *conv, const ls_conv_types *types,
                       int64_t pixels, ls_conv_bands *out_bands);

// A panel as a view: pixel p's value under column c (tap row, then tap and
// channel) is at start[p * pixel + p / line * line_skip + c + c / run *
// run_skip].
typedef struct ls_conv_view {
  const void *start;
  size_t pixel, line, run;
  ptrdiff_t line_skip, run_skip;
  // Pixels under the view, and elements from one line of them to the next.
  int64_t height, width, pitch;
} ls_conv_view;

// Returns the view of output lines [begin, end) of an image of a phase. `in` is
// the group's first element. `copies`: always copies the lines, side by side.
ls_conv_view ls_conv_view_band(const ls_conv_phase *phase,
                               const ls_conv_types *types, const void *in,
                               int64_t image, int64_t begin, int64_t end,
                               bool copies, void *scratch);

#endif  // LS_ENGINE_CPU_CONV_PLAN_H_
