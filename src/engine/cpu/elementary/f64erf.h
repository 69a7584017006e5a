// SPDX-License-Identifier: Apache-2.0
//
// The error function of a double and its complement: as f64math.h. erf 0.88
// ulp, erfc 0.95.
#ifndef LS_ENGINE_CPU_ELEMENTARY_F64ERF_H_
#define LS_ENGINE_CPU_ELEMENTARY_F64ERF_H_

#include "engine/cpu/elementary/f64math.h"

// Holds v 2^n.
typedef struct {
  ls_f64_pair v;
  uint64_t n;
} ls_f64_scaled;
LS_ALWAYS_INLINE ls_f64_scaled ls_f64_erfc_parts(double a) {
  // Approximates (1 + 2a) e^(a^2) erfc(a) in t = (a - 3.5) / (a + 3.5).
  const ls_f64_pair above = ls_f64_add(a, -3.5), below = ls_f64_add(a, 3.5);
  const double r = 1.0 / below.hi, q = above.hi * r;
  const double low = r * (ls_f64_fma(-q, below.hi, above.hi) +
                          ls_f64_fma(-q, below.lo, above.lo));
  const double t = q;
  const double p = LS_F64_POLY(
      t, 0x1.6cef7126ea95dp-27, 0x1.e9ccf09c7c7d1p-32, -0x1.92706c5ad004fp-24,
      -0x1.04f7809973a26p-27, 0x1.42b1681063b8bp-21, -0x1.7f2200c787808p-25,
      -0x1.0006639eee733p-18, 0x1.38876c278b0e2p-19, 0x1.97094b1799c38p-16,
      -0x1.66e24ca888be6p-15, -0x1.fda91287c6d1ap-14, 0x1.27e66575ee4c5p-11,
      -0x1.3cf369226993cp-12, -0x1.143c4caa1ededp-8, 0x1.38ec6670eee71p-6,
      -0x1.8ff5ef76c9c22p-5, 0x1.686106046f951p-4, -0x1.d76830c35348dp-4,
      0x1.8f702ec6b32d2p-4);
  // Does the last three steps in pairs: c0 + t (c1 + t (c2 + t p)).
  const ls_f64_pair tr = ls_f64_mul(t, p);
  const ls_f64_pair f = ls_f64_add(-0x1.59e2c284b119ap-7, tr.hi);
  ls_f64_pair tp = ls_f64_mul(t, f.hi);
  tp.lo += t * (f.lo + tr.lo);
  ls_f64_pair g = ls_f64_add(-0x1.1ebd220ea593bp-3, tp.hi);
  g.lo += tp.lo;
  const ls_f64_pair tg = ls_f64_mul(t, g.hi);
  const ls_f64_pair sum = ls_f64_add_smaller(0x1.3e0a99a0ee914p+0, tg.hi);
  // Adds what the low part of t contributes, by the derivative.
  const ls_f64_pair h = {
      sum.hi,
      sum.lo + (tg.lo + ls_f64_fma(t, g.lo,
                                   ls_f64_fma(low, ls_f64_fma(t, f.hi, g.hi),
                                              -0x1.902ad861c501cp-57)))};
  // Multiplies with e^(-a^2) and divides by 1 + 2a.
  const ls_f64_pair square = ls_f64_mul(a, a);
  const ls_f64_power e = ls_f64_exp_parts(-square.hi, -square.lo);
  const ls_f64_pair one = ls_f64_add_smaller(1.0, e.p.hi);
  const ls_f64_pair top =
      ls_f64_mul_pairs((ls_f64_pair){one.hi, one.lo + e.p.lo}, h);
  const ls_f64_pair under = ls_f64_add(1.0, 2.0 * a);
  const double ur = 1.0 / under.hi, y = top.hi * ur;
  const double rest =
      ls_f64_fma(-y, under.hi, top.hi) + ls_f64_fma(-y, under.lo, top.lo);
  return (ls_f64_scaled){ls_f64_add_smaller(y, rest * ur), e.n};
}

// Returns erf(x) for |x| up to 1.2: x (2 / sqrt(pi) + x^2 p(x^2)).
LS_ALWAYS_INLINE ls_f64_pair ls_f64_erf_small(double x) {
  const double z = x * x;
  const double p = LS_F64_POLY(
      z, 0x1.01a77cf0d2e4ap-42, -0x1.96211060a507fp-38, 0x1.9324801e48fb6p-34,
      -0x1.508980a49c6a8p-30, 0x1.fc8f14fc53ad6p-27, -0x1.5f70ff9419123p-23,
      0x1.b9e684d091cf6p-20, -0x1.f4d25809e358fp-17, 0x1.f9a326cb720d5p-14,
      -0x1.c02db3fee43fep-11, 0x1.565bcd0e63acfp-8, -0x1.b82ce312888e6p-6,
      0x1.ce2f21a042bdbp-4);
  const ls_f64_pair last = ls_f64_mul(z, p);
  const ls_f64_pair q = ls_f64_add_smaller(-0x1.812746b0379e7p-2, last.hi);
  const ls_f64_pair zp = ls_f64_mul(z, q.hi);
  const ls_f64_pair factor = ls_f64_add_smaller(0x1.20dd750429b6dp+0, zp.hi);
  const double low =
      factor.lo +
      ls_f64_fma(ls_f64_fma(x, x, -z), q.hi,
                 ls_f64_fma(z, q.lo + last.lo, zp.lo + 0x1.1ae3a914fed80p-56));
  const ls_f64_pair product = ls_f64_mul(x, factor.hi);
  return (ls_f64_pair){product.hi, ls_f64_fma(x, low, product.lo)};
}

// Results outside of a range are computed anyway, and replaced: clamped
// operands would be a choice in each step that they are in.
LS_ALWAYS_INLINE double ls_f64_erfc(double x) {
  const double size = ls_f64_abs(x);
  const ls_f64_scaled s = ls_f64_erfc_parts(size);
  const double right = size > 27.5 ? 0.0 : ls_f64_scale(s.v.hi, s.n);
  // Computes 2 - erfc(|x|), whose second term vanishes from 2^-1000 on.
  const uint64_t n = (int64_t)s.n < -1000 ? (uint64_t)-1000 : s.n;
  const double power = ls_f64_double((n + 1023) << 52);
  const ls_f64_pair two = ls_f64_add_smaller(2.0, -power * s.v.hi);
  const double left = size > 27.5 ? 2.0 : two.hi + (two.lo - power * s.v.lo);
  const ls_f64_pair small = ls_f64_erf_small(x);
  const ls_f64_pair one = ls_f64_add_smaller(1.0, -small.hi);
  const double far = x < 0.0 ? left : x == x ? right : x;
  return size < 0.5 ? one.hi + (one.lo - small.lo) : far;
}

// Returns erfc(a) for a from 1.2 to 6, to 2^-55: enough for its complement.
LS_ALWAYS_INLINE double ls_f64_erfc_near(double a) {
  // Approximates (1 + 2a) e^(a^2) erfc(a) in t = (a - 2.4) / (a + 2.4).
  const double twice = ls_f64_fma(2.0, a, 1.0);
  const double r = 1.0 / ((a + 2.4) * twice);
  const double p = LS_F64_POLY(
      (a - 2.4) * twice * r, -0x1.d24110e0be719p-15, 0x1.9b3ba1e80af58p-14,
      0x1.5de8c6b528e55p-11, -0x1.f1f66741bdd10p-13, -0x1.0a4eb386f94bep-8,
      0x1.23be4d0cd047ap-8, 0x1.8def822eef28ep-6, -0x1.89a20feb06ac1p-4,
      0x1.4ab1fcfffa4edp-3, -0x1.c7b2801c7eff9p-4, -0x1.e39867b66ff82p-4,
      0x1.446d4ab2834afp+0);
  return ls_f64_exp_normal(-a * a) * (p * ((a + 2.4) * r));
}

LS_ALWAYS_INLINE double ls_f64_erf(double x) {
  const double size = ls_f64_abs(x);
  const ls_f64_pair small = ls_f64_erf_small(x);
  const double far = size > 6.0 ? 1.0 : 1.0 - ls_f64_erfc_near(size);
  return ls_f64_copysign(size < 1.2     ? small.hi + small.lo
                         : size == size ? far
                                        : x,
                         x);
}

#endif  // LS_ENGINE_CPU_ELEMENTARY_F64ERF_H_
