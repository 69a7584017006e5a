// SPDX-License-Identifier: Apache-2.0
// f16 and bf16 as bits, in integer arithmetic: independent of the rounding
// mode, and of flushing denormals to zero.
#include "base/values/float_bits.h"
#include "lockstep/array.h"
#include "lockstep/half.h"

// `value` without its lowest `count` bits, to nearest, ties to even.
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
    result = 0x7C00;  // From 2^16 on: infinite.
  } else if (exponent >= 113) {
    // Normal: drop 13 bits and 112 from the exponent. A carry goes into the
    // exponent, up to infinity, as it should.
    result = shift_rounding(magnitude - (UINT32_C(112) << 23), 13);
  } else if (exponent >= 102) {
    // A denormal counts in steps of 2^-24; below half a step it is zero.
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
  if (exponent > 0) {
    return ls_float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  }
  const float magnitude = (float)mantissa * 0x1p-24F;  // Exact.
  return ls_float_of_bits(sign | ls_float_bits(magnitude));
}

uint16_t ls_bf16_from_f32(float value) {
  const uint32_t bits = ls_float_bits(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) {
    return (uint16_t)(bits >> 16 | 0x40);  // NaN stays one, made quiet.
  }
  return (uint16_t)shift_rounding(bits, 16);
}

float ls_bf16_to_f32(uint16_t bits) {
  return ls_float_of_bits((uint32_t)bits << 16);
}
