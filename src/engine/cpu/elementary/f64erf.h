// SPDX-License-Identifier: Apache-2.0
//
// The error function of a double and its complement: as f64math.h. erf 0.85
// ulp, erfc 0.85.
#ifndef LS_ENGINE_CPU_ELEMENTARY_F64ERF_H_
#define LS_ENGINE_CPU_ELEMENTARY_F64ERF_H_

#include "engine/cpu/elementary/f64math.h"

// Results outside of a range are computed anyway, and replaced: clamped
// operands would be a choice in each step that they are in.

// Returns 1 / (a.hi + a.lo).
LS_ALWAYS_INLINE ls_f64_pair ls_f64_inverse(ls_f64_pair a) {
  const double r = 1.0 / a.hi;
  return (ls_f64_pair){r, r * ls_f64_fma(-r, a.lo, ls_f64_fma(-r, a.hi, 1.0))};
}

// Returns (1 + 2a) e^(a^2) erfc(a) for a from 0.3 to 27.5, given 1 / (a + 4),
// as a polynomial in t = (a - 4) / (a + 4).
LS_ALWAYS_INLINE ls_f64_pair ls_f64_erfc_factor(ls_f64_pair inverse) {
  const double t = ls_f64_fma(-8.0, inverse.hi, 1.0);
  const double low =
      ls_f64_fma(-8.0, inverse.lo, ls_f64_fma(-8.0, inverse.hi, 1.0 - t));
  const double p = LS_F64_POLY(
      t, -0x1.7241cc632f941p-27, -0x1.a6c5738782cf9p-27, 0x1.c99e52fc70b52p-24,
      0x1.20b6fc635c8e3p-24, -0x1.ba2ffd5f95d43p-21, 0x1.416e9a0760b04p-22,
      0x1.7f26a5fdfe83bp-18, -0x1.78a2c5e5de5ddp-17, -0x1.995a37a3b2736p-16,
      0x1.3be0d15c14683p-13, -0x1.a1df163dc1d34p-13, -0x1.8d4aa139dd0d5p-11,
      0x1.49c6726aa03ecp-8, -0x1.0962387dd55bep-6, 0x1.3079edf6ee127p-5,
      -0x1.0fb06dfe6acc4p-4, 0x1.7fee004e0eea2p-4, -0x1.9ddb23c3e7cd6p-4,
      0x1.16ecefcfa5525p-4, 0x1.f7f5df66fd564p-7, -0x1.1df1ad154a290p-3);
  const ls_f64_pair tp = ls_f64_mul(t, p);
  const ls_f64_pair sum = ls_f64_add_smaller(0x1.3ba5916e9fd7fp+0, tp.hi);
  // Adds the low part of t times the slope, of which few bits are needed.
  const double slope = LS_F64_POLY(t, -0.904, 0.637, 0.117, -0.179);
  return (ls_f64_pair){
      sum.hi,
      sum.lo + (tp.lo + ls_f64_fma(low, slope, -0x1.9327c86b73217p-55))};
}

LS_ALWAYS_INLINE double ls_f64_erfc(double x) {
  const double a = ls_f64_abs(x);
  const double more = a + 4.0, twice = ls_f64_fma(2.0, a, 1.0);
  const ls_f64_pair f =
      ls_f64_erfc_factor(ls_f64_inverse((ls_f64_pair){more, a - (more - 4.0)}));
  const ls_f64_pair under =
      ls_f64_inverse((ls_f64_pair){twice, ls_f64_fma(2.0, a, 1.0 - twice)});
  const ls_f64_pair square = ls_f64_mul(a, a);
  const ls_f64_power e = ls_f64_exp_parts(-square.hi, -square.lo);
  const ls_f64_pair one = ls_f64_add_smaller(1.0, e.p.hi);
  // Computes in units of 2^-128, in which no result is a denormal: the quotient
  // e^(-a^2) / (1 + 2a), with the sign of x, times f.
  const double power =
      ls_f64_copysign(ls_f64_double((e.n + 1023 + 128) << 52), x);
  const double high = power * under.hi;
  const ls_f64_pair q = ls_f64_mul(high, one.hi);
  const double low =
      q.lo + ls_f64_fma(high, one.lo + e.p.lo, power * under.lo * one.hi);
  const ls_f64_pair part = ls_f64_mul(q.hi, f.hi);
  const double rest = part.lo + ls_f64_fma(q.hi, f.lo, low * f.hi);
  const double base = x < 0.0 ? 0x1p129 : 0.0;
  const ls_f64_pair sum = ls_f64_add_smaller(base, part.hi);
  const double far = a <= 27.5 ? sum.hi + (sum.lo + rest) : base;
  const double p = LS_F64_POLY(
      x * x, -0x1.d5f526c462965p-17, 0x1.f8cd7a013cf7ep-14,
      -0x1.c02ac36305301p-11, 0x1.565bc7503f2a6p-8, -0x1.b82ce3060351bp-6,
      0x1.ce2f21a034653p-4, -0x1.812746b037971p-2, 0x1.20dd750429b6dp+0);
  const double y = a < 0.3 ? ls_f64_fma(-x, p, 1.0) : far * 0x1p-128;
  return x == x ? y : x;
}

// Holds erfc(a) as e^r 2^n.
typedef struct {
  double r, rounded;  // n, plus LS_F64_ROUNDER.
} ls_f64_erf_parts;

// Returns erf in two steps, each for many numbers at a time: as one, its chain
// of operations is longer than what a processor looks ahead. The first one
// computes log(erfc(a)) for a from 0.72 to 6.
LS_ALWAYS_INLINE ls_f64_erf_parts ls_f64_erf_begin(double x) {
  const double u = ls_f64_abs(x) - 0.75, first = 0x1.3deb034696c3ep+0;
  const double p = LS_F64_POLY(
      u, 0x1.f7c6f5ae3b99dp-43, -0x1.10d30cafa43d5p-37, 0x1.153f11a9c67d6p-33,
      -0x1.5f9ffb482b069p-30, 0x1.3783b09d76e14p-27, -0x1.96a55910f22adp-25,
      0x1.8c87fad04ea35p-23, -0x1.13e941c64bc9dp-21, 0x1.9a8662842fb0ap-21,
      0x1.70374e8b845c0p-20, -0x1.dfe56cb8666f2p-17, 0x1.c75ecc84c8d37p-15,
      -0x1.bc20620ce89d5p-14, -0x1.0fd47076fd06cp-13, 0x1.29978fd86b8b4p-9,
      -0x1.a056826d2e406p-7, 0x1.b15b51a650b9bp-5, 0x1.9d9eb7a122354p-1,
      0x1.1ce96da880971p+1);
  const double rounded = ls_f64_fma(ls_f64_fma(u, p, first),
                                    -0x1.71547652b82fep+0, LS_F64_ROUNDER);
  const double n = rounded - LS_F64_ROUNDER;
  // At n = -2 and -3 the errors of ln(2) and `first` cancel; below, e^r 2^n is
  // small.
  const double whole = ls_f64_fma(-n, 0x1.62e42fefa39efp-1, -first);
  return (ls_f64_erf_parts){ls_f64_fma(-u, p, whole), rounded};
}
LS_ALWAYS_INLINE double ls_f64_erf_end(double x, ls_f64_erf_parts parts) {
  const double size = ls_f64_abs(x), z = x * x, r = parts.r;
  const double q = LS_F64_POLY(r, 0x1.af7628672eb36p-26, 0x1.28b0f3b35727dp-22,
                               0x1.71dde9de23331p-19, 0x1.a01995bdb813ap-16,
                               0x1.a01a01b62a1d1p-13, 0x1.6c16c186061f2p-10,
                               0x1.111111110e505p-7, 0x1.555555554fe09p-5,
                               0x1.555555555555dp-3, 0x1.000000000000cp-1);
  const double power = ls_f64_double((ls_f64_bits(parts.rounded) + 1023) << 52);
  const double far = ls_f64_fma(-power, ls_f64_fma(r * r, q, r), 1.0 - power);
  const double p = LS_F64_POLY(z, 0x1.89e42141c9ba5p-27, -0x1.5641db9181527p-23,
                               0x1.b90cc3be9b229p-20, -0x1.f4c5b36e42fdfp-17,
                               0x1.f9a2ad76db591p-14, -0x1.c02db110bca79p-11,
                               0x1.565bcd0311866p-8, -0x1.b82ce312556d1p-6,
                               0x1.ce2f21a042470p-4, -0x1.812746b0379e0p-2);
  const double small = ls_f64_fma(x, 0x1.20dd750429b6dp+0,
                                  x * ls_f64_fma(z, p, 0x1.0a9587df05341p-56));
  const double y = size > 6.0 ? 1.0 : far;
  return ls_f64_copysign(size < 0.72 ? small : y, x);
}

#endif  // LS_ENGINE_CPU_ELEMENTARY_F64ERF_H_
