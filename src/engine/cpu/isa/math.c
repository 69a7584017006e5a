// SPDX-License-Identifier: Apache-2.0
//
// Elementary functions over arrays.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vecmath.h"

#define LS_UNARY(name)                                                         \
  void LS_ISA_NAME(ls_cpu_##name)(float *dst, const float *src, size_t n) {    \
    size_t i = 0;                                                              \
    for (; i + VF_LANES <= n; i += VF_LANES) {                                 \
      vf_store(dst + i, ls_vf_##name(vf_load(src + i)));                       \
    }                                                                          \
    if (i < n) {                                                               \
      vf_store_n(dst + i, n - i, ls_vf_##name(vf_load_n(src + i, n - i)));     \
    }                                                                          \
  }

LS_UNARY(exp)
LS_UNARY(log)
LS_UNARY(erf)
LS_UNARY(sigmoid)
LS_UNARY(rsqrt)
LS_UNARY(gelu)

void LS_ISA_NAME(ls_cpu_gelu_grad)(float *dst, const float *dy, const float *x,
                                   size_t n) {
  size_t i = 0;
  for (; i + VF_LANES <= n; i += VF_LANES) {
    const ls_vf_gelu_parts g = ls_vf_gelu_begin(vf_load(x + i));
    vf_store(dst + i, vf_mul(vf_load(dy + i), ls_vf_gelu_slope(g)));
  }
  if (i < n) {
    const size_t left = n - i;
    const ls_vf_gelu_parts g = ls_vf_gelu_begin(vf_load_n(x + i, left));
    vf_store_n(dst + i, left,
               vf_mul(vf_load_n(dy + i, left), ls_vf_gelu_slope(g)));
  }
}

void LS_ISA_NAME(ls_cpu_gelu_again)(float *dx, float *y, const float *dy,
                                    const float *x, size_t n) {
  size_t i = 0;
  for (; i + VF_LANES <= n; i += VF_LANES) {
    const ls_vf_gelu_parts g = ls_vf_gelu_begin(vf_load(x + i));
    vf_store(dx + i, vf_mul(vf_load(dy + i), ls_vf_gelu_slope(g)));
    vf_store(y + i, ls_vf_gelu_end(g));
  }
  if (i < n) {
    const size_t left = n - i;
    const ls_vf_gelu_parts g = ls_vf_gelu_begin(vf_load_n(x + i, left));
    vf_store_n(dx + i, left,
               vf_mul(vf_load_n(dy + i, left), ls_vf_gelu_slope(g)));
    vf_store_n(y + i, left, ls_vf_gelu_end(g));
  }
}
