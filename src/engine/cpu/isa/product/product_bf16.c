// SPDX-License-Identifier: Apache-2.0
//
// The product of floats that are first rounded to bf16. Two neighbours along k
// make a pair of 32 bits, the even one in the lower half, when panels are
// copied; everything else is product_body.h on pairs: half as many values of k,
// and an addition of both products of a pair, the odd one first, each exact and
// each sum rounded, like vdpbf16ps; without that instruction the same bits are
// computed in two steps.

#include <string.h>

#include "engine/cpu/isa/bf16.h"
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/product/product_tile.h"
#include "engine/cpu/isa/product/product_turn.h"

// ---- Pairs -----------------------------------------------------------------
// Interleaves two rows of n pairs; without `odd`, zeros.
LS_INLINE void interleave_rows(float *target, const float *even,
                               const float *odd, const size_t n) {
  LS_UNROLL
  for (size_t i = 0; i < n; i += VF_LANES) {
    const size_t left = n - i;
    if (left >= VF_LANES && odd != NULL) {
      vf_store(target + i, pair_bf16(vf_load(even + i), vf_load(odd + i)));
      continue;
    }
    const size_t lanes = left < VF_LANES ? left : VF_LANES;
    const vf above = odd == NULL ? vf_zero() : vf_load_n(odd + i, lanes);
    vf_store_n(target + i, lanes, pair_bf16(vf_load_n(even + i, lanes), above));
  }
}

// Makes pairs of a row of n values of `from`; a single value at the end is
// paired with a zero.
static void make_pairs(float *target, const float *from, size_t n) {
  uint16_t *halves = (uint16_t *)(void *)target;
  size_t i = 0;
#if defined(__AVX512BF16__)
  for (; i + 2 * VF_LANES <= n; i += 2 * VF_LANES)
    _mm512_storeu_si512(
        halves + i, (__m512i)_mm512_cvtne2ps_pbh(vf_load(from + i + VF_LANES),
                                                 vf_load(from + i)));
#endif
  for (; i < n; ++i)
    halves[i] = ls_narrow_bf16(LS_FLUSHED(float, from[i]));
  if (n % 2 != 0) memset(halves + n, 0, sizeof(*halves));
}

// ---- Copies ----------------------------------------------------------------
// Sets dst[p * width + j] to the values 2 p and 2 p + 1 of src[value * stride +
// j] for j < columns, of k values,
LS_INLINE void zip_rows(float *dst, size_t width, const float *src,
                        size_t stride, size_t k, const size_t columns) {
  for (; k >= 2; k -= 2, src += 2 * stride, dst += width)
    interleave_rows(dst, src, src + stride, columns);
  if (k > 0) interleave_rows(dst, src, NULL, columns);
}

static void copy_pairs(float *dst, size_t width, const float *src,
                       size_t stride, size_t k, size_t columns) {
  enum { PANEL_COLUMNS = LS_TILE_VECTORS * VF_LANES };
  if (columns == PANEL_COLUMNS)
    zip_rows(dst, width, src, stride, k, PANEL_COLUMNS);
  else if (columns == LS_TILE_ROWS)
    zip_rows(dst, width, src, stride, k, LS_TILE_ROWS);
  else
    zip_rows(dst, width, src, stride, k, columns);
}

// Sets dst to the values 2 p and 2 p + 1 of src[j * stride + value].
static void transpose_pairs(float *dst, size_t width, const float *src,
                            size_t stride, size_t k, size_t columns) {
  enum { SIDE = VF_LANES, MOST = LS_TILE_VECTORS * VF_LANES };
  float rows[MOST * SIDE];
  for (size_t v = 0; v < k; v += 2 * SIDE) {
    const size_t values = k - v < 2 * SIDE ? k - v : 2 * SIDE;
    for (size_t j = 0; j < columns; ++j)
      make_pairs(rows + j * SIDE, src + j * stride + v, values);
    transpose_floats(dst + v / 2 * width, width, rows, SIDE, (values + 1) / 2,
                     columns);
  }
}

// ---- Product ---------------------------------------------------------------
#define PAIRED
#define MULTIPLY_ADD pair_multiply_add
#define ELEM float
#define VEC vf
#define LANES VF_LANES
#define V(op) vf_##op
#define COPY copy_pairs
#define TURN transpose_pairs
#define PRODUCT LS_ISA_NAME(ls_cpu_product_bf16)
#define PRODUCT_SCRATCH LS_ISA_NAME(ls_cpu_product_bf16_scratch)

#include "engine/cpu/isa/product/product_body.h"
