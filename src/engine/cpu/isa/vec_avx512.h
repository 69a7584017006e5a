// SPDX-License-Identifier: Apache-2.0
//
// vec.h on AVX-512: a vector is one register.

#ifndef LS_ENGINE_CPU_ISA_VEC_AVX512_H_
#define LS_ENGINE_CPU_ISA_VEC_AVX512_H_

#include <immintrin.h>

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
typedef __m512d vd;
typedef __m256 vh;

#define VF_STREAMS 1
#define VF_CONVERTS_F16 1

LS_INLINE __mmask16 vf_first(size_t n) {
  return (__mmask16)_bzhi_u32(0xffffu, (unsigned)n);
}

LS_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
LS_INLINE void vf_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
LS_INLINE void vf_stream(float *p, vf v) { _mm512_stream_ps(p, v); }
LS_INLINE void vf_stream_end(void) { _mm_sfence(); }
LS_INLINE vf vf_load_n(const float *p, size_t n) {
  return _mm512_maskz_loadu_ps(vf_first(n), p);
}
LS_INLINE void vf_store_n(float *p, size_t n, vf v) {
  _mm512_mask_storeu_ps(p, vf_first(n), v);
}
LS_INLINE vh vh_load_n(const float *p, size_t n) {
  return _mm256_maskz_loadu_ps((__mmask8)vf_first(n), p);
}
LS_INLINE vf vf_of_half(vh low) { return _mm512_zextps256_ps512(low); }
LS_INLINE vh vf_half(vf v) { return _mm512_castps512_ps256(v); }
LS_INLINE vf vf_set1(float x) { return _mm512_set1_ps(x); }
LS_INLINE vf vf_zero(void) { return _mm512_setzero_ps(); }

LS_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
LS_INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
LS_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
LS_INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
LS_INLINE vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
LS_INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
LS_INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
// a * b + c, rounded once.
LS_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
// c - a * b, rounded once.
LS_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }

LS_INLINE vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
LS_INLINE vm vf_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
LS_INLINE vm vf_is_nan(vf a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
LS_INLINE vm vf_above(vf a, vf b) {
  const vm ordered = _mm512_cmp_ps_mask(b, b, _CMP_ORD_Q);
  return _mm512_mask_cmp_ps_mask(ordered, a, b, _CMP_NLE_UQ);
}
// a where m, else b.
LS_INLINE vf vf_select(vm m, vf a, vf b) {
  return _mm512_mask_blend_ps(m, b, a);
}
LS_INLINE uint32_t vf_nonzero(vf a) {
  const vm mask = _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_NEQ_UQ);
  uint32_t bits;
  // gcc 12 may move it through the stack, storing 16 bits and reading 32.
  __asm__("kmovw %1, %0" : "=r"(bits) : "k"(mask));
  return bits;
}
LS_INLINE void vf_pack(float *p, uint32_t bits, vf v) {
  _mm512_storeu_ps(p, _mm512_maskz_compress_ps((__mmask16)bits, v));
}
LS_INLINE void vi_pack(int32_t *p, uint32_t bits, vi v) {
  _mm512_storeu_si512(p, _mm512_maskz_compress_epi32((__mmask16)bits, v));
}
// v in the first n lanes, `rest` in the others.
LS_INLINE vf vf_first_n(size_t n, vf v, vf rest) {
  return _mm512_mask_blend_ps(vf_first(n), rest, v);
}

LS_INLINE vi vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
LS_INLINE void vi_store(int32_t *p, vi v) { _mm512_storeu_si512(p, v); }
LS_INLINE vi vi_pick(const int32_t *four, const uint8_t *which) {
  const __m512i table = _mm512_broadcast_i32x4(
      _mm_loadu_si128((const __m128i *)(const void *)four));
  const __m512i at = _mm512_cvtepu8_epi32(
      _mm_loadu_si128((const __m128i *)(const void *)which));
  return _mm512_permutexvar_epi32(at, table);
}
LS_INLINE void vb_store(uint8_t *p, vf v) {
  _mm_storeu_si128((__m128i *)(void *)p,
                   _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(v)));
}
LS_INLINE vi vi_set1(int32_t x) { return _mm512_set1_epi32(x); }
LS_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
LS_INLINE vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
LS_INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
LS_INLINE vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
LS_INLINE vi vi_shl(vi a, unsigned s) { return _mm512_slli_epi32(a, s); }
// Shifts arithmetically: the sign fills in from the left.
LS_INLINE vi vi_shr(vi a, unsigned s) { return _mm512_srai_epi32(a, s); }
LS_INLINE vf vi_to_float(vi a) { return _mm512_cvtepi32_ps(a); }
LS_INLINE vi vf_bits(vf a) { return _mm512_castps_si512(a); }
LS_INLINE vf vi_as_float(vi a) { return _mm512_castsi512_ps(a); }

LS_INLINE vf vf_abs(vf a) { return _mm512_abs_ps(a); }
LS_INLINE vf vf_copysign(vf magnitude, vf sign) {
  const vi s = _mm512_set1_epi32(INT32_MIN);
  return vi_as_float(
      _mm512_ternarylogic_epi32(s, vf_bits(sign), vf_bits(magnitude), 0xca));
}
// Computes v * 2^n, rounded once, for |v| in [0.5, 2) and n in [-250, 250],
// given both ways.
LS_INLINE vf vf_ldexp(vf v, vf n, vi same) {
  (void)same;
  return _mm512_scalef_ps(v, n);
}

LS_INLINE float vf_sum(vf a) {
  const __m256 low = _mm512_castps512_ps256(a);
  const __m256 s8 = _mm256_add_ps(low, _mm512_extractf32x8_ps(a, 1));
  const __m128 s4 =
      _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}
LS_INLINE float vf_max_lane(vf a) {
  const __m256 low = _mm512_castps512_ps256(a);
  const __m256 s8 = _mm256_max_ps(low, _mm512_extractf32x8_ps(a, 1));
  const __m128 s4 =
      _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_max_ss(s2, _mm_movehdup_ps(s2)));
}

LS_INLINE vf vf_load_f16(const uint16_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
LS_INLINE void vf_store_f16(uint16_t *p, vf v) {
  _mm256_storeu_si256((__m256i *)(void *)p,
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

LS_INLINE __mmask8 vd_first(size_t n) {
  return (__mmask8)_bzhi_u32(0xffu, (unsigned)n);
}
LS_INLINE vd vd_load(const double *p) { return _mm512_loadu_pd(p); }
LS_INLINE void vd_store(double *p, vd v) { _mm512_storeu_pd(p, v); }
LS_INLINE vd vd_load_n(const double *p, size_t n) {
  return _mm512_maskz_loadu_pd(vd_first(n), p);
}
LS_INLINE void vd_store_n(double *p, size_t n, vd v) {
  _mm512_mask_storeu_pd(p, vd_first(n), v);
}
LS_INLINE vd vd_set1(double x) { return _mm512_set1_pd(x); }
LS_INLINE vd vd_zero(void) { return _mm512_setzero_pd(); }
LS_INLINE vd vd_add(vd a, vd b) { return _mm512_add_pd(a, b); }
LS_INLINE vd vd_sub(vd a, vd b) { return _mm512_sub_pd(a, b); }
LS_INLINE vd vd_mul(vd a, vd b) { return _mm512_mul_pd(a, b); }
LS_INLINE vd vd_max(vd a, vd b) { return _mm512_max_pd(a, b); }
// a where it is a NaN, else b.
LS_INLINE vd vd_nan_or(vd a, vd b) {
  return _mm512_mask_blend_pd(_mm512_cmp_pd_mask(a, a, _CMP_UNORD_Q), b, a);
}
LS_INLINE vd vd_fma(vd a, vd b, vd c) { return _mm512_fmadd_pd(a, b, c); }
// v where `by` is above 0, else 0.
LS_INLINE vd vd_where_positive(vd v, vd by) {
  return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(vd_zero(), by, _CMP_LT_OQ), v);
}
LS_INLINE vd vd_first_n(size_t n, vd v, vd rest) {
  return _mm512_mask_blend_pd(vd_first(n), rest, v);
}
LS_INLINE double vd_sum(vd a) {
  const __m256d s4 =
      _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
  const __m128d s2 =
      _mm_add_pd(_mm256_castpd256_pd128(s4), _mm256_extractf128_pd(s4, 1));
  return _mm_cvtsd_f64(_mm_add_sd(s2, _mm_unpackhi_pd(s2, s2)));
}

#endif  // LS_ENGINE_CPU_ISA_VEC_AVX512_H_
