// SPDX-License-Identifier: Apache-2.0
//
// The larger of vectors, a NaN being larger than any number, and which it was.

#ifndef LS_ENGINE_CPU_ISA_POOL_H_
#define LS_ENGINE_CPU_ISA_POOL_H_

#include "engine/cpu/isa/vec.h"

// The second where it is larger or a NaN, else the first.
LS_INLINE vf larger(vf old, vf new) {
  return vf_select(vf_is_nan(new), new, vf_max(new, old));
}

// a where `new` is larger than `old`, or the first NaN of the two; else b.
LS_INLINE vf where_larger(vf old, vf new, vf a, vf b) {
  const vf of_nan = vf_select(vf_is_nan(old), b, a);
  return vf_select(vf_lt(old, new), a, vf_select(vf_is_nan(new), of_nan, b));
}

// The first of the largest of four, in row order, and its number.
LS_INLINE void pool_four(float *max, uint8_t *place, const vf x[4]) {
  const vf one = vf_set1(1);
  const vf top = where_larger(x[0], x[1], x[1], x[0]);
  const vf bottom = where_larger(x[2], x[3], x[3], x[2]);
  const vf above = where_larger(x[0], x[1], one, vf_zero());
  const vf below = vf_add(where_larger(x[2], x[3], one, vf_zero()), vf_set1(2));
  vf_store(max, where_larger(top, bottom, bottom, top));
  vb_store(place, where_larger(top, bottom, below, above));
}

#endif  // LS_ENGINE_CPU_ISA_POOL_H_
