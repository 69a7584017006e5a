// SPDX-License-Identifier: Apache-2.0
//
// The gradient of window maxima, and the gradient of that.
//
// The maximum of a window is the first in row order of its largest elements, or
// its first NaN. The gradient for x adds to each element those of the windows
// whose maximum it is, in row order of the windows; 16-bit floats are added as
// f32 and rounded once. A unit is an image with some of the channels, so no two
// units write the same elements.
#include "engine/cpu/conv/plan.h"
#include "engine/cpu/kernels/kernel.h"

// Channels of a unit.
enum { UNIT_CHANNELS = 64 };

// ---- Rows ------------------------------------------------------------------
// Define functions of ls_cpu_windows for double.
#define IS_LARGER(old, new) (!((new) <= (old)) & ((old) == (old)))

static void compare_f64(void *best, void *at, const void *in, int64_t tap,
                        int64_t count) {
  double *restrict max = best, *restrict where = at;
  const double *restrict x = in;
  for (int64_t i = 0; i < count; ++i) {
    const bool larger = IS_LARGER(max[i], x[i]);
    max[i] = larger ? x[i] : max[i];
    where[i] = larger ? (double)tap : where[i];
  }
}

static void give_f64(void *out, const void *at, int64_t tap, const void *from,
                     int64_t count) {
  double *restrict dx = out;
  const double *restrict where = at, *restrict dy = from;
  for (int64_t i = 0; i < count; ++i)
    dx[i] += where[i] == (double)tap ? dy[i] : 0;
}

static void give_four_f64(void *const *out, const void *const *in,
                          const void *from, int64_t count) {
  const double *a = in[0], *b = in[1], *c = in[2], *d = in[3], *dy = from;
  double *da = out[0], *db = out[1], *dc = out[2], *dd = out[3];
  for (int64_t i = 0; i < count; ++i) {
    const bool right = IS_LARGER(a[i], b[i]), low = IS_LARGER(c[i], d[i]);
    const double top = right ? b[i] : a[i], bottom = low ? d[i] : c[i];
    const double below = IS_LARGER(top, bottom) ? dy[i] : 0;
    const double above = IS_LARGER(top, bottom) ? 0 : dy[i];
    da[i] = right ? 0 : above;
    db[i] = right ? above : 0;
    dc[i] = low ? 0 : below;
    dd[i] = low ? below : 0;
  }
}

static const ls_cpu_windows rows_f64 = {
    .compare = compare_f64, .give = give_f64, .give_four = give_four_f64};

// Tap number of a window without elements; and the most taps that a float can
// number.
enum { NO_TAP = -1, MOST_TAPS = 1 << 24 };

// ---- One window ------------------------------------------------------------
typedef struct max_params {
  ls_conv conv;
  ls_conv_types types;
  const ls_cpu_windows *rows;
  bool picks;
  bool in_fours;  // Windows of 2 by 2 that do not overlap,
  bool tile;      // and that cover the input.
  int64_t channels, chunks;
  // Offsets in scratch.
  size_t best, at, x, y, dx;
} max_params;

// One unit: some channels of an image.
typedef struct max_work {
  const max_params *self;
  const ls_kernel_call *call;
  int64_t image, first, count;
  char *dx;  // First position of the image, in the type of the computation.
  int64_t pitch;  // Elements from position to position there.
} max_work;

// Returns `count` channels of position `index`; 16-bit ones widened into
// scratch.
static const void *load_channels(const max_work *w, const void *in,
                                 int64_t index, size_t buffer) {
  const max_params *self = w->self;
  const char *from =
      (const char *)in +
      (size_t)(index * self->channels + w->first) * self->types.size;
  if (self->types.half == LS_DTYPE_NONE) return from;
  char *target = (char *)w->call->scratch + buffer;
  ls_conv_widen(&self->types, target, from, w->count);
  return target;
}

// An iterator over the positions under a window's taps.
typedef struct tap_walk {
  const ls_conv_dim *dim;
  // Range of taps inside the input.
  int64_t begin[LS_WINDOW_DIMS], end[LS_WINDOW_DIMS];
  int64_t at[LS_WINDOW_DIMS];  // The next tap.
  int64_t first[LS_WINDOW_DIMS];
  bool ends;
} tap_walk;

static tap_walk walk_taps(const max_work *w, const int64_t *at) {
  tap_walk walk = {.dim = w->self->conv.dim};
  for (int i = 0; i < LS_WINDOW_DIMS; ++i) {
    const ls_conv_dim *dim = &walk.dim[i];
    ls_conv_taps_inside(dim, at[i], &walk.begin[i], &walk.end[i]);
    walk.at[i] = walk.begin[i];
    walk.first[i] = at[i] * dim->stride + dim->base;
    walk.ends = walk.ends || walk.begin[i] == walk.end[i];
  }
  return walk;
}

// Returns the next tap and position; false after the last one.
static bool next_tap(tap_walk *walk, int64_t *out_tap, int64_t *out_place) {
  int64_t tap = 0, place = 0;
  if (walk->ends) return false;
  for (int i = 0; i < LS_WINDOW_DIMS; ++i) {
    const ls_conv_dim *dim = &walk->dim[i];
    tap = tap * dim->taps + walk->at[i];
    place = place * dim->in + walk->first[i] + walk->at[i] * dim->step;
  }
  *out_tap = tap;
  *out_place = place;
  int i = LS_WINDOW_DIMS - 1;
  while (i >= 0 && ++walk->at[i] == walk->end[i]) {
    walk->at[i] = walk->begin[i];
    --i;
  }
  walk->ends = i < 0;
  return true;
}

// Finds the maxima of window `at`; leaves their taps in scratch.
static const void *find_maxima(const max_work *w, const int64_t *at) {
  const max_params *self = w->self;
  const ls_conv *conv = &self->conv;
  const int64_t places = conv->dim[0].in * conv->dim[1].in * conv->dim[2].in;
  char *best = (char *)w->call->scratch + self->best;
  char *found = (char *)w->call->scratch + self->at;
  tap_walk walk = walk_taps(w, at);
  int64_t tap = NO_TAP, place;
  bool has_tap = next_tap(&walk, &tap, &place);
  if (has_tap)
    memcpy(best,
           load_channels(w, w->call->in[0], w->image * places + place, self->x),
           (size_t)w->count * self->types.wide);
  if (self->types.wide == sizeof(double))
    for (int64_t i = 0; i < w->count; ++i)
      ((double *)(void *)found)[i] = (double)tap;
  else
    for (int64_t i = 0; i < w->count; ++i)
      ((float *)(void *)found)[i] = (float)tap;
  while (has_tap && next_tap(&walk, &tap, &place))
    self->rows->compare(
        best, found,
        load_channels(w, w->call->in[0], w->image * places + place, self->x),
        tap, w->count);
  return found;
}

// ---- The gradient ----------------------------------------------------------
static void *dx_at(const max_work *w, int64_t place) {
  return w->dx + (size_t)(place * w->pitch) * w->self->types.wide;
}

static void give_four(const max_work *w, const int64_t *at, const void *dy) {
  const ls_conv_dim *dim = w->self->conv.dim;
  const int64_t from =
      (at[1] * dim[1].stride * dim[2].in + at[2] * dim[2].stride);
  const int64_t places[] = {from, from + 1, from + dim[2].in,
                            from + dim[2].in + 1};
  const void *x[4];
  void *dx[4];
  const int64_t image = w->image * dim[1].in * dim[2].in;
  for (int i = 0; i < 4; ++i) {
    x[i] = load_channels(w, w->call->in[0], image + places[i], 0);
    dx[i] = dx_at(w, places[i]);
  }
  w->self->rows->give_four(dx, x, dy, w->count);
}

static void give_window(const max_work *w, const int64_t *at, const void *dy) {
  const void *found = find_maxima(w, at);
  tap_walk walk = walk_taps(w, at);
  int64_t tap;
  int64_t place;
  while (next_tap(&walk, &tap, &place))
    w->self->rows->give(dx_at(w, place), found, tap, dy, w->count);
}

static void give_image(const max_work *w) {
  const max_params *self = w->self;
  const ls_conv_dim *dim = self->conv.dim;
  const int64_t places = dim[0].in * dim[1].in * dim[2].in;
  const int64_t windows = ls_conv_outputs(&self->conv);
  const int64_t runs = w->pitch == w->count ? 1 : places;
  for (int64_t i = 0; i < runs && !self->tile; ++i)
    memset(dx_at(w, i), 0,
           (size_t)(places / runs * w->count) * self->types.wide);
  for (int64_t o = 0; o < windows; ++o) {
    const int64_t line = o / dim[2].out;
    const int64_t at[] = {line / dim[1].out, line % dim[1].out, o % dim[2].out};
    const void *dy =
        load_channels(w, w->call->in[1], w->image * windows + o, self->y);
    (self->in_fours ? give_four : give_window)(w, at, dy);
  }
  char *out = (char *)w->call->out[0] +
              (size_t)(w->image * places * self->channels + w->first) *
                  self->types.size;
  for (int64_t i = 0; self->types.half != LS_DTYPE_NONE && i < places; ++i)
    ls_conv_narrow(&self->types,
                   out + (size_t)(i * self->channels) * self->types.size,
                   dx_at(w, i), w->count);
}

// ---- Its gradient ----------------------------------------------------------
static void pick_window(const max_work *w, const int64_t *at, int64_t out) {
  const max_params *self = w->self;
  const ls_conv_dim *dim = self->conv.dim;
  const int64_t places = dim[0].in * dim[1].in * dim[2].in;
  const bool half = self->types.half != LS_DTYPE_NONE;
  char *target = (char *)w->call->out[0] +
                 (size_t)(out * self->channels + w->first) * self->types.size;
  void *row = half ? (char *)w->call->scratch + self->y : target;
  const void *found = find_maxima(w, at);
  memset(row, 0, (size_t)w->count * self->types.wide);
  tap_walk walk = walk_taps(w, at);
  int64_t tap;
  int64_t place;
  while (next_tap(&walk, &tap, &place)) {
    const void *x =
        load_channels(w, w->call->in[1], w->image * places + place, self->x);
    self->rows->give(row, found, tap, x, w->count);
  }
  if (half) ls_conv_narrow(&self->types, target, row, w->count);
}

static void pick_image(const max_work *w) {
  const ls_conv_dim *dim = w->self->conv.dim;
  const int64_t windows = ls_conv_outputs(&w->self->conv);
  for (int64_t o = 0; o < windows; ++o) {
    const int64_t line = o / dim[2].out;
    const int64_t at[] = {line / dim[1].out, line % dim[1].out, o % dim[2].out};
    pick_window(w, at, w->image * windows + o);
  }
}

// ---- Plan ------------------------------------------------------------------
static void max_loop(const ls_kernel_call *call, int64_t begin_block,
                     int64_t end_block) {
  const max_params *self = call->params;
  const ls_conv_dim *dim = self->conv.dim;
  const int64_t places = dim[0].in * dim[1].in * dim[2].in;
  for (int64_t b = begin_block; b < end_block; ++b) {
    max_work w = {.self = self, .call = call, .image = b / self->chunks};
    if (w.image >= self->conv.images) break;  // Stops at once without images.
    w.first = b % self->chunks * UNIT_CHANNELS;
    w.count = ls_min_i64(UNIT_CHANNELS, self->channels - w.first);
    const bool half = self->types.half != LS_DTYPE_NONE;
    w.pitch = half ? w.count : self->channels;
    w.dx = half ? (char *)call->scratch + self->dx
                : (char *)call->out[0] +
                      (size_t)(w.image * places * self->channels + w.first) *
                          self->types.size;
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
  const bool half = self->types.half != LS_DTYPE_NONE;
  self->rows =
      self->types.wide == sizeof(double) ? &rows_f64 : plan->kernels->windows;
  self->in_fours = in_fours(&self->conv) && !half;
  self->tile = self->in_fours && covers_input(&self->conv);
  self->channels = x.dim[x.rank - 1];
  self->chunks = ls_blocks_of(self->channels, UNIT_CHANNELS);
  const size_t row = UNIT_CHANNELS * self->types.wide;
  const ls_conv_dim *dim = self->conv.dim;
  size_t end = 0;
  self->best = ls_conv_place(&end, row);
  self->at = ls_conv_place(&end, row);
  self->x = ls_conv_place(&end, row);
  self->y = ls_conv_place(&end, row);
  self->dx = ls_conv_place(
      &end, half && !self->picks
                ? (size_t)(dim[0].in * dim[1].in * dim[2].in) * row
                : 0);
  plan->scratch = end;
  // Four elements are read before they are written.
  if (self->tile && !self->picks) plan->in_place = 1;
  plan->blocks = ls_max_i64(1, self->conv.images * self->chunks);
  plan->loop = max_loop;
  plan->params = self;
  return ls_ok();
}
