// SPDX-License-Identifier: Apache-2.0
//
// Activations on a vf, the same bits on every instruction set.
//
// Measured against libm in double: softplus 1.7 ulp over every third
// float. gelu errs by at most 3.1 ulp for x >= -1, below by at most
// 2^-22 |gelu(x)| (1 + x^2), as its exponent holds x^3. The slope errs by at
// most 2^-22.

#ifndef LS_ENGINE_CPU_ISA_VECACTIVATION_H_
#define LS_ENGINE_CPU_ISA_VECACTIVATION_H_

#include "engine/cpu/isa/vecmath.h"

// log(1 + e^x) as max(x, 0) + log1p(e^-|x|).
LS_INLINE vf ls_vf_softplus(vf x) {
  const vf e = ls_vf_exp(vf_sub(vf_zero(), vf_abs(x)));
  return vf_add(vf_max(vf_zero(), x), ls_vf_log1p(e));
}

// The approximation of gelu by tanh, x (1 + tanh u) / 2, is x sigmoid(2u) with
// 2u = x (A + B x^2), which is x / (1 + e^-2u): one exponential, and nothing
// cancels for negative x.
#define LS_GELU_A 1.59576912f    // 2 sqrt(2 / pi)
#define LS_GELU_B 0.0713548163f  // A times 0.044715
// At -10 gelu is -1e-37; beyond, the sigmoid is no normal number.
#define LS_GELU_END 10.0f

LS_INLINE vf ls_vf_gelu(vf x) {
  x = vf_max(vf_set1(-LS_GELU_END), x);
  const vf slope =
      vf_fma(vf_mul(x, x), vf_set1(-LS_GELU_B), vf_set1(-LS_GELU_A));
  // Between e^-87 and e^87.4 the power is a normal number, and e^-87 adds
  // nothing to 1.
  const ls_vf_reduced s =
      ls_vf_reduce_exp(vf_max(vf_set1(-87.0f), vf_mul(x, slope)));
  const vf power = vi_as_float(vi_shl(vi_add(s.n, vi_set1(127)), 23));
  const vf e = vf_fma(power, ls_vf_expm1_small(s.r), power);
  return vf_div(x, vf_add(vf_set1(1.0f), e));
}

// With s = sigmoid(2u): s + x s (1 - s) (2u)'.
LS_INLINE vf ls_vf_gelu_slope(vf x) {
  x = vf_max(vf_set1(-LS_GELU_END), vf_min(vf_set1(LS_GELU_END), x));
  const vf one = vf_set1(1.0f), square = vf_mul(x, x);
  const vf t =
      vf_mul(x, vf_fma(square, vf_set1(LS_GELU_B), vf_set1(LS_GELU_A)));
  const vf inner =
      vf_fma(square, vf_set1(3.0f * LS_GELU_B), vf_set1(LS_GELU_A));
  // s and 1 - s: 1 / (1 + e) and e / (1 + e), which is which by the sign.
  const vf e = ls_vf_exp(vf_sub(vf_zero(), vf_abs(t)));
  const vf near = vf_div(one, vf_add(one, e)), far = vf_mul(e, near);
  const vf s = vf_select(vf_lt(t, vf_zero()), far, near);
  return vf_fma(vf_mul(vf_mul(near, far), x), inner, s);
}

#endif  // LS_ENGINE_CPU_ISA_VECACTIVATION_H_
