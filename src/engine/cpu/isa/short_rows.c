// SPDX-License-Identifier: Apache-2.0
//
// Maxima, minima, sums and products of short rows: loops over rows of a
// constant length, which the compiler vectorizes across rows. In the order of
// long rows (kernels/reduce/reduce.c): element j takes in element j + 8, j + 4,
// j + 2, j + 1.
#include "engine/cpu/kernels/reduce/short_rows.h"
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vec.h"

#define MAX_FLOAT(T, s, x) ls_larger_##T(x, s)
#define MIN_FLOAT(T, s, x) ls_smaller_##T(x, s)
#define MAX_INTEGER(T, s, x) LS_MAX_INTEGER(T, T, x, s)
#define MIN_INTEGER(T, s, x) LS_MIN_INTEGER(T, T, x, s)
#define SUM(T, s, x) ((s) + (x))
#define PRODUCT(T, s, x) ((s) * (x))

#define AS_IS(x) (x)
#define FLUSHED(x) ((x)*ls_cpu_one)
#define FROM_ZERO(x) (0 + (x))  // Maps -0 to 0.

// Lane j of the lanes left after lanes `half` apart were joined.
#define LEVEL(name, below, half, T, E)                                         \
  LS_INLINE T name##_two_##half(T s, T x) { return E(T, s, x); }               \
  LS_INLINE T name##_##half(const T *row, int run, int j) {                    \
    const T s = name##_##below(row, run, j);                                   \
    if (j + half >= run) return s;                                             \
    return name##_two_##half(s, name##_##below(row, run, j + half));           \
  }
#define ROWS(name, run, T)                                                     \
  static void name##_rows_##run(void *out, const void *rows, int64_t count) {  \
    T *o = out;                                                                \
    const T *from = rows;                                                      \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i)                                        \
      o[i] = name##_1(from + i * run, run, 0);                                 \
  }
#define EACH_RUN(X, ...)                                                       \
  X(2, __VA_ARGS__)                                                            \
  X(3, __VA_ARGS__)                                                            \
  X(4, __VA_ARGS__)                                                            \
  X(5, __VA_ARGS__)                                                            \
  X(6, __VA_ARGS__)                                                            \
  X(7, __VA_ARGS__)                                                            \
  X(8, __VA_ARGS__)                                                            \
  X(9, __VA_ARGS__)                                                            \
  X(10, __VA_ARGS__)                                                           \
  X(11, __VA_ARGS__)                                                           \
  X(12, __VA_ARGS__)                                                           \
  X(13, __VA_ARGS__)                                                           \
  X(14, __VA_ARGS__)                                                           \
  X(15, __VA_ARGS__)                                                           \
  X(16, __VA_ARGS__)
#define ROWS_OF(run, name, T) ROWS(name, run, T)
#define OP(name, T, START, E)                                                  \
  LS_INLINE T name##_16(const T *row, int run, int j) {                        \
    (void)run;                                                                 \
    return START(row[j]);                                                      \
  }                                                                            \
  LEVEL(name, 16, 8, T, E)                                                     \
  LEVEL(name, 8, 4, T, E)                                                      \
  LEVEL(name, 4, 2, T, E)                                                      \
  LEVEL(name, 2, 1, T, E)                                                      \
  EACH_RUN(ROWS_OF, name, T)
OP(max_f32, float, FLUSHED, MAX_FLOAT)
OP(max_f64, double, FLUSHED, MAX_FLOAT)
OP(max_i32, int32_t, AS_IS, MAX_INTEGER)
OP(min_f32, float, FLUSHED, MIN_FLOAT)
OP(min_f64, double, FLUSHED, MIN_FLOAT)
OP(min_i32, int32_t, AS_IS, MIN_INTEGER)
OP(sum_f32, float, FROM_ZERO, SUM)
OP(sum_f64, double, FROM_ZERO, SUM)
OP(product_f32, float, FLUSHED, PRODUCT)
OP(product_f64, double, FLUSHED, PRODUCT)

#define ENTRY(run, name) [run] = name##_rows_##run,
#define ENTRIES(name)                                                          \
  { EACH_RUN(ENTRY, name) }
const ls_cpu_short_rows LS_ISA_NAME(ls_cpu_short_rows) = {
    .max = {[LS_DTYPE_F32] = ENTRIES(max_f32),
            [LS_DTYPE_F64] = ENTRIES(max_f64),
            [LS_DTYPE_I32] = ENTRIES(max_i32)},
    .min = {[LS_DTYPE_F32] = ENTRIES(min_f32),
            [LS_DTYPE_F64] = ENTRIES(min_f64),
            [LS_DTYPE_I32] = ENTRIES(min_i32)},
    .sum =
        {[LS_DTYPE_F32] = ENTRIES(sum_f32), [LS_DTYPE_F64] = ENTRIES(sum_f64)},
    .product = {[LS_DTYPE_F32] = ENTRIES(product_f32),
                [LS_DTYPE_F64] = ENTRIES(product_f64)},
};
