// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/conv/taps.h"

#define SCALE_ROW(name, D, T, W)                                               \
  static void name##_##D(void *row, double factor, int64_t n) {                \
    T *x = row;                                                                \
    for (int64_t i = 0; i < n; ++i)                                            \
      x[i] *= (T)factor;                                                       \
  }
LS_EACH_FLOAT(SCALE_ROW, scale_row)

// ---- Lines of the input ----------------------------------------------------
double ls_taps_factor(const ls_tap_params *self, int64_t count) {
  return self->types.wide == sizeof(double) ? 1.0 / (double)count
                                            : (double)(1.0f / (float)count);
}

// Multiplies windows [begin, end) of a line by 1 / the number of their
// elements.
static void scale_line(const ls_tap_work *w, int64_t row, int64_t begin,
                       int64_t end, char *line) {
  const ls_conv_dim *dim = w->self->windows->counted.dim;
  int64_t lines = 1, first, last;
  ls_conv_taps_inside(&dim[Z], row / dim[Y].out % dim[Z].out, &first, &last);
  lines *= last - first;
  ls_conv_taps_inside(&dim[Y], row % dim[Y].out, &first, &last);
  lines *= last - first;
  for (int64_t i = begin; i < end; ++i) {
    ls_conv_taps_inside(&dim[X], i, &first, &last);
    const double factor = ls_taps_factor(w->self, lines * (last - first));
    if (w->self->types.wide == sizeof(double))
      scale_row_F64(line, factor, w->step);
    else
      scale_row_F32(line, factor, w->step);
    line += (size_t)w->step * w->self->types.wide;
  }
}

// Copies positions of a line of the input: at each, for each input channel of a
// group, a row of the output channels [c0, c1).
static void copy_line(const ls_tap_work *w, int64_t row, char *target) {
  const ls_tap_params *self = w->self;
  const ls_conv *conv = &self->conv;
  const int64_t in = conv->in_channels, out = conv->out_channels;
  const int64_t channels = conv->groups * in, first = w->c0 / out * in;
  const int64_t groups = (w->c1 - w->c0) / out;
  const int64_t begin =
      ls_min_i64(ls_max_i64(0, w->left), w->left + self->width);
  const int64_t end =
      ls_max_i64(begin, ls_min_i64(conv->dim[X].in, w->left + self->width));
  const size_t position = (size_t)w->step * self->types.wide;
  const size_t before = (size_t)(begin - w->left) * position;
  if (self->fused) memset(target, 0, before);
  target += before;
  const char *from =
      (const char *)w->call->in[0] +
      (size_t)((row * conv->dim[X].in + begin) * channels + first) *
          self->types.size;
  if (!self->fused) {
    ls_conv_widen_rows(&self->types, target, from,
                       channels * (int64_t)self->types.size, groups,
                       end - begin);
    if (self->scales) scale_line(w, row, begin, end, target);
    return;
  }
  char *wide = ls_taps_scratch(w, self->channels);
  for (int64_t i = begin; i < end; ++i) {
    const char *values = from;
    if (self->types.half != LS_DTYPE_NONE) {
      ls_conv_widen(&self->types, wide, from, groups * in);
      values = wide;
    }
    self->kernels->spread(target, values, (size_t)groups, (size_t)in,
                          (size_t)out);
    target += position;
    from += (size_t)channels * self->types.size;
  }
  memset(target, 0, (size_t)(w->left + self->width - end) * position);
}

void ls_taps_place_lines(ls_tap_work *w, int64_t c0, int64_t c1, int64_t left) {
  const ls_tap_params *self = w->self;
  if (w->c0 == c0 && w->c1 == c1 && w->left == left) return;
  w->c0 = c0;
  w->c1 = c1;
  w->left = left;
  w->step = self->copies ? (c1 - c0) * self->conv.in_channels
                         : ls_taps_channels(&self->conv);
  if (self->copies)
    memset(ls_taps_scratch(w, self->kept), 0,
           (size_t)self->slots * sizeof(int64_t));
}

// Returns the line (z, y) of an image, from position 0 on, which may be before
// the memory of the line.
static uintptr_t find_line(const ls_tap_work *w, int64_t image, int64_t z,
                           int64_t y) {
  const ls_tap_params *self = w->self;
  const ls_conv_dim *dim = self->conv.dim;
  const int64_t row = (image * dim[Z].in + z) * dim[Y].in + y;
  if (!self->copies)
    return (uintptr_t)((const char *)w->call->in[0] +
                       (size_t)(row * dim[X].in * w->step + w->c0) *
                           self->types.size);
  const int64_t slot =
      z % (self->slots / self->slots_y) * self->slots_y + y % self->slots_y;
  int64_t *kept = (int64_t *)(void *)ls_taps_scratch(w, self->kept) + slot;
  const size_t position = (size_t)w->step * self->types.wide;
  char *line = ls_taps_scratch(w, self->slot_lines) + (size_t)slot * self->line;
  if (*kept != row + 1) copy_line(w, row, line);
  *kept = row + 1;
  return (uintptr_t)line - (uintptr_t)w->left * position;
}

// ---- Taps ------------------------------------------------------------------
// A line of 0 is in the padding.
void ls_taps_find_lines(const ls_tap_work *w, const ls_conv_line *line) {
  const ls_conv_axis *axis = w->phase.axis;
  uintptr_t *rows = (uintptr_t *)(void *)ls_taps_scratch(w, w->self->rows);
  for (int64_t i = 0; i < axis[Z].taps; ++i)
    for (int64_t j = 0; j < axis[Y].taps; ++j) {
      const int64_t z =
          axis[Z].start + i * axis[Z].start_step + line->at[Z] * axis[Z].move;
      const int64_t y =
          axis[Y].start + j * axis[Y].start_step + line->at[Y] * axis[Y].move;
      const bool inside = z >= 0 && z < w->self->conv.dim[Z].in && y >= 0 &&
                          y < w->self->conv.dim[Y].in;
      *rows++ = inside ? find_line(w, line->image, z, y) : 0;
    }
}

void ls_taps_list(const ls_tap_work *w, int64_t at, ls_cpu_taps *taps) {
  const ls_tap_params *self = w->self;
  const ls_conv_axis *axis = w->phase.axis;
  const int64_t in = self->conv.in_channels, count = axis[X].taps;
  const uintptr_t *rows =
      (const uintptr_t *)(void *)ls_taps_scratch(w, self->rows);
  const int64_t *numbers =
      (const int64_t *)(void *)ls_taps_scratch(w, self->taps);
  const void **x = (const void **)(void *)ls_taps_scratch(w, self->x);
  void **targets = (void **)(void *)ls_taps_scratch(w, self->w);
  const size_t wide = self->types.wide;
  const size_t channels = (size_t)(w->c1 - w->c0) * wide;
  size_t n = 0;
  for (int64_t t = 0; t < w->phase.taps; ++t) {
    const int64_t place =
        axis[X].start + t % count * axis[X].start_step + at * axis[X].move;
    const uintptr_t row = rows[t / count];
    const bool inside =
        row != 0 &&
        (self->fused || (place >= 0 && place < self->conv.dim[X].in));
    if (!inside && !self->fused) continue;
    const uintptr_t from = inside ? row + (uintptr_t)(place * w->step) * wide
                                  : (uintptr_t)ls_taps_scratch(w, self->zeros);
    for (int64_t i = 0; i < in; ++i) {
      const int64_t r = numbers[t] * in + i;
      if (r < w->r0 || r >= w->r1) continue;
      x[n] = (const void *)(from + (uintptr_t)i * channels);
      targets[n++] = w->targets + (size_t)(r - w->r0) * w->target_pitch;
    }
  }
  taps->count = n;
  taps->x = x;
  taps->w = targets;
}

void ls_taps_begin_phase(ls_tap_work *w, int64_t phase) {
  w->phase = ls_conv_phase_of(&w->self->conv, phase);
  int64_t *numbers = (int64_t *)(void *)ls_taps_scratch(w, w->self->taps);
  for (int64_t t = 0; t < w->phase.taps; ++t)
    numbers[t] = ls_conv_tap_at(&w->phase, t);
}

int64_t ls_taps_same(const ls_tap_work *w, int64_t at, int64_t end) {
  const ls_conv_axis *axis = &w->phase.axis[X];
  const int64_t first = axis->start + at * axis->move;
  const int64_t last = first + (axis->taps - 1) * axis->start_step;
  const int64_t in = w->self->conv.dim[X].in;
  if (w->phase.taps == 0 || w->self->fused) return end;
  if (first < 0 || last >= in) return at + 1;
  return ls_min_i64(end, at + (in - 1 - last) / axis->move + 1);
}

ls_cpu_taps ls_taps_new(const ls_tap_work *w) {
  return (ls_cpu_taps){.channels = (size_t)(w->c1 - w->c0),
                       .step = (size_t)(w->step * w->phase.axis[X].move),
                       .fused = w->self->fused};
}

// ---- Plans -----------------------------------------------------------------
// More than any machine has, so that a program that needs it is refused.
static const size_t FAR_TOO_MUCH = (size_t)1 << 50;

size_t ls_taps_place_scratch(ls_tap_params *self, int64_t outputs) {
  const ls_conv *conv = &self->conv;
  const size_t wide = self->types.wide, in = (size_t)conv->in_channels;
  const size_t taps = (size_t)ls_conv_taps(conv);
  int64_t slots_z = 1;
  self->slots_y = 1;
  for (int64_t i = 0; i < self->phases; ++i) {
    const ls_conv_phase phase = ls_conv_phase_of(conv, i);
    const ls_conv_axis *axis = phase.axis;
    slots_z = ls_max_i64(slots_z, (axis[Z].taps - 1) * axis[Z].start_step + 1);
    self->slots_y =
        ls_max_i64(self->slots_y, (axis[Y].taps - 1) * axis[Y].start_step + 1);
    self->width = ls_max_i64(self->width,
                             (outputs - 1) * axis[X].move +
                                 (axis[X].taps - 1) * axis[X].start_step + 1);
  }
  const size_t some = (size_t)self->some;
  const double copied = (double)slots_z * (double)self->slots_y *
                        (double)self->width * (double)(some * in * wide);
  if (self->copies && copied > (double)FAR_TOO_MUCH) return FAR_TOO_MUCH;
  self->slots = self->copies ? slots_z * self->slots_y : 0;
  self->line = ((size_t)self->width * some * in + LS_TAP_SLACK) * wide;
  size_t end = 0;
  self->kept = ls_conv_place(&end, (size_t)self->slots * sizeof(int64_t));
  self->slot_lines = ls_conv_place(&end, (size_t)self->slots * self->line);
  self->zeros = ls_conv_place(&end, self->fused ? self->line : 0);
  self->channels = ls_conv_place(&end, some * in * wide);
  self->x = ls_conv_place(&end, taps * in * sizeof(void *));
  self->w = ls_conv_place(&end, taps * in * sizeof(void *));
  self->taps = ls_conv_place(&end, taps * sizeof(int64_t));
  self->rows = ls_conv_place(&end, taps * sizeof(uintptr_t));
  self->y = ls_conv_place(&end, (size_t)outputs * some * wide);
  return end;
}

ls_tap_params *ls_taps_new_params(ls_kernel_plan *plan, const ls_conv *conv,
                                  const ls_conv_types *types) {
  ls_tap_params *self = ls_arena_new(plan->arena, ls_tap_params);
  if (self == NULL) return NULL;
  const bool f64 = types->wide == sizeof(double);
  *self = (ls_tap_params){
      .conv = *conv,
      .types = *types,
      .kernels = f64 ? plan->kernels->taps_f64 : plan->kernels->taps_f32,
      .fused = conv->in_channels > 1 || conv->out_channels > 1,
      .phases = ls_conv_phases(conv),
  };
  self->copies = self->fused || types->half != LS_DTYPE_NONE;
  plan->params = self;
  return self;
}

void ls_taps_cut_channels(ls_tap_params *self, int64_t most) {
  const int64_t out = self->conv.out_channels,
                all = ls_taps_channels(&self->conv);
  const int64_t least = out * 16 / ls_common_divisor(out, 16);
  self->some =
      ls_max_i64(1, ls_min_i64(all, ls_max_i64(1, most / least) * least));
  self->chunks = ls_blocks_of(all, self->some);
}
