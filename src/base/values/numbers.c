// SPDX-License-Identifier: Apache-2.0
#include "base/values/numbers.h"
#include "lockstep/half.h"

#include <string.h>

float ls_odd_f32_of_f64(double value) {
  float result = (float)value;
  const double back = (double)result;
  if (back == value || value != value || __builtin_isinf(back)) return result;
  uint32_t bits = 0;
  memcpy(&bits, &result, sizeof(bits));
  // Away from zero by rounding: one step back, which also crosses exponents.
  if ((value > 0 && back > value) || (value < 0 && back < value)) --bits;
  bits |= 1;
  memcpy(&result, &bits, sizeof(bits));
  return result;
}

// One loop a type: of T in memory, `x` at hand.
#define READ(NAME, T, value)                                                   \
  case LS_DTYPE_##NAME:                                                        \
    for (size_t i = 0; i < count; ++i) {                                       \
      const T x = ((const T *)from)[i];                                        \
      to[i] = (value);                                                         \
    }                                                                          \
    break
#define WRITE(NAME, T, value)                                                  \
  case LS_DTYPE_##NAME:                                                        \
    for (size_t i = 0; i < count; ++i)                                         \
      ((T *)to)[i] = (T)(value);                                               \
    break

void ls_values_to_f64(ls_dtype dtype, const void *from, size_t count,
                      double *to) {
  switch (dtype) {
    READ(F64, double, x);
    READ(F32, float, (double)x);
    READ(F16, uint16_t, (double)ls_f16_to_f32(x));
    READ(BF16, uint16_t, (double)ls_bf16_to_f32(x));
    READ(I8, int8_t, (double)x);
    READ(I16, int16_t, (double)x);
    READ(I32, int32_t, (double)x);
    READ(I64, int64_t, (double)x);
    READ(U8, uint8_t, (double)x);
    READ(U16, uint16_t, (double)x);
    READ(U32, uint32_t, (double)x);
    READ(U64, uint64_t, (double)x);
    READ(BOOL, uint8_t, (double)(x != 0));
  default:
    memset(to, 0, count * sizeof(*to));
  }
}

void ls_values_from_f64(ls_dtype dtype, const double *from, size_t count,
                        void *to) {
  switch (dtype) {
    WRITE(F64, double, from[i]);
    WRITE(F32, float, from[i]);
    WRITE(F16, uint16_t, ls_f16_from_f32(ls_odd_f32_of_f64(from[i])));
    WRITE(BF16, uint16_t, ls_bf16_from_f32(ls_odd_f32_of_f64(from[i])));
    WRITE(I8, int8_t, ls_i64_of_f64(from[i], INT8_MIN, INT8_MAX));
    WRITE(I16, int16_t, ls_i64_of_f64(from[i], INT16_MIN, INT16_MAX));
    WRITE(I32, int32_t, ls_i64_of_f64(from[i], INT32_MIN, INT32_MAX));
    WRITE(I64, int64_t, ls_i64_of_f64(from[i], INT64_MIN, INT64_MAX));
    WRITE(U8, uint8_t, ls_i64_of_f64(from[i], 0, UINT8_MAX));
    WRITE(U16, uint16_t, ls_i64_of_f64(from[i], 0, UINT16_MAX));
    WRITE(U32, uint32_t, ls_i64_of_f64(from[i], 0, UINT32_MAX));
    WRITE(U64, uint64_t, ls_u64_of_f64(from[i]));
    WRITE(BOOL, uint8_t, from[i] != 0);
  default:
    break;
  }
}

void ls_values_to_i64(ls_dtype dtype, const void *from, size_t count,
                      int64_t *to) {
  switch (dtype) {
    READ(I8, int8_t, x);
    READ(I16, int16_t, x);
    READ(I32, int32_t, x);
    READ(I64, int64_t, x);
    READ(U8, uint8_t, x);
    READ(U16, uint16_t, x);
    READ(U32, uint32_t, x);
    READ(U64, uint64_t, (int64_t)x);
  default:
    memset(to, 0, count * sizeof(*to));
  }
}

void ls_values_from_i64(ls_dtype dtype, const int64_t *from, size_t count,
                        void *to) {
  switch (ls_dtype_size(dtype)) {
  case 1:
    for (size_t i = 0; i < count; ++i)
      ((uint8_t *)to)[i] = (uint8_t)from[i];
    break;
  case 2:
    for (size_t i = 0; i < count; ++i)
      ((uint16_t *)to)[i] = (uint16_t)from[i];
    break;
  case 4:
    for (size_t i = 0; i < count; ++i)
      ((uint32_t *)to)[i] = (uint32_t)from[i];
    break;
  default:
    memcpy(to, from, count * sizeof(*from));
  }
}
