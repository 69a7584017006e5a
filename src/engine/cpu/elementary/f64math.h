// SPDX-License-Identifier: Apache-2.0
//
// Elementary functions of a double: the same bits on every machine, compiler
// and C library.
//
// Each is a chain of IEEE operations without a branch or a call, so that
// compilers vectorize loops of them. Special values are as in C's annex F.
// Measured against a multiple-precision reference, in ulp:
//   exp 0.78, expm1 0.86, tanh 0.71, log 0.63, log1p 0.64, pow 0.84, cbrt 0.51.
// Remainders are exact.
//
// The polynomials, here and in f64trig.h, f64erf.h and f32math.h, interpolate
// at Chebyshev's nodes, with their coefficients rounded to double.
#ifndef LS_ENGINE_CPU_ELEMENTARY_F64MATH_H_
#define LS_ENGINE_CPU_ELEMENTARY_F64MATH_H_

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LS_ALWAYS_INLINE static inline __attribute__((always_inline))

// ---- Arithmetic -------------------------------------------------------------
// Holds a value as hi + lo, where lo is at most about an ulp of hi.
typedef struct {
  double hi, lo;
} ls_f64_pair;

LS_ALWAYS_INLINE uint64_t ls_f64_bits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
LS_ALWAYS_INLINE double ls_f64_double(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
LS_ALWAYS_INLINE double ls_f64_fma(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
LS_ALWAYS_INLINE double ls_f64_abs(double x) { return __builtin_fabs(x); }
LS_ALWAYS_INLINE double ls_f64_copysign(double x, double sign) {
  return __builtin_copysign(x, sign);
}

// Returns a + b without an error.
LS_ALWAYS_INLINE ls_f64_pair ls_f64_add(double a, double b) {
  const double sum = a + b, part = sum - a;
  return (ls_f64_pair){sum, (a - (sum - part)) + (b - part)};
}
// Returns a + b without an error if |a| >= |b| or a is 0.
LS_ALWAYS_INLINE ls_f64_pair ls_f64_add_smaller(double a, double b) {
  const double sum = a + b;
  return (ls_f64_pair){sum, b - (sum - a)};
}
LS_ALWAYS_INLINE ls_f64_pair ls_f64_mul(double a, double b) {
  const double product = a * b;
  return (ls_f64_pair){product, ls_f64_fma(a, b, -product)};
}
LS_ALWAYS_INLINE ls_f64_pair ls_f64_mul_pairs(ls_f64_pair a, ls_f64_pair b) {
  const ls_f64_pair p = ls_f64_mul(a.hi, b.hi);
  return ls_f64_add_smaller(p.hi, p.lo + ls_f64_fma(a.hi, b.lo, a.lo * b.hi));
}
// Returns a / b as one double, 0.55 ulp from the exact value.
LS_ALWAYS_INLINE double ls_f64_div(ls_f64_pair a, ls_f64_pair b) {
  const double r = 1.0 / b.hi, y = a.hi * r;
  const double rest = ls_f64_fma(-y, b.hi, a.hi) + ls_f64_fma(-y, b.lo, a.lo);
  return ls_f64_fma(rest, r, y);
}

#define LS_F64_ROUNDER 0x1.8p52
#define LS_F64_LN2_HI 0x1.62e42feep-1
#define LS_F64_LN2_LO 0x1.a39ef35793c76p-33

#if defined(__clang__)
#define LS_F64_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LS_F64_UNROLL _Pragma("GCC unroll 32")
#endif
// Returns the polynomial with these coefficients, the highest power first. The
// odd and the even powers of a long one are two chains, half as long; only the
// last coefficient, which is most of the sum, is added by itself.
LS_ALWAYS_INLINE double ls_f64_polynomial(double x, const double *coefficients,
                                          size_t count) {
  const double square = x * x;
  double sum = coefficients[0], other = coefficients[1];
  size_t i = 1;
  if (count > 6) {
    LS_F64_UNROLL
    for (i = 2; i + 2 < count; i += 2) {
      sum = ls_f64_fma(sum, square, coefficients[i]);
      other = ls_f64_fma(other, square, coefficients[i + 1]);
    }
    sum = ls_f64_fma(sum, x, other);
  }
  LS_F64_UNROLL
  for (; i < count; ++i)
    sum = ls_f64_fma(sum, x, coefficients[i]);
  return sum;
}
#define LS_F64_POLY(x, ...)                                                    \
  ls_f64_polynomial(x, (const double[]){__VA_ARGS__},                          \
                    sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

// ---- Exponentials -----------------------------------------------------------
// Holds a power of e as (1 + p) 2^n with |p| < 0.42.
typedef struct {
  ls_f64_pair p;
  uint64_t n;
} ls_f64_power;

LS_ALWAYS_INLINE ls_f64_power ls_f64_exp_parts(double x, double low) {
  const double shifted = ls_f64_fma(x, 0x1.71547652b82fep+0, LS_F64_ROUNDER);
  const double n = shifted - LS_F64_ROUNDER;
  const double whole = ls_f64_fma(-n, LS_F64_LN2_HI, x);
  const ls_f64_pair both = low == 0.0 && __builtin_constant_p(low)
                               ? (ls_f64_pair){whole, 0.0}
                               : ls_f64_add_smaller(whole, low);
  const double r = ls_f64_fma(-n, LS_F64_LN2_LO, both.hi);
  const double rest = ls_f64_fma(-n, LS_F64_LN2_LO, both.hi - r) + both.lo;
  const double q = LS_F64_POLY(
      r, 0x1.61bff1c64f494p-33, 0x1.1f7f6aa421dd8p-29, 0x1.ae642c5c1fa33p-26,
      0x1.27e4d3f50d87fp-22, 0x1.71de3a5aaefb9p-19, 0x1.a01a01a9f72adp-16,
      0x1.a01a01a01969bp-13, 0x1.6c16c16c15a48p-10, 0x1.1111111111111p-7,
      0x1.5555555555557p-5, 0x1.5555555555555p-3, 0x1.0p-1);
  // Takes rest * e^r as rest * (1 + r).
  const double tail = ls_f64_fma(rest, r, rest);
  return (ls_f64_power){.p = ls_f64_add_smaller(r, ls_f64_fma(r * r, q, tail)),
                        .n =
                            ls_f64_bits(shifted) - ls_f64_bits(LS_F64_ROUNDER)};
}

// Returns v 2^n, rounded once, for |v| in [0.5, 2) and n from -1100 to 1100.
LS_ALWAYS_INLINE double ls_f64_scale(double v, uint64_t n) {
  const uint64_t half = ((n + 4096) >> 1) - 2048;
  return v * ls_f64_double((half + 1023) << 52) *
         ls_f64_double((n - half + 1023) << 52);
}
LS_ALWAYS_INLINE double ls_f64_clamp(double x, double low, double high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

// Returns e^x for |x| up to LS_F64_EXP_NORMAL, where it is no denormal.
#define LS_F64_EXP_NORMAL 708.0
LS_ALWAYS_INLINE double ls_f64_exp_normal(double x) {
  const ls_f64_power e = ls_f64_exp_parts(x, 0.0);
  return ls_f64_double(ls_f64_bits(1.0 + e.p.hi) + (e.n << 52));
}
LS_ALWAYS_INLINE double ls_f64_exp(double x) {
  const ls_f64_power e = ls_f64_exp_parts(ls_f64_clamp(x, -750.0, 710.0), 0.0);
  const double y = ls_f64_scale(1.0 + e.p.hi, e.n);
  return x == x ? y : x;  // A NaN keeps its sign, here and below.
}

// Returns e^x - 1 for x from -40 to 0.7.
LS_ALWAYS_INLINE ls_f64_pair ls_f64_expm1_pair(double x) {
  const ls_f64_power e = ls_f64_exp_parts(x, 0.0);
  const double power = ls_f64_double((e.n + 1023) << 52);
  const ls_f64_pair one = ls_f64_add_smaller(-1.0, power);
  const ls_f64_pair sum = ls_f64_add(one.hi, power * e.p.hi);
  return ls_f64_add_smaller(sum.hi, ls_f64_fma(power, e.p.lo, sum.lo + one.lo));
}

LS_ALWAYS_INLINE double ls_f64_expm1(double x) {
  const double c = ls_f64_clamp(x, -40.0, 710.0);
  const ls_f64_power e = ls_f64_exp_parts(c, 0.0);
  // Halves the power: 2^1024 is no number.
  const double power = ls_f64_double((e.n + 1022) << 52);
  const ls_f64_pair one = ls_f64_add_smaller(power, -0.5);
  const ls_f64_pair sum = ls_f64_add(one.hi, power * e.p.hi);
  const double half = sum.hi + ls_f64_fma(power, e.p.lo, sum.lo + one.lo);
  // Small results come from the polynomial alone: halves would be denormals.
  const double y = ls_f64_abs(x) < 0.34 ? e.p.hi : half + half;
  return ls_f64_copysign(y, x);
}

LS_ALWAYS_INLINE double ls_f64_tanh(double x) {
  // Uses q = e^(-2|x|) - 1, which does not cancel: tanh|x| = -q / (q + 2).
  const double size = ls_f64_abs(x);
  const ls_f64_pair q = ls_f64_expm1_pair(-2.0 * (size > 20.0 ? 20.0 : size));
  const ls_f64_pair under = ls_f64_add_smaller(2.0, q.hi);
  const double y = ls_f64_div(q, (ls_f64_pair){under.hi, under.lo + q.lo});
  return ls_f64_copysign(size < 0x1p-30 ? size : y, x);
}

// ---- Logarithms -------------------------------------------------------------
// Converts a count from -2^50 to 2^50.
LS_ALWAYS_INLINE double ls_f64_count(uint64_t n) {
  return ls_f64_double(n + ls_f64_bits(LS_F64_ROUNDER)) - LS_F64_ROUNDER;
}
#define LS_F64_SQRT_HALF UINT64_C(0x3fe6a09e667f3bcd)

// Holds x > 0 as m 2^e with m in [sqrt(1/2), sqrt(2)).
typedef struct {
  double m, e;
} ls_f64_mantissa;
LS_ALWAYS_INLINE ls_f64_mantissa ls_f64_split_normal(double x) {
  const uint64_t offset = ls_f64_bits(x) - LS_F64_SQRT_HALF;
  const uint64_t e = ((offset ^ (UINT64_C(1) << 63)) >> 52) - 2048;
  return (ls_f64_mantissa){
      .m = ls_f64_double((offset & ((UINT64_C(1) << 52) - 1)) +
                         LS_F64_SQRT_HALF),
      .e = ls_f64_count(e)};
}
LS_ALWAYS_INLINE ls_f64_mantissa ls_f64_split(double x) {
  const bool is_denormal = x < 0x1p-1022;
  ls_f64_mantissa parts = ls_f64_split_normal(is_denormal ? x * 0x1p54 : x);
  parts.e -= is_denormal ? 54.0 : 0.0;
  return parts;
}

// Returns log(1 + f + low) + e ln(2) for 1 + f in [sqrt(1/2), sqrt(2)].
LS_ALWAYS_INLINE double ls_f64_log_reduced(double f, double low, double e) {
  const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  const double a = LS_F64_POLY(z, 0x1.0c0aff044a970p-3, 0x1.0fbde0f4ad17bp-3,
                               0x1.3b1c3c1c81c8fp-3, 0x1.745cf8e4bba1bp-3,
                               0x1.c71c7201a55d7p-3, 0x1.2492492476a1ap-2,
                               0x1.9999999999a39p-2, 0x1.5555555555555p-1);
  const double t = s * ls_f64_fma(z, a, half);
  const double rest = ls_f64_fma(0.5 * f, f, -half);
  // Sums e ln(2) + (f - half + t).
  const ls_f64_pair first = ls_f64_add_smaller(e * LS_F64_LN2_HI, f);
  const ls_f64_pair second = ls_f64_add_smaller(first.hi, -half);
  return second.hi +
         ((second.lo + first.lo) +
          (t + ls_f64_fma(e, LS_F64_LN2_LO, ls_f64_fma(-low, f, low) - rest)));
}

LS_ALWAYS_INLINE double ls_f64_log(double x) {
  const ls_f64_mantissa s = ls_f64_split(x);
  double y = ls_f64_log_reduced(s.m - 1.0, 0.0, s.e);
  y = x < 0.0 ? (double)NAN : x == 0.0 ? -(double)INFINITY : y;
  return x < (double)INFINITY ? y : x;
}

LS_ALWAYS_INLINE double ls_f64_log1p(double x) {
  const double u = 1.0 + x;
  const uint64_t e =
      (((ls_f64_bits(u) - LS_F64_SQRT_HALF) ^ (UINT64_C(1) << 63)) >> 52) -
      2048;
  // Drops the 1 beside a large x, for which 2^-e is no normal number.
  const int large = x > 0x1p900;
  const double power = ls_f64_double((1023 - (large ? 0 : e)) << 52);
  const ls_f64_pair sum = ls_f64_add(power - 1.0, x * power);
  const ls_f64_mantissa s = ls_f64_split(x);
  const double f = large ? s.m - 1.0 : sum.hi, low = large ? 0.0 : sum.lo;
  double y = ls_f64_log_reduced(f, low, large ? s.e : ls_f64_count(e));
  y = ls_f64_copysign(ls_f64_abs(x) < 0x1p-54 ? x : y, x);
  y = x < -1.0 ? (double)NAN : x == -1.0 ? -(double)INFINITY : y;
  return x < (double)INFINITY ? y : x;
}

// Returns the logarithm of a finite x > 0, to some 66 bits.
LS_ALWAYS_INLINE ls_f64_pair ls_f64_log_pair(double x) {
  const ls_f64_mantissa part = ls_f64_split(x);
  const double f = part.m - 1.0;
  const ls_f64_pair under = ls_f64_add_smaller(2.0, f);
  // Uses log m = 2 s + 2 s (z / 3 + z^2 T(z)) with s = f / (2 + f), z = s^2.
  const double r = 1.0 / under.hi, high = f * r;
  const ls_f64_pair s = ls_f64_add_smaller(
      high, r * (ls_f64_fma(-high, under.hi, f) - high * under.lo));
  const ls_f64_pair square = ls_f64_mul(s.hi, s.hi);
  const ls_f64_pair z = {square.hi, ls_f64_fma(2.0 * s.hi, s.lo, square.lo)};
  const double t = LS_F64_POLY(z.hi, 0x1.e03a7acf07f85p-5, 0x1.df7ba1f4809c3p-5,
                               0x1.1118cd67251c5p-4, 0x1.3b1395b82701ep-4,
                               0x1.745d177ad436ap-4, 0x1.c71c71c6ea5acp-4,
                               0x1.2492492492522p-3, 0x1.999999999999ap-3);
  const ls_f64_pair third = ls_f64_mul_pairs(
      z, (ls_f64_pair){0x1.5555555555555p-2, 0x1.5555555555555p-56});
  ls_f64_pair more = ls_f64_add_smaller(third.hi, z.hi * z.hi * t);
  more.lo += third.lo;
  const ls_f64_pair twice = {2.0 * s.hi, 2.0 * s.lo};
  const ls_f64_pair rest = ls_f64_mul_pairs(twice, more);
  const ls_f64_pair log_m = ls_f64_add_smaller(twice.hi, rest.hi);
  const ls_f64_pair sum = ls_f64_add_smaller(part.e * LS_F64_LN2_HI, log_m.hi);
  return ls_f64_add_smaller(
      sum.hi, sum.lo + (ls_f64_fma(part.e, LS_F64_LN2_LO, log_m.lo) +
                        (twice.lo + rest.lo)));
}

// Returns x^y, given `power`, which is |x|^y unless an operand is 0, infinite
// or NaN.
LS_ALWAYS_INLINE double ls_f64_pow_ends(double x, double y, double power) {
  const double size = ls_f64_abs(x), high = ls_f64_abs(y);
  const double inf = (double)INFINITY;
  // Replaces results where an operand is zero or infinite.
  const double end = (size == 0.0) == (y < 0.0) ? inf : 0.0;
  power = size == 0.0 || size == inf ? end : power;
  const double ends = size == 1.0 ? 1.0 : (size > 1.0) == (y > 0.0) ? inf : 0.0;
  power = high == inf ? ends : power;
  // Gives odd powers of a negative x its sign; other powers of it are NaN.
  const int whole = high >= 0x1p52 || (high + 0x1p52) - 0x1p52 == high;
  const double half = 0.5 * high;
  const int odd = high < 0x1p53 && whole && (half + 0x1p52) - 0x1p52 != half;
  const int negative = (int)(ls_f64_bits(x) >> 63);
  power = negative & odd ? -power : power;
  power = ((x < 0.0) & (size < inf) & !whole) ? (double)NAN : power;
  power = ((x != x) | (y != y)) ? x + y : power;
  return ((y == 0.0) | (x == 1.0)) ? 1.0 : power;
}

// Returns x^y without the cases of ls_f64_pow_ends.
LS_ALWAYS_INLINE double ls_f64_pow_inside(double x, double y) {
  const ls_f64_pair log = ls_f64_log_pair(ls_f64_abs(x));
  const double product = y * log.hi;
  const double low = ls_f64_fma(y, log.hi, -product) + y * log.lo;
  const ls_f64_power e = ls_f64_exp_parts(product, low);
  // Replaces results outside of the range of ls_f64_scale.
  const double power = ls_f64_scale(1.0 + e.p.hi, e.n);
  const double high = product > 710.0 ? (double)INFINITY : power;
  return product < -750.0 ? 0.0 : high;
}
LS_ALWAYS_INLINE double ls_f64_pow(double x, double y) {
  return ls_f64_pow_ends(x, y, ls_f64_pow_inside(x, y));
}

// ---- Roots and remainders ---------------------------------------------------
// Returns the cube root of a normal number > 0, to 40 bits: starts from a third
// of the exponent; each of two steps of Halley triples the correct bits.
LS_ALWAYS_INLINE double ls_f64_cbrt_steps(double a) {
  const uint64_t third = ((ls_f64_bits(a) >> 32) * UINT64_C(0x55555556)) >> 32;
  double y = ls_f64_double((third + UINT64_C(0x2A9F7893)) << 32);
  for (int i = 0; i < 2; ++i) {
    const double cube = y * y * y;
    y *= ls_f64_fma(2.0, a, cube) / ls_f64_fma(2.0, cube, a);
  }
  return y;
}

LS_ALWAYS_INLINE double ls_f64_cbrt(double x) {
  const double size = ls_f64_abs(x);
  // Scales denormals up and the largest numbers down.
  const int tiny = size<0x1p-1000, huge = size> 0x1p1000;
  const double a = size * (tiny ? 0x1p54 : huge ? 0x1p-54 : 1.0);
  double y = ls_f64_cbrt_steps(a);
  const ls_f64_pair square = ls_f64_mul(y, y);
  const ls_f64_pair cube = ls_f64_mul(square.hi, y);
  const double rest = (cube.hi - a) + ls_f64_fma(square.lo, y, cube.lo);
  y = y - rest / (3.0 * square.hi);
  y *= tiny ? 0x1p-18 : huge ? 0x1p18 : 1.0;
  return size > 0.0 && size < (double)INFINITY ? ls_f64_copysign(y, x) : x;
}

// Returns the remainder, exactly, for |x / y| < 2^52.
LS_ALWAYS_INLINE double ls_f64_fmod(double x, double y) {
  const double a = ls_f64_abs(x), b = ls_f64_abs(y), q = a / b;
  const double near = (q + 0x1p52) - 0x1p52;
  const double n = near > q ? near - 1.0 : near;
  double r = ls_f64_fma(-n, b, a);
  r = r < 0.0 ? r + b : r;
  r = a < b ? a : r;
  return ls_f64_copysign(r, x);
}

#endif  // LS_ENGINE_CPU_ELEMENTARY_F64MATH_H_
