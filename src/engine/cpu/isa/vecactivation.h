// SPDX-License-Identifier: Apache-2.0
//
// Activations on a vf, the same bits on every instruction set.
//
// Measured against libm in double: gelu errs by at most 3.1 ulp for x >= -1,
// below by at most 2^-22 |gelu(x)| (1 + x^2), as its exponent holds x^3. The
// slope errs by at most 2^-22.

#ifndef LS_ENGINE_CPU_ISA_VECACTIVATION_H_
#define LS_ENGINE_CPU_ISA_VECACTIVATION_H_

#include "engine/cpu/isa/vecmath.h"

// gelu by tanh, x (1 + tanh u) / 2, is x s with s = sigmoid(2u) = 1 / (1 +
// e^-2u) and 2u = x (A + B x^2): one exponential, and no cancellation for
// negative x.
#define LS_GELU_A 1.59576912f    // 2 sqrt(2 / pi)
#define LS_GELU_B 0.0713548163f  // A times 0.044715
// At -10 gelu is -1e-37; beyond, the sigmoid is no normal number. At 10 it is
// 1.
#define LS_GELU_END 10.0f

typedef struct {
  vf x;         // At least -10.
  vf near;      // At most 10 too,
  vf square;    // its square,
  vf s, other;  // s of `near`, and 1 - s.
} ls_vf_gelu_parts;

LS_INLINE ls_vf_gelu_parts ls_vf_gelu_begin(vf x) {
  x = vf_max(vf_set1(-LS_GELU_END), x);
  const vf near = vf_min(vf_set1(LS_GELU_END), x), square = vf_mul(near, near);
  const vf minus_2u =
      vf_mul(near, vf_fma(square, vf_set1(-LS_GELU_B), vf_set1(-LS_GELU_A)));
  // Between e^-87.4 and e^87.4 the power is a normal number.
  const ls_vf_reduced r = ls_vf_reduce_exp(minus_2u);
  const vf power = vi_as_float(vi_shl(vi_add(r.n, vi_set1(127)), 23));
  const vf e = vf_fma(power, ls_vf_expm1_small(r.r), power);
  const vf ones = vf_set1(1.0f), s = vf_div(ones, vf_add(ones, e));
  return (ls_vf_gelu_parts){x, near, square, s, vf_mul(e, s)};
}

LS_INLINE vf ls_vf_gelu_end(ls_vf_gelu_parts g) { return vf_mul(g.x, g.s); }

// Computes s + x s (1 - s) (2u)'.
LS_INLINE vf ls_vf_gelu_slope(ls_vf_gelu_parts g) {
  const vf inner =
      vf_fma(g.square, vf_set1(3.0f * LS_GELU_B), vf_set1(LS_GELU_A));
  return vf_fma(vf_mul(vf_mul(g.s, g.other), g.near), inner, g.s);
}

LS_INLINE vf ls_vf_gelu(vf x) { return ls_vf_gelu_end(ls_vf_gelu_begin(x)); }

#endif  // LS_ENGINE_CPU_ISA_VECACTIVATION_H_
