// SPDX-License-Identifier: Apache-2.0
//
// The gradient of window maxima, and the gradient of that.
//
// The maximum of a window is the first in row order of its largest elements, or
// its first NaN. The gradient for x adds to each element those of the windows
// whose maximum it is, in row order of the windows; 16-bit floats are added as
// f32 and rounded once. A unit is an image with some of the channels, so no two
// units write the same elements.
#include <math.h>

#include "engine/cpu/conv/plan.h"
#include "engine/cpu/kernels/kernel.h"

// Bytes of a unit's copies, unless they are of 16 channels or fewer.
enum { UNIT_BYTES = 2 << 20 };
// Channels from which windows of 2 by 2 are handled one by one.
enum { MANY_CHANNELS = 32 };

// Tap number of a window without elements; and the most taps that a float can
// number.
enum { NO_TAP = -1, MOST_TAPS = 1 << 24 };

// ---- Lines -----------------------------------------------------------------
// Every s-th position of a line is copied side by side, where s is the stride
// of the windows: a tap meets adjacent positions with adjacent windows. Lines
// are not copied where they are so already.
typedef struct max_params {
  ls_conv conv;
  ls_conv_types types;
  const ls_cpu_windows *rows;
  bool picks, copies;
  bool in_fours;                   // Windows of 2 by 2 that do not overlap,
  bool tile;                       // and that cover the input.
  int64_t channels, some, chunks;  // Channels, of a unit, and numbers of units.
  int64_t phases, slots;           // Phases of a line, positions of a phase.
  // Offsets in scratch.
  size_t best, at, line, y, x, dx;
} max_params;

// One unit: some channels of an image.
typedef struct max_work {
  const max_params *self;
  const ls_kernel_call *call;
  int64_t image, first, count;
  // Lines of the image and of the windows' operand, and arrays of a line of
  // windows: dy or the result, the maxima, and their taps.
  char *x, *dx, *y, *best, *at;
} max_work;

static int64_t num_lines(const ls_conv *conv) {
  return conv->dim[0].in * conv->dim[1].in;
}

// Returns the channels of a line of `width` positions of the unit's image.
static char *line_at(const max_work *w, const void *array, int64_t lines,
                     int64_t line, int64_t width) {
  const int64_t index = (w->image * lines + line) * width;
  return (char *)(uintptr_t)array +
         (size_t)(index * w->self->channels + w->first) * w->self->types.size;
}

// Copies a line of `width` positions in `phases` phases, widened.
static void load_line(const max_work *w, char *target, const char *from,
                      int64_t width, int64_t phases, int64_t slots) {
  const ls_conv_types *types = &w->self->types;
  const int64_t row = w->count * (int64_t)types->wide;
  int64_t pitch = w->self->channels * (int64_t)types->size;
  if (types->half != LS_DTYPE_NONE) {
    char *line = (char *)w->call->scratch + w->self->line;
    ls_conv_widen_rows(types, line, from, pitch, w->count, width);
    from = line;
    pitch = row;
  }
  for (int64_t p = 0; p < phases && p < width; ++p)
    ls_conv_copy_rows(target + p * slots * row, row, from + p * pitch,
                      phases * pitch, row, (width - p - 1) / phases + 1);
}

// Copies a line back, rounded.
static void store_line(const max_work *w, char *out, const char *from,
                       int64_t width, int64_t phases, int64_t slots) {
  const ls_conv_types *types = &w->self->types;
  const bool half = types->half != LS_DTYPE_NONE;
  const int64_t row = w->count * (int64_t)types->wide;
  const int64_t out_pitch = w->self->channels * (int64_t)types->size;
  const int64_t pitch = half ? row : out_pitch;
  char *target = half ? (char *)w->call->scratch + w->self->line : out;
  for (int64_t p = 0; p < phases && p < width; ++p)
    ls_conv_copy_rows(target + p * pitch, phases * pitch,
                      from + p * slots * row, row, row,
                      (width - p - 1) / phases + 1);
  if (half) ls_conv_narrow_rows(types, out, out_pitch, target, w->count, width);
}

// Returns the lines of the image in `array`, copied to `offset` in scratch if
// lines are copied.
static char *load_image(const max_work *w, const void *array, size_t offset) {
  const max_params *self = w->self;
  const int64_t lines = num_lines(&self->conv), width = self->conv.dim[2].in;
  char *target = (char *)w->call->scratch + offset;
  if (!self->copies) return line_at(w, array, lines, 0, width);
  for (int64_t i = 0; i < lines; ++i)
    load_line(w,
              target + (size_t)(i * self->phases * self->slots * w->count) *
                           self->types.wide,
              line_at(w, array, lines, i, width), width, self->phases,
              self->slots);
  return target;
}

// ---- Taps ------------------------------------------------------------------
// The part of a line of windows that meets adjacent positions with a tap: byte
// offsets of the first window and position, and the number of elements.
typedef void visit_fn(const max_work *w, int64_t tap, size_t window,
                      size_t place, int64_t count);

static void visit_line(const max_work *w, int64_t line, int64_t first_tap,
                       bool backwards, visit_fn *visit) {
  const max_params *self = w->self;
  const ls_conv_dim *dim = &self->conv.dim[2];
  const size_t position = (size_t)w->count * self->types.wide;
  for (int64_t i = 0; i < dim->taps; ++i) {
    const int64_t k = backwards ? dim->taps - 1 - i : i;
    const int64_t start = k * dim->step + dim->base, stride = dim->stride;
    const int64_t begin = start < 0 ? (stride - 1 - start) / stride : 0;
    const int64_t end =
        start >= dim->in
            ? 0
            : ls_min_i64(dim->out, (dim->in - 1 - start) / stride + 1);
    if (begin >= end) continue;
    const int64_t first = start + begin * stride;
    const int64_t place =
        (line * self->phases + first % stride) * self->slots + first / stride;
    visit(w, first_tap + k, (size_t)begin * position, (size_t)place * position,
          (end - begin) * w->count);
  }
}

// Visits the taps of line `at` of the windows in row order, or those of each
// line of the input backwards: windows then come in row order.
static void visit_taps(const max_work *w, const int64_t *at, bool backwards,
                       visit_fn *visit) {
  const ls_conv_dim *dim = w->self->conv.dim;
  int64_t begin[2], end[2];
  for (int i = 0; i < 2; ++i)
    ls_conv_taps_inside(&dim[i], at[i], &begin[i], &end[i]);
  for (int64_t i = begin[0]; i < end[0]; ++i)
    for (int64_t j = begin[1]; j < end[1]; ++j) {
      const int64_t z = at[0] * dim[0].stride + i * dim[0].step + dim[0].base;
      const int64_t y = at[1] * dim[1].stride + j * dim[1].step + dim[1].base;
      visit_line(w, z * dim[1].in + y, (i * dim[1].taps + j) * dim[2].taps,
                 backwards, visit);
    }
}

static void compare_part(const max_work *w, int64_t tap, size_t window,
                         size_t place, int64_t count) {
  w->self->rows->compare(w->best + window, w->at + window, w->x + place, tap,
                         count);
}

static void give_part(const max_work *w, int64_t tap, size_t window,
                      size_t place, int64_t count) {
  w->self->rows->give(w->dx + place, w->at + window, tap, w->y + window, count);
}

static void pick_part(const max_work *w, int64_t tap, size_t window,
                      size_t place, int64_t count) {
  w->self->rows->give(w->y + window, w->at + window, tap, w->dx + place, count);
}

// Finds the taps of the maxima of a line of windows. Minus infinity, the
// initial maximum, counts as the first tap's.
static void find_maxima(const max_work *w, const int64_t *at) {
  const ls_conv_dim *dim = w->self->conv.dim;
  int64_t begin[LS_WINDOW_DIMS], end[LS_WINDOW_DIMS];
  for (int i = 0; i < 2; ++i)
    ls_conv_taps_inside(&dim[i], at[i], &begin[i], &end[i]);
  const bool is_empty = begin[0] == end[0] || begin[1] == end[1];
  for (int64_t o = 0, k = 0; o < dim[2].out; ++o) {
    ls_conv_taps_inside(&dim[2], o, &begin[2], &end[2]);
    const int64_t tap =
        is_empty || begin[2] == end[2]
            ? NO_TAP
            : (begin[0] * dim[1].taps + begin[1]) * dim[2].taps + begin[2];
    for (const int64_t last = k + w->count; k < last; ++k)
      if (w->self->types.wide == sizeof(double)) {
        ((double *)(void *)w->at)[k] = (double)tap;
        ((double *)(void *)w->best)[k] = -(double)INFINITY;
      } else {
        ((float *)(void *)w->at)[k] = (float)tap;
        ((float *)(void *)w->best)[k] = -INFINITY;
      }
  }
  visit_taps(w, at, false, compare_part);
}

// ---- Images ----------------------------------------------------------------
// Gives dy of a line of windows of 2 by 2 to the elements: window by window if
// lines are not copied.
static void give_fours(const max_work *w, const int64_t *at) {
  const max_params *self = w->self;
  const ls_conv_dim *dim = self->conv.dim;
  const size_t position = (size_t)w->count * self->types.wide;
  const size_t phase = (size_t)self->slots * position;
  const size_t line = (size_t)self->phases * phase;
  const size_t right = self->copies ? phase : position;
  const int64_t windows = self->copies ? 1 : dim[2].out;
  for (int64_t o = 0; o < windows; ++o) {
    const size_t from = (size_t)(at[1] * dim[1].stride) * line +
                        (size_t)(o * dim[2].stride) * position;
    const size_t places[] = {from, from + right, from + line,
                             from + line + right};
    const void *x[4];
    void *dx[4];
    for (int i = 0; i < 4; ++i) {
      x[i] = w->x + places[i];
      dx[i] = w->dx + places[i];
    }
    self->rows->give_four(dx, x, w->y + (size_t)o * position,
                          dim[2].out / windows * w->count);
  }
}

static void give_image(max_work *w) {
  const max_params *self = w->self;
  const ls_conv *conv = &self->conv;
  const ls_conv_dim *dim = conv->dim;
  const int64_t lines = num_lines(conv), windows = dim[0].out * dim[1].out;
  const size_t line =
      (size_t)(self->phases * self->slots * w->count) * self->types.wide;
  w->x = load_image(w, w->call->in[0], self->x);
  w->dx = self->copies ? (char *)w->call->scratch + self->dx
                       : line_at(w, w->call->out[0], lines, 0, dim[2].in);
  if (!self->tile) memset(w->dx, 0, (size_t)lines * line);
  for (int64_t o = 0; o < windows; ++o) {
    const int64_t at[] = {o / dim[1].out, o % dim[1].out};
    char *dy = line_at(w, w->call->in[1], windows, o, dim[2].out);
    if (self->types.half == LS_DTYPE_NONE && w->count == self->channels)
      w->y = dy;
    else
      load_line(w, w->y, dy, dim[2].out, 1, dim[2].out);
    if (self->in_fours) {
      give_fours(w, at);
      continue;
    }
    find_maxima(w, at);
    visit_taps(w, at, true, give_part);
  }
  for (int64_t i = 0; self->copies && i < lines; ++i)
    store_line(w, line_at(w, w->call->out[0], lines, i, dim[2].in),
               w->dx + (size_t)i * line, dim[2].in, self->phases, self->slots);
}

// Computes the gradient of the gradient: the elements of the second operand
// that are where the maxima are.
static void pick_image(max_work *w) {
  const max_params *self = w->self;
  const ls_conv_dim *dim = self->conv.dim;
  const int64_t windows = dim[0].out * dim[1].out;
  w->x = load_image(w, w->call->in[0], self->x);
  w->dx = load_image(w, w->call->in[1], self->dx);
  for (int64_t o = 0; o < windows; ++o) {
    const int64_t at[] = {o / dim[1].out, o % dim[1].out};
    find_maxima(w, at);
    memset(w->y, 0, (size_t)(dim[2].out * w->count) * self->types.wide);
    visit_taps(w, at, false, pick_part);
    store_line(w, line_at(w, w->call->out[0], windows, o, dim[2].out), w->y,
               dim[2].out, 1, dim[2].out);
  }
}

// ---- Plan ------------------------------------------------------------------
static void max_loop(const ls_kernel_call *call, int64_t begin_block,
                     int64_t end_block) {
  const max_params *self = call->params;
  char *scratch = call->scratch;
  for (int64_t b = begin_block; b < end_block; ++b) {
    max_work w = {.self = self,
                  .call = call,
                  .image = b / self->chunks,
                  .first = b % self->chunks * self->some,
                  .y = scratch + self->y,
                  .best = scratch + self->best,
                  .at = scratch + self->at};
    if (w.image >= self->conv.images) break;  // Stops at once without images.
    w.count = ls_min_i64(self->some, self->channels - w.first);
    (self->picks ? pick_image : give_image)(&w);
  }
}

static bool in_fours(const ls_conv *conv) {
  const ls_conv_dim *dim = conv->dim;
  bool fits =
      dim[0].in == 1 && dim[0].out == 1 && dim[0].taps == 1 && dim[0].base == 0;
  for (int i = 1; i < LS_WINDOW_DIMS; ++i)
    fits = fits && dim[i].taps == 2 && dim[i].stride >= 2 && dim[i].step == 1 &&
           dim[i].base == 0 &&
           (dim[i].out - 1) * dim[i].stride + 2 <= dim[i].in;
  return fits;
}

// Returns true if windows of two by two cover the input.
static bool covers_input(const ls_conv *conv) {
  return conv->dim[1].out * 2 == conv->dim[1].in &&
         conv->dim[2].out * 2 == conv->dim[2].in;
}

ls_status kernel_window_max(ls_kernel_plan *plan) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, max_params, self);
  self->picks = plan->node->type == LS_OP_WINDOW_MAX_PICK;
  const ls_shape x = plan->in[0].shape;
  LS_RETURN_IF_ERROR(ls_conv_types_of(plan, 0, &self->types));
  LS_RETURN_IF_ERROR(ls_conv_read_window(
      plan, x, self->picks ? plan->out[0].shape : plan->in[1].shape,
      &self->conv));
  const int64_t taps = ls_conv_taps(&self->conv);
  if (taps > MOST_TAPS)
    return ls_unimplemented("op '%s' has no CPU kernel for windows of %lld",
                            ls_node_info(plan->node)->name, (long long)taps);
  self->rows = plan->kernels->windows + (self->types.wide == sizeof(double));
  self->in_fours = in_fours(&self->conv) && self->types.half == LS_DTYPE_NONE;
  self->tile = self->in_fours && covers_input(&self->conv);
  self->channels = x.dim[x.rank - 1];
  const ls_conv_dim *dim = self->conv.dim;
  const bool by_windows =
      self->in_fours && !self->picks && self->channels >= MANY_CHANNELS;
  self->phases =
      by_windows ? 1 : ls_max_i64(1, ls_min_i64(dim[2].stride, dim[2].in));
  self->slots = ls_blocks_of(dim[2].in, self->phases);
  self->copies = self->phases > 1 || self->types.size != self->types.wide;
  const int64_t positions =
      ls_max_i64(1, num_lines(&self->conv) * self->phases * self->slots);
  const int64_t fit = UNIT_BYTES / 2 / (int64_t)self->types.wide / positions;
  self->some = self->channels;
  if (self->copies && fit < self->channels)
    self->some = ls_min_i64(self->channels, ls_max_i64(16, fit / 16 * 16));
  self->chunks = ls_blocks_of(self->channels, ls_max_i64(1, self->some));
  const size_t row = (size_t)self->some * self->types.wide;
  const size_t outputs = (size_t)dim[2].out * row;
  const size_t image = self->copies ? (size_t)positions * row : 0;
  const size_t longest = (size_t)ls_max_i64(dim[2].in, dim[2].out) * row;
  size_t end = 0;
  self->best = ls_conv_place(&end, outputs);
  self->at = ls_conv_place(&end, outputs);
  self->y = ls_conv_place(&end, outputs);
  self->line = ls_conv_place(&end, longest);
  self->x = ls_conv_place(&end, image);
  self->dx = ls_conv_place(&end, image);
  plan->scratch = end;
  // The elements of a unit are read before they are written.
  if (self->tile && !self->picks) plan->in_place = 1;
  plan->blocks = ls_max_i64(1, self->conv.images * self->chunks);
  plan->loop = max_loop;
  plan->params = self;
  return ls_ok();
}
