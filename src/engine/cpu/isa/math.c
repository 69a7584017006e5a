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
LS_UNARY(tanh)
LS_UNARY(erf)
LS_UNARY(sigmoid)
LS_UNARY(rsqrt)
