// SPDX-License-Identifier: Apache-2.0
//
// Views in place of panels. Where the taps of a line are adjacent in the input,
// the panel of a band of output lines is a view of the input's lines, each
// value stored once, which ls_cpu_product reads. Where taps reach the padding
// the lines are copied first, with zeros around them, which costs a small part
// of a panel.
#ifndef LS_ENGINE_CPU_CONV_BAND_H_
#define LS_ENGINE_CPU_CONV_BAND_H_

#include "engine/cpu/conv/plan.h"

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
// the input's first element. `copies`: always copies the lines, side by side.
ls_conv_view ls_conv_view_band(const ls_conv_phase *phase,
                               const ls_conv_types *types, const void *in,
                               int64_t image, int64_t begin, int64_t end,
                               bool copies, void *scratch);

#endif  // LS_ENGINE_CPU_CONV_BAND_H_
