// SPDX-License-Identifier: Apache-2.0
//
// A panel that need not be made: where the taps of a line lie side by side in
// the input, a band of output lines finds its panel in the input's lines, each
// value once, as a view that ls_cpu_product reads. Where taps meet the padding
// the lines are copied first, with zeros around them, which costs a small part
// of what a panel does.
#ifndef LS_ENGINE_CPU_CONV_BAND_H_
#define LS_ENGINE_CPU_CONV_BAND_H_

#include "engine/cpu/conv/plan.h"

// How the output lines of each image are cut. Zeroed: by panels.
typedef struct ls_conv_bands {
  int64_t lines;      // Of a band, at most.
  int64_t per_image;  // Bands; of a phase with fewer lines some are empty.
  size_t bytes;       // Of scratch for the copied lines.
} ls_conv_bands;

// Chooses bands of about `pixels` outputs. False: the geometry needs panels.
bool ls_conv_cut_bands(const ls_conv *conv, const ls_conv_types *types,
                       int64_t pixels, ls_conv_bands *out_bands);

// A panel as a view: pixel p's value under column c (tap row, then tap and
// channel) is at start[p * pixel + p / line * line_skip + c + c / run *
// run_skip].
typedef struct ls_conv_view {
  const void *start;
  size_t pixel, line, run;
  ptrdiff_t line_skip, run_skip;
  // The pixels that it looks at, and elements from one line of them to the
  // next.
  int64_t height, width, pitch;
} ls_conv_view;

// The view of output lines [begin, end) of an image of a phase. `in` is the
// input's first element. `copies`: the lines are copied in any case, side by
// side.
ls_conv_view ls_conv_view_band(const ls_conv_phase *phase,
                               const ls_conv_types *types, const void *in,
                               int64_t image, int64_t begin, int64_t end,
                               bool copies, void *scratch);

#endif  // LS_ENGINE_CPU_CONV_BAND_H_
