// SPDX-License-Identifier: Apache-2.0
//
// Elementary functions of a float that compute in double: as f64math.h, 0.53
// ulp. In single precision pairs of numbers would cost as much.
#ifndef LS_ENGINE_CPU_ELEMENTARY_F32MATH_H_
#define LS_ENGINE_CPU_ELEMENTARY_F32MATH_H_

#include "engine/cpu/elementary/f64math.h"

// Returns e^x - 1 = x + x^2 q(x) for |x| < 0.35, to 2^-32.
LS_ALWAYS_INLINE double ls_f32_expm1_small(double x) {
  const double q = LS_F64_POLY(x, 0x1.a1256cd2f13c2p-13, 0x1.6d43af18200d3p-10,
                               0x1.1110e0c5c7f50p-7, 0x1.5554e8a22b84cp-5,
                               0x1.5555555a800cdp-3, 0x1.0000000ba132cp-1);
  return ls_f64_fma(x * x, q, x);
}
// Returns e^x + rest for |x| up to 700, where rest is 0 or -1, to 2^-32 of it.
LS_ALWAYS_INLINE double ls_f32_exp_plus(double x, double rest) {
  const double shifted = ls_f64_fma(x, 0x1.71547652b82fep+0, LS_F64_ROUNDER);
  const double n = shifted - LS_F64_ROUNDER;
  const double r = ls_f64_fma(-n, 0x1.62e42fefa39efp-1, x);
  const uint64_t bits = ls_f64_bits(shifted) - ls_f64_bits(LS_F64_ROUNDER);
  const double power = ls_f64_double((bits + 1023) << 52);
  return ls_f64_fma(power, ls_f32_expm1_small(r), power + rest);
}

LS_ALWAYS_INLINE float ls_f32_expm1(float value) {
  const double y =
      ls_f32_exp_plus(ls_f64_clamp((double)value, -40.0, 90.0), -1.0);
  return (float)ls_f64_copysign(y, (double)value);
}
LS_ALWAYS_INLINE float ls_f32_tanh(float value) {
  const double x = (double)value, size = ls_f64_abs(x);
  const double q = ls_f32_exp_plus(-2.0 * (size > 10.0 ? 10.0 : size), -1.0);
  return (float)ls_f64_copysign(-q / (q + 2.0), x);
}

// Returns log(1 + f) + e ln(2) for 1 + f in [sqrt(1/2), sqrt(2)], to 2^-35.
LS_ALWAYS_INLINE double ls_f32_log_reduced(double f, double e) {
  const double s = f / (2.0 + f), z = s * s;
  const double a = LS_F64_POLY(z, 0x1.8c92867b49a01p-3, 0x1.c67a84e8a4ba0p-3,
                               0x1.249324907dae3p-2, 0x1.999998ca249fbp-2,
                               0x1.5555555564fdap-1, 2.0);
  return ls_f64_fma(e, 0x1.62e42fefa39efp-1, s * a);
}
// Returns log(1 + x) for x > -1.
LS_ALWAYS_INLINE double ls_f32_log1p_of(double x) {
  const ls_f64_mantissa u = ls_f64_split_normal(1.0 + x);
  return ls_f32_log_reduced(u.e == 0.0 ? x : u.m - 1.0, u.e);
}
LS_ALWAYS_INLINE double ls_f32_log1p_inside(double x) {
  return ls_f64_copysign(ls_f32_log1p_of(x), x);
}
LS_ALWAYS_INLINE float ls_f32_log1p(float value) {
  const double x = (double)value;
  double y = ls_f32_log1p_inside(x);
  y = x < -1.0 ? (double)NAN : x == -1.0 ? -(double)INFINITY : y;
  return (float)(x < (double)INFINITY ? y : x);
}
// Returns log(1 + e^x) as max(x, 0) + log1p(e^-|x|).
LS_ALWAYS_INLINE float ls_f32_softplus(float value) {
  const double x = (double)value, size = ls_f64_abs(x);
  const double e = ls_f32_exp_plus(-(size > 200.0 ? 200.0 : size), 0.0);
  const double y = (0.0 > x ? 0.0 : x) + ls_f32_log1p_of(e);
  return (float)(x == x ? y : x);
}

// Returns x^y without the cases of ls_f64_pow_ends.
LS_ALWAYS_INLINE double ls_f32_pow_inside(double x, double y) {
  const ls_f64_mantissa part = ls_f64_split_normal(ls_f64_abs(x));
  const double log = ls_f32_log_reduced(part.m - 1.0, part.e);
  return ls_f32_exp_plus(ls_f64_clamp(y * log, -200.0, 200.0), 0.0);
}
LS_ALWAYS_INLINE float ls_f32_pow(float base, float exponent) {
  const double x = (double)base, y = (double)exponent;
  return (float)ls_f64_pow_ends(x, y, ls_f32_pow_inside(x, y));
}

// Holds an angle as quarter * pi / 2 + r with |r| <= 0.786.
typedef struct {
  double r;
  uint64_t quarter;
} ls_f32_angle;
// Splits angles below LS_F64_LARGE_ANGLE.
LS_ALWAYS_INLINE ls_f32_angle ls_f32_reduce(double x) {
  const double shifted = ls_f64_fma(x, 0x1.45f306dc9c883p-1, LS_F64_ROUNDER);
  const double n = shifted - LS_F64_ROUNDER;
  const double first = ls_f64_fma(-n, 0x1.921fb54442d18p+0, x);
  return (ls_f32_angle){ls_f64_fma(-n, 0x1.1a62633145c07p-54, first),
                        ls_f64_bits(shifted)};
}
LS_ALWAYS_INLINE double ls_f32_sin_small(double r) {
  const double z = r * r;
  const double s = LS_F64_POLY(z, 0x1.6dbbee1f24647p-19, -0x1.a013a11619d1bp-13,
                               0x1.11110dea5e8c0p-7, -0x1.555555545c0f8p-3);
  return ls_f64_fma(z * r, s, r);
}
LS_ALWAYS_INLINE double ls_f32_cos_small(double r) {
  const double z = r * r;
  return LS_F64_POLY(z, 0x1.9a6c494416c15p-16, -0x1.6c0dff970d462p-10,
                     0x1.55554cae0fa7ep-5, -0x1.fffffffaa6f9bp-2, 1.0);
}
LS_ALWAYS_INLINE float ls_f32_tan_of(ls_f32_angle a, float x) {
  const double s = ls_f32_sin_small(a.r), c = ls_f32_cos_small(a.r);
  const bool is_odd = (a.quarter & 1) != 0;
  const double y = (is_odd ? -c : s) / (is_odd ? s : c);
  return ((x == 0.0f) | (x != x)) ? x : (float)y;
}

// Holds an angle as turns * pi + r with |r| <= 1.572.
typedef struct {
  double r;
  uint64_t turns;
} ls_f32_half_turns;
// Splits x below LS_F64_LARGE_ANGLE, or, with `offset` 0.5, x + pi / 2.
LS_ALWAYS_INLINE ls_f32_half_turns ls_f32_half_turns_of(double x,
                                                        double offset) {
  const double shifted =
      ls_f64_fma(x, 0x1.45f306dc9c883p-2, offset) + LS_F64_ROUNDER;
  const double n = (shifted - LS_F64_ROUNDER) - offset;
  const double first = ls_f64_fma(-n, 0x1.921fb54442d18p+1, x);
  return (ls_f32_half_turns){ls_f64_fma(-n, 0x1.1a62633145c07p-53, first),
                             ls_f64_bits(shifted)};
}
// The same from quarters of a turn and what they leave.
LS_ALWAYS_INLINE ls_f32_half_turns ls_f32_half_turns_from(uint64_t quarter,
                                                          double r) {
  if ((quarter & 1) == 0) return (ls_f32_half_turns){r, quarter >> 1};
  const double quarter_turn = 0x1.921fb54442d18p+0;
  return r > 0.0 ? (ls_f32_half_turns){r - quarter_turn, (quarter + 1) >> 1}
                 : (ls_f32_half_turns){r + quarter_turn, (quarter - 1) >> 1};
}
LS_ALWAYS_INLINE float ls_f32_sin_of(ls_f32_half_turns a) {
  const double z = a.r * a.r;
  const double s = LS_F64_POLY(z, -0x1.9da9682c156a5p-26, 0x1.719648efb923dp-19,
                               -0x1.a0190439fe6c3p-13, 0x1.11110fd8364f3p-7,
                               -0x1.555555545de0bp-3);
  const double y = ls_f64_fma(z * a.r, s, a.r);
  return (float)ls_f64_double(ls_f64_bits(y) ^ (a.turns << 63));
}

// Returns the angle of (x, y); `ratio` is that of the smaller coordinate to the
// larger one.
LS_ALWAYS_INLINE double ls_f32_angle_of(double y, double x, double ratio,
                                        bool is_swapped) {
  const double z = ratio * ratio;
  const double p = LS_F64_POLY(z, 0x1.86406cc5c4982p-10, -0x1.2ba6b6e0bd288p-7,
                               0x1.aefb2bdf4b25ap-6, -0x1.9115a3d155a2fp-5,
                               0x1.2006f71525126p-4, -0x1.6dd8fdf061e31p-4,
                               0x1.c62cd9aa62ae5p-4, -0x1.2489515c587b6p-3,
                               0x1.999955947a191p-3, -0x1.55555529fed15p-2);
  const double angle = ls_f64_fma(ratio * z, p, ratio);
  const bool is_left = ls_f64_bits(x) >> 63 != 0;
  const double base = is_swapped ? 0x1.921fb54442d18p+0
                      : is_left  ? 0x1.921fb54442d18p+1
                                 : 0.0;
  const double made = base + (is_swapped != is_left ? -angle : angle);
  return ls_f64_copysign(made, y);
}
// Returns atan2(y, x) for finite coordinates that are not both 0.
LS_ALWAYS_INLINE double ls_f32_atan2_inside(double y, double x) {
  const double a = ls_f64_abs(y), b = ls_f64_abs(x);
  const bool is_swapped = a > b;
  const double over = is_swapped ? b : a, under = is_swapped ? a : b;
  return ls_f32_angle_of(y, x, over / under, is_swapped);
}
LS_ALWAYS_INLINE float ls_f32_atan2(float top, float right) {
  const double y = (double)top, x = (double)right;
  const double a = ls_f64_abs(y), b = ls_f64_abs(x);
  if ((x != x) | (y != y)) return (float)(x + y);
  if (a == b) return (float)ls_f32_angle_of(y, x, a == 0.0 ? 0.0 : 1.0, false);
  return (float)ls_f32_atan2_inside(y, x);
}

LS_ALWAYS_INLINE float ls_f32_erfc(float value) {
  const double x = (double)value, a = ls_f64_abs(x);
  // Approximates (a + 3) e^(a^2) erfc(a) in t = (a - 3) / (a + 3).
  const double r = 1.0 / (a + 3.0);
  const double p = LS_F64_POLY(
      ls_f64_fma(-6.0, r, 1.0), 0x1.4f64989e00c9ap-15, 0x1.960e0f15cc098p-14,
      -0x1.2d0bd0714efc3p-12, -0x1.1e72ba6b5880ep-11, 0x1.8e255513e9204p-9,
      -0x1.3dd3f636dd52ap-10, -0x1.b78bd50ed05dep-6, 0x1.e995eabc039c1p-4,
      -0x1.3deb1ef3c1851p-2, 0x1.2e32694fbb3f5p-1, -0x1.c44c472117dfbp-1,
      0x1.12f21ddd99d15p+0);
  const double part = ls_f32_exp_plus(-a * a, 0.0) * (p * r);
  const double right = a > 10.1 ? 0.0 : part;
  return (float)(x < 0.0 ? 2.0 - right : x == x ? right : x);
}

LS_ALWAYS_INLINE float ls_f32_cbrt(float value) {
  const double x = (double)value, a = ls_f64_abs(x);
  const double y = ls_f64_cbrt_steps(a);
  return a > 0.0 && a < (double)INFINITY ? (float)ls_f64_copysign(y, x) : value;
}

#endif  // LS_ENGINE_CPU_ELEMENTARY_F32MATH_H_
