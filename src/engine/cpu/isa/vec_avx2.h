// SPDX-License-Identifier: Apache-2.0
//
// vec.h on AVX2 with FMA: a vector is two registers, lanes 0 to 7 in `lo`.

#ifndef LS_ENGINE_CPU_ISA_VEC_AVX2_H_
#define LS_ENGINE_CPU_ISA_VEC_AVX2_H_

#include <immintrin.h>

typedef struct {
  __m256 lo, hi;
} vf;
typedef struct {
  __m256i lo, hi;
} vi;
typedef vf vm;  // All bits set, or none, in each lane.
typedef struct {
  __m256d lo, hi;
} vd;
typedef __m256 vh;

#define VF_STREAMS 1
#define VF_CONVERTS_F16 1

// Sets all bits in the first n lanes.
LS_INLINE vi vf_first(size_t n) {
  const __m256i count = _mm256_set1_epi32((int)n);
  const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i high = _mm256_add_epi32(low, _mm256_set1_epi32(8));
  return (vi){_mm256_cmpgt_epi32(count, low), _mm256_cmpgt_epi32(count, high)};
}

LS_INLINE vf vf_load(const float *p) {
  return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
LS_INLINE void vf_store(float *p, vf v) {
  _mm256_storeu_ps(p, v.lo);
  _mm256_storeu_ps(p + 8, v.hi);
}
LS_INLINE void vf_stream(float *p, vf v) {
  _mm256_stream_ps(p, v.lo);
  _mm256_stream_ps(p + 8, v.hi);
}
LS_INLINE void vf_stream_end(void) { _mm_sfence(); }
LS_INLINE vf vf_load_n(const float *p, size_t n) {
  const vi m = vf_first(n);
  return (vf){_mm256_maskload_ps(p, m.lo), _mm256_maskload_ps(p + 8, m.hi)};
}
// Stores piece by piece: masked stores take dozens of cycles on some
// processors.
LS_INLINE void vf_store_n(float *p, size_t n, vf v) {
  if (n >= 8) {
    _mm256_storeu_ps(p, v.lo);
    p += 8;
    n -= 8;
    v.lo = v.hi;
  }
  if (n >= 8) {
    _mm256_storeu_ps(p, v.lo);
    return;
  }
  __m128 left = _mm256_castps256_ps128(v.lo);
  if ((n & 4) != 0) {
    _mm_storeu_ps(p, left);
    p += 4;
    left = _mm256_extractf128_ps(v.lo, 1);
  }
  if ((n & 2) != 0) {
    _mm_storel_pi((__m64 *)(void *)p, left);
    p += 2;
    left = _mm_movehl_ps(left, left);
  }
  if ((n & 1) != 0) _mm_store_ss(p, left);
}
LS_INLINE vh vh_load_n(const float *p, size_t n) {
  return _mm256_maskload_ps(p, vf_first(n).lo);
}
LS_INLINE vf vf_of_half(vh low) { return (vf){low, _mm256_setzero_ps()}; }
LS_INLINE vh vf_half(vf v) { return v.lo; }
LS_INLINE vf vf_set1(float x) {
  return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
LS_INLINE vf vf_zero(void) {
  return (vf){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

#define LS_VF_BINARY(name, op)                                                 \
  LS_INLINE vf name(vf a, vf b) { return (vf){op(a.lo, b.lo), op(a.hi, b.hi)}; }
LS_VF_BINARY(vf_add, _mm256_add_ps)
LS_VF_BINARY(vf_sub, _mm256_sub_ps)
LS_VF_BINARY(vf_mul, _mm256_mul_ps)
LS_VF_BINARY(vf_div, _mm256_div_ps)
LS_VF_BINARY(vf_max, _mm256_max_ps)
LS_VF_BINARY(vf_min, _mm256_min_ps)
#undef LS_VF_BINARY

LS_INLINE vf vf_sqrt(vf a) {
  return (vf){_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
// a * b + c, rounded once.
LS_INLINE vf vf_fma(vf a, vf b, vf c) {
  return (vf){_mm256_fmadd_ps(a.lo, b.lo, c.lo),
              _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
// c - a * b, rounded once.
LS_INLINE vf vf_fnma(vf a, vf b, vf c) {
  return (vf){_mm256_fnmadd_ps(a.lo, b.lo, c.lo),
              _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}

LS_INLINE vm vf_lt(vf a, vf b) {
  return (vm){_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ),
              _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
LS_INLINE vm vf_eq(vf a, vf b) {
  return (vm){_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ),
              _mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ)};
}
LS_INLINE vm vf_is_nan(vf a) {
  return (vm){_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q),
              _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q)};
}
LS_INLINE __m256 vf_above_half(__m256 a, __m256 b) {
  return _mm256_and_ps(_mm256_cmp_ps(b, b, _CMP_ORD_Q),
                       _mm256_cmp_ps(a, b, _CMP_NLE_UQ));
}
LS_INLINE vm vf_above(vf a, vf b) {
  return (vm){vf_above_half(a.lo, b.lo), vf_above_half(a.hi, b.hi)};
}
LS_INLINE uint32_t vf_nonzero(vf a) {
  const __m256 zero = _mm256_setzero_ps();
  const int lo = _mm256_movemask_ps(_mm256_cmp_ps(a.lo, zero, _CMP_NEQ_UQ));
  const int hi = _mm256_movemask_ps(_mm256_cmp_ps(a.hi, zero, _CMP_NEQ_UQ));
  return (uint32_t)(lo | hi << 8);
}
// a where m, else b.
LS_INLINE vf vf_select(vm m, vf a, vf b) {
  return (vf){_mm256_blendv_ps(b.lo, a.lo, m.lo),
              _mm256_blendv_ps(b.hi, a.hi, m.hi)};
}

#define LS_VI_BINARY(name, op)                                                 \
  LS_INLINE vi name(vi a, vi b) { return (vi){op(a.lo, b.lo), op(a.hi, b.hi)}; }
LS_VI_BINARY(vi_add, _mm256_add_epi32)
LS_VI_BINARY(vi_sub, _mm256_sub_epi32)
LS_VI_BINARY(vi_and, _mm256_and_si256)
LS_VI_BINARY(vi_or, _mm256_or_si256)
#undef LS_VI_BINARY

LS_INLINE vi vi_set1(int32_t x) {
  return (vi){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
LS_INLINE vi vi_shl(vi a, unsigned s) {
  return (vi){_mm256_slli_epi32(a.lo, (int)s), _mm256_slli_epi32(a.hi, (int)s)};
}
// Shifts arithmetically: the sign fills in from the left.
LS_INLINE vi vi_shr(vi a, unsigned s) {
  return (vi){_mm256_srai_epi32(a.lo, (int)s), _mm256_srai_epi32(a.hi, (int)s)};
}
LS_INLINE vf vi_to_float(vi a) {
  return (vf){_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
LS_INLINE vi vf_bits(vf a) {
  return (vi){_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}
LS_INLINE vf vi_as_float(vi a) {
  return (vf){_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}

// v in the first n lanes, `rest` in the others.
LS_INLINE vf vf_first_n(size_t n, vf v, vf rest) {
  return vf_select(vi_as_float(vf_first(n)), v, rest);
}
LS_INLINE vf vf_abs(vf a) {
  return vi_as_float(vi_and(vf_bits(a), vi_set1(INT32_MAX)));
}
LS_INLINE vf vf_copysign(vf magnitude, vf sign) {
  return vi_as_float(vi_or(vi_and(vf_bits(magnitude), vi_set1(INT32_MAX)),
                           vi_and(vf_bits(sign), vi_set1(INT32_MIN))));
}

LS_INLINE float vf_sum(vf a) {
  const __m256 s8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 s4 =
      _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}
LS_INLINE float vf_max_lane(vf a) {
  const __m256 s8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 s4 =
      _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_max_ss(s2, _mm_movehdup_ps(s2)));
}

LS_INLINE vf vf_load_f16(const uint16_t *p) {
  const __m128i *from = (const __m128i *)(const void *)p;
  return (vf){_mm256_cvtph_ps(_mm_loadu_si128(from)),
              _mm256_cvtph_ps(_mm_loadu_si128(from + 1))};
}
LS_INLINE void vf_store_f16(uint16_t *p, vf v) {
  __m128i *target = (__m128i *)(void *)p;
  _mm_storeu_si128(target, _mm256_cvtps_ph(v.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(target + 1,
                   _mm256_cvtps_ph(v.hi, _MM_FROUND_TO_NEAREST_INT));
}

LS_INLINE vi vd_first(size_t n) {
  const __m256i count = _mm256_set1_epi64x((long long)n);
  const __m256i low = _mm256_setr_epi64x(0, 1, 2, 3);
  const __m256i high = _mm256_setr_epi64x(4, 5, 6, 7);
  return (vi){_mm256_cmpgt_epi64(count, low), _mm256_cmpgt_epi64(count, high)};
}
LS_INLINE vd vd_load(const double *p) {
  return (vd){_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)};
}
LS_INLINE void vd_store(double *p, vd v) {
  _mm256_storeu_pd(p, v.lo);
  _mm256_storeu_pd(p + 4, v.hi);
}
LS_INLINE vd vd_load_n(const double *p, size_t n) {
  const vi m = vd_first(n);
  return (vd){_mm256_maskload_pd(p, m.lo), _mm256_maskload_pd(p + 4, m.hi)};
}
LS_INLINE void vd_store_n(double *p, size_t n, vd v) {
  const vi m = vd_first(n);
  _mm256_maskstore_pd(p, m.lo, v.lo);
  _mm256_maskstore_pd(p + 4, m.hi, v.hi);
}
LS_INLINE vd vd_set1(double x) {
  return (vd){_mm256_set1_pd(x), _mm256_set1_pd(x)};
}
LS_INLINE vd vd_zero(void) {
  return (vd){_mm256_setzero_pd(), _mm256_setzero_pd()};
}
LS_INLINE vd vd_add(vd a, vd b) {
  return (vd){_mm256_add_pd(a.lo, b.lo), _mm256_add_pd(a.hi, b.hi)};
}
LS_INLINE vd vd_sub(vd a, vd b) {
  return (vd){_mm256_sub_pd(a.lo, b.lo), _mm256_sub_pd(a.hi, b.hi)};
}
LS_INLINE vd vd_mul(vd a, vd b) {
  return (vd){_mm256_mul_pd(a.lo, b.lo), _mm256_mul_pd(a.hi, b.hi)};
}
LS_INLINE vd vd_max(vd a, vd b) {
  return (vd){_mm256_max_pd(a.lo, b.lo), _mm256_max_pd(a.hi, b.hi)};
}
// a where it is a NaN, else b.
LS_INLINE vd vd_nan_or(vd a, vd b) {
  return (vd){
      _mm256_blendv_pd(b.lo, a.lo, _mm256_cmp_pd(a.lo, a.lo, _CMP_UNORD_Q)),
      _mm256_blendv_pd(b.hi, a.hi, _mm256_cmp_pd(a.hi, a.hi, _CMP_UNORD_Q))};
}
LS_INLINE vd vd_fma(vd a, vd b, vd c) {
  return (vd){_mm256_fmadd_pd(a.lo, b.lo, c.lo),
              _mm256_fmadd_pd(a.hi, b.hi, c.hi)};
}
// v where `by` is above 0, else 0.
LS_INLINE vd vd_where_positive(vd v, vd by) {
  const __m256d zero = _mm256_setzero_pd();
  return (vd){_mm256_and_pd(v.lo, _mm256_cmp_pd(zero, by.lo, _CMP_LT_OQ)),
              _mm256_and_pd(v.hi, _mm256_cmp_pd(zero, by.hi, _CMP_LT_OQ))};
}
LS_INLINE vd vd_first_n(size_t n, vd v, vd rest) {
  const vi m = vd_first(n);
  return (vd){_mm256_blendv_pd(rest.lo, v.lo, _mm256_castsi256_pd(m.lo)),
              _mm256_blendv_pd(rest.hi, v.hi, _mm256_castsi256_pd(m.hi))};
}
LS_INLINE double vd_sum(vd a) {
  const __m256d s4 = _mm256_add_pd(a.lo, a.hi);
  const __m128d s2 =
      _mm_add_pd(_mm256_castpd256_pd128(s4), _mm256_extractf128_pd(s4, 1));
  return _mm_cvtsd_f64(_mm_add_sd(s2, _mm_unpackhi_pd(s2, s2)));
}

#endif  // LS_ENGINE_CPU_ISA_VEC_AVX2_H_
