// SPDX-License-Identifier: Apache-2.0
//
// Spans of conversions between types; kernels/element/convert.c has the rules.
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/kernels/loops.h"

// The integer types as targets: X(..., target, C type, least number, greatest
// number + 1). Both bounds are exact in any float.
#define EACH_TARGET(X, ...)                                                    \
  X(__VA_ARGS__, I8, int8_t, INT8_MIN, INT8_MAX, 0x1p7)                        \
  X(__VA_ARGS__, I16, int16_t, INT16_MIN, INT16_MAX, 0x1p15)                   \
  X(__VA_ARGS__, I32, int32_t, INT32_MIN, INT32_MAX, 0x1p31)                   \
  X(__VA_ARGS__, I64, int64_t, INT64_MIN, INT64_MAX, 0x1p63)                   \
  X(__VA_ARGS__, U8, uint8_t, 0, UINT8_MAX, 0x1p8)                             \
  X(__VA_ARGS__, U16, uint16_t, 0, UINT16_MAX, 0x1p16)                         \
  X(__VA_ARGS__, U32, uint32_t, 0, UINT32_MAX, 0x1p32)                         \
  X(__VA_ARGS__, U64, uint64_t, 0, UINT64_MAX, 0x1p64)

#define LOOP(name, S, T, expression)                                           \
  static void name(const ls_elementwise *self, void *out,                      \
                   const void *const *in, int64_t count) {                     \
    (void)self;                                                                \
    T *o = out;                                                                \
    const S *a = in[0];                                                        \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i) {                                      \
      const S x = a[i];                                                        \
      o[i] = expression;                                                       \
    }                                                                          \
  }

// Both bounds of short integers are floats: numbers are limited before they
// become integers.
#define FLOAT_TO_INTEGER(from, S, to, T, least, greatest, bound)               \
  static inline T narrow_##from##_to_##to(S x) {                               \
    const S above = x > (S)(least) ? x : (S)(least);                           \
    const S inside = above < (S)(greatest) ? above : (S)(greatest);            \
    if (sizeof(T) <= 2) return (T)(int32_t)(x != x ? (S)0 : inside);           \
    return x != x            ? (T)0                                            \
           : x >= (S)(bound) ? (T)(greatest)                                   \
           : x <= (S)(least) ? (T)(least)                                      \
                             : (T)x;                                           \
  }                                                                            \
  LOOP(from##_to_##to, S, T, narrow_##from##_to_##to(x))
EACH_TARGET(FLOAT_TO_INTEGER, F32, float)
EACH_TARGET(FLOAT_TO_INTEGER, F64, double)

#define INTEGER_TO_INTEGER(from, S, to, T, least, greatest, bound)             \
  LOOP(from##_to_##to, S, T, (T)x)
#define BOOL_TO_INTEGER(from, S, to, T, least, greatest, bound)                \
  LOOP(from##_to_##to, S, T, (T)(x != 0))
// Defines the conversions of an integer to all targets and to bool.
#define FROM_INTEGER(unused, from, S, W)                                       \
  EACH_TARGET(INTEGER_TO_INTEGER, from, S)                                     \
  LOOP(from##_to_F32, S, float, (float)x)                                      \
  LOOP(from##_to_F64, S, double, (double)x)                                    \
  LOOP(from##_to_BOOL, S, uint8_t, x != 0)
LS_EACH_INTEGER(FROM_INTEGER, )
EACH_TARGET(BOOL_TO_INTEGER, BOOL, uint8_t)
// Integers of 8 bits are exact in bf16.
#define BYTE_TO_BF16 (uint16_t)(ls_float_bits((float)x) >> 16)
LOOP(I8_to_BF16, int8_t, uint16_t, BYTE_TO_BF16)
LOOP(U8_to_BF16, uint8_t, uint16_t, BYTE_TO_BF16)
LOOP(BOOL_to_F32, uint8_t, float, x != 0 ? 1.0F : 0.0F)
LOOP(BOOL_to_F64, uint8_t, double, x != 0 ? 1.0 : 0.0)
LOOP(F32_to_BOOL, float, uint8_t, x != 0)
LOOP(F64_to_BOOL, double, uint8_t, x != 0)
LOOP(F32_to_F64, float, double, (double)x)
LOOP(F64_to_F32, double, float, (float)x)

// Convert to f32 on the way to 16 bits, where f32 may not hold the number
// exactly.
LOOP(F64_to_odd, double, float, ls_odd_f32_of_f64(x))
LOOP(I32_to_odd, int32_t, float, ls_odd_f32_of_i64(x))
LOOP(I64_to_odd, int64_t, float, ls_odd_f32_of_i64(x))
LOOP(U32_to_odd, uint32_t, float, ls_odd_f32_of_u64(x))
LOOP(U64_to_odd, uint64_t, float, ls_odd_f32_of_u64(x))

#define TO_INTEGER(from, to, ...) [LS_DTYPE_##to] = from##_to_##to,
#define INTEGERS(from) EACH_TARGET(TO_INTEGER, from)
#define FROM_INTEGER_ROW(unused, from, S, W)                                   \
  [LS_DTYPE_##from] = {                                                        \
      INTEGERS(from)[LS_DTYPE_F32] = from##_to_F32,                            \
      [LS_DTYPE_F64] = from##_to_F64, [LS_DTYPE_BOOL] = from##_to_BOOL},

const ls_cpu_conversions LS_ISA_NAME(ls_cpu_conversions) = {
    .of =
        {
            LS_EACH_INTEGER(FROM_INTEGER_ROW, )[LS_DTYPE_I8][LS_DTYPE_BF16] =
                I8_to_BF16,
            [LS_DTYPE_U8][LS_DTYPE_BF16] = U8_to_BF16,
            [LS_DTYPE_BOOL] =
                {INTEGERS(BOOL)[LS_DTYPE_F32] = BOOL_to_F32, [LS_DTYPE_F64] =
                                                                 BOOL_to_F64},
            [LS_DTYPE_F32] =
                {INTEGERS(F32)[LS_DTYPE_F64] = F32_to_F64, [LS_DTYPE_BOOL] =
                                                               F32_to_BOOL},
            [LS_DTYPE_F64] =
                {INTEGERS(F64)[LS_DTYPE_F32] = F64_to_F32, [LS_DTYPE_BOOL] =
                                                               F64_to_BOOL},
        },
    // Integers of 8 and 16 bits are exact in f32.
    .to_odd = {[LS_DTYPE_F64] = F64_to_odd,
               [LS_DTYPE_I32] = I32_to_odd,
               [LS_DTYPE_I64] = I64_to_odd,
               [LS_DTYPE_U32] = U32_to_odd,
               [LS_DTYPE_U64] = U64_to_odd},
};
