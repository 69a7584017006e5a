// SPDX-License-Identifier: Apache-2.0
//
// Comparison of vectors, where a NaN is larger than any number.

#ifndef LS_ENGINE_CPU_ISA_POOL_H_
#define LS_ENGINE_CPU_ISA_POOL_H_

#include "engine/cpu/isa/vec.h"
#include "engine/cpu/kernels.h"

// Returns a where `new` is larger than `old`, or the first NaN of the two; else
// b.
LS_INLINE vf where_larger(vf old, vf new, vf a, vf b) {
  return vf_select(vf_above(new, old), a, b);
}

// Finds the first of the largest of four, in row order, and its number.
LS_INLINE void pool_four(float *max, uint8_t *place, const vf x[4]) {
  const vm right = vf_above(x[1], x[0]), lower_right = vf_above(x[3], x[2]);
  const vf top = vf_select(right, x[1], x[0]);
  const vf bottom = vf_select(lower_right, x[3], x[2]);
  const vf above = vf_select(right, vf_set1(1), vf_zero());
  const vf below = vf_select(lower_right, vf_set1(3), vf_set1(2));
  const vm lower = vf_above(bottom, top);
  const vf most = vf_select(lower, bottom, top);
  vf_store(max, vf_mul(most, vf_set1(ls_cpu_one)));
  vb_store(place, vf_select(lower, below, above));
}

#endif  // LS_ENGINE_CPU_ISA_POOL_H_
