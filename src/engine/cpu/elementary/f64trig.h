// SPDX-License-Identifier: Apache-2.0
//
// Sine, cosine, tangent and the angle of a point, of doubles: as f64math.h.
// sin 0.74 ulp, cos 0.74, tan 0.87, atan2 0.61.
#ifndef LS_ENGINE_CPU_ELEMENTARY_F64TRIG_H_
#define LS_ENGINE_CPU_ELEMENTARY_F64TRIG_H_

#include "engine/cpu/elementary/f64math.h"

#define LS_F64_LARGE_ANGLE 0x1p20
typedef struct {
  ls_f64_pair r;
  uint64_t quarter;
} ls_f64_angle;

LS_ALWAYS_INLINE ls_f64_angle ls_f64_reduce(double x) {
  const double shifted = ls_f64_fma(x, 0x1.45f306dc9c883p-1, LS_F64_ROUNDER);
  const double n = shifted - LS_F64_ROUNDER;
  // Splits pi / 2 into three parts of 33 bits, whose multiples by n are exact,
  // and a rest.
  const double first = ls_f64_fma(-n, 0x1.921fb544p+0, x);
  const ls_f64_pair second = ls_f64_add(first, -n * 0x1.0b4611a6p-34);
  const ls_f64_pair third = ls_f64_add(second.hi, -n * 0x1.3198a2ep-69);
  const double rest =
      ls_f64_fma(-n, 0x1.b839a252049c1p-104, second.lo + third.lo);
  return (ls_f64_angle){.r = ls_f64_add_smaller(third.hi, rest),
                        .quarter = ls_f64_bits(shifted)};
}

LS_ALWAYS_INLINE ls_f64_pair ls_f64_sin_small(ls_f64_pair r) {
  const double z = r.hi * r.hi;
  const double s = LS_F64_POLY(z, -0x1.ab161757f0c63p-41, 0x1.61217c1864fa1p-33,
                               -0x1.ae64540f0ba18p-26, 0x1.71de3a545e700p-19,
                               -0x1.a01a01a019926p-13, 0x1.1111111111110p-7,
                               -0x1.5555555555555p-3);
  return (ls_f64_pair){
      r.hi, ls_f64_fma(z * r.hi, s, ls_f64_fma(-0.5 * z, r.lo, r.lo))};
}
LS_ALWAYS_INLINE ls_f64_pair ls_f64_cos_small(ls_f64_pair r) {
  const double z = r.hi * r.hi, half = 0.5 * z, near = 1.0 - half;
  const double c = LS_F64_POLY(z, 0x1.ab76cf6e9b365p-45, -0x1.9394b76d1f265p-37,
                               0x1.1eed8de9ef73ep-29, -0x1.27e4fb7711e1dp-22,
                               0x1.a01a01a019d02p-16, -0x1.6c16c16c16c16p-10,
                               0x1.5555555555555p-5);
  const double lost = ls_f64_fma(0.5 * r.hi, r.hi, -half);
  return (ls_f64_pair){near, ((1.0 - near) - half) +
                                 (ls_f64_fma(z * z, c, -r.hi * r.lo) - lost)};
}
LS_ALWAYS_INLINE double ls_f64_sin_of(ls_f64_angle a, double x) {
  const ls_f64_pair s = ls_f64_sin_small(a.r), c = ls_f64_cos_small(a.r);
  const double y = a.quarter & 1 ? c.hi + c.lo : s.hi + s.lo;
  const double turned = a.quarter & 2 ? -y : y;
  return ((x == 0.0) | (x != x)) ? x : turned;
}
LS_ALWAYS_INLINE double ls_f64_cos_of(ls_f64_angle a, double x) {
  const ls_f64_pair s = ls_f64_sin_small(a.r), c = ls_f64_cos_small(a.r);
  const double y = a.quarter & 1 ? s.hi + s.lo : c.hi + c.lo;
  const double turned = (a.quarter + 1) & 2 ? -y : y;
  return x == x ? turned : x;
}
LS_ALWAYS_INLINE double ls_f64_tan_of(ls_f64_angle a, double x) {
  ls_f64_pair s = ls_f64_sin_small(a.r), c = ls_f64_cos_small(a.r);
  s = ls_f64_add_smaller(s.hi, s.lo);
  c = ls_f64_add_smaller(c.hi, c.lo);
  const int odd = (int)(a.quarter & 1);
  const ls_f64_pair over = {odd ? -c.hi : s.hi, odd ? -c.lo : s.lo};
  const ls_f64_pair under = {odd ? s.hi : c.hi, odd ? s.lo : c.lo};
  const double y = ls_f64_div(over, under);
  return ((x == 0.0) | (x != x)) ? x : y;
}

LS_ALWAYS_INLINE double ls_f64_atan2(double y, double x) {
  const double inf = (double)INFINITY;
  double a = ls_f64_abs(y), b = ls_f64_abs(x);
  const int swap = a > b;
  double over = swap ? b : a, under = swap ? a : b;
  // Scales both so that the sum does not overflow and the rest of the quotient
  // is no denormal.
  const double scale = under > 0x1p1000   ? 0x1p-100
                       : under < 0x1p-800 ? 0x1p200
                                          : 1.0;
  const int ends = under == inf, same = over == under;
  over = same ? 1.0 : over * scale, under = same ? 1.0 : under * scale;
  // Above tan(pi / 8), uses atan(q) = pi / 4 + atan((q - 1) / (q + 1)).
  const int high = over > 0x1.a827999fcef32p-2 * under;
  const ls_f64_pair difference = ls_f64_add_smaller(under, -over),
                    sum = ls_f64_add_smaller(under, over);
  const ls_f64_pair top = {high ? -difference.hi : over,
                           high ? -difference.lo : 0.0};
  const ls_f64_pair bottom = {high ? sum.hi : under, high ? sum.lo : 0.0};
  const double r = 1.0 / bottom.hi, q = top.hi * r;
  const double low = r * (ls_f64_fma(-q, bottom.hi, top.hi) +
                          ls_f64_fma(-q, bottom.lo, top.lo));
  const ls_f64_pair u = ls_f64_add_smaller(q, low);
  const double z = u.hi * u.hi;
  const double p = LS_F64_POLY(
      z, -0x1.c7a6bc6dde7f9p-7, 0x1.f5ba271a2a8e8p-6, -0x1.5030c28013685p-5,
      0x1.829a09d7f37d9p-5, -0x1.aebcad6415c5dp-5, 0x1.e1d8ddf459f4dp-5,
      -0x1.1110ce80547d7p-4, 0x1.3b13aea53b18fp-4, -0x1.745d173542f7ap-4,
      0x1.c71c71c6dd2d8p-4, -0x1.24924924920a3p-3, 0x1.9999999999997p-3,
      -0x1.5555555555555p-2);
  // Adds the constants to u + u^3 p.
  ls_f64_pair angle = {u.hi,
                       ls_f64_fma(z * u.hi, p, ls_f64_fma(-z, u.lo, u.lo))};
  const ls_f64_pair eighth = {high ? 0x1.921fb54442d18p-1 : 0.0,
                              high ? 0x1.1a62633145c07p-55 : 0.0};
  ls_f64_pair t = ls_f64_add_smaller(eighth.hi, angle.hi);
  angle = (ls_f64_pair){t.hi, t.lo + (angle.lo + eighth.lo)};
  const int none = (ends & !same) | (a == 0.0);
  angle.hi = none ? 0.0 : angle.hi;
  angle.lo = none ? 0.0 : angle.lo;
  // Returns pi / 2 - angle if the operands were swapped, pi - angle for x < 0.
  const int left = (int)(ls_f64_bits(x) >> 63);
  const double flip = swap != left ? -1.0 : 1.0;
  const double base = swap   ? 0x1.921fb54442d18p+0
                      : left ? 0x1.921fb54442d18p+1
                             : 0.0;
  const double more = swap   ? 0x1.1a62633145c07p-54
                      : left ? 0x1.1a62633145c07p-53
                             : 0.0;
  t = ls_f64_add_smaller(base, flip * angle.hi);
  const double sum2 = t.hi + (t.lo + (more + flip * angle.lo));
  const double made = base == 0.0 ? angle.hi + angle.lo : sum2;
  return ((x != x) | (y != y)) ? x + y : ls_f64_copysign(made, y);
}

#endif  // LS_ENGINE_CPU_ELEMENTARY_F64TRIG_H_
