// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "engine/cpu/conv/plan.h"

enum { Z, Y, X };

// Bytes of copied lines that stay in the second cache.
enum { MOST_BYTES = 384 << 10 };

// Return the numbers of input lines and columns that `lines` lines of a phase
// use.
static int64_t height_of(const ls_conv_phase *phase, int64_t lines) {
  const ls_conv_axis *y = &phase->axis[Y];
  return (lines - 1) * y->move + (y->taps - 1) * y->start_step + 1;
}

static int64_t width_of(const ls_conv_phase *phase) {
  const ls_conv_axis *x = &phase->axis[X];
  return (x->count - 1) * x->move + x->taps;
}

static bool is_absent(const ls_conv_dim *dim) {
  return dim->in == 1 && dim->out == 1 && dim->taps == 1 && dim->base == 0;
}

bool ls_conv_cut_bands(const ls_conv *conv, const ls_conv_types *types,
                       int64_t pixels, ls_conv_bands *out_bands) {
  *out_bands = (ls_conv_bands){0};
  if (!is_absent(&conv->dim[Z]) || conv->in_channels == 0 ||
      ls_conv_outputs(conv) == 0)
    return false;
  // The first phase has the most lines; any phase may have the most taps.
  const ls_conv_phase first = ls_conv_phase_of(conv, 0);
  const int64_t lines = ls_min_i64(first.axis[Y].count,
                                   ls_max_i64(1, pixels / first.axis[X].count));
  double most = 0;  // Far dilations exceed 64 bits.
  for (int64_t i = 0; i < ls_conv_phases(conv); ++i) {
    const ls_conv_phase phase = ls_conv_phase_of(conv, i);
    if (phase.axis[X].taps > 1 && phase.axis[X].start_step != 1) return false;
    if (phase.taps > 0)
      most = fmax(most,
                  (double)height_of(&phase, lines) * (double)width_of(&phase));
  }
  const double bytes = most * (double)conv->in_channels * (double)types->wide;
  if (bytes > MOST_BYTES) return false;
  *out_bands = (ls_conv_bands){
      .lines = lines,
      .per_image = ls_blocks_of(first.axis[Y].count, lines),
      .bytes = (size_t)bytes,
  };
  return true;
}

// The range of input rows and columns to copy; positions outside of the input
// are zeros.
typedef struct window {
  int64_t top, left, height, width;
} window;

static void copy_window(const ls_conv *conv, const ls_conv_types *types,
                        const window *w, const char *image, char *target) {
  const ls_conv_dim *y = &conv->dim[Y], *x = &conv->dim[X];
  const int64_t wide = conv->in_channels * (int64_t)types->wide;
  const int64_t pixel = conv->groups * conv->in_channels * (int64_t)types->size;
  const int64_t before = ls_min_i64(ls_max_i64(0, -w->left), w->width);
  const int64_t end = ls_max_i64(before, ls_min_i64(w->width, x->in - w->left));
  for (int64_t i = 0; i < w->height; ++i, target += w->width * wide) {
    const int64_t at = w->top + i;
    const bool inside = at >= 0 && at < y->in;
    const int64_t first = inside ? before : w->width;
    memset(target, 0, (size_t)(first * wide));
    if (!inside) continue;
    ls_conv_widen_rows(types, target + before * wide,
                       image + (at * x->in + w->left + before) * pixel, pixel,
                       conv->in_channels, end - before);
    memset(target + end * wide, 0, (size_t)((w->width - end) * wide));
  }
}

ls_conv_view ls_conv_view_band(const ls_conv_phase *phase,
                               const ls_conv_types *types, const void *in,
                               int64_t image, int64_t begin, int64_t end,
                               bool copies, void *scratch) {
  const ls_conv *conv = phase->conv;
  const ls_conv_axis *y = &phase->axis[Y], *x = &phase->axis[X];
  const size_t pixel = (size_t)(conv->groups * conv->in_channels) * types->size;
  const window w = {.top = y->start + begin * y->move,
                    .left = x->start,
                    .height = height_of(phase, end - begin),
                    .width = width_of(phase)};
  const ls_conv_dim *rows = &conv->dim[Y], *columns = &conv->dim[X];
  const char *from =
      (const char *)in + (size_t)(image * rows->in * columns->in) * pixel;
  const bool inside = !copies && conv->groups == 1 &&
                      types->half == LS_DTYPE_NONE && w.top >= 0 &&
                      w.top + w.height <= rows->in && w.left >= 0 &&
                      w.left + w.width <= columns->in;
  const int64_t pitch = (inside ? columns->in : w.width) * conv->in_channels;
  if (inside) {
    from += (w.top * columns->in + w.left) * (int64_t)pixel;
  } else {
    copy_window(conv, types, &w, from, scratch);
    from = scratch;
  }
  const int64_t step = x->move * conv->in_channels;
  const int64_t run = x->taps * conv->in_channels;
  return (ls_conv_view){
      .start = from,
      .pixel = (size_t)step,
      .line = (size_t)x->count,
      .run = (size_t)run,
      .line_skip = (ptrdiff_t)(y->move * pitch - x->count * step),
      .run_skip = (ptrdiff_t)(y->start_step * pitch - run),
      .height = w.height,
      .width = w.width,
      .pitch = pitch,
  };
}
