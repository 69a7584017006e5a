// SPDX-License-Identifier: Apache-2.0
//
// Sums over taps with the output channels of all groups side by side:
// convolutions whose groups have few output channels, both of their gradients,
// sums and means of windows, which are convolutions by a constant, and their
// maxima.
//
// A tap of a group with several input channels counts as one tap for each. The
// lines of the input are copied with each value repeated for the outputs that
// use it, and 16-bit floats widened; of groups of one channel they are read in
// place.
//
// Sums have the order of convolution.c and weights.c. In groups of one input
// and one output channel each product is rounded before it is added, and
// positions in the padding are skipped.
#ifndef LS_ENGINE_CPU_CONV_TAPS_H_
#define LS_ENGINE_CPU_CONV_TAPS_H_

#include "engine/cpu/conv/plan.h"

enum { Z, Y, X };
// Most floats of a copied position.
enum { COPIED = 128 };

// Windows, which have a constant in place of weights.
typedef struct ls_tap_windows {
  ls_conv counted;      // The geometry of the forward op.
  bool takes_largest;   // For a sum.
  bool divides;         // Sums are divided by the number of elements,
  bool counts_padding;  // those in the padding included.
  double weight;
} ls_tap_windows;

typedef struct ls_tap_params {
  ls_conv conv;
  ls_conv_types types;
  const ls_cpu_tap_sums *kernels;
  ls_cpu_activation activation;
  bool has_bias, swaps_channels, packs;
  bool fused;   // Groups of several channels.
  bool copies;  // Lines are copied,
  bool scales;  // and positions multiplied by the factors of their windows.
  const ls_tap_windows *windows;  // NULL: there are weights.
  int64_t some;  // Output channels of a block or unit; `chunks` of them.
  int64_t chunks, phases;
  // Outputs of a block along X and Y, and blocks of a plane along both.
  int64_t columns, lines, segments, bands;
  int64_t width;    // Most positions of a copied line.
  int64_t slots_y;  // Lines that are kept of each plane,
  int64_t slots;    // and of all planes under the taps.
  size_t line;      // Bytes of a copied line.
  // Offsets in scratch.
  size_t kept, slot_lines, zeros, channels, x, w, taps, rows, y, sums, total;
} ls_tap_params;

// State of a range of blocks.
typedef struct ls_tap_work {
  const ls_tap_params *self;
  const ls_kernel_call *call;
  ls_conv_phase phase;
  int64_t c0, c1;  // Output channels.
  int64_t left;    // First position of the copied lines.
  int64_t step;    // Elements from position to position of a line.
  // Targets of the rows [r0, r1) of weights, one per tap and input channel.
  int64_t r0, r1;
  char *targets;
  size_t target_pitch;  // Bytes.
} ls_tap_work;

static inline char *ls_taps_scratch(const ls_tap_work *w, size_t offset) {
  return (char *)w->call->scratch + offset;
}

static inline int64_t ls_taps_channels(const ls_conv *conv) {
  return conv->groups * conv->out_channels;
}

// ---- Work ------------------------------------------------------------------
// Chooses a phase: numbers its taps.
void ls_taps_begin_phase(ls_tap_work *w, int64_t phase);
// Chooses channels and the first position of lines; forgets the copied ones if
// they are of others.
void ls_taps_place_lines(ls_tap_work *w, int64_t c0, int64_t c1, int64_t left);
// Finds the lines under the taps (z, y) of an output line.
void ls_taps_find_lines(const ls_tap_work *w, const ls_conv_line *line);
// Returns the end of the outputs from `at` on, before `end`, that have the same
// taps: one at the edges, else all whose taps are inside. Copied lines have
// zeros in place of the padding.
int64_t ls_taps_same(const ls_tap_work *w, int64_t at, int64_t end);
// Returns taps without a list; lists those of output `at` of a line and of the
// ones after it that have the same.
ls_cpu_taps ls_taps_new(const ls_tap_work *w);
void ls_taps_list(const ls_tap_work *w, int64_t at, ls_cpu_taps *taps);

// Returns 1 / count in the type of the computation.
double ls_taps_factor(const ls_tap_params *self, int64_t count);

// ---- Plans -----------------------------------------------------------------
ls_tap_params *ls_taps_new_params(ls_kernel_plan *plan, const ls_conv *conv,
                                  const ls_conv_types *types);
// Cuts the channels into chunks of about `most`, of whole groups.
void ls_taps_cut_channels(ls_tap_params *self, int64_t most);
// Reserves scratch for lines of which `outputs` outputs are computed at a time;
// returns its end.
size_t ls_taps_place_scratch(ls_tap_params *self, int64_t outputs);

#endif  // LS_ENGINE_CPU_CONV_TAPS_H_
