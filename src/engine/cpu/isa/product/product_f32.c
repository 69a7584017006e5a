// SPDX-License-Identifier: Apache-2.0
//
// The product of floats.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/product/product_turn.h"

#define ELEM float
#define VEC vf
#define LANES VF_LANES
#if defined(__AVX2__)
#define HALF vh
#endif
#define V(op) vf_##op
#define TURN transpose_floats
#define PRODUCT multiply_by_tiles
#define PRODUCT_SCRATCH LS_ISA_NAME(ls_cpu_product_f32_scratch)

static void PRODUCT(const ls_cpu_product *product, const ls_cpu_block *block,
                    void *scratch);
#include "engine/cpu/isa/product/product_body.h"

// Most rows that are multiplied by a transposed B without a copy of it, which
// would be used too rarely.
enum { FEW_ROWS = 4 };

// Computes `rows` rows of 16 columns, or fewer, from n on.
LS_EXPAND void multiply_turned(const ls_cpu_product *p, size_t m, size_t n,
                               size_t columns, const size_t rows) {
  enum { SIDE = VF_LANES };
  const size_t a_row = p->a_transposed ? 1 : p->lda;
  const size_t a_value = p->a_transposed ? p->lda : 1;
  const float *a = (const float *)p->a + m * a_row;
  const float *b = (const float *)p->b + n * p->ldb;
  float values[SIDE * SIDE] = {0};
  vf sum[FEW_ROWS];
  float *c = (float *)p->c + m * p->ldc + n;
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i)
    sum[i] = p->continues ? vf_load_n(c + i * p->ldc, columns) : vf_zero();
  for (size_t k = 0; k < p->k; k += SIDE) {
    const size_t some = min_size(SIDE, p->k - k);
    if (some == SIDE && columns == SIDE)
      transpose_16x16(values, SIDE, b + k, p->ldb);
    else
      transpose_floats(values, SIDE, b + k, p->ldb, some, columns);
    for (size_t j = 0; j < some; ++j, a += a_value) {
      const vf row = vf_load(values + j * SIDE);
      LS_UNROLL
      for (size_t i = 0; i < rows; ++i)
        sum[i] = vf_fma(vf_set1(a[i * a_row]), row, sum[i]);
    }
  }
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i, c += p->ldc) {
    vf x = sum[i];
    if (p->bias != NULL)
      x = vf_add(x, vf_load_n((const float *)p->bias + n, columns));
    if (p->activation == LS_CPU_ACTIVATION_RELU) x = vf_max(vf_zero(), x);
    if (p->accumulate) x = vf_add(vf_load_n(c, columns), x);
    vf_store_n(c, columns, x);
  }
}

void LS_ISA_NAME(ls_cpu_product_f32)(const ls_cpu_product *product,
                                     const ls_cpu_block *block, void *scratch) {
  const size_t rows = block->m1 - block->m0;
  if (!product->b_transposed || rows > FEW_ROWS || product->m_line > 0 ||
      product->k_line > 0) {
    multiply_by_tiles(product, block, scratch);
    return;
  }
  for (size_t n = block->n0; n < block->n1; n += VF_LANES) {
    const size_t columns = min_size(VF_LANES, block->n1 - n);
    if (rows == 1) multiply_turned(product, block->m0, n, columns, 1);
    if (rows == 2) multiply_turned(product, block->m0, n, columns, 2);
    if (rows == 3) multiply_turned(product, block->m0, n, columns, 3);
    if (rows == 4) multiply_turned(product, block->m0, n, columns, 4);
  }
}

void LS_ISA_NAME(ls_cpu_turn)(float *dst, size_t width, const float *src,
                              size_t stride, size_t k, size_t columns) {
  transpose_floats(dst, width, src, stride, k, columns);
}
