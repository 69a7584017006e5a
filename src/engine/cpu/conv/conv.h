// SPDX-License-Identifier: Apache-2.0
//
// Convolutions as matrix products.
//
// Along each dimension output o uses with tap k the input at (o * stride + k *
// step + base) / spread, if that is a whole number and inside. This holds for a
// convolution, where spread is the input's dilation, and for its input's
// gradient, where dy is the input, the steps are backwards and spread is the
// stride.
//
// Outputs whose taps use the input in the same way form a phase: every
// period-th one along each dimension. Within a phase the taps that use any
// input are the same everywhere and at regular distances, so the phase is
// dense: the product of a panel, one row for each output ("pixel") with the
// input under its taps, by the weights of these taps. Panels are made piece by
// piece and never stored whole.
//
// Columns of a panel go by (position in the input, channel), both ascending;
// rows by (image, position in the phase).
#ifndef LS_ENGINE_CPU_CONV_CONV_H_
#define LS_ENGINE_CPU_CONV_CONV_H_

#include "engine/cpu/kernels/kernel.h"
#include "graph/window.h"

// One dimension. Unused dimensions have sizes 1.
typedef struct ls_conv_dim {
  int64_t in, out, taps;
  int64_t stride, step, base, spread;
} ls_conv_dim;

typedef struct ls_conv {
  ls_conv_dim dim[LS_WINDOW_DIMS];
  int64_t images, groups;
  int64_t in_channels, out_channels;  // Channels of one group.
} ls_conv;

// Reads the geometry; channels of x are those of the forward input. `w` is
// [taps..., channels of a group, output channels].
ls_status ls_conv_read(const ls_kernel_plan *plan, ls_shape x, ls_shape w,
                       ls_shape y, ls_conv *out_conv);
// Reads the geometry of a window reduction, whose windows go over `x`.
ls_status ls_conv_read_window(const ls_kernel_plan *plan, ls_shape x,
                              ls_shape y, ls_conv *out_conv);
// Returns the geometry of the input's gradient of a convolution.
ls_conv ls_conv_input_gradient(const ls_conv *conv);

// Finds the position that output `at` uses with tap `tap`; returns false if
// there is none.
static inline bool ls_conv_meets(const ls_conv_dim *dim, int64_t at,
                                 int64_t tap, int64_t *out_place) {
  *out_place = at * dim->stride + tap * dim->step + dim->base;
  if (dim->spread > 1) {
    if (*out_place % dim->spread != 0) return false;
    *out_place /= dim->spread;
  }
  return *out_place >= 0 && *out_place < dim->in;
}

// Finds the taps that use a position inside the input for output `at`, if the
// input is not dilated and steps go forwards; begin is end: none.
static inline void ls_conv_taps_inside(const ls_conv_dim *dim, int64_t at,
                                       int64_t *out_begin, int64_t *out_end) {
  const int64_t first = at * dim->stride + dim->base;
  *out_begin = 0;
  *out_end = dim->taps;
  if (first < 0) *out_begin = (-first + dim->step - 1) / dim->step;
  if (first + (dim->taps - 1) * dim->step >= dim->in)
    *out_end = first >= dim->in ? 0 : (dim->in - 1 - first) / dim->step + 1;
  if (*out_end < *out_begin) *out_end = *out_begin;
}

// Returns the number of phases: at least 1, or 0 without outputs.
int64_t ls_conv_phases(const ls_conv *conv);
// Returns true if there is one phase, with every tap.
bool ls_conv_is_dense(const ls_conv *conv);
// Returns true if the panel is the input itself.
bool ls_conv_is_plain(const ls_conv *conv);
// Return the number of all taps, and of all outputs of an image.
int64_t ls_conv_taps(const ls_conv *conv);
int64_t ls_conv_outputs(const ls_conv *conv);

// One dimension of a phase.
typedef struct ls_conv_axis {
  int64_t first, period, count;  // The phase's outputs along this dimension.
  // The phase's taps, in order of their input positions.
  int64_t taps, first_tap, tap_step;
  int64_t start, start_step;  // Their positions in the input for output 0.
  int64_t move;  // Distance of the positions from output to output.
} ls_conv_axis;

typedef struct ls_conv_phase {
  const ls_conv *conv;
  ls_conv_axis axis[LS_WINDOW_DIMS];
  int64_t pixels;  // Pixels of all images.
  int64_t taps;
} ls_conv_phase;

ls_conv_phase ls_conv_phase_of(const ls_conv *conv, int64_t phase);
// Finds the phase to which a tap (numbered in row order) belongs, with that tap
// alone. Returns false if there is none.
bool ls_conv_phase_of_tap(const ls_conv *conv, int64_t tap,
                          ls_conv_phase *out_phase);
// Returns the row-order number of a phase's tap, given its panel-order number.
int64_t ls_conv_tap_at(const ls_conv_phase *phase, int64_t tap);

// A run of outputs along the innermost dimension, from `pixel` on, ending at
// `end` or earlier.
typedef struct ls_conv_line {
  int64_t image, at[LS_WINDOW_DIMS];  // Position in the phase.
  int64_t count;
} ls_conv_line;
ls_conv_line ls_conv_line_at(const ls_conv_phase *phase, int64_t pixel,
                             int64_t end);
// Returns the index of a line's first output among all outputs of all images.
int64_t ls_conv_output_at(const ls_conv_phase *phase, const ls_conv_line *line);

// The input of a panel: elements of `size` bytes.
typedef struct ls_conv_source {
  const char *in;  // The group's first channel of the first position.
  size_t size;
} ls_conv_source;

// Writes rows [m0, m1) by columns [k0, k1) of a phase's panel to a dense array.
void ls_conv_panel(const ls_conv_phase *phase, const ls_conv_source *source,
                   int64_t m0, int64_t m1, int64_t k0, int64_t k1, void *panel);

// Copies `count` rows of `size` bytes, from rows `step` apart to rows `pitch`
// apart.
void ls_conv_copy_rows(char *restrict target, int64_t pitch,
                       const char *restrict from, int64_t step, int64_t size,
                       int64_t count);

#endif  // LS_ENGINE_CPU_CONV_CONV_H_
