// SPDX-License-Identifier: Apache-2.0
//
// Normals by Box and Muller, as one operation after the other without a branch,
// so that a compiler can make several side by side: the bits are the same.
//
// Logarithm, sine and cosine are written out, since those of the C library
// differ in the last bit from one system to the next. Their series need no
// fitted constants: after an exact reduction they converge in ten terms.
#ifndef LS_BASE_BOX_MULLER_H_
#define LS_BASE_BOX_MULLER_H_

#include <stdint.h>
#include <string.h>

// c[0] + c[1] z + ... by Horner's rule; `count` is known where this is inlined.
static inline __attribute__((always_inline)) double
ls_series(const double *c, int count, double z) {
  double sum = c[count - 1];
  for (int i = count - 1; i-- > 0;)
    sum = sum * z + c[i];
  return sum;
}

// ln(u) for a normal u in (0, 2), relative error below 4e-16. u = m 2^e with m
// between sqrt(1/2) and sqrt(2), and ln m = 2 atanh(s), s = (m - 1) / (m + 1):
// s^2 < 0.0295, so the term after the last is below 2e-18 of the first.
static inline __attribute__((always_inline)) double ls_logarithm(double u) {
  static const double odd[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,
                               1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17,
                               1.0 / 19, 1.0 / 21};
  uint64_t bits = 0;
  memcpy(&bits, &u, sizeof(bits));
  // Moves the cut between exponents from 1 to sqrt(1/2), and makes them
  // positive: some instruction sets can shift only zeros in.
  const uint64_t cut = UINT64_C(0x3FE6A09E667F3BCD), bias = 2048;
  const uint64_t exponent = (bits - cut + (bias << 52)) >> 52;
  bits -= (exponent - bias) << 52;
  double m = 0;
  memcpy(&m, &bits, sizeof(m));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  const double sum = ls_series(odd, 10, z);
  const double e = (double)((int32_t)exponent - (int32_t)bias);
  return e * 0.693147180559945309417232121458 + (2.0 * s + 2.0 * s * (z * sum));
}

// Cosine and sine of `turn` whole turns, 0 <= turn < 1; error below 3e-16.
// The quarter is taken off exactly, and |x| <= pi / 4 is left.
static inline __attribute__((always_inline)) void
ls_turn_to_circle(double turn, double *out_cos, double *out_sin) {
  static const double cosine[] = {1.0,
                                  -1.0 / 2,
                                  1.0 / 24,
                                  -1.0 / 720,
                                  1.0 / 40320,
                                  -1.0 / 3628800,
                                  1.0 / 479001600,
                                  -1.0 / 87178291200,
                                  1.0 / 20922789888000,
                                  -1.0 / 6402373705728000};
  static const double sine[] = {1.0,
                                -1.0 / 6,
                                1.0 / 120,
                                -1.0 / 5040,
                                1.0 / 362880,
                                -1.0 / 39916800,
                                1.0 / 6227020800,
                                -1.0 / 1307674368000,
                                1.0 / 355687428096000};
  const int32_t quarter = (int32_t)(turn * 4.0 + 0.5);  // 0 to 4.
  const double x =
      (turn - (double)quarter * 0.25) * 6.28318530717958647692528676656;
  const double z = x * x;
  const double c = ls_series(cosine, 10, z);
  const double s = ls_series(sine, 9, z) * x;
  const double a = (quarter & 1) != 0 ? s : c;
  const double b = (quarter & 1) != 0 ? c : s;
  *out_cos = ((quarter + 1) & 2) != 0 ? -a : a;
  *out_sin = (quarter & 2) != 0 ? -b : b;
}

// Two normals from a radius in (0, 1] and a turn in [0, 1).
static inline __attribute__((always_inline)) void
ls_box_muller(double u, double turn, double *out_first, double *out_second) {
  const double radius = __builtin_sqrt(-2.0 * ls_logarithm(u));
  double c = 0, s = 0;
  ls_turn_to_circle(turn, &c, &s);
  *out_first = radius * c;
  *out_second = radius * s;
}

// The same in f32 from two words. Through int32_t: not every instruction set
// has the other conversion, and the sum is exact.
static inline __attribute__((always_inline)) void
ls_box_muller_f32(const uint32_t bits[2], float out[2]) {
  double number[2], normal[2];
  for (int i = 0; i < 2; ++i)
    number[i] = (double)(int32_t)(bits[i] ^ 0x80000000U) + 0x1p31;
  ls_box_muller((number[0] + 1.0) * 0x1p-32, number[1] * 0x1p-32, &normal[0],
                &normal[1]);
  out[0] = (float)normal[0];
  out[1] = (float)normal[1];
}

#endif  // LS_BASE_BOX_MULLER_H_
