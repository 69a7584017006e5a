// SPDX-License-Identifier: Apache-2.0
//
// Updates of elements at offsets, and of rows of a few elements.
#include "engine/cpu/kernels/half.h"
#include "engine/cpu/kernels/index.h"
#include "lockstep/half.h"

// A constant number of elements needs no loop.
#define APPLY(name, E, D, T, W)                                                \
  static inline __attribute__((always_inline)) void name##_rows_##D(           \
      T *o, const T *y, const int64_t *at, int64_t count,                      \
      const int64_t inner) {                                                   \
    for (int64_t i = 0; i < count; ++i, y += inner) {                          \
      if (at[i] < 0) continue;                                                 \
      T *row = o + at[i] * inner;                                              \
      LS_INDEPENDENT                                                           \
      for (int64_t k = 0; k < inner; ++k)                                      \
        row[k] = E(T, W, row[k], y[k]);                                        \
    }                                                                          \
  }                                                                            \
  static void name##_##D(void *x, const void *updates, const int64_t *at,      \
                         int64_t count, int64_t inner) {                       \
    if (inner == 1)                                                            \
      name##_rows_##D(x, updates, at, count, 1);                               \
    else if (inner == 2)                                                       \
      name##_rows_##D(x, updates, at, count, 2);                               \
    else if (inner == 3)                                                       \
      name##_rows_##D(x, updates, at, count, 3);                               \
    else                                                                       \
      name##_rows_##D(x, updates, at, count, inner);                           \
  }
#define APPLY_COPY(name, bytes, T) APPLY(name, SECOND, bytes, T, T)
#define SECOND(T, W, x, y) (y)
LS_EACH_SIZE(APPLY_COPY, copy)

// Defines an operation on 16-bit floats: computed in f32, rounded once.
#define APPLY_HALVES(name, E)                                                  \
  static inline float name##_two(float x, float y) {                           \
    return E(float, float, x, y);                                              \
  }                                                                            \
  APPLY(name, OF_HALVES, F16, uint16_t, name##_two)                            \
  APPLY(name, OF_BRAINS, BF16, uint16_t, name##_two)
#define OF_HALVES(T, two, x, y)                                                \
  ls_f16_from_f32(two(ls_f16_to_f32(x), ls_f16_to_f32(y)))
#define OF_BRAINS(T, two, x, y)                                                \
  ls_narrow_bf16(two(ls_widen_bf16(x), ls_widen_bf16(y)))

#define ALL(name, OF_FLOATS, OF_SIGNED, OF_UNSIGNED)                           \
  LS_EACH_FLOAT(APPLY, name, OF_FLOATS)                                        \
  LS_EACH_SIGNED(APPLY, name, OF_SIGNED)                                       \
  LS_EACH_UNSIGNED(APPLY, name, OF_UNSIGNED)                                   \
  APPLY_HALVES(name, OF_FLOATS)
ALL(add, LS_ADD_FLOAT, LS_ADD_INTEGER, LS_ADD_INTEGER)
ALL(sub, LS_SUB_FLOAT, LS_SUB_INTEGER, LS_SUB_INTEGER)
ALL(mul, LS_MUL_FLOAT, LS_MUL_INTEGER, LS_MUL_INTEGER)
ALL(div, LS_DIV_FLOAT, LS_DIV_SIGNED, LS_DIV_UNSIGNED)
ALL(maximum, LS_MAX_FLOAT, LS_MAX_INTEGER, LS_MAX_INTEGER)
ALL(minimum, LS_MIN_FLOAT, LS_MIN_INTEGER, LS_MIN_INTEGER)

#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define NUMBERS(name)                                                          \
  {                                                                            \
    LS_EACH_INTEGER(ENTRY, name)                                               \
    LS_EACH_FLOAT(ENTRY, name) ENTRY(name, F16, , ) ENTRY(name, BF16, , )      \
  }
static ls_apply_fn *const apply_of[LS_OP_COUNT][LS_DTYPE_COUNT] = {
    [LS_OP_ADD] = NUMBERS(add),         [LS_OP_SUB] = NUMBERS(sub),
    [LS_OP_MUL] = NUMBERS(mul),         [LS_OP_DIV] = NUMBERS(div),
    [LS_OP_MAXIMUM] = NUMBERS(maximum), [LS_OP_MINIMUM] = NUMBERS(minimum),
};

ls_apply_fn *ls_apply_of(uint16_t op, ls_dtype dtype) {
  return apply_of[op][dtype];
}

ls_apply_fn *ls_apply_copy_of(size_t element) {
  switch (element) {
#define CASE(unused, size, T)                                                  \
  case size:                                                                   \
    return copy_##size;
    LS_EACH_SIZE(CASE, )
#undef CASE
  default:
    return NULL;
  }
}
