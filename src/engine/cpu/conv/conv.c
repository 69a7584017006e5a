// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/conv/conv.h"

#include "engine/cpu/kernels/loops.h"

enum { X = LS_WINDOW_DIMS - 1 };  // The innermost dimension.

// ---- Reading ---------------------------------------------------------------
ls_status ls_conv_read(const ls_kernel_plan *plan, ls_shape x, ls_shape w,
                       ls_shape y, ls_conv *out_conv) {
  const ls_node *node = plan->node;
  const int32_t rank = x.rank - 2, absent = LS_WINDOW_DIMS - rank;
  ls_window window;
  LS_RETURN_IF_ERROR(ls_window_read(ls_node_info(node)->name, node->attrs,
                                    node->num_attrs, rank, &window));
  *out_conv = (ls_conv){.images = x.dim[0],
                        .groups = ls_node_int(node, LS_ATTR_ID_CHANNEL_GROUPS)};
  out_conv->in_channels = x.dim[rank + 1] / out_conv->groups;
  out_conv->out_channels = w.dim[rank + 1] / out_conv->groups;
  for (int32_t i = 0; i < absent; ++i)
    out_conv->dim[i] = (ls_conv_dim){1, 1, 1, 1, 1, 0, 1};
  for (int32_t i = 0; i < rank; ++i) {
    int64_t out;
    window.taps[i] = w.dim[i];
    LS_RETURN_IF_ERROR(ls_window_slide(&window, i, x.dim[i + 1], &out));
    out_conv->dim[absent + i] = (ls_conv_dim){
        .in = x.dim[i + 1],
        .out = y.dim[i + 1],
        .taps = w.dim[i],
        .stride = window.strides[i],
        .step = window.dilations[i],
        .base = -window.low[i],
        .spread = window.input_dilations[i],
    };
  }
  return ls_ok();
}

ls_status ls_conv_read_window(const ls_kernel_plan *plan, ls_shape x,
                              ls_shape y, ls_conv *out_conv) {
  const ls_attr *window = ls_node_attr(plan->node, LS_ATTR_ID_WINDOW);
  ls_shape taps = {.rank = x.rank};
  for (int32_t i = 0; i < x.rank; ++i)
    taps.dim[i] = i < x.rank - 2 ? window->as.ints.items[i] : 1;
  return ls_conv_read(plan, x, taps, y, out_conv);
}

ls_conv ls_conv_input_gradient(const ls_conv *conv) {
  ls_conv turned = *conv;
  turned.in_channels = conv->out_channels;
  turned.out_channels = conv->in_channels;
  for (int i = 0; i < LS_WINDOW_DIMS; ++i) {
    const ls_conv_dim from = conv->dim[i];
    turned.dim[i] = (ls_conv_dim){
        .in = from.out,
        .out = from.in,
        .taps = from.taps,
        .stride = from.spread,
        .step = -from.step,
        .base = -from.base,
        .spread = from.stride,
    };
  }
  return turned;
}

// ---- Phases ----------------------------------------------------------------
static int64_t period_of(const ls_conv_dim *dim) {
  return dim->spread / ls_common_divisor(dim->spread, dim->stride);
}

// Phases beyond the last output would be empty.
static int64_t phases_of(const ls_conv_dim *dim) {
  return ls_max_i64(1, ls_min_i64(period_of(dim), dim->out));
}

int64_t ls_conv_phases(const ls_conv *conv) {
  int64_t count = 1;
  for (int i = 0; i < LS_WINDOW_DIMS; ++i)
    count *= phases_of(&conv->dim[i]);
  return count;
}

bool ls_conv_is_dense(const ls_conv *conv) {
  bool dense = true;
  for (int i = 0; i < LS_WINDOW_DIMS; ++i)
    dense = dense && conv->dim[i].spread == 1;
  return dense;
}

bool ls_conv_is_plain(const ls_conv *conv) {
  bool plain = ls_conv_is_dense(conv);
  for (int i = 0; i < LS_WINDOW_DIMS; ++i) {
    const ls_conv_dim *dim = &conv->dim[i];
    plain = plain && dim->taps == 1 && dim->stride == 1 && dim->base == 0 &&
            dim->in == dim->out;
  }
  return plain;
}

int64_t ls_conv_taps(const ls_conv *conv) {
  return conv->dim[0].taps * conv->dim[1].taps * conv->dim[2].taps;
}

int64_t ls_conv_outputs(const ls_conv *conv) {
  return conv->dim[0].out * conv->dim[1].out * conv->dim[2].out;
}

// Returns true if output `phase` uses an element of the dilated input with tap
// `tap`.
static bool uses_tap(const ls_conv_dim *dim, int64_t phase, int64_t tap) {
  return (phase * dim->stride + tap * dim->step + dim->base) % dim->spread == 0;
}

static int64_t start_of(const ls_conv_dim *dim, int64_t phase, int64_t tap) {
  return (phase * dim->stride + tap * dim->step + dim->base) / dim->spread;
}

static ls_conv_axis axis_of(const ls_conv_dim *dim, int64_t phase) {
  ls_conv_axis axis = {.first = phase, .period = period_of(dim)};
  axis.move = axis.period * dim->stride / dim->spread;
  if (dim->out > phase) axis.count = (dim->out - phase - 1) / axis.period + 1;
  const int64_t step = dim->step < 0 ? -dim->step : dim->step;
  const int64_t tap_step = dim->spread / ls_common_divisor(dim->spread, step);
  int64_t tap = 0;
  while (tap < tap_step && tap < dim->taps && !uses_tap(dim, phase, tap))
    ++tap;
  if (tap == tap_step || tap >= dim->taps) return axis;
  axis.taps = (dim->taps - tap - 1) / tap_step + 1;
  axis.tap_step = tap_step;
  axis.start_step = dim->step * tap_step / dim->spread;
  if (axis.start_step < 0) {
    tap += (axis.taps - 1) * tap_step;
    axis.tap_step = -tap_step;
    axis.start_step = -axis.start_step;
  }
  axis.first_tap = tap;
  axis.start = start_of(dim, phase, tap);
  return axis;
}

static void count_phase(ls_conv_phase *phase) {
  phase->pixels = phase->conv->images;
  phase->taps = 1;
  for (int i = 0; i < LS_WINDOW_DIMS; ++i) {
    phase->pixels *= phase->axis[i].count;
    phase->taps *= phase->axis[i].taps;
  }
}

ls_conv_phase ls_conv_phase_of(const ls_conv *conv, int64_t phase) {
  ls_conv_phase out = {.conv = conv};
  for (int i = LS_WINDOW_DIMS; i-- > 0;) {
    const int64_t phases = phases_of(&conv->dim[i]);
    out.axis[i] = axis_of(&conv->dim[i], phase % phases);
    phase /= phases;
  }
  count_phase(&out);
  return out;
}

bool ls_conv_phase_of_tap(const ls_conv *conv, int64_t tap,
                          ls_conv_phase *out_phase) {
  *out_phase = (ls_conv_phase){.conv = conv};
  for (int i = LS_WINDOW_DIMS; i-- > 0;) {
    const ls_conv_dim *dim = &conv->dim[i];
    const int64_t at = tap % dim->taps, phases = phases_of(dim);
    int64_t phase = 0;
    tap /= dim->taps;
    while (phase < phases && !uses_tap(dim, phase, at))
      ++phase;
    if (phase == phases) return false;
    ls_conv_axis *axis = &out_phase->axis[i];
    *axis = axis_of(dim, phase);
    axis->taps = 1;
    axis->first_tap = at;
    axis->start = start_of(dim, phase, at);
  }
  count_phase(out_phase);
  return true;
}

int64_t ls_conv_tap_at(const ls_conv_phase *phase, int64_t tap) {
  int64_t at[LS_WINDOW_DIMS], number = 0;
  for (int i = LS_WINDOW_DIMS; i-- > 0;) {
    const ls_conv_axis *axis = &phase->axis[i];
    at[i] = axis->first_tap + tap % axis->taps * axis->tap_step;
    tap /= axis->taps;
  }
  for (int i = 0; i < LS_WINDOW_DIMS; ++i)
    number = number * phase->conv->dim[i].taps + at[i];
  return number;
}

ls_conv_line ls_conv_line_at(const ls_conv_phase *phase, int64_t pixel,
                             int64_t end) {
  ls_conv_line line = {.count = end - pixel};
  for (int i = LS_WINDOW_DIMS; i-- > 0;) {
    line.at[i] = pixel % phase->axis[i].count;
    pixel /= phase->axis[i].count;
  }
  line.image = pixel;
  line.count = ls_min_i64(line.count, phase->axis[X].count - line.at[X]);
  return line;
}

int64_t ls_conv_output_at(const ls_conv_phase *phase,
                          const ls_conv_line *line) {
  int64_t index = line->image;
  for (int i = 0; i < LS_WINDOW_DIMS; ++i)
    index = index * phase->conv->dim[i].out + phase->axis[i].first +
            line->at[i] * phase->axis[i].period;
  return index;
}

// ---- Panels ----------------------------------------------------------------
// Taps that are adjacent in the input and in the panel. All numbers are in
// bytes.
typedef struct piece {
  int64_t taps;
  int64_t width;      // Positions along the innermost dimension.
  int64_t channels;   // Bytes of one tap's channels.
  int64_t pixel;      // Distance of two positions in the input.
  int64_t low, high;  // The requested range of the piece.
  int64_t pitch;      // Distance of two rows of the panel.
} piece;

// Copies of a constant size, which need no call.
#define FIXED(size)                                                            \
  case size:                                                                   \
    for (int64_t i = 0; i < count; ++i)                                        \
      memcpy(target + i * pitch, from + i * step, size);                       \
    return;

void ls_conv_copy_rows(char *restrict target, int64_t pitch,
                       const char *restrict from, int64_t step, int64_t size,
                       int64_t count) {
  switch (size) {
    FIXED(4)
    FIXED(8)
    FIXED(12)
    FIXED(16)
    FIXED(24)
    FIXED(32)
    FIXED(36)
    FIXED(48)
    FIXED(64)
    FIXED(128)
    FIXED(192)
    FIXED(256)
    FIXED(384)
  default:
    for (int64_t i = 0; i < count; ++i)
      memcpy(target + i * pitch, from + i * step, (size_t)size);
  }
}

static void zero_rows(char *target, int64_t pitch, int64_t size,
                      int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    memset(target + i * pitch, 0, (size_t)size);
}

// Writes one row, parts of which may be outside of the input.
static void edge_row(const piece *p, char *target, const char *row,
                     int64_t place) {
  const int64_t inside = ls_min_i64(p->width - place, p->taps) * p->channels;
  const int64_t end = ls_max_i64(p->low, ls_min_i64(inside, p->high));
  const int64_t before = place < 0 ? -place * p->channels : 0;
  const int64_t begin = ls_min_i64(ls_max_i64(before, p->low), end);
  memset(target, 0, (size_t)(begin - p->low));
  if (end > begin)
    memcpy(target + begin - p->low, row + place * p->pixel + begin,
           (size_t)(end - begin));
  memset(target + end - p->low, 0, (size_t)(p->high - end));
}

// Writes `count` rows, the first at `place`, each `move` positions further.
static void piece_rows(const piece *p, char *target, const char *row,
                       int64_t place, int64_t move, int64_t count) {
  int64_t i = 0;
  for (; i < count && place + i * move < 0; ++i)
    edge_row(p, target + i * p->pitch, row, place + i * move);
  // The last position at which the piece is inside the input.
  const int64_t last = p->width - p->taps - place;
  const int64_t num_inside = last < 0 ? 0 : ls_min_i64(count, last / move + 1);
  if (num_inside > i) {
    ls_conv_copy_rows(target + i * p->pitch, p->pitch,
                      row + (place + i * move) * p->pixel + p->low,
                      move * p->pixel, p->high - p->low, num_inside - i);
    i = num_inside;
  }
  for (; i < count; ++i)
    edge_row(p, target + i * p->pitch, row, place + i * move);
}

// The requested columns of a line of pixels.
typedef struct line_work {
  const ls_conv_phase *phase;
  const ls_conv_source *source;
  ls_conv_line line;
  int64_t begin, end;  // Wanted columns, in bytes.
  piece piece;
  int64_t run;  // Bytes of a whole piece.
} line_work;

// Writes the columns of the taps (z, y): one piece, or one per tap.
static void tap_row(const line_work *w, int64_t z, int64_t y, int64_t column,
                    char *target) {
  const ls_conv *conv = w->phase->conv;
  const ls_conv_axis *axis = w->phase->axis;
  const int64_t at_z =
      axis[0].start + z * axis[0].start_step + w->line.at[0] * axis[0].move;
  const int64_t at_y =
      axis[1].start + y * axis[1].start_step + w->line.at[1] * axis[1].move;
  const bool inside = at_z >= 0 && at_z < conv->dim[0].in && at_y >= 0 &&
                      at_y < conv->dim[1].in;
  const int64_t row =
      (w->line.image * conv->dim[0].in + at_z) * conv->dim[1].in + at_y;
  const char *from = w->source->in;
  if (inside) from += row * conv->dim[X].in * w->piece.pixel;
  piece p = w->piece;
  for (int64_t x = 0; x < axis[X].taps; x += p.taps, column += w->run) {
    p.low = ls_max_i64(0, w->begin - column);
    p.high = ls_min_i64(w->run, w->end - column);
    if (p.low >= p.high) continue;
    char *rows = target + column + p.low - w->begin;
    const int64_t place =
        axis[X].start + x * axis[X].start_step + w->line.at[X] * axis[X].move;
    if (inside)
      piece_rows(&p, rows, from, place, axis[X].move, w->line.count);
    else
      zero_rows(rows, p.pitch, p.high - p.low, w->line.count);
  }
}

void ls_conv_panel(const ls_conv_phase *phase, const ls_conv_source *source,
                   int64_t m0, int64_t m1, int64_t k0, int64_t k1,
                   void *panel) {
  const ls_conv *conv = phase->conv;
  const ls_conv_axis *axis = phase->axis;
  const int64_t size = (int64_t)source->size;
  line_work w = {
      .phase = phase, .source = source, .begin = k0 * size, .end = k1 * size};
  w.piece.width = conv->dim[X].in;
  w.piece.channels = conv->in_channels * size;
  w.piece.pixel = w.piece.channels * conv->groups;
  w.piece.pitch = (k1 - k0) * size;
  w.piece.taps =
      conv->groups == 1 && axis[X].start_step == 1 ? axis[X].taps : 1;
  w.run = w.piece.taps * w.piece.channels;
  const int64_t row = axis[X].taps * w.piece.channels;
  char *target = panel;
  for (int64_t m = m0; m < m1 && k0 < k1; m += w.line.count) {
    w.line = ls_conv_line_at(phase, m, m1);
    // Visits only tap rows that contain requested columns.
    const int64_t last = (w.end - 1) / row;
    for (int64_t r = w.begin / row; r <= last; ++r)
      tap_row(&w, r / axis[1].taps, r % axis[1].taps, r * row, target);
    target += w.line.count * w.piece.pitch;
  }
}
