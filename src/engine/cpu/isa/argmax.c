// SPDX-License-Identifier: Apache-2.0
//
// The index of the first maximum or minimum of each column. A NaN wins in both
// cases. Columns are compared row by row; if there are few, several rows count
// as one with more columns, whose winners are compared at the end. Short lines
// are compared as if each were a column.
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vec.h"
#include "engine/cpu/kernels/loops.h"

// Arrays of at most FEW elements are read column by column.
enum { LEAST_COLUMNS = 32, CHUNK = 256, FEW = 64 };

// Returns an integer that orders 16-bit floats: NaN before all others, those
// below `least` alike. Subnormals of f16 are numbers of f32.
LS_INLINE int order_half(uint16_t bits, int least, int infinity, int nan) {
  const int size = bits & 0x7FFF, number = size < least ? 0 : size;
  return size > infinity ? nan : bits >> 15 != 0 ? -number : number;
}
#define LARGEST_F16(x) order_half(x, 0, 0x7C00, INT16_MAX)
#define LARGEST_BF16(x) order_half(x, 0x80, 0x7F80, INT16_MAX)
#define SMALLEST_F16(x) order_half(x, 0, 0x7C00, INT16_MIN)
#define SMALLEST_BF16(x) order_half(x, 0x80, 0x7F80, INT16_MIN)
#define SAME(x) (x)
#define MORE(x, y) ((x) > (y))
#define LESS(x, y) ((x) < (y))
// Each comparison is one of numbers, or of a NaN with a number.
#define WINS(BEATS, x, y) (BEATS(x, y) | (((x) != (x)) & ((y) == (y))))
#define FIND(name, BEATS, LOAD, V, D, T, W)                                    \
  LS_INLINE void name##_rows_##D(const T *a, int64_t rows, int64_t step,       \
                                 int64_t columns, const int64_t across,        \
                                 V *top, uint32_t *best) {                     \
    for (int64_t c = 0; c < columns; ++c) {                                    \
      top[c] = LOAD(a[c * across]);                                            \
      best[c] = 0;                                                             \
    }                                                                          \
    for (int64_t r = 1; r < rows; ++r) {                                       \
      LS_INDEPENDENT                                                           \
      for (int64_t c = 0; c < columns; ++c) {                                  \
        const V x = LOAD(a[r * step + c * across]), y = top[c];                \
        const bool wins = WINS(BEATS, x, y);                                   \
        top[c] = wins ? x : y;                                                 \
        best[c] = wins ? (uint32_t)r : best[c];                                \
      }                                                                        \
    }                                                                          \
  }                                                                            \
  LS_INLINE int64_t name##_from_##D(const T *a, int64_t row, int64_t size,     \
                                    int64_t inner, V y, int64_t first) {       \
    for (; row < size; ++row) {                                                \
      const V x = LOAD(a[row * inner]);                                        \
      const bool wins = WINS(BEATS, x, y);                                     \
      y = wins ? x : y;                                                        \
      first = wins ? row : first;                                              \
    }                                                                          \
    return first;                                                              \
  }                                                                            \
  LS_INLINE void name##_columns_##D(int64_t *out, const T *a, int64_t size,    \
                                    int64_t step, int64_t columns,             \
                                    const int64_t across) {                    \
    V top[CHUNK];                                                              \
    uint32_t best[CHUNK];                                                      \
    for (int64_t from = 0; from < columns; from += CHUNK) {                    \
      const int64_t count = ls_min_i64(CHUNK, columns - from);                 \
      name##_rows_##D(a + from * across, size, step, count, across, top,       \
                      best);                                                   \
      for (int64_t c = 0; c < count; ++c)                                      \
        out[from + c] = best[c];                                               \
    }                                                                          \
  }                                                                            \
  static void name##_folded_##D(int64_t *out, const T *a, int64_t size,        \
                                int64_t inner) {                               \
    const int64_t folds = LEAST_COLUMNS / inner, rows = size / folds;          \
    V top[LEAST_COLUMNS];                                                      \
    uint32_t best[LEAST_COLUMNS];                                              \
    if (rows > 0)                                                              \
      name##_rows_##D(a, rows, inner *folds, inner *folds, 1, top, best);      \
    for (int64_t c = 0; c < inner; ++c) {                                      \
      V y = LOAD(a[c]);                                                        \
      int64_t first = 0;                                                       \
      for (int64_t f = 0; rows > 0 && f < folds; ++f) {                        \
        const V x = top[f * inner + c];                                        \
        const int64_t at = best[f * inner + c] * folds + f;                    \
        const bool equals = x == y || (x != x && y != y);                      \
        if (!WINS(BEATS, x, y) && !(equals && at < first)) continue;           \
        y = x;                                                                 \
        first = at;                                                            \
      }                                                                        \
      out[c] = name##_from_##D(a + c, rows * folds, size, inner, y, first);    \
    }                                                                          \
  }                                                                            \
  static void name##_##D(int64_t *out, const void *in, int64_t outer,          \
                         int64_t size, int64_t inner, int64_t columns) {       \
    const T *a = in;                                                           \
    if (inner == 1 && outer > 1 && size <= FEW) {                              \
      name##_columns_##D(out, a, size, 1, outer, size);                        \
      return;                                                                  \
    }                                                                          \
    for (int64_t o = 0; o < outer; ++o, a += size * inner, out += inner) {     \
      if (inner >= LEAST_COLUMNS)                                              \
        name##_columns_##D(out, a, size, inner, columns, 1);                   \
      else if (size * inner > FEW)                                             \
        name##_folded_##D(out, a, size, inner);                                \
      else                                                                     \
        for (int64_t c = 0; c < inner; ++c)                                    \
          out[c] = name##_from_##D(a + c, 1, size, inner, LOAD(a[c]), 0);      \
    }                                                                          \
  }
// Numbers of fewer bits are compared as int.
#define FIND_NUMBER(name, BEATS, D, T, W)                                      \
  FIND(name, BEATS, SAME, __typeof__(+(T)0), D, T, W)
LS_EACH_INTEGER(FIND_NUMBER, largest, MORE)
LS_EACH_FLOAT(FIND_NUMBER, largest, MORE)
FIND(largest, MORE, LARGEST_F16, int, F16, uint16_t, )
FIND(largest, MORE, LARGEST_BF16, int, BF16, uint16_t, )
LS_EACH_INTEGER(FIND_NUMBER, smallest, LESS)
LS_EACH_FLOAT(FIND_NUMBER, smallest, LESS)
FIND(smallest, LESS, SMALLEST_F16, int, F16, uint16_t, )
FIND(smallest, LESS, SMALLEST_BF16, int, BF16, uint16_t, )

#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define ROW(name)                                                              \
  {                                                                            \
    LS_EACH_INTEGER(ENTRY, name)                                               \
    LS_EACH_FLOAT(ENTRY, name) ENTRY(name, F16, , ) ENTRY(name, BF16, , )      \
  }
const ls_cpu_extremes LS_ISA_NAME(ls_cpu_extremes) = {
    .largest = ROW(largest), .smallest = ROW(smallest)};
