// SPDX-License-Identifier: Apache-2.0
//
// Gradients of weights of groups of few channels.
#include "engine/cpu/conv/taps.h"

// Pixels of a chain, and channels of a unit.
enum { CHAIN = 256, UNIT_CHANNELS = 32 };
// Blocks that are enough to share, and least rows of one: each block reads all
// of dy.
enum { ENOUGH_BLOCKS = 8, LEAST_ROWS = 3 };
// Positions of a line that is kept whole.
enum { MOST_KEPT = 1024 };

#define ADD_ROW(name, D, T, W)                                                 \
  static void name##_##D(void *target, const void *row, int64_t n) {           \
    T *restrict total = target;                                                \
    const T *restrict x = row;                                                 \
    for (int64_t i = 0; i < n; ++i)                                            \
      total[i] += x[i];                                                        \
  }
LS_EACH_FLOAT(ADD_ROW, add_row)

// Ends the chains of the phase's taps: adds them to their sums, or begins
// these.
static void end_chains(const ls_tap_work *w, bool begins) {
  const int64_t in = w->self->conv.in_channels, n = w->c1 - w->c0;
  const int64_t *numbers =
      (const int64_t *)(const void *)ls_taps_scratch(w, w->self->taps);
  for (int64_t t = 0; t < w->phase.taps * in; ++t) {
    const int64_t r = numbers[t / in] * in + t % in;
    if (r < w->r0 || r >= w->r1) continue;
    const size_t at = (size_t)(r - w->r0) * w->target_pitch;
    char *sum = w->targets + at,
         *total = ls_taps_scratch(w, w->self->total) + at;
    if (begins)
      memcpy(total, sum, w->target_pitch);
    else if (w->self->types.wide == sizeof(double))
      add_row_F64(total, sum, n);
    else
      add_row_F32(total, sum, n);
    memset(sum, 0, w->target_pitch);
  }
}

// Adds the products of `line.count` pixels of a line to the chains.
static void add_line(const ls_tap_work *w, const ls_conv_line *line) {
  const ls_tap_params *self = w->self;
  const int64_t channels = ls_taps_channels(&self->conv), n = w->c1 - w->c0;
  const int64_t period = w->phase.axis[X].period;
  const int64_t end = line->at[X] + line->count;
  const int64_t output = ls_conv_output_at(&w->phase, line);
  const size_t step = (size_t)(period * channels) * self->types.size;
  char *dy = (char *)(uintptr_t)w->call->in[1] +
             (size_t)(output * channels + w->c0) * self->types.size;
  ls_cpu_taps taps = ls_taps_new(w);
  taps.pitch = (size_t)(period * channels);
  if (self->types.half != LS_DTYPE_NONE) {
    char *wide = ls_taps_scratch(w, self->y);
    ls_conv_widen_rows(&self->types, wide, dy, (int64_t)step, n, line->count);
    dy = wide;
    taps.pitch = (size_t)n;
  }
  ls_taps_find_lines(w, line);
  for (int64_t at = line->at[X], next; at < end; at = next) {
    next = ls_taps_same(w, at, end);
    ls_taps_list(w, at, &taps);
    taps.pixels = (size_t)(next - at);
    taps.y = dy;
    self->kernels->add(&taps);
    dy += taps.pixels * taps.pitch * self->types.wide;
  }
}

// Computes the rows [r0, r1) of the weights' gradient for a unit of channels.
static void sum_rows(ls_tap_work *w, int64_t unit) {
  const ls_tap_params *self = w->self;
  const ls_conv *conv = &self->conv;
  const int64_t c0 = unit * self->some, channels = ls_taps_channels(conv);
  const int64_t c1 = ls_min_i64(c0 + self->some, channels), n = c1 - c0;
  const bool keeps = conv->dim[X].out <= MOST_KEPT;
  w->targets = ls_taps_scratch(w, self->sums);
  w->target_pitch = (size_t)n * self->types.wide;
  memset(w->targets, 0, (size_t)(w->r1 - w->r0) * w->target_pitch);
  memset(ls_taps_scratch(w, self->total), 0,
         (size_t)(w->r1 - w->r0) * w->target_pitch);
  for (int64_t phase = 0; phase < self->phases; ++phase) {
    ls_taps_begin_phase(w, phase);
    const int64_t pixels = w->phase.taps > 0 ? w->phase.pixels : 0;
    bool begins = self->fused;
    for (int64_t m = 0; m < pixels;) {
      const ls_conv_axis *axis = &w->phase.axis[X];
      const int64_t chain_end = ls_min_i64((m / CHAIN + 1) * CHAIN, pixels);
      const ls_conv_line line = ls_conv_line_at(&w->phase, m, chain_end);
      ls_taps_place_lines(w, c0, c1,
                          axis->start + (keeps ? 0 : line.at[X] * axis->move));
      add_line(w, &line);
      m += line.count;
      if (m < chain_end) continue;
      end_chains(w, begins);
      begins = false;
    }
  }
  const char *total = ls_taps_scratch(w, self->total);
  for (int64_t r = w->r0; r < w->r1; ++r, total += w->target_pitch)
    ls_conv_narrow(&self->types,
                   (char *)w->call->out[0] +
                       (size_t)(r * channels + c0) * self->types.size,
                   total, n);
}

static void depthwise_weights_loop(const ls_kernel_call *call,
                                   int64_t begin_block, int64_t end_block) {
  const ls_tap_params *self = call->params;
  const int64_t rows = ls_conv_taps(&self->conv) * self->conv.in_channels;
  ls_tap_work w = {.self = self, .call = call, .c1 = -1};
  if (self->fused) memset(ls_taps_scratch(&w, self->zeros), 0, self->line);
  for (int64_t b = begin_block, next; b < end_block; b = next) {
    const int64_t unit = b / self->bands, first = unit * self->bands;
    next = ls_min_i64(end_block, first + self->bands);
    w.r0 = ls_min_i64(rows, (b - first) * self->lines);
    w.r1 = ls_min_i64(rows, (next - first) * self->lines);
    sum_rows(&w, unit);
  }
}

ls_status ls_conv_depthwise_weights(ls_kernel_plan *plan, const ls_conv *conv,
                                    const ls_conv_types *types) {
  ls_tap_params *self = ls_taps_new_params(plan, conv, types);
  if (self == NULL) return ls_out_of_memory();
  const int64_t rows = ls_conv_taps(conv) * conv->in_channels;
  const int64_t width = conv->dim[X].out;
  ls_taps_cut_channels(self, self->copies ? COPIED / conv->in_channels
                                          : UNIT_CHANNELS);
  plan->scratch =
      ls_taps_place_scratch(self, width <= MOST_KEPT ? width : CHAIN);
  const size_t bytes = (size_t)(rows * self->some) * types->wide;
  self->sums = ls_conv_place(&plan->scratch, bytes);
  self->total = ls_conv_place(&plan->scratch, bytes);
  // Rows are divided into bands.
  self->bands = ls_max_i64(
      1, ls_min_i64(rows / LEAST_ROWS, ENOUGH_BLOCKS / self->chunks));
  self->lines = ls_blocks_of(rows, self->bands);
  self->bands = ls_blocks_of(rows, self->lines);
  plan->blocks = self->chunks * self->bands;
  plan->loop = depthwise_weights_loop;
  return ls_ok();
}
