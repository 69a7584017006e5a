// SPDX-License-Identifier: Apache-2.0
//
// Floats that are rounded to bf16, and sums of their products in pairs: two of
// them are 32 bits, the even one below.

#ifndef LS_ENGINE_CPU_ISA_BF16_H_
#define LS_ENGINE_CPU_ISA_BF16_H_

#include "engine/cpu/isa/vec.h"

// Adds both products of each pair, the odd one first, each exact and each sum
// rounded. That is what vdpbf16ps does; without it the same bits are computed
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

// bf16 in the upper half of each lane, to nearest even.
LS_INLINE vi rounded(vf x) {
  const vi bits = vf_bits(x);
  const vi odd = vi_and(vi_shr(bits, 16), vi_set1(1));
  const vi sum = vi_add(vi_add(bits, odd), vi_set1(0x7fff));
  const vi nan = vi_or(bits, vi_set1(0x400000));
  const vf chosen = vf_select(vf_is_nan(x), vi_as_float(nan), vi_as_float(sum));
  return vi_and(vf_bits(chosen), vi_set1((int32_t)0xffff0000));
}

#endif  // LS_ENGINE_CPU_ISA_BF16_H_
