// SPDX-License-Identifier: Apache-2.0
//
// Conversions of 16-bit floats to f32 and back: as in base/, but without
// branches, so that they vectorize.

#include "base/values/numbers.h"
#include "engine/cpu/isa/bf16.h"
#include "engine/cpu/isa/isa.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

// Returns `yes` if the condition holds, else `no`, without a branch.
static inline uint32_t select_bits(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = 0 - (uint32_t)condition;
  return (yes & mask) | (no & ~mask);
}

static inline float widen_f16(uint32_t half) {
  // Moves exponent and mantissa into position, and adjusts the exponent.
  // Denormals of f16 are made from integers, as multiplying would flush them.
  const uint32_t magnitude = half & 0x7FFFU;
  const uint32_t special = select_bits(magnitude >= 0x7C00U, 0x38000000U, 0);
  const uint32_t normal = (magnitude << 13) + 0x38000000U + special;
  const uint32_t small = ls_float_bits((float)(int32_t)magnitude * 0x1p-24F);
  const uint32_t bits = select_bits(magnitude < 0x0400U, small, normal);
  return ls_float_of_bits(bits | (half & 0x8000U) << 16);
}

static inline uint32_t narrow_f16(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  // From 65520 on all numbers become infinite; NaN keeps its upper bits and
  // becomes quiet.
  const uint32_t top = select_bits(
      magnitude > 0x7F800000U, 0x7E00U | (magnitude >> 13 & 0x3FFU), 0x7C00U);
  const uint32_t odd = magnitude >> 13 & 1U;
  const uint32_t normal = (magnitude - 0x38000000U + 0xFFFU + odd) >> 13;
  // Below 2^-14 the last digit is 2^-24, like that of floats around 0.5.
  const bool is_small = magnitude < 0x38800000U;
  const float clamped = ls_float_of_bits(select_bits(is_small, magnitude, 0));
  const uint32_t small = ls_float_bits(clamped + 0.5F) - 0x3F000000U;
  const uint32_t half = select_bits(is_small, small, normal);
  return select_bits(magnitude >= 0x477FF000U, top, half) |
         (bits >> 16 & 0x8000U);
}

void LS_ISA_NAME(ls_cpu_widen_f16)(float *dst, const uint16_t *src, size_t n) {
  size_t i = 0;
#if defined(__F16C__)
  // This instruction ignores the flush mode: denormals of f16 are numbers here,
  // too.
  for (; i + 8 <= n; i += 8) {
    const __m128i half =
        _mm_loadu_si128((const __m128i *)(const void *)(src + i));
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(half));
  }
#endif
  for (; i < n; ++i)
    dst[i] = widen_f16(src[i]);
}

void LS_ISA_NAME(ls_cpu_narrow_f16)(uint16_t *dst, const float *src, size_t n) {
  size_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    const __m128i half =
        _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((__m128i *)(void *)(dst + i), half);
  }
#endif
  for (; i < n; ++i)
    dst[i] = (uint16_t)narrow_f16(ls_float_bits(src[i]));
}

void LS_ISA_NAME(ls_cpu_widen_bf16)(float *dst, const uint16_t *src, size_t n) {
  for (size_t i = 0; i < n; ++i)
    dst[i] = ls_widen_bf16(src[i]);
}

void LS_ISA_NAME(ls_cpu_narrow_bf16)(uint16_t *dst, const float *src,
                                     size_t n) {
  for (size_t i = 0; i < n; ++i)
    dst[i] = ls_narrow_bf16(src[i]);
}
