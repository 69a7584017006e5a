// SPDX-License-Identifier: Apache-2.0
//
// The passes of softmax over a row.

#ifndef LS_ENGINE_CPU_ISA_SOFTMAX_ROW_H_
#define LS_ENGINE_CPU_ISA_SOFTMAX_ROW_H_

#include "engine/cpu/isa/vecmath.h"

LS_INLINE float row_max(const float *x, size_t n) {
  vf top = vf_set1(-INFINITY);
  size_t j = 0;
  for (; j + VF_LANES <= n; j += VF_LANES) {
    top = vf_max(top, vf_load(x + j));
  }
  if (j < n) {
    const vf tail = vf_load_n(x + j, n - j);
    top = vf_max(top, vf_first_n(n - j, tail, vf_set1(-INFINITY)));
  }
  return vf_max_lane(top);
}

// Returns the sum of e^(x - max) and, unless `dst` is NULL, stores the terms.
LS_INLINE float exp_row(float *dst, const float *x, size_t n, float max) {
  const vf shift = vf_set1(max);
  vf sums = vf_zero();
  size_t j = 0;
  for (; j + VF_LANES <= n; j += VF_LANES) {
    const vf e = ls_vf_exp(vf_sub(vf_load(x + j), shift));
    if (dst != NULL) vf_store(dst + j, e);
    sums = vf_add(sums, e);
  }
  if (j < n) {
    const vf e = ls_vf_exp(vf_sub(vf_load_n(x + j, n - j), shift));
    if (dst != NULL) vf_store_n(dst + j, n - j, e);
    sums = vf_add(sums, vf_first_n(n - j, e, vf_zero()));
  }
  return vf_sum(sums);
}

LS_INLINE void scale_row(float *x, size_t n, float factor, float second) {
  const vf factors = vf_set1(factor), seconds = vf_set1(second);
  size_t j = 0;
  for (; j + VF_LANES <= n; j += VF_LANES) {
    vf_store(x + j, vf_mul(vf_mul(vf_load(x + j), factors), seconds));
  }
  if (j < n) {
    const vf tail = vf_mul(vf_load_n(x + j, n - j), factors);
    vf_store_n(x + j, n - j, vf_mul(tail, seconds));
  }
}

#endif  // LS_ENGINE_CPU_ISA_SOFTMAX_ROW_H_
