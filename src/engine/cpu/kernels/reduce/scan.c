// SPDX-License-Identifier: Apache-2.0
//
// Scans along an axis: cumulative sums and products, and h = a h + b.
//
// Elements go one after another, with one rounding an operation (two in
// a h + b); 16-bit floats in f32, each result rounded once. Integers wrap
// around. Lines side by side are scanned together, row by row, if they are not
// few; so are short ones that follow one another.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

enum {
  JOINED_COLUMNS = 1024,  // Joined at most: their state stays in a cache.
  FEW_COLUMNS = 7,        // Most columns whose lines are scanned one by one,
  SHORT_LINE = 16,        // if they are short.
  WIDENED = 4096,         // 16-bit floats that are widened together.
};

typedef struct scan_params {
  ls_lines lines;
  bool exclusive, has_b;
  // First row and direction: 0 and 1, or the last row and -1.
  int64_t first, step;
  int64_t most_columns;  // Most columns scanned together.
  size_t element;
  // Scans `outer` units, which follow one another. The pointers are to the
  // first element.
  void (*scan)(const struct scan_params *self, void *out, const void *a,
               const void *b, void *state, int64_t outer, int64_t columns);
  ls_dtype half;    // Not NONE: 16-bit floats, scanned as f32.
  int64_t widened;  // Elements that have room in scratch.
  bool continues;   // True if the state is that after earlier rows.
} scan_params;

// Defines a scan. The state between rows is in `state`; a single line keeps it
// in a register. START: before the first row. NEXT(h, x, y): after elements x
// of a and y of b. SECOND: reads y, if there is a second operand.
#define SCAN(name, START, NEXT, SECOND, D, T, S)                               \
  static inline void name##_line_##D(const scan_params *self, T *o,            \
                                     const T *a, const T *b, S *h) {           \
    const int64_t step = self->step * self->lines.inner;                       \
    const bool exclusive = self->exclusive;                                    \
    S carried = self->continues ? *h : START;                                  \
    for (int64_t n = self->lines.size, i = 0; n > 0; --n, i += step) {         \
      const S x = (S)a[i], y = SECOND(S, b[i]);                                \
      const S next = NEXT(carried, x, y);                                      \
      o[i] = (T)(exclusive ? carried : next);                                  \
      carried = next;                                                          \
    }                                                                          \
    *h = carried;                                                              \
    (void)b;                                                                   \
  }                                                                            \
  static inline void name##_columns_##D(const scan_params *self, T *o,         \
                                        const T *a, const T *b, S *h,          \
                                        int64_t columns, int64_t across) {     \
    const bool exclusive = self->exclusive;                                    \
    for (int64_t c = 0; !self->continues && c < columns; ++c)                  \
      h[c] = START;                                                            \
    for (int64_t n = self->lines.size, row = 0; n > 0;                         \
         --n, row += self->step * self->lines.inner) {                         \
      LS_INDEPENDENT                                                           \
      for (int64_t c = 0; c < columns; ++c) {                                  \
        const int64_t i = row + c * across;                                    \
        const S x = (S)a[i], y = SECOND(S, b[i]);                              \
        const S before = h[c], next = NEXT(before, x, y);                      \
        o[i] = (T)(exclusive ? before : next);                                 \
        h[c] = next;                                                           \
      }                                                                        \
    }                                                                          \
    (void)b;                                                                   \
  }                                                                            \
  static void name##_##D(const scan_params *self, void *out, const void *in,   \
                         const void *in2, void *state, int64_t outer,          \
                         int64_t columns) {                                    \
    const int64_t inner = self->lines.inner, each = self->lines.size * inner;  \
    const int64_t first = self->first * inner;                                 \
    const bool one_by_one = columns == 1 || (columns <= FEW_COLUMNS &&         \
                                             self->lines.size <= SHORT_LINE);  \
    const bool across = inner == 1 && self->lines.size <= SHORT_LINE;          \
    int64_t n = 1;                                                             \
    for (int64_t at = first; outer > 0; outer -= n, at += n * each) {          \
      T *o = (T *)out + at;                                                    \
      const T *a = (const T *)in + at, *b = (const T *)in2 + at;               \
      if (across) {                                                            \
        n = ls_min_i64(outer, JOINED_COLUMNS);                                 \
        name##_columns_##D(self, o, a, b, state, n, each);                     \
        continue;                                                              \
      }                                                                        \
      if (!one_by_one) {                                                       \
        name##_columns_##D(self, o, a, b, state, columns, 1);                  \
        continue;                                                              \
      }                                                                        \
      for (int64_t c = 0; c < columns; ++c)                                    \
        name##_line_##D(self, o + c, a + c, b + c, (S *)state + c);            \
    }                                                                          \
  }

#define SUM(h, x, y) ((void)(y), (h) + (x))
#define PRODUCT(h, x, y) ((void)(y), (h) * (x))
#define LINEAR(h, x, y) ((x) * (h) + (y))
#define NONE(S, x) ((S)0)
#define READ(S, x) ((S)(x))

#define ALL(name, START, NEXT, SECOND)                                         \
  LS_EACH_INTEGER(SCAN, name, START, NEXT, SECOND)                             \
  LS_EACH_FLOAT(SCAN, name, START, NEXT, SECOND)
ALL(sum, 0, SUM, NONE)
ALL(product, 1, PRODUCT, NONE)
ALL(linear, 0, LINEAR, READ)

typedef void (*scan_function)(const scan_params *, void *, const void *,
                              const void *, void *, int64_t, int64_t);
#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define ROW(name)                                                              \
  { LS_EACH_INTEGER(ENTRY, name) LS_EACH_FLOAT(ENTRY, name) }
static const scan_function sums[LS_DTYPE_COUNT] = ROW(sum);
static const scan_function products[LS_DTYPE_COUNT] = ROW(product);
static const scan_function linears[LS_DTYPE_COUNT] = ROW(linear);

// Scans a unit of 16-bit floats, some rows at a time: they are widened together
// if they are adjacent.
static void scan_half_unit(const scan_params *self, uint16_t *out,
                           const uint16_t *a, const uint16_t *b, void *state,
                           int64_t columns) {
  const ls_lines *lines = &self->lines;
  const int64_t most =
      columns < lines->inner ? 1 : ls_max_i64(1, self->widened / columns);
  float *x = (float *)state + self->most_columns, *y = x + self->widened;
  scan_params part = *self;
  part.lines.inner = columns;
  for (int64_t done = 0, n = 0; done < lines->size; done += n) {
    n = ls_min_i64(most, lines->size - done);
    const int64_t row = self->step > 0 ? done : lines->size - done - n;
    const int64_t at = row * lines->inner;
    part.lines.size = n;
    part.first = self->step > 0 ? 0 : n - 1;
    ls_widen(self->half, x, a + at, n * columns);
    if (self->has_b) ls_widen(self->half, y, b + at, n * columns);
    self->scan(&part, x, x, y, state, 1, columns);
    ls_narrow(self->half, out + at, x, n * columns);
    part.continues = true;
  }
}

// Scans units of 16-bit floats that follow one another.
static void scan_halves(const scan_params *self, uint16_t *out,
                        const uint16_t *a, const uint16_t *b, void *state,
                        int64_t outer, int64_t columns) {
  const int64_t each = self->lines.size * self->lines.inner;
  const bool is_short = columns == self->lines.inner && each <= self->widened;
  float *x = (float *)state + self->most_columns, *y = x + self->widened;
  for (int64_t n = 1; outer > 0; outer -= n) {
    if (is_short) {
      n = ls_min_i64(outer, self->widened / ls_max_i64(1, each));
      ls_widen(self->half, x, a, n * each);
      if (self->has_b) ls_widen(self->half, y, b, n * each);
      self->scan(self, x, x, y, state, n, columns);
      ls_narrow(self->half, out, x, n * each);
    } else {
      scan_half_unit(self, out, a, b, state, columns);
    }
    out += n * each;
    a += n * each;
    b += n * each;
  }
}

static void scan_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const scan_params *self = call->params;
  const ls_lines *lines = &self->lines;
  const int64_t end =
      ls_min_i64(end_block * lines->units_per_block, lines->units);
  for (int64_t u = begin_block * lines->units_per_block; u < end;) {
    // Joins adjacent units into one with longer rows.
    ls_lines_unit unit = ls_lines_at(lines, u++);
    while (u < end && u % lines->units_across != 0 &&
           unit.columns + lines->columns <= self->most_columns)
      unit.columns += ls_lines_at(lines, u++).columns;
    const int64_t outer = lines->units_across == 1 ? end - u + 1 : 1;
    u += outer - 1;
    const size_t at =
        (size_t)(unit.outer * lines->size * lines->inner + unit.column) *
        self->element;
    void *out = (char *)call->out[0] + at;
    const void *a = (const char *)call->in[0] + at;
    const void *b = (const char *)call->in[self->has_b] + at;
    if (self->half != LS_DTYPE_NONE)
      scan_halves(self, out, a, b, call->scratch, outer, unit.columns);
    else
      self->scan(self, out, a, b, call->scratch, outer, unit.columns);
  }
}

ls_status kernel_scan(ls_kernel_plan *plan) {
  const ls_type type = plan->out[0];
  const uint16_t op = plan->node->type;
  const scan_function *functions = op == LS_OP_CUMSUM    ? sums
                                   : op == LS_OP_CUMPROD ? products
                                                         : linears;
  const scan_function scan = functions[ls_wide_dtype(type.dtype)];
  if (scan == NULL) return ls_kernel_unsupported(plan, type.dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, scan_params, self);
  const int32_t axis = (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS);
  const bool reverse = ls_node_int(plan->node, LS_ATTR_ID_REVERSE) != 0;
  self->lines = ls_lines_of(type.shape, axis, type.shape.dim[axis]);
  if (self->lines.size == 1) {
    // All lines are adjacent columns.
    const int64_t count = ls_shape_num_elements(type.shape);
    self->lines = ls_lines_of(LS_SHAPE(1, count), 0, LS_BLOCK / JOINED_COLUMNS);
  }
  self->most_columns = ls_max_i64(self->lines.columns, JOINED_COLUMNS);
  self->exclusive = ls_node_int(plan->node, LS_ATTR_ID_EXCLUSIVE) != 0;
  self->has_b = op == LS_OP_LINEAR_SCAN;
  self->first = reverse ? self->lines.size - 1 : 0;
  self->step = reverse ? -1 : 1;
  self->element = ls_dtype_size(type.dtype);
  self->scan = scan;
  if (ls_is_half(type.dtype)) {
    self->half = type.dtype;
    self->widened = ls_max_i64(WIDENED, self->most_columns);
    plan->scratch = 2 * (size_t)self->widened * sizeof(float);
  }
  plan->scratch += (size_t)self->most_columns * sizeof(uint64_t);
  plan->in_place = self->has_b ? 3 : 1;
  return ls_kernel_runs(plan, scan_loop, self, ls_lines_blocks(&self->lines));
}
