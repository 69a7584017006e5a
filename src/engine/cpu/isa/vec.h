// SPDX-License-Identifier: Apache-2.0
//
// Vectors of 16 floats or 8 doubles, the same on every instruction set.
//
// A kernel written with these operations gives the same bits whichever file
// below carries it: each has the same lanes, every operation is one IEEE
// operation a lane, and what the hardware leaves open is fixed here:
//   max(a, b) is a > b ? a : b and min(a, b) is a < b ? a : b, so that the
//   second operand comes out where one is a NaN or both are zeros (subnormals
//   come out as they are or as zeros: what stores them multiplies by 1);
//   vf_sum adds lane i + w to lane i for w = 8, 4, 2, 1, vf_max_lane and vd_sum
//   likewise;
//   load_n and store_n touch only the first n lanes, load_n zeroes the rest;
//   vf_load_f16 and vf_store_f16, where VF_CONVERTS_F16 is 1, widen f16 and
//   round to it, to nearest even;
//   vf_above(a, b): a is larger than b, a NaN larger than any number;
//   stream stores on a whole vector's border, past the caches where VF_STREAMS
//   is 1; other threads may read it after stream_end;
//   vf_nonzero has bit i set where lane i is not 0 (or is a NaN);
//   vf_pack and vi_pack store the lanes whose bit is set side by side, and may
//   write all 16 places;
//   vb_equal has bit i set where byte i of 16 is `which`; vb_store stores whole
//   numbers from 0 to 255 as bytes; lane i of vi_pick is four[which[i]].
// Only the sign and payload of a NaN are not promised.
//
// `vf` is 16 floats, `vh` 8 where there is AVX2, `vi` 16 32-bit integers, `vm`
// 16 truth values, `vd` 8 doubles. Include this file alone in files that are
// compiled once per instruction set.

#ifndef LS_ENGINE_CPU_ISA_VEC_H_
#define LS_ENGINE_CPU_ISA_VEC_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Without vector instructions a vector is an array, and an operation a call.
#if (defined(__AVX2__) && defined(__FMA__)) ||                                 \
    (defined(__aarch64__) && defined(__ARM_NEON))
#define VF_REGISTERS 1
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LS_CHECKED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||     \
    __has_feature(undefined_behavior_sanitizer) ||                             \
    __has_feature(memory_sanitizer)
#define LS_CHECKED 1
#endif
#endif

// Function attributes: LS_INLINE for functions that are part of their callers;
// LS_EXPAND for large ones, which are fast only if their arguments are
// constants; LS_UNROLL, before a loop of at most 16 rounds, whose number is
// known, unrolls it fully, so that an array of vectors that it indexes becomes
// registers. Without vector registers the three would only cost compile time; a
// build with sanitizers would spend minutes on checks of each copy.
#if defined(VF_REGISTERS)
#define LS_INLINE static inline __attribute__((always_inline))
#else
#define LS_INLINE static inline
#endif

#if defined(LS_CHECKED) || !defined(VF_REGISTERS)
#define LS_EXPAND static __attribute__((noinline))
#define LS_UNROLL
#elif defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define LS_EXPAND LS_INLINE
#define LS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LS_EXPAND LS_INLINE
#define LS_UNROLL _Pragma("GCC unroll 16")
#endif

// Lanes of a vf and of a vd.
#define VF_LANES 16
#define VD_LANES 8

#if !defined(VF_REGISTERS)
#include "engine/cpu/isa/vec_plain.h"
#elif defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "engine/cpu/isa/vec_avx512.h"
#elif defined(__aarch64__)
#include "engine/cpu/isa/vec_neon.h"
#else
#include "engine/cpu/isa/vec_avx2.h"
#endif

// ---- Replacements for missing instructions ---------------------------------
#if !defined(__AVX2__)
LS_INLINE uint32_t vf_nonzero(vf a) {
  float lanes[VF_LANES];
  uint32_t bits = 0;
  vf_store(lanes, a);
  for (uint32_t i = 0; i < VF_LANES; ++i)
    bits |= (uint32_t)(lanes[i] != 0) << i;
  return bits;
}
#endif

#if !defined(__AVX512F__)
// Computes v * 2^n, rounded once, for |v| in [0.5, 2) and n in [-250, 250].
// Only the second of the two factors can leave the normal range.
LS_INLINE vf vf_ldexp(vf v, vf same, vi n) {
  (void)same;
  const vi half = vi_shr(n, 1);
  const vi bias = vi_set1(127);
  const vi first = vi_shl(vi_add(half, bias), 23);
  const vi second = vi_shl(vi_add(vi_sub(n, half), bias), 23);
  return vf_mul(vf_mul(v, vi_as_float(first)), vi_as_float(second));
}

LS_INLINE void vf_pack(float *p, uint32_t bits, vf v) {
  float lanes[VF_LANES];
  vf_store(lanes, v);
  for (; bits != 0; bits &= bits - 1)
    *p++ = lanes[__builtin_ctz(bits)];
}

LS_INLINE vi vi_load(const int32_t *p) {
  vi v;
  memcpy(&v, p, sizeof v);
  return v;
}

LS_INLINE void vi_store(int32_t *p, vi v) { memcpy(p, &v, sizeof v); }

LS_INLINE void vi_pack(int32_t *p, uint32_t bits, vi v) {
  int32_t lanes[VF_LANES];
  memcpy(lanes, &v, sizeof lanes);
  for (; bits != 0; bits &= bits - 1)
    *p++ = lanes[__builtin_ctz(bits)];
}

LS_INLINE vi vi_pick(const int32_t *four, const uint8_t *which) {
  int32_t lanes[VF_LANES];
  for (size_t i = 0; i < VF_LANES; ++i)
    lanes[i] = four[which[i]];
  return vi_load(lanes);
}

LS_INLINE void vb_store(uint8_t *p, vf v) {
  float lanes[VF_LANES];
  vf_store(lanes, v);
  for (size_t i = 0; i < VF_LANES; ++i)
    p[i] = (uint8_t)lanes[i];
}
#endif

LS_INLINE uint32_t vb_equal(const uint8_t *p, uint8_t which) {
#if defined(__AVX2__)
  const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
  return (uint32_t)_mm_movemask_epi8(
      _mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)which)));
#else
  uint32_t bits = 0;
  for (uint32_t i = 0; i < VF_LANES; ++i)
    bits |= (uint32_t)(p[i] == which) << i;
  return bits;
#endif
}

// ---- Common to all levels --------------------------------------------------
// Returns the same pointer, but keeps the compiler from precomputing sums with
// it: offsets become parts of instructions.
LS_INLINE const float *vf_fixed(const float *p) {
  __asm__("" : "+r"(p));
  return p;
}

// Returns a where it is a NaN, else b.
LS_INLINE vf vf_nan_or(vf a, vf b) { return vf_select(vf_is_nan(a), a, b); }

// Returns v where `by` is above 0, else 0.
LS_INLINE vf vf_where_positive(vf v, vf by) {
  return vf_select(vf_lt(vf_zero(), by), v, vf_zero());
}

#endif  // LS_ENGINE_CPU_ISA_VEC_H_
