// SPDX-License-Identifier: Apache-2.0
//
// Spans of all types: comparisons, which return bools; select by a bool, which
// is a byte, 0 or not; clamp, min(max(x, low), high), NaN if one of them is.
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/kernels/loops.h"

// ---- Compare ---------------------------------------------------------------
#define COMPARE(name, E, D, T, W) LS_SPAN_OF_TWO(name, E, D, uint8_t, T, W)

#define EQUAL(T, W, x, y) ((x) == (y))
#define NOT_EQUAL(T, W, x, y) ((x) != (y))
#define LESS(T, W, x, y) ((x) < (y))
#define LESS_EQUAL(T, W, x, y) ((x) <= (y))
#define EACH_TYPE(X, ...)                                                      \
  LS_EACH_INTEGER(X, __VA_ARGS__)                                              \
  LS_EACH_FLOAT(X, __VA_ARGS__)
EACH_TYPE(COMPARE, equal, EQUAL)
EACH_TYPE(COMPARE, not_equal, NOT_EQUAL)
EACH_TYPE(COMPARE, less, LESS)
EACH_TYPE(COMPARE, less_equal, LESS_EQUAL)
#define GREATER(T, W, x, y) ((x) > (y))
#define GREATER_EQUAL(T, W, x, y) ((x) >= (y))
EACH_TYPE(COMPARE, greater, GREATER)
EACH_TYPE(COMPARE, greater_equal, GREATER_EQUAL)

#define AS_BOOLS(E, x, y) E(, , (x) != 0, (y) != 0)
#define EQUAL_BOOL(T, W, x, y) AS_BOOLS(EQUAL, x, y)
#define NOT_EQUAL_BOOL(T, W, x, y) AS_BOOLS(NOT_EQUAL, x, y)
#define LESS_BOOL(T, W, x, y) AS_BOOLS(LESS, x, y)
#define LESS_EQUAL_BOOL(T, W, x, y) AS_BOOLS(LESS_EQUAL, x, y)
#define GREATER_BOOL(T, W, x, y) AS_BOOLS(GREATER, x, y)
#define GREATER_EQUAL_BOOL(T, W, x, y) AS_BOOLS(GREATER_EQUAL, x, y)
COMPARE(equal, EQUAL_BOOL, BOOL, uint8_t, )
COMPARE(not_equal, NOT_EQUAL_BOOL, BOOL, uint8_t, )
COMPARE(less, LESS_BOOL, BOOL, uint8_t, )
COMPARE(less_equal, LESS_EQUAL_BOOL, BOOL, uint8_t, )
COMPARE(greater, GREATER_BOOL, BOOL, uint8_t, )
COMPARE(greater_equal, GREATER_EQUAL_BOOL, BOOL, uint8_t, )

// 16-bit floats as integers of the same order; a magnitude below `least` counts
// as 0, and NaN as `nan`, on either side the limit that makes a comparison
// false.
static inline int16_t order_half(uint16_t x, int16_t least, int16_t infinity,
                                 int16_t nan) {
  const int16_t size = (int16_t)(x & 0x7FFFU);
  const int16_t number = (int16_t)((x & 0x8000U) != 0 ? -size : size);
  const int16_t normal = size < least ? 0 : number;
  return size > infinity ? nan : normal;
}
#define ORDER_F16(x, nan) order_half(x, 0, 0x7C00, nan)
#define ORDER_BF16(x, nan) order_half(x, 0x80, 0x7F80, nan)
#define BELOW(E, W, x, y) E(, , W(x, INT16_MAX), W(y, INT16_MIN))
#define ABOVE(E, W, x, y) E(, , W(x, INT16_MIN), W(y, INT16_MAX))
#define EQUAL_HALF(T, W, x, y) BELOW(EQUAL, W, x, y)
#define NOT_EQUAL_HALF(T, W, x, y) BELOW(NOT_EQUAL, W, x, y)
#define LESS_HALF(T, W, x, y) BELOW(LESS, W, x, y)
#define LESS_EQUAL_HALF(T, W, x, y) BELOW(LESS_EQUAL, W, x, y)
#define GREATER_HALF(T, W, x, y) ABOVE(GREATER, W, x, y)
#define GREATER_EQUAL_HALF(T, W, x, y) ABOVE(GREATER_EQUAL, W, x, y)
#define HALVES(name, E)                                                        \
  COMPARE(name, E, F16, uint16_t, ORDER_F16)                                   \
  COMPARE(name, E, BF16, uint16_t, ORDER_BF16)
HALVES(equal, EQUAL_HALF)
HALVES(not_equal, NOT_EQUAL_HALF)
HALVES(less, LESS_HALF)
HALVES(less_equal, LESS_EQUAL_HALF)
HALVES(greater, GREATER_HALF)
HALVES(greater_equal, GREATER_EQUAL_HALF)

// ---- Select ----------------------------------------------------------------
// `cs`, `ys` and `zs` are constants at every expansion: 0 for a scalar.
#define SELECT(name, size, T)                                                  \
  static inline __attribute__((always_inline)) void steps_##size(              \
      T *o, const uint8_t *c, const T *y, const T *z, int64_t count,           \
      int64_t cs, int64_t ys, int64_t zs) {                                    \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i) {                                      \
      const T yes = y[i * ys], no = z[i * zs];                                 \
      o[i] = c[i * cs] != 0 ? yes : no;                                        \
    }                                                                          \
  }                                                                            \
  static void name##_##size(const ls_elementwise *self, void *out,             \
                            const void *const *in, int64_t count) {            \
    const uint8_t *c = in[0];                                                  \
    const T *y = in[1], *z = in[2];                                            \
    T *o = out;                                                                \
    switch (self->scalars) {                                                   \
    case 0:                                                                    \
      steps_##size(o, c, y, z, count, 1, 1, 1);                                \
      break;                                                                   \
    case 1:                                                                    \
      steps_##size(o, c, y, z, count, 0, 1, 1);                                \
      break;                                                                   \
    case 2:                                                                    \
      steps_##size(o, c, y, z, count, 1, 0, 1);                                \
      break;                                                                   \
    case 3:                                                                    \
      steps_##size(o, c, y, z, count, 0, 0, 1);                                \
      break;                                                                   \
    case 4:                                                                    \
      steps_##size(o, c, y, z, count, 1, 1, 0);                                \
      break;                                                                   \
    case 5:                                                                    \
      steps_##size(o, c, y, z, count, 0, 1, 0);                                \
      break;                                                                   \
    case 6:                                                                    \
      steps_##size(o, c, y, z, count, 1, 0, 0);                                \
      break;                                                                   \
    default:                                                                   \
      break;                                                                   \
    }                                                                          \
  }
LS_EACH_SIZE(SELECT, select)

// ---- Clamp -----------------------------------------------------------------
#define CLAMP_INTEGER(T, W, to, x, low, high)                                  \
  do {                                                                         \
    const T above = LS_MAX_INTEGER(T, W, x, low);                              \
    (to) = LS_MIN_INTEGER(T, W, above, high);                                  \
  } while (0)
// A vector's maximum returns its second operand if one is NaN. A NaN in low
// would be lost in the minimum, so high is replaced by it; a NaN in x is kept.
#define CLAMP_FLOAT(T, W, to, x, low, high)                                    \
  do {                                                                         \
    const T value = (x), most_ = (low) != (low) ? (low) : (high);              \
    const T above = value > (low) ? value : (low);                             \
    const T between = above < most_ ? above : most_;                           \
    (to) = LS_FLUSHED(T, value != value ? value : between);                    \
  } while (0)

// `ls` and `hs` are constants at every expansion: 0 for a scalar bound. A
// scalar is read first, so the output may lie on another operand.
#define CLAMP(name, E, D, T, W)                                                \
  static inline __attribute__((always_inline)) void clamp_steps_##D(           \
      T *o, const T *low, const T *x, const T *high, int64_t count,            \
      int64_t ls, int64_t hs) {                                                \
    const T first_low = low[0], first_high = high[0];                          \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i) {                                      \
      const T least = ls == 0 ? first_low : low[i];                            \
      const T most = hs == 0 ? first_high : high[i];                           \
      E(T, W, o[i], x[i], least, most);                                        \
    }                                                                          \
  }                                                                            \
  static void name##_##D(const ls_elementwise *self, void *out,                \
                         const void *const *in, int64_t count) {               \
    const T *low = in[0], *x = in[1], *high = in[2];                           \
    switch (self->scalars) {                                                   \
    case 0:                                                                    \
      clamp_steps_##D(out, low, x, high, count, 1, 1);                         \
      break;                                                                   \
    case 1:                                                                    \
      clamp_steps_##D(out, low, x, high, count, 0, 1);                         \
      break;                                                                   \
    case 4:                                                                    \
      clamp_steps_##D(out, low, x, high, count, 1, 0);                         \
      break;                                                                   \
    case 5:                                                                    \
      clamp_steps_##D(out, low, x, high, count, 0, 0);                         \
      break;                                                                   \
    default:                                                                   \
      break;                                                                   \
    }                                                                          \
  }
LS_EACH_INTEGER(CLAMP, clamp, CLAMP_INTEGER)
LS_EACH_FLOAT(CLAMP, clamp, CLAMP_FLOAT)

// ---- All -------------------------------------------------------------------
#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define ROW(name)                                                              \
  {                                                                            \
    EACH_TYPE(ENTRY, name)                                                     \
    ENTRY(name, BOOL, , ) ENTRY(name, F16, , ) ENTRY(name, BF16, , )           \
  }

const ls_cpu_typed_spans LS_ISA_NAME(ls_cpu_typed_spans) = {{
    [LS_OP_EQUAL] = ROW(equal),
    [LS_OP_NOT_EQUAL] = ROW(not_equal),
    [LS_OP_LESS] = ROW(less),
    [LS_OP_LESS_EQUAL] = ROW(less_equal),
    [LS_OP_GREATER] = ROW(greater),
    [LS_OP_GREATER_EQUAL] = ROW(greater_equal),
    [LS_OP_CLAMP] = {EACH_TYPE(ENTRY, clamp)},
    [LS_OP_SELECT] = {[LS_DTYPE_BOOL] = select_1,
                      [LS_DTYPE_I8] = select_1,
                      [LS_DTYPE_U8] = select_1,
                      [LS_DTYPE_I16] = select_2,
                      [LS_DTYPE_U16] = select_2,
                      [LS_DTYPE_F16] = select_2,
                      [LS_DTYPE_BF16] = select_2,
                      [LS_DTYPE_I32] = select_4,
                      [LS_DTYPE_U32] = select_4,
                      [LS_DTYPE_F32] = select_4,
                      [LS_DTYPE_I64] = select_8,
                      [LS_DTYPE_U64] = select_8,
                      [LS_DTYPE_F64] = select_8},
}};
