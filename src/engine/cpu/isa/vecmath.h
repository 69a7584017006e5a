// SPDX-License-Identifier: Apache-2.0
//
// Elementary functions on a vf: branch-free, the same bits on every
// instruction set, special cases as in C's <math.h>.
//
// Measured against libm in double, over every float:
//   exp 0.99 ulp, log 0.79, erf 0.96, sigmoid 2.4, rsqrt 1.5.
// A thread that flushes denormals to zero gets zeros for them here too: exp and
// sigmoid then end at the smallest normal number, and log sees 0.
//
// The polynomials are minimax fits (Remez, weighted for the relative error of
// the result) with their coefficients rounded to float.

#ifndef LS_ENGINE_CPU_ISA_VECMATH_H_
#define LS_ENGINE_CPU_ISA_VECMATH_H_

#include <math.h>

#include "engine/cpu/isa/vec.h"

// Adding this to a float x in [-2^22, 2^22] rounds it to an integer, which is
// then in the low bits of the sum.
#define LS_ROUNDER 12582912.0f  // 1.5 * 2^23

// A split of x: n * ln(2) + r with |r| <= 0.347.
typedef struct {
  vf r, n_as_float;
  vi n;  // The same as `n_as_float`.
} ls_vf_reduced;

LS_INLINE ls_vf_reduced ls_vf_reduce_exp(vf x) {
  const vf rounder = vf_set1(LS_ROUNDER);
  const vf shifted = vf_fma(x, vf_set1(1.44269504f), rounder);
  const vf n = vf_sub(shifted, rounder);
  // ln(2) in two parts; the first has 16 bits, so its multiples are exact.
  const vf r = vf_fnma(n, vf_set1(0.693145752f), x);
  return (ls_vf_reduced){
      .r = vf_fnma(n, vf_set1(1.42860677e-6f), r),
      .n_as_float = n,
      .n = vi_sub(vf_bits(shifted), vf_bits(rounder)),
  };
}

// Computes e^r - 1 for |r| <= 0.347.
LS_INLINE vf ls_vf_expm1_small(vf r) {
  vf p = vf_set1(0.00019914248f);
  p = vf_fma(p, r, vf_set1(0.00139411027f));
  p = vf_fma(p, r, vf_set1(0.00833327323f));
  p = vf_fma(p, r, vf_set1(0.041666355f));
  p = vf_fma(p, r, vf_set1(0.166666672f));
  p = vf_fma(p, r, vf_set1(0.5f));
  return vf_fma(vf_mul(r, r), p, r);
}

LS_INLINE vf ls_vf_exp(vf x) {
  // Beyond these bounds the result is infinite or zero anyway. A NaN stays.
  x = vf_max(vf_set1(-104.0f), vf_min(vf_set1(89.0f), x));
  const ls_vf_reduced s = ls_vf_reduce_exp(x);
  const vf ones = vf_set1(1.0f);
  return vf_ldexp(vf_add(ls_vf_expm1_small(s.r), ones), s.n_as_float, s.n);
}

// Computes log(1 + f) + e ln(2) for 1 + f in [sqrt(1/2), sqrt(2)).
LS_INLINE vf ls_vf_log_reduced(vf f, vf e) {
  // log(1 + f) = f - f^2 / 2 + f^3 q(f)
  const vf f2 = vf_mul(f, f);
  vf q = vf_set1(0.069153361f);
  q = vf_fma(q, f, vf_set1(-0.117897652f));
  q = vf_fma(q, f, vf_set1(0.118729644f));
  q = vf_fma(q, f, vf_set1(-0.123843536f));
  q = vf_fma(q, f, vf_set1(0.142186612f));
  q = vf_fma(q, f, vf_set1(-0.16669251f));
  q = vf_fma(q, f, vf_set1(0.200022265f));
  q = vf_fma(q, f, vf_set1(-0.249999866f));
  q = vf_fma(q, f, vf_set1(0.333333105f));
  vf y = vf_mul(vf_mul(f2, f), q);
  y = vf_fma(e, vf_set1(1.42860677e-6f), y);
  y = vf_fnma(f2, vf_set1(0.5f), y);
  return vf_fma(e, vf_set1(0.693145752f), vf_add(f, y));
}

LS_INLINE vf ls_vf_log(vf x) {
  // Denormals are scaled up by 2^23 first.
  const vm tiny = vf_lt(x, vf_set1(1.17549435e-38f));
  const vf scaled = vf_select(tiny, vf_mul(x, vf_set1(8388608.0f)), x);
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)).
  const vi offset = vi_sub(vf_bits(scaled), vi_set1(0x3f3504f3));
  vf e = vi_to_float(vi_shr(offset, 23));
  e = vf_sub(e, vf_select(tiny, vf_set1(23.0f), vf_zero()));
  const vi mantissa = vi_and(offset, vi_set1(0x007fffff));
  const vf m = vi_as_float(vi_add(mantissa, vi_set1(0x3f3504f3)));

  vf y = ls_vf_log_reduced(vf_sub(m, vf_set1(1.0f)), e);

  const vf zero = vf_zero();
  y = vf_select(vf_lt(x, zero), vf_set1(NAN), y);
  y = vf_select(vf_eq(x, zero), vf_set1(-INFINITY), y);
  // Infinity and NaN stay.
  const vm finite = vf_lt(x, vf_set1(INFINITY));
  return vf_select(finite, y, x);
}

LS_INLINE vf ls_vf_erf(vf x) {
  // Up to 0.8: x + x p(x^2).
  const vf x2 = vf_mul(x, x);
  vf p = vf_set1(-0.000653523894f);
  p = vf_fma(p, x2, vf_set1(0.00508513069f));
  p = vf_fma(p, x2, vf_set1(-0.0268208068f));
  p = vf_fma(p, x2, vf_set1(0.112831131f));
  p = vf_fma(p, x2, vf_set1(-0.376126021f));
  p = vf_fma(p, x2, vf_set1(0.128379166f));
  const vf small = vf_fma(p, x, x);

  // Above: 1 - e^(-t - t q(t)); from 3.95 on that is 1.
  const vf t = vf_min(vf_set1(3.95f), vf_abs(x));
  vf q = vf_set1(-0.000216262153f);
  q = vf_fma(q, t, vf_set1(0.00323351007f));
  q = vf_fma(q, t, vf_set1(-0.0229487009f));
  q = vf_fma(q, t, vf_set1(0.105352171f));
  q = vf_fma(q, t, vf_set1(0.635650814f));
  q = vf_fma(q, t, vf_set1(0.128533989f));
  const vf minus_t = vf_sub(vf_zero(), t), exponent = vf_fnma(q, t, minus_t);
  ls_vf_reduced s = ls_vf_reduce_exp(exponent);
  // Adds back the part that rounding took from the exponent.
  s.r = vf_add(s.r, vf_fnma(q, t, vf_sub(minus_t, exponent)));
  const vf power = vi_as_float(vi_shl(vi_add(s.n, vi_set1(127)), 23));
  const vf tail = vf_fma(power, ls_vf_expm1_small(s.r), power);
  const vf large = vf_copysign(vf_sub(vf_set1(1.0f), tail), x);
  const vm is_large = vf_lt(vf_set1(0.8f), vf_abs(x));
  return vf_select(is_large, large, small);
}

// Computes 1 / (1 + e^-x).
LS_INLINE vf ls_vf_sigmoid(vf x) {
  // Uses the form whose exponential does not overflow.
  const vf ones = vf_set1(1.0f);
  const vf e = ls_vf_exp(vf_sub(vf_zero(), vf_abs(x)));
  const vf numerator = vf_select(vf_lt(x, vf_zero()), e, ones);
  return vf_div(numerator, vf_add(ones, e));
}

// Computes 1 / sqrt(x); both operations are rounded.
LS_INLINE vf ls_vf_rsqrt(vf x) { return vf_div(vf_set1(1.0f), vf_sqrt(x)); }

// ---- Activations -----------------------------------------------------------
// Measured against libm in double: gelu errs by at most 3.1 ulp for x >= -1,
// below by at most 2^-22 |gelu(x)| (1 + x^2), as its exponent holds x^3. The
// slope errs by at most 2^-22.
//
// gelu by tanh, x (1 + tanh u) / 2, is x s with s = sigmoid(2u) = 1 / (1 +
// e^-2u) and 2u = x (A + B x^2): one exponential, and no cancellation for
// negative x.
#define LS_GELU_A 1.59576912f    // 2 sqrt(2 / pi)
#define LS_GELU_B 0.0713548163f  // A times 0.044715
// Bound of x: at -10 gelu is -1e-37, and below that the sigmoid is no normal
// number. At 10 the sigmoid is 1.
#define LS_GELU_END 10.0f

typedef struct {
  vf x;         // x, raised to at least -10.
  vf near;      // x, limited to [-10, 10],
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

#endif  // LS_ENGINE_CPU_ISA_VECMATH_H_
