// SPDX-License-Identifier: Apache-2.0
//
// Rounding of floats to bf16, and sums of their products in pairs: two of them
// are 32 bits, the even one in the lower half.

#ifndef LS_ENGINE_CPU_ISA_BF16_H_
#define LS_ENGINE_CPU_ISA_BF16_H_

#include <string.h>

#include "base/values/numbers.h"
#include "engine/cpu/isa/vec.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/kernels/half.h"

// Adds both products of each pair, the odd one first, each exact and each sum
// rounded, like vdpbf16ps; without that instruction the same bits are computed
// in two steps.
#if defined(__AVX512BF16__)
LS_INLINE vf pair_multiply_add(vf x, vf y, vf sum) {
  return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y);
}
#else
LS_INLINE vf pair_multiply_add(vf x, vf y, vf sum) {
  const vi upper = vi_set1((int32_t)0xffff0000);
  const vi a = vf_bits(x), b = vf_bits(y);
  sum =
      vf_fma(vi_as_float(vi_and(a, upper)), vi_as_float(vi_and(b, upper)), sum);
  return vf_fma(vi_as_float(vi_shl(a, 16)), vi_as_float(vi_shl(b, 16)), sum);
}
#endif

// Rounds to bf16 in the upper half of each lane, to nearest even; subnormals
// are zeros, as in vcvtneps2bf16.
LS_INLINE vi round_bf16(vf x) {
  const vi bits = vf_bits(vf_mul(x, vf_set1(ls_cpu_one)));
  const vi odd = vi_and(vi_shr(bits, 16), vi_set1(1));
  const vi sum = vi_add(vi_add(bits, odd), vi_set1(0x7fff));
  const vi nan = vi_or(bits, vi_set1(0x400000));
  const vf chosen = vf_select(vf_is_nan(x), vi_as_float(nan), vi_as_float(sum));
  return vi_and(vf_bits(chosen), vi_set1((int32_t)0xffff0000));
}

// Rounds to pairs, one per lane.
#if defined(__AVX512BF16__)
LS_INLINE vf pair_bf16(vf even, vf odd) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11,
                                         26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i pairs = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
  return vi_as_float(_mm512_permutexvar_epi16(order, pairs));
}
#else
LS_INLINE vf pair_bf16(vf even, vf odd) {
  const vi below = vi_and(vi_shr(round_bf16(even), 16), vi_set1(0xffff));
  return vi_as_float(vi_or(below, round_bf16(odd)));
}
#endif

// Rounds and stores side by side.
LS_INLINE void store_rounded(void *target, vf x) {
#if defined(__AVX512BF16__)
  _mm256_storeu_si256(target, (__m256i)_mm512_cvtneps_pbh(x));
#else
  int32_t lanes[VF_LANES];
  uint16_t halves[VF_LANES];
  vi_store(lanes, round_bf16(x));
  for (size_t i = 0; i < VF_LANES; ++i)
    halves[i] = (uint16_t)((uint32_t)lanes[i] >> 16);
  memcpy(target, halves, sizeof(halves));
#endif
}

#if defined(__AVX512BF16__)
// Rounds both to bf16, four lanes of `first` and four of `second` alternating,
// so that alternating halves of two such vectors make pairs of the lanes of
// `first` and of those of `second`.
LS_INLINE vf round_two(vf first, vf second) {
  const __m512i order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
  const __m512i pairs = (__m512i)_mm512_cvtne2ps_pbh(second, first);
  return vi_as_float(_mm512_permutexvar_epi64(order, pairs));
}

// Adds the pairs of the first vectors of a and b (results of round_two) to one
// sum, and those of their second vectors to another, unless it is NULL.
LS_INLINE void add_pairs(vf *first, vf *second, vf a, vf b, vf by) {
#if !defined(__clang__)
  // Keeps the values in registers: gcc would load them once for each use.
  __asm__("" : "+v"(a), "+v"(b));
#endif
  const vi low = _mm512_unpacklo_epi16(vf_bits(a), vf_bits(b));
  *first = pair_multiply_add(vi_as_float(low), by, *first);
  if (second == NULL) return;
  const vi high = _mm512_unpackhi_epi16(vf_bits(a), vf_bits(b));
  *second = pair_multiply_add(vi_as_float(high), by, *second);
}
#endif

#endif  // LS_ENGINE_CPU_ISA_BF16_H_
