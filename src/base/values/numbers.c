// SPDX-License-Identifier: Apache-2.0
#include "base/values/numbers.h"

#include "base/plain.h"
#include "lockstep/half.h"

float ls_odd_f32_of_f64(double value) {
  const float result = (float)value;
  const double back = (double)result;
  if (back == value || value != value || __builtin_isinf(back)) return result;
  uint32_t bits = ls_float_bits(result);
  // Rounding went away from zero: steps back by one bit pattern, which also
  // crosses exponents.
  if ((value > 0 && back > value) || (value < 0 && back < value)) --bits;
  return ls_float_of_bits(bits | 1);
}

void ls_read_float(ls_dtype dtype, const char *text, char **out_end,
                   void *out) {
  if (dtype == LS_DTYPE_F64) {
    *(double *)out = ls_read_f64(text, out_end);
  } else if (dtype == LS_DTYPE_F32) {
    *(float *)out = ls_read_f32(text, out_end);
  } else {
    const float odd = ls_odd_f32_of_f64(ls_read_f64(text, out_end));
    *(uint16_t *)out =
        dtype == LS_DTYPE_F16 ? ls_f16_from_f32(odd) : ls_bf16_from_f32(odd);
  }
}

// One loop for each type T in memory, whose element is `x`.
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
    READ(F64, double, ls_i64_of_f64(x, INT64_MIN, INT64_MAX));
    READ(F32, float, ls_i64_of_f64((double)x, INT64_MIN, INT64_MAX));
    READ(F16, uint16_t,
         ls_i64_of_f64((double)ls_f16_to_f32(x), INT64_MIN, INT64_MAX));
    READ(BF16, uint16_t,
         ls_i64_of_f64((double)ls_bf16_to_f32(x), INT64_MIN, INT64_MAX));
    READ(I8, int8_t, x);
    READ(I16, int16_t, x);
    READ(I32, int32_t, x);
    READ(I64, int64_t, x);
    READ(U8, uint8_t, x);
    READ(U16, uint16_t, x);
    READ(U32, uint32_t, x);
    READ(U64, uint64_t, (int64_t)x);
    READ(BOOL, uint8_t, x != 0);
  default:
    memset(to, 0, count * sizeof(*to));
  }
}

// Converts an i64 that does not fit a double, rounding as ls_odd_f32_of_f64
// does.
static double i64_to_odd(int64_t value) {
  uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value;
  const uint64_t dropped = (UINT64_C(1) << 11) - 1;
  if (magnitude >> 53 != 0 && (magnitude & dropped) != 0)
    magnitude = (magnitude & ~dropped) | (dropped + 1);
  const double result = (double)magnitude;
  return value < 0 ? -result : result;
}

void ls_values_from_i64(ls_dtype dtype, const int64_t *from, size_t count,
                        void *to) {
  switch (dtype) {
    WRITE(F64, double, from[i]);
    WRITE(F32, float, from[i]);
    WRITE(F16, uint16_t,
          ls_f16_from_f32(ls_odd_f32_of_f64(i64_to_odd(from[i]))));
    WRITE(BF16, uint16_t,
          ls_bf16_from_f32(ls_odd_f32_of_f64(i64_to_odd(from[i]))));
    WRITE(I8, uint8_t, from[i]);
    WRITE(I16, uint16_t, from[i]);
    WRITE(I32, uint32_t, from[i]);
    WRITE(I64, uint64_t, from[i]);
    WRITE(U8, uint8_t, from[i]);
    WRITE(U16, uint16_t, from[i]);
    WRITE(U32, uint32_t, from[i]);
    WRITE(U64, uint64_t, from[i]);
    WRITE(BOOL, uint8_t, from[i] != 0);
  default:
    break;
  }
}

// ---- Floats of 16 bits -----------------------------------------------------
// Floats of 16 bits, in integer arithmetic: independent of the rounding mode
// and of flushing denormals to zero.

// Drops the lowest `count` bits of `value`, rounding to nearest, ties to even.
static uint32_t shift_rounding(uint32_t value, uint32_t count) {
  const uint32_t half = (UINT32_C(1) << (count - 1)) - 1;
  return (value + half + (value >> count & 1)) >> count;
}

uint16_t ls_f16_from_f32(float value) {
  const uint32_t bits = ls_float_bits(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  const uint32_t exponent = magnitude >> 23;
  uint32_t result = 0;
  if (magnitude > 0x7F800000) {
    result = 0x7E00;  // NaN.
  } else if (exponent >= 143) {
    result = 0x7C00;  // Numbers from 2^16 on are infinite.
  } else if (exponent >= 113) {
    // Normal: drops 13 bits and subtracts 112 from the exponent. A carry goes
    // into the exponent, up to infinity, as it should.
    result = shift_rounding(magnitude - (UINT32_C(112) << 23), 13);
  } else if (exponent >= 102) {
    // A denormal is a multiple of 2^-24; below half of that it is zero.
    const uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000;
    result = shift_rounding(mantissa, 126 - exponent);
  }
  return (uint16_t)(sign | result);
}

float ls_f16_to_f32(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 31;
  const uint32_t mantissa = bits & 0x3FF;
  if (exponent == 31)
    return ls_float_of_bits(sign | 0x7F800000 | mantissa << 13);
  if (exponent > 0)
    return ls_float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = (float)mantissa * 0x1p-24F;  // Exact.
  return ls_float_of_bits(sign | ls_float_bits(magnitude));
}

uint16_t ls_bf16_from_f32(float value) {
  const uint32_t bits = ls_float_bits(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) {
    return (uint16_t)(bits >> 16 | 0x40);  // Keeps a NaN but makes it quiet.
  }
  return (uint16_t)shift_rounding(bits, 16);
}

float ls_bf16_to_f32(uint16_t bits) {
  return ls_float_of_bits((uint32_t)bits << 16);
}
