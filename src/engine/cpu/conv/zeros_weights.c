// SPDX-License-Identifier: Apache-2.0
//
// Gradients of weights from lists of the nonzero values of dy. Output channels
// go by blocks. For each channel the nonzero values of a band form a list, by
// which the rows of weights are summed, a few vectors at a time, in registers.
// Sums are stored as [channel, tap row, (tap, input channel)] until the last
// band has been added.
#include "engine/cpu/conv/zeros.h"

enum { Y = LS_WINDOW_DIMS - 2, X = LS_WINDOW_DIMS - 1 };
// Floats of a unit; output channels of a block.
enum { LANES = 16, BLOCK = 64 };

void ls_conv_zeros_plan_weights(ls_conv_zeros_weights *self,
                                const ls_cpu_zeros *kernels,
                                const ls_conv *conv, const ls_conv_types *types,
                                const ls_conv_bands *bands, size_t *end) {
  const ls_conv_phase phase = ls_conv_phase_of(conv, 0);
  const ls_conv_axis *y = &phase.axis[Y], *x = &phase.axis[X];
  *self = (ls_conv_zeros_weights){
      .kernels = kernels,
      .phase = phase,
      .types = types,
      .in_channels = conv->in_channels,
      .out_channels = conv->out_channels,
      .bands = *bands,
      .units = y->taps * ls_blocks_of(x->taps * conv->in_channels, LANES),
      .pixels = (size_t)(bands->lines * x->count)};
  const size_t block = (size_t)ls_min_i64(BLOCK, conv->out_channels);
  self->x = ls_conv_place(end, bands->bytes + LS_ZEROS_ROOM);
  self->counts = ls_conv_place(end, block * sizeof(uint32_t));
  self->lists =
      ls_conv_place(end, block * self->pixels * sizeof(ls_cpu_nonzero));
  self->sums =
      ls_conv_place(end, block * (size_t)self->units * LANES * sizeof(float));
}

// A band's lines, and its first output among those of all images.
typedef struct band {
  int64_t image, begin, end, pixel;
} band;

static band band_at(const ls_conv_zeros_weights *self, int64_t number) {
  const ls_conv_axis *y = &self->phase.axis[Y], *x = &self->phase.axis[X];
  const int64_t per_image = self->bands.per_image;
  const int64_t begin = number % per_image * self->bands.lines;
  return (band){.image = number / per_image,
                .begin = begin,
                .end = ls_min_i64(begin + self->bands.lines, y->count),
                .pixel = (number / per_image * y->count + begin) * x->count};
}

// Lists the nonzero values of channels [o0, o1), with their positions in the
// view, which is of a copy of x.
static void list_band(const ls_conv_zeros_weights *self, const band *b,
                      const ls_conv_view *view, const float *dy, int64_t o0,
                      int64_t o1, uint32_t *counts, ls_cpu_nonzero *lists) {
  const int64_t width = self->phase.axis[X].count;
  const int64_t line =
      (int64_t)(view->line * view->pixel) + (int64_t)view->line_skip;
  const bool lists_all = !self->kernels->are_finite(
      view->start, (size_t)(view->height * view->pitch));
  memset(counts, 0, (size_t)(o1 - o0) * sizeof(*counts));
  const float *from = dy + b->pixel * self->out_channels + o0;
  for (int64_t i = 0; i < b->end - b->begin; ++i)
    for (int64_t k = 0; k < width; ++k, from += self->out_channels)
      self->kernels->list_columns(
          lists, self->pixels, counts, from, (size_t)(o1 - o0),
          (int32_t)(i * line + k * (int64_t)view->pixel), lists_all);
}

// Adds a channel's list, unit by unit.
static void add_list(const ls_conv_zeros_weights *self,
                     const ls_conv_view *view, const ls_cpu_nonzero *list,
                     size_t count, bool adds, float *sums) {
  const int64_t of_row = ls_blocks_of((int64_t)view->run, LANES);
  const int64_t passes = ls_blocks_of(self->units, LS_ZEROS_VECTORS);
  for (int64_t p = 0; p < passes; ++p) {
    const int64_t u0 = p * self->units / passes;
    const int64_t u1 = (p + 1) * self->units / passes;
    const float *x[LS_ZEROS_VECTORS];
    for (int64_t u = u0; u < u1; ++u)
      x[u - u0] = (const float *)view->start +
                  u / of_row * ((int64_t)view->run + (int64_t)view->run_skip) +
                  u % of_row * LANES;
    self->kernels->add_column(sums + u0 * LANES, x, (size_t)(u1 - u0), list,
                              count, adds);
  }
}

// Stores the sums of the channels [o0, o1).
static void put_sums(const ls_conv_zeros_weights *self, const float *sums,
                     int64_t o0, int64_t o1, float *out) {
  const ls_conv_axis *y = &self->phase.axis[Y], *x = &self->phase.axis[X];
  const int64_t run = x->taps * self->in_channels;
  const int64_t row = self->units / y->taps * LANES;
  for (int64_t t = 0; t < y->taps; ++t)
    for (int64_t r = 0; r < run; ++r, out += self->out_channels)
      for (int64_t o = o0; o < o1; ++o)
        out[o] = sums[((o - o0) * y->taps + t) * row + r];
}

static bool is_sparse(const ls_conv_zeros_weights *self, const band *b,
                      const float *dy) {
  const int64_t values =
      (b->end - b->begin) * self->phase.axis[X].count * self->out_channels;
  return (int64_t)self->kernels->count(dy + b->pixel * self->out_channels,
                                       (size_t)values) <=
         values / LS_ZEROS_SPARSE;
}

bool ls_conv_zeros_sum(const ls_conv_zeros_weights *self, const void *x,
                       const float *dy, int64_t first, int64_t end, float *out,
                       char *scratch) {
  uint32_t *counts = (uint32_t *)(void *)(scratch + self->counts);
  ls_cpu_nonzero *lists = (ls_cpu_nonzero *)(void *)(scratch + self->lists);
  float *sums = (float *)(void *)(scratch + self->sums);
  band b = band_at(self, first);
  if (first == end || !is_sparse(self, &b, dy)) return false;
  for (int64_t o0 = 0; o0 < self->out_channels; o0 += BLOCK) {
    const int64_t o1 = ls_min_i64(o0 + BLOCK, self->out_channels);
    for (int64_t i = first; i < end; ++i) {
      b = band_at(self, i);
      const ls_conv_view view =
          ls_conv_view_band(&self->phase, self->types, x, b.image, b.begin,
                            b.end, true, scratch + self->x);
      list_band(self, &b, &view, dy, o0, o1, counts, lists);
      for (int64_t o = 0; o < o1 - o0; ++o)
        add_list(self, &view, lists + (size_t)o * self->pixels, counts[o],
                 i > first, sums + o * self->units * LANES);
    }
    put_sums(self, sums, o0, o1, out);
  }
  return true;
}
