// SPDX-License-Identifier: Apache-2.0
//
// Transposes of small blocks of floats, moved in registers.

#ifndef LS_ENGINE_CPU_ISA_TRANSPOSE_H_
#define LS_ENGINE_CPU_ISA_TRANSPOSE_H_

#include "engine/cpu/isa/vec.h"

#if defined(__AVX2__)

// dst[i * dst_stride + j] = src[j * src_stride + i] for i, j < 4.
LS_INLINE void transpose_4x4(float *dst, size_t dst_stride, const float *src,
                             size_t src_stride) {
  const __m128 a = _mm_loadu_ps(src);
  const __m128 b = _mm_loadu_ps(src + src_stride);
  const __m128 c = _mm_loadu_ps(src + 2 * src_stride);
  const __m128 d = _mm_loadu_ps(src + 3 * src_stride);
  const __m128 ab = _mm_unpacklo_ps(a, b), cd = _mm_unpacklo_ps(c, d);
  const __m128 ef = _mm_unpackhi_ps(a, b), gh = _mm_unpackhi_ps(c, d);
  _mm_storeu_ps(dst, _mm_movelh_ps(ab, cd));
  _mm_storeu_ps(dst + dst_stride, _mm_movehl_ps(cd, ab));
  _mm_storeu_ps(dst + 2 * dst_stride, _mm_movelh_ps(ef, gh));
  _mm_storeu_ps(dst + 3 * dst_stride, _mm_movehl_ps(gh, ef));
}

// Transposes the 4x4 blocks in each half of four rows: out[i] has columns i and
// i + 4.
LS_INLINE void transpose_halves(__m256 out[4], const __m256 in[4]) {
  const __m256 ab = _mm256_unpacklo_ps(in[0], in[1]);
  const __m256 cd = _mm256_unpacklo_ps(in[2], in[3]);
  const __m256 ef = _mm256_unpackhi_ps(in[0], in[1]);
  const __m256 gh = _mm256_unpackhi_ps(in[2], in[3]);
  out[0] = _mm256_shuffle_ps(ab, cd, 0x44);
  out[1] = _mm256_shuffle_ps(ab, cd, 0xee);
  out[2] = _mm256_shuffle_ps(ef, gh, 0x44);
  out[3] = _mm256_shuffle_ps(ef, gh, 0xee);
}

// dst[i * dst_stride + j] = src[j * src_stride + i] for i, j < 8.
LS_INLINE void transpose_8x8(float *dst, size_t dst_stride, const float *src,
                             size_t src_stride) {
  __m256 rows[8], upper[4], lower[4];
  LS_UNROLL
  for (size_t j = 0; j < 8; ++j)
    rows[j] = _mm256_loadu_ps(src + j * src_stride);
  transpose_halves(upper, rows);
  transpose_halves(lower, rows + 4);
  LS_UNROLL
  for (size_t i = 0; i < 4; ++i) {
    float *target = dst + i * dst_stride;
    _mm256_storeu_ps(target, _mm256_permute2f128_ps(upper[i], lower[i], 0x20));
    _mm256_storeu_ps(target + 4 * dst_stride,
                     _mm256_permute2f128_ps(upper[i], lower[i], 0x31));
  }
}

#else

LS_INLINE void transpose_plain(float *dst, size_t dst_stride, const float *src,
                               size_t src_stride, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j < size; ++j) {
      dst[i * dst_stride + j] = src[j * src_stride + i];
    }
  }
}

// dst[i * dst_stride + j] = src[j * src_stride + i] for i, j < 4.
LS_INLINE void transpose_4x4(float *dst, size_t dst_stride, const float *src,
                             size_t src_stride) {
  transpose_plain(dst, dst_stride, src, src_stride, 4);
}

// dst[i * dst_stride + j] = src[j * src_stride + i] for i, j < 8.
LS_INLINE void transpose_8x8(float *dst, size_t dst_stride, const float *src,
                             size_t src_stride) {
  transpose_plain(dst, dst_stride, src, src_stride, 8);
}

#endif

#if defined(__AVX512F__)

// Transposes the 4x4 blocks in each quarter of four rows: rows[i] then has
// columns i, i + 4, i + 8 and i + 12.
LS_INLINE void transpose_quarters(__m512 rows[4]) {
  const __m512 ab = _mm512_unpacklo_ps(rows[0], rows[1]);
  const __m512 cd = _mm512_unpacklo_ps(rows[2], rows[3]);
  const __m512 ef = _mm512_unpackhi_ps(rows[0], rows[1]);
  const __m512 gh = _mm512_unpackhi_ps(rows[2], rows[3]);
  rows[0] = _mm512_shuffle_ps(ab, cd, 0x44);
  rows[1] = _mm512_shuffle_ps(ab, cd, 0xee);
  rows[2] = _mm512_shuffle_ps(ef, gh, 0x44);
  rows[3] = _mm512_shuffle_ps(ef, gh, 0xee);
}

// Stores quarter q of a, b, c and d to dst[q * dst_stride], of 16 floats.
LS_INLINE void store_quarters(float *dst, size_t dst_stride, __m512 a, __m512 b,
                              __m512 c, __m512 d) {
  const __m512 ab = _mm512_shuffle_f32x4(a, b, 0x44);
  const __m512 cd = _mm512_shuffle_f32x4(c, d, 0x44);
  const __m512 ef = _mm512_shuffle_f32x4(a, b, 0xee);
  const __m512 gh = _mm512_shuffle_f32x4(c, d, 0xee);
  _mm512_storeu_ps(dst, _mm512_shuffle_f32x4(ab, cd, 0x88));
  _mm512_storeu_ps(dst + dst_stride, _mm512_shuffle_f32x4(ab, cd, 0xdd));
  _mm512_storeu_ps(dst + 2 * dst_stride, _mm512_shuffle_f32x4(ef, gh, 0x88));
  _mm512_storeu_ps(dst + 3 * dst_stride, _mm512_shuffle_f32x4(ef, gh, 0xdd));
}

// Computes dst[i * dst_stride + j] = src[j * src_stride + i] for i, j < 16.
// Stores take longest, so they are whole lines; so are loads, as rows a power
// of two apart would evict each other from the cache before a second load.
LS_INLINE void transpose_16x16(float *dst, size_t dst_stride, const float *src,
                               size_t src_stride) {
  __m512 rows[16];
  LS_UNROLL
  for (size_t j = 0; j < 16; ++j) {
    rows[j] = _mm512_loadu_ps(src + j * src_stride);
  }
  LS_UNROLL
  for (size_t j = 0; j < 16; j += 4)
    transpose_quarters(rows + j);
  LS_UNROLL
  for (size_t i = 0; i < 4; ++i)
    store_quarters(dst + i * dst_stride, 4 * dst_stride, rows[i], rows[i + 4],
                   rows[i + 8], rows[i + 12]);
}

// Computes dst[12 * i + j] = src[j * src_stride + i] for i < 16, j < 12, in
// whole lines too, each of which begins in one column of `src` and ends in
// another.
LS_INLINE void transpose_12x16(float *dst, const float *src,
                               size_t src_stride) {
  __m512 r[12];
  LS_UNROLL
  for (size_t j = 0; j < 12; ++j)
    r[j] = _mm512_loadu_ps(src + j * src_stride);
  LS_UNROLL
  for (size_t j = 0; j < 12; j += 4)
    transpose_quarters(r + j);
  store_quarters(dst, 48, r[0], r[4], r[8], r[1]);
  store_quarters(dst + 16, 48, r[5], r[9], r[2], r[6]);
  store_quarters(dst + 32, 48, r[10], r[3], r[7], r[11]);
}

#else

// dst[i * dst_stride + j] = src[j * src_stride + i] for i, j < 16.
LS_INLINE void transpose_16x16(float *dst, size_t dst_stride, const float *src,
                               size_t src_stride) {
  for (size_t j = 0; j < 16; j += 8) {
    const float *from = src + j * src_stride;
    transpose_8x8(dst + j, dst_stride, from, src_stride);
    transpose_8x8(dst + 8 * dst_stride + j, dst_stride, from + 8, src_stride);
  }
}

#endif

#endif  // LS_ENGINE_CPU_ISA_TRANSPOSE_H_
