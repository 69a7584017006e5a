// SPDX-License-Identifier: Apache-2.0
//
// The product of doubles: exact in its order, not tuned further.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vec.h"

#define ELEM double
#define VEC vd
#define LANES VD_LANES
#define V(op) vd_##op
#define TURN transpose_panel
#define PRODUCT LS_ISA_NAME(ls_cpu_product_f64)
#define PRODUCT_SCRATCH LS_ISA_NAME(ls_cpu_product_f64_scratch)

// dst[p * width + j] = src[j * stride + p] for p < k, j < columns.
static void transpose_panel(double *dst, size_t width, const double *src,
                            size_t stride, size_t k, size_t columns) {
  for (size_t p = 0; p < k; ++p) {
    for (size_t j = 0; j < columns; ++j) {
      dst[p * width + j] = src[j * stride + p];
    }
  }
}

#include "engine/cpu/isa/product/product_body.h"
