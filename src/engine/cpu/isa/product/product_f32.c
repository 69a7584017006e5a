// SPDX-License-Identifier: Apache-2.0
//
// The product of floats.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/product/product_turn.h"

#define ELEM float
#define VEC vf
#define LANES VF_LANES
#define V(op) vf_##op
#define TURN transpose_floats
#define PRODUCT LS_ISA_NAME(ls_cpu_product_f32)
#define PRODUCT_SCRATCH LS_ISA_NAME(ls_cpu_product_f32_scratch)

#include "engine/cpu/isa/product/product_body.h"

void LS_ISA_NAME(ls_cpu_turn)(float *dst, size_t width, const float *src,
                              size_t stride, size_t k, size_t columns) {
  transpose_floats(dst, width, src, stride, k, columns);
}
