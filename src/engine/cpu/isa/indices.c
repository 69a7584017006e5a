// SPDX-License-Identifier: Apache-2.0
//
// Indices and the offsets that follow from them; lookup of elements at offsets.
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vec.h"
#include "engine/cpu/kernels/loops.h"

// ---- Indices ---------------------------------------------------------------
#define SIGNED(T, x) ((int64_t)(x))
#define UNSIGNED(T, x)                                                         \
  ((int64_t)((uint64_t)(x) < INT64_MAX ? (uint64_t)(x) : INT64_MAX))
#define READ(name, INDEX, D, T, W)                                             \
  static void name##_##D(int64_t *at, const void *indices, int64_t from,       \
                         int64_t count, const ls_index_range *range) {         \
    const int64_t lowest = range->first, last = range->last;                   \
    const bool skips = range->skips;                                           \
    const T *in = (const T *)indices + from;                                   \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i) {                                      \
      const int64_t index = INDEX(T, in[i]);                                   \
      const int64_t above = index > lowest ? index : lowest;                   \
      const int64_t nearest = above < last ? above : last;                     \
      at[i] = skips && nearest != index ? -1 : nearest;                        \
    }                                                                          \
  }
LS_EACH_SIGNED(READ, read, SIGNED)
LS_EACH_UNSIGNED(READ, read, UNSIGNED)

enum { SHORT_RUN = 8 };

// Replaces indices of one run by offsets, which begin at `base`; for each index
// it is `across` more.
LS_INLINE void offset_run(int64_t *at, int64_t count, int64_t step,
                          int64_t base, int64_t across) {
  LS_INDEPENDENT
  for (int64_t i = 0; i < count; ++i)
    at[i] = at[i] < 0 ? -1 : base + at[i] * step + across * i;
}

// Does so for runs of any length, the quotients of all positions side by side;
// they are exact, as halves keep dividends away from multiples.
static void offset_short_runs(int64_t *at, int64_t from, int32_t count,
                              const ls_index_lines *lines) {
  const int64_t inner = lines->inner, each = lines->picks * inner;
  const int64_t column = from % inner, line = lines->size * inner;
  const int64_t base = from / each * line + column;
  const double at_row = 1.0 / (double)inner, at_line = 1.0 / (double)each;
  const double in_row = (double)column + 0.5;
  const double in_line = (double)(from % each) + 0.5;
  LS_INDEPENDENT
  for (int32_t i = 0; i < count; ++i) {
    const int32_t rows = (int32_t)((in_row + i) * at_row);
    const int32_t ends = (int32_t)((in_line + i) * at_line);
    const int64_t place = base + i - rows * inner + ends * line;
    at[i] = at[i] < 0 ? -1 : place + at[i] * inner;
  }
}

static void of_lines(int64_t *at, int64_t from, int64_t count,
                     const ls_index_lines *lines) {
  const int64_t size = lines->size, inner = lines->inner;
  // A run is one line, or a row of columns.
  const int64_t across = inner == 1 ? 0 : 1;
  const int64_t run = inner == 1 ? lines->picks : inner;
  const int64_t rows = inner == 1 ? 1 : lines->picks;
  int64_t column = from % run, row = from / run % rows;
  int64_t base = from / run / rows * size * inner;
  if (run == 1) {  // Lines of one index: as one run.
    offset_run(at, count, 1, base, size);
    return;
  }
  if (run < SHORT_RUN && count <= INT32_MAX) {
    offset_short_runs(at, from, (int32_t)count, lines);
    return;
  }
  for (int64_t i = 0; i < count;) {
    const int64_t end = ls_min_i64(count, i + run - column);
    if (across == 0)
      offset_run(at + i, end - i, 1, base, 0);
    else
      offset_run(at + i, end - i, inner, base + column, 1);
    i = end;
    column = 0;
    if (++row < rows) continue;
    row = 0;
    base += size * inner;
  }
}

// ---- Lookup ----------------------------------------------------------------
#define PICK(name, bytes, T)                                                   \
  static void name##_##bytes(void *out, const void *x, const int64_t *at,      \
                             int64_t count) {                                  \
    T *o = out;                                                                \
    const T *a = x;                                                            \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i)                                        \
      o[i] = a[at[i]];                                                         \
  }
LS_EACH_SIZE(PICK, pick)

#define READ_ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define PICK_ENTRY(name, bytes, T) [bytes] = name##_##bytes,
const ls_cpu_indices LS_ISA_NAME(ls_cpu_indices) = {
    .read = {LS_EACH_INTEGER(READ_ENTRY, read)},
    .of_lines = of_lines,
    .pick = {LS_EACH_SIZE(PICK_ENTRY, pick)},
};
