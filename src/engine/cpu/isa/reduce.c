// SPDX-License-Identifier: Apache-2.0
//
// Steps of reductions of all types; kernels/reduce/reduce.c has their order.
#include <math.h>
#include <string.h>

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vec.h"
#include "engine/cpu/kernels/loops.h"
#include "engine/cpu/kernels/reduce/short_rows.h"

enum { LANES = LS_REDUCE_LANES, STREAMS = LS_REDUCE_STREAMS };

// Keeps sixteen lanes in registers. The loop over them must not be unrolled
// before it is vectorized.
#define ROLLED _Pragma("GCC unroll 1")
#define ADD_LANES(two, s, a)                                                   \
  ROLLED                                                                       \
  for (int64_t j = 0; j < LANES; ++j)                                          \
    s[j] = two(s[j], (a)[j]);

// Adds fewer than sixteen elements, and others that change nothing.
#define ADD_REST(two, T, nothing, s, a)                                        \
  do {                                                                         \
    T x[LANES];                                                                \
    ROLLED                                                                     \
    for (int64_t j = 0; j < LANES; ++j)                                        \
      x[j] = j < rest ? (a)[j] : (nothing);                                    \
    ADD_LANES(two, s, x)                                                       \
  } while (0);

#define REDUCER(name, NOTHING, E, END, D, T, W)                                \
  LS_INLINE T name##_two_##D(T s, T x) { E(T, W, s, x); }                      \
  LS_INLINE T name##_four_##D(T a, T b, T c, T d) {                            \
    return name##_two_##D(name##_two_##D(a, c), name##_two_##D(b, d));         \
  }                                                                            \
  static void name##_fill_##D(void *sums, int64_t count) {                     \
    T *s = sums;                                                               \
    for (int64_t i = 0; i < count; ++i)                                        \
      s[i] = NOTHING(T, D);                                                    \
  }                                                                            \
  static void name##_one_##D(T *sums, const T *a, int64_t rows, int64_t pitch, \
                             int64_t rest) {                                   \
    T s[LANES];                                                                \
    memcpy(s, sums, sizeof(s));                                                \
    for (int64_t i = 0; i < rows; ++i, a += pitch) {                           \
      ADD_LANES(name##_two_##D, s, a)                                          \
    }                                                                          \
    if (rest > 0) {                                                            \
      ADD_REST(name##_two_##D, T, NOTHING(T, D), s, a)                         \
    }                                                                          \
    END(s, LANES)                                                              \
    memcpy(sums, s, sizeof(s));                                                \
  }                                                                            \
  static void name##_lanes_##D(void *sums, const void *const *in,              \
                               int64_t streams, int64_t rows, int64_t pitch,   \
                               int64_t rest) {                                 \
    T *to = sums;                                                              \
    if (streams != STREAMS) {                                                  \
      for (int64_t k = 0; k < streams; ++k)                                    \
        name##_one_##D(to + k * LANES, in[k], rows, pitch, rest);              \
      return;                                                                  \
    }                                                                          \
    const T *a = in[0], *b = in[1], *c = in[2], *d = in[3];                    \
    T s[LANES], t[LANES], u[LANES], v[LANES];                                  \
    memcpy(s, to, sizeof(s));                                                  \
    memcpy(t, to + LANES, sizeof(t));                                          \
    memcpy(u, to + 2 * LANES, sizeof(u));                                      \
    memcpy(v, to + 3 * LANES, sizeof(v));                                      \
    int64_t at = 0;                                                            \
    for (int64_t i = 0; i < rows; ++i, at += pitch) {                          \
      ADD_LANES(name##_two_##D, s, a + at)                                     \
      ADD_LANES(name##_two_##D, t, b + at)                                     \
      ADD_LANES(name##_two_##D, u, c + at)                                     \
      ADD_LANES(name##_two_##D, v, d + at)                                     \
    }                                                                          \
    if (rest > 0) {                                                            \
      ADD_REST(name##_two_##D, T, NOTHING(T, D), s, a + at)                    \
      ADD_REST(name##_two_##D, T, NOTHING(T, D), t, b + at)                    \
      ADD_REST(name##_two_##D, T, NOTHING(T, D), u, c + at)                    \
      ADD_REST(name##_two_##D, T, NOTHING(T, D), v, d + at)                    \
    }                                                                          \
    END(s, LANES)                                                              \
    END(t, LANES)                                                              \
    END(u, LANES)                                                              \
    END(v, LANES)                                                              \
    memcpy(to, s, sizeof(s));                                                  \
    memcpy(to + LANES, t, sizeof(t));                                          \
    memcpy(to + 2 * LANES, u, sizeof(u));                                      \
    memcpy(to + 3 * LANES, v, sizeof(v));                                      \
  }                                                                            \
  static void name##_rows_##D(void *sums, const void *in, int64_t rows,        \
                              int64_t pitch, int64_t columns) {                \
    T *s = sums;                                                               \
    const T *a = in;                                                           \
    for (int64_t i = 0; i < rows; ++i, a += pitch) {                           \
      LS_INDEPENDENT                                                           \
      for (int64_t j = 0; j < columns; ++j)                                    \
        s[j] = name##_two_##D(s[j], a[j]);                                     \
    }                                                                          \
    END(s, columns)                                                            \
  }                                                                            \
  static void name##_fold_##D(void *out, const void *sums, int64_t streams) {  \
    T four[4 * STREAMS], result[STREAMS];                                      \
    for (int64_t k = 0; k < STREAMS; ++k) {                                    \
      const T *s = (const T *)sums + k * LANES;                                \
      ROLLED                                                                   \
      for (int64_t j = 0; j < 4; ++j)                                          \
        four[4 * k + j] =                                                      \
            name##_four_##D(s[j], s[j + 4], s[j + 8], s[j + 12]);              \
    }                                                                          \
    ROLLED                                                                     \
    for (int64_t k = 0; k < STREAMS; ++k)                                      \
      result[k] = name##_four_##D(four[4 * k], four[4 * k + 1],                \
                                  four[4 * k + 2], four[4 * k + 3]);           \
    for (int64_t k = 0; k < streams; ++k)                                      \
      ((T *)out)[k] = result[k];                                               \
  }                                                                            \
  /* As runs of one element. */                                                \
  static void name##_single_##D(const ls_elementwise *self, void *out,         \
                                const void *const *in, int64_t count) {        \
    (void)self;                                                                \
    T *o = out;                                                                \
    const T *a = in[0];                                                        \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i)                                        \
      o[i] = name##_two_##D(NOTHING(T, D), a[i]);                              \
    END(o, count)                                                              \
  }                                                                            \
  static void name##_runs_##D(void *out, const void *in, int64_t runs,         \
                              int64_t count) {                                 \
    const T *a = in;                                                           \
    T *o = out, sums[STREAMS * LANES];                                         \
    for (int64_t n = 0; runs > 0; runs -= n, o += n, a += n * count) {         \
      n = ls_min_i64(STREAMS, runs);                                           \
      const void *each[] = {a, a + count, a + 2 * count, a + 3 * count};       \
      name##_fill_##D(sums, STREAMS *LANES);                                   \
      name##_lanes_##D(sums, each, n, count / LANES, LANES, count % LANES);    \
      name##_fold_##D(o, sums, n);                                             \
    }                                                                          \
  }

#define SUM(T, W, s, x) return (T)((W)(s) + (W)(x))
#define PRODUCT(T, W, s, x) return (T)((W)(s) * (W)(x))
#define BOTH(T, W, s, x) return (T)((s) & ((x) != 0))
#define EITHER(T, W, s, x) return (T)((s) | ((x) != 0))
#define MAX_INTEGER(T, W, s, x) return LS_MAX_INTEGER(T, W, x, s)
#define MIN_INTEGER(T, W, s, x) return LS_MIN_INTEGER(T, W, x, s)
#define MAX_FLOAT(T, W, s, x) return ls_larger_##T(x, s)
#define MIN_FLOAT(T, W, s, x) return ls_smaller_##T(x, s)

// Ends of steps: of maxima and minima of floats, flushes them.
#define STAY(s, count)
#define FLUSH(s, count)                                                        \
  ROLLED                                                                       \
  for (int64_t j = 0; j < (count); ++j)                                        \
    (s)[j] *= ls_cpu_one;

#define ZERO(T, D) ((T)0)
#define ONE(T, D) ((T)1)
#define LEAST(T, D) LEAST_##D
#define GREATEST(T, D) GREATEST_##D
#define LEAST_F32 (-INFINITY)
#define LEAST_F64 (-(double)INFINITY)
#define LEAST_I8 INT8_MIN
#define LEAST_I16 INT16_MIN
#define LEAST_I32 INT32_MIN
#define LEAST_I64 INT64_MIN
#define LEAST_U8 0
#define LEAST_U16 0
#define LEAST_U32 0
#define LEAST_U64 0
#define GREATEST_F32 INFINITY
#define GREATEST_F64 ((double)INFINITY)
#define GREATEST_I8 INT8_MAX
#define GREATEST_I16 INT16_MAX
#define GREATEST_I32 INT32_MAX
#define GREATEST_I64 INT64_MAX
#define GREATEST_U8 UINT8_MAX
#define GREATEST_U16 UINT16_MAX
#define GREATEST_U32 UINT32_MAX
#define GREATEST_U64 UINT64_MAX

LS_EACH_INTEGER(REDUCER, sum, ZERO, SUM, STAY)
LS_EACH_FLOAT(REDUCER, sum, ZERO, SUM, STAY)
LS_EACH_INTEGER(REDUCER, product, ONE, PRODUCT, STAY)
LS_EACH_FLOAT(REDUCER, product, ONE, PRODUCT, STAY)
REDUCER(all, ONE, BOTH, STAY, BOOL, uint8_t, uint8_t)
REDUCER(any, ZERO, EITHER, STAY, BOOL, uint8_t, uint8_t)
LS_EACH_INTEGER(REDUCER, max, LEAST, MAX_INTEGER, STAY)
LS_EACH_FLOAT(REDUCER, max, LEAST, MAX_FLOAT, FLUSH)
LS_EACH_INTEGER(REDUCER, min, GREATEST, MIN_INTEGER, STAY)
LS_EACH_FLOAT(REDUCER, min, GREATEST, MIN_FLOAT, FLUSH)

#define DOTS(unused, size, T)                                                  \
  static void dots_##size(void *out, const void *rows, const void *vector,     \
                          size_t count, size_t k) {                            \
    const T *a = rows, *x = vector;                                            \
    for (size_t i = 0; i < count; ++i, a += k) {                               \
      T sum = 0;                                                               \
      for (size_t p = 0; p < k; ++p)                                           \
        sum = (T)(sum + (T)(1U * a[p] * x[p]));                                \
      ((T *)out)[i] = sum;                                                     \
    }                                                                          \
  }
LS_EACH_SIZE(DOTS, )

#define ENTRY(name, D, T, W)                                                   \
  [LS_DTYPE_##D] = {.size = sizeof(T),                                         \
                    .fill = name##_fill_##D,                                   \
                    .lanes = name##_lanes_##D,                                 \
                    .fold = name##_fold_##D,                                   \
                    .single = name##_single_##D,                               \
                    .runs = name##_runs_##D,                                   \
                    .rows = name##_rows_##D},
#define NUMBERS(name)                                                          \
  { LS_EACH_INTEGER(ENTRY, name) LS_EACH_FLOAT(ENTRY, name) }

const ls_cpu_reducers LS_ISA_NAME(ls_cpu_reducers) = {
    .sum = NUMBERS(sum),
    .product = NUMBERS(product),
    .max = NUMBERS(max),
    .min = NUMBERS(min),
    .all = {ENTRY(all, BOOL, uint8_t, )},
    .any = {ENTRY(any, BOOL, uint8_t, )},
    .dots = {[1] = dots_1, [2] = dots_2, [4] = dots_4, [8] = dots_8},
};
