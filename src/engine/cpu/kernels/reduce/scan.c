// SPDX-License-Identifier: Apache-2.0
//
// Scans along an axis: cumulative sums and products, and h = a h + b.
//
// Elements go one after another, with one rounding an operation (two in
// a h + b); 16-bit floats in f32, each result rounded once. Integers wrap
// around. Lines side by side are scanned together, row by row.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"
#include "lockstep/half.h"

// Columns of joined units: their state stays in the first cache.
enum { JOINED_COLUMNS = 1024 };

typedef struct scan_params {
  ls_lines lines;
  bool exclusive, has_b;
  // First row and direction: 0 and 1, or the last row and -1.
  int64_t first, step;
  int64_t most_columns;  // Most columns scanned together.
  size_t element;
  // Scans one unit. The pointers are to its first element.
  void (*scan)(const struct scan_params *self, void *out, const void *a,
               const void *b, void *state, int64_t columns);
} scan_params;

// Defines a scan. The state between rows is in `state`; a single line keeps it
// in a register. START: before the first row. NEXT(h, x, y): after elements x
// of a and y of b. SECOND: reads y, if there is a second operand.
#define SCAN(name, D, T, S, LOAD, STORE, START, NEXT, SECOND)                  \
  static void name##_##D(const scan_params *self, void *out, const void *in,   \
                         const void *in2, void *state, int64_t columns) {      \
    const int64_t size = self->lines.size, inner = self->lines.inner;          \
    const bool exclusive = self->exclusive;                                    \
    const T *a = in, *b = in2;                                                 \
    T *o = out;                                                                \
    S *h = state;                                                              \
    (void)b;                                                                   \
    if (columns == 1) {                                                        \
      S carried = START;                                                       \
      for (int64_t n = 0, i = self->first * inner; n < size;                   \
           ++n, i += self->step * inner) {                                     \
        const S x = LOAD(S, a[i]), y = SECOND(S, LOAD, b[i]);                  \
        const S next = NEXT(carried, x, y);                                    \
        o[i] = STORE(T, exclusive ? carried : next);                           \
        carried = next;                                                        \
      }                                                                        \
      return;                                                                  \
    }                                                                          \
    for (int64_t c = 0; c < columns; ++c)                                      \
      h[c] = START;                                                            \
    for (int64_t n = 0, row = self->first * inner; n < size;                   \
         ++n, row += self->step * inner) {                                     \
      LS_INDEPENDENT                                                           \
      for (int64_t c = 0; c < columns; ++c) {                                  \
        const int64_t i = row + c;                                             \
        const S x = LOAD(S, a[i]), y = SECOND(S, LOAD, b[i]);                  \
        const S before = h[c], next = NEXT(before, x, y);                      \
        o[i] = STORE(T, exclusive ? before : next);                            \
        h[c] = next;                                                           \
      }                                                                        \
    }                                                                          \
  }

#define SUM(h, x, y) ((void)(y), (h) + (x))
#define PRODUCT(h, x, y) ((void)(y), (h) * (x))
#define LINEAR(h, x, y) ((x) * (h) + (y))
#define NONE(S, LOAD, x) ((S)0)
#define READ(S, LOAD, x) LOAD(S, x)

#define AS_IS(S, x) ((S)(x))
#define LOAD_F16(S, x) ls_f16_to_f32(x)
#define STORE_F16(T, x) ls_f16_from_f32(x)
#define LOAD_BF16(S, x) ls_bf16_to_f32(x)
#define STORE_BF16(T, x) ls_bf16_from_f32(x)

#define NUMBER(name, START, NEXT, SECOND, D, T, W)                             \
  SCAN(name, D, T, W, AS_IS, AS_IS, START, NEXT, SECOND)
#define ALL(name, START, NEXT, SECOND)                                         \
  LS_EACH_INTEGER(NUMBER, name, START, NEXT, SECOND)                           \
  LS_EACH_FLOAT(NUMBER, name, START, NEXT, SECOND)                             \
  SCAN(name, F16, uint16_t, float, LOAD_F16, STORE_F16, START, NEXT, SECOND)   \
  SCAN(name, BF16, uint16_t, float, LOAD_BF16, STORE_BF16, START, NEXT, SECOND)
ALL(sum, 0, SUM, NONE)
ALL(product, 1, PRODUCT, NONE)
ALL(linear, 0, LINEAR, READ)

typedef void (*scan_function)(const scan_params *, void *, const void *,
                              const void *, void *, int64_t);
#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define ROW(name)                                                              \
  {                                                                            \
    LS_EACH_INTEGER(ENTRY, name)                                               \
    LS_EACH_FLOAT(ENTRY, name) ENTRY(name, F16, , ) ENTRY(name, BF16, , )      \
  }
static const scan_function sums[LS_DTYPE_COUNT] = ROW(sum);
static const scan_function products[LS_DTYPE_COUNT] = ROW(product);
static const scan_function linears[LS_DTYPE_COUNT] = ROW(linear);

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
    const size_t at =
        (size_t)(unit.outer * lines->size * lines->inner + unit.column) *
        self->element;
    self->scan(self, (char *)call->out[0] + at, (const char *)call->in[0] + at,
               (const char *)call->in[self->has_b] + at, call->scratch,
               unit.columns);
  }
}

ls_status kernel_scan(ls_kernel_plan *plan) {
  const ls_type type = plan->out[0];
  const uint16_t op = plan->node->type;
  const scan_function *functions = op == LS_OP_CUMSUM    ? sums
                                   : op == LS_OP_CUMPROD ? products
                                                         : linears;
  if (functions[type.dtype] == NULL)
    return ls_kernel_unsupported(plan, type.dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, scan_params, self);
  const int32_t axis = (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS);
  const bool reverse = ls_node_int(plan->node, LS_ATTR_ID_REVERSE) != 0;
  self->lines = ls_lines_of(type.shape, axis, type.shape.dim[axis]);
  self->most_columns = ls_max_i64(self->lines.columns, JOINED_COLUMNS);
  self->exclusive = ls_node_int(plan->node, LS_ATTR_ID_EXCLUSIVE) != 0;
  self->has_b = op == LS_OP_LINEAR_SCAN;
  self->first = reverse ? self->lines.size - 1 : 0;
  self->step = reverse ? -1 : 1;
  self->element = ls_dtype_size(type.dtype);
  self->scan = functions[type.dtype];
  plan->loop = scan_loop;
  plan->params = self;
  plan->blocks = ls_lines_blocks(&self->lines);
  plan->scratch = (size_t)self->most_columns * sizeof(uint64_t);
  plan->in_place = self->has_b ? 3 : 1;
  return ls_ok();
}
