// SPDX-License-Identifier: Apache-2.0
//
// Sine, cosine and tangent on a vf, the same bits on every instruction set.
//
// Measured against libm in double, over every third float:
//   sin 1.5 ulp, cos 1.5, tan 3.4.
//
// The polynomials are minimax fits (Remez, weighted for the relative error of
// the result) with their coefficients rounded to float.

#ifndef LS_ENGINE_CPU_ISA_VECTRIG_H_
#define LS_ENGINE_CPU_ISA_VECTRIG_H_

#include "engine/cpu/isa/vecmath.h"
#include "engine/cpu/elementary/large_angle.h"

// Larger angles are reduced by integers, lane by lane.
#define LS_LARGE_ANGLE 65536.0f

// x split as quarter * pi / 2 + r with |r| <= 0.789.
typedef struct {
  vf r;
  vi quarter;  // The low two bits count.
} ls_vf_turned;

// Recomputes the lanes of large angles; infinities become NaN.
static __attribute__((noinline, unused)) void ls_vf_turn_large(vf x, vf *r,
                                                               vf *quarter) {
  float xs[VF_LANES], rs[VF_LANES], quarters[VF_LANES];
  vf_store(xs, x);
  vf_store(rs, *r);
  vf_store(quarters, *quarter);
  for (int i = 0; i < VF_LANES; ++i) {
    if (fabsf(xs[i]) >= LS_LARGE_ANGLE)
      rs[i] = ls_turn_reduce(xs[i], &quarters[i]);
  }
  *r = vf_load(rs);
  *quarter = vf_load(quarters);
}

LS_INLINE ls_vf_turned ls_vf_reduce_turn(vf x) {
  const vf rounder = vf_set1(LS_ROUNDER);
  vf n = vf_sub(vf_fma(x, vf_set1(0.636619747f), rounder), rounder);
  // pi / 2 in three parts. Where the first difference is small it is exact.
  vf r = vf_fnma(n, vf_set1(0x1.921fb6p+0f), x);
  r = vf_fnma(n, vf_set1(-0x1.777a5cp-25f), r);
  r = vf_fnma(n, vf_set1(-0x1.ee59dap-50f), r);
  // Converted to numbers, since the maximum of lanes with a NaN may be any of
  // them.
  const vm small = vf_lt(vf_abs(x), vf_set1(LS_LARGE_ANGLE));
  const vf large = vf_select(small, vf_zero(), vf_set1(1.0f));
  if (vf_max_lane(large) > 0.0f) ls_vf_turn_large(x, &r, &n);
  return (ls_vf_turned){
      .r = r,
      .quarter = vi_sub(vf_bits(vf_add(n, rounder)), vf_bits(rounder)),
  };
}

LS_INLINE vf ls_vf_sin_small(vf r) {
  const vf z = vf_mul(r, r);
  vf p = vf_set1(2.7179713e-06f);
  p = vf_fma(p, z, vf_set1(-0.00019839297f));
  p = vf_fma(p, z, vf_set1(0.0083333291f));
  p = vf_fma(p, z, vf_set1(-0.16666667f));
  return vf_fma(p, vf_mul(z, r), r);
}

LS_INLINE vf ls_vf_cos_small(vf r) {
  const vf z = vf_mul(r, r);
  vf p = vf_set1(2.4431669e-05f);
  p = vf_fma(p, z, vf_set1(-0.0013887304f));
  p = vf_fma(p, z, vf_set1(0.041666646f));
  p = vf_fma(p, z, vf_set1(-0.5f));
  return vf_fma(p, z, vf_set1(1.0f));
}

// Returns 1 or -1, as bit `bit` of each lane is 0 or 1.
LS_INLINE vf ls_vf_sign_of_bit(vi a, unsigned bit) {
  const vi sign = vi_and(vi_shl(a, 31 - bit), vi_set1(INT32_MIN));
  return vi_as_float(vi_or(sign, vi_set1(0x3f800000)));
}

LS_INLINE vf ls_vf_sin_of(ls_vf_turned t) {
  const vm odd = vf_lt(ls_vf_sign_of_bit(t.quarter, 0), vf_zero());
  const vf y = vf_select(odd, ls_vf_cos_small(t.r), ls_vf_sin_small(t.r));
  return vf_mul(y, ls_vf_sign_of_bit(t.quarter, 1));
}

// Returns x where sin x and tan x equal x, else y. Keeps -0.
LS_INLINE vf ls_vf_or_tiny(vf x, vf y) {
  return vf_select(vf_lt(vf_abs(x), vf_set1(0x1p-13f)), x, y);
}

LS_INLINE vf ls_vf_sin(vf x) {
  return ls_vf_or_tiny(x, ls_vf_sin_of(ls_vf_reduce_turn(x)));
}

LS_INLINE vf ls_vf_cos(vf x) {
  ls_vf_turned t = ls_vf_reduce_turn(x);
  t.quarter = vi_add(t.quarter, vi_set1(1));
  return ls_vf_sin_of(t);
}

// sin / cos, or -cos / sin.
LS_INLINE vf ls_vf_tan(vf x) {
  const ls_vf_turned t = ls_vf_reduce_turn(x);
  const vf s = ls_vf_sin_small(t.r), c = ls_vf_cos_small(t.r);
  const vf sign = ls_vf_sign_of_bit(t.quarter, 0);
  const vm odd = vf_lt(sign, vf_zero());
  const vf top = vf_select(odd, c, s), bottom = vf_select(odd, s, c);
  return ls_vf_or_tiny(x, vf_mul(vf_div(top, bottom), sign));
}

#endif  // LS_ENGINE_CPU_ISA_VECTRIG_H_
