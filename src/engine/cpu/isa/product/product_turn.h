// SPDX-License-Identifier: Apache-2.0
//
// Transposition of rows of 32-bit elements into a panel: TURN of
// product_body.h.

#ifndef LS_ENGINE_CPU_ISA_PRODUCT_TURN_H_
#define LS_ENGINE_CPU_ISA_PRODUCT_TURN_H_

#include "engine/cpu/isa/transpose.h"

// Transposes 4 values of k for transpose_floats.
LS_INLINE void transpose_four(float *dst, size_t width, const float *src,
                              size_t stride, size_t columns) {
  size_t j = 0;
  for (; j + 4 <= columns; j += 4) {
    transpose_4x4(dst + j, width, src + j * stride, stride);
  }
  for (; j < columns; ++j) {
    for (size_t p = 0; p < 4; ++p)
      dst[p * width + j] = src[j * stride + p];
  }
}

// Transposes 16 values of k for transpose_floats: a cache line of each row of
// src.
LS_INLINE void transpose_line(float *dst, size_t width, const float *src,
                              size_t stride, size_t columns) {
#if defined(__AVX512F__)
  // Handles the tile rows of A.
  if (columns == 12 && width == 12) {
    transpose_12x16(dst, src, stride);
    return;
  }
#endif
  size_t j = 0;
  for (; j + 16 <= columns; j += 16) {
    transpose_16x16(dst + j, width, src + j * stride, stride);
  }
  for (; j + 8 <= columns; j += 8) {
    const float *from = src + j * stride;
    transpose_8x8(dst + j, width, from, stride);
    transpose_8x8(dst + 8 * width + j, width, from + 8, stride);
  }
  if (j == columns) return;
  for (size_t p = 0; p < 16; p += 4) {
    transpose_four(dst + p * width + j, width, src + j * stride + p, stride,
                   columns - j);
  }
}

// dst[p * width + j] = src[j * stride + p] for p < k, j < columns.
static void transpose_floats(float *dst, size_t width, const float *src,
                             size_t stride, size_t k, size_t columns) {
  size_t p = 0;
  for (; p + 16 <= k; p += 16) {
    transpose_line(dst + p * width, width, src + p, stride, columns);
  }
  for (; p + 4 <= k; p += 4) {
    transpose_four(dst + p * width, width, src + p, stride, columns);
  }
  for (; p < k; ++p) {
    for (size_t j = 0; j < columns; ++j) {
      dst[p * width + j] = src[j * stride + p];
    }
  }
}

#endif  // LS_ENGINE_CPU_ISA_PRODUCT_TURN_H_
