// SPDX-License-Identifier: Apache-2.0
//
// Conversions of a bf16 to f32 and back: as in base/, but without a branch or a
// call, so that loops vectorize.
#ifndef LS_ENGINE_CPU_KERNELS_HALF_H_
#define LS_ENGINE_CPU_KERNELS_HALF_H_

#include "base/values/numbers.h"

static inline float ls_widen_bf16(uint16_t x) {
  return ls_float_of_bits((uint32_t)x << 16);
}

static inline uint16_t ls_narrow_bf16(float x) {
  const uint32_t bits = ls_float_bits(x);
  const uint32_t rounded = bits + 0x7FFFU + (bits >> 16 & 1U);
  return (uint16_t)((x != x ? bits | 0x400000U : rounded) >> 16);
}

#endif  // LS_ENGINE_CPU_KERNELS_HALF_H_
