// SPDX-License-Identifier: Apache-2.0
//
// Normals by Box and Muller, without branches, so that a compiler can
// vectorize: the bits do not depend on it.
//
// Logarithm, sine and cosine are written out, since those of the C library
// differ in the last bit between systems. Their series need no fitted
// constants: after an exact reduction ten terms suffice.
#ifndef LS_BASE_VALUES_BOX_MULLER_H_
#define LS_BASE_VALUES_BOX_MULLER_H_

#include <stdint.h>
#include <string.h>

#include "base/values/random.h"

// Evaluates c[0] + c[1] z + ... by Horner's rule; inlined, so that `count` is
// constant.
static inline __attribute__((always_inline)) double
ls_series(const double *c, int count, double z) {
  double sum = c[count - 1];
  for (int i = count - 1; i-- > 0;)
    sum = sum * z + c[i];
  return sum;
}

// Computes ln(u) for a normal u in (0, 2), relative error below 4e-16. u = m
// 2^e with m between sqrt(1/2) and sqrt(2), and ln m = 2 atanh(s), s = (m - 1)
// / (m + 1): s^2 < 0.0295, so the first term left out is below 2e-18 of the
// first.
static inline __attribute__((always_inline)) double ls_logarithm(double u) {
  static const double odd[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,
                               1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17,
                               1.0 / 19, 1.0 / 21};
  uint64_t bits = 0;
  memcpy(&bits, &u, sizeof(bits));
  // Makes exponents change at sqrt(1/2) instead of 1, and positive: some
  // instruction sets can shift in only zeros.
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

// Coefficients of the series of cos x, and of sin x / x, in x squared.
#define LS_COSINE_SERIES                                                       \
  1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800,            \
      1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000,               \
      -1.0 / 6402373705728000
#define LS_SINE_SERIES                                                         \
  1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,        \
      1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000

// Computes cosine and sine of `turn` whole turns, 0 <= turn < 1; error below
// 3e-16. Exactly subtracting the nearest quarter leaves |x| <= pi / 4.
static inline __attribute__((always_inline)) void
ls_turn_to_circle(double turn, double *out_cos, double *out_sin) {
  static const double cosine[] = {LS_COSINE_SERIES};
  static const double sine[] = {LS_SINE_SERIES};
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

// Computes two normals from u in (0, 1], which gives the radius, and a turn in
// [0, 1).
static inline __attribute__((always_inline)) void
ls_box_muller_f64(const uint32_t bits[4], double out[2]) {
  const double u = ls_random_uniform_f64(bits[0], bits[1]) + 0x1p-53;
  const double turn = ls_random_uniform_f64(bits[2], bits[3]);
  const double radius = __builtin_sqrt(-2.0 * ls_logarithm(u));
  double c = 0, s = 0;
  ls_turn_to_circle(turn, &c, &s);
  out[0] = radius * c;
  out[1] = radius * s;
}

// ---- f32 -------------------------------------------------------------------
// The f32 version, from two random words: range reductions are exact operations
// on the words, so that f32 suffices for the rest. Words are converted to float
// as int32_t, since not every instruction set converts unsigned numbers.
static inline __attribute__((always_inline)) float
ls_series_f32(const float *c, int count, float z) {
  float sum = c[count - 1];
  for (int i = count - 1; i-- > 0;)
    sum = sum * z + c[i];
  return sum;
}

// Computes ln(u) for u = (word + 1) / 2^32, relative error below 3e-7. Near 1,
// where the logarithm is small, 1 - u is exact.
static inline __attribute__((always_inline)) float
ls_logarithm_f32(uint32_t word) {
  static const float odd[] = {1.0F / 3, 1.0F / 5, 1.0F / 7, 1.0F / 9};
  const uint32_t upper = word >> 31;
  const int32_t number = (int32_t)(word ^ -upper);
  // The smaller one of u and 1 - u.
  const float least = ((float)number + (upper != 0 ? 0.0F : 1.0F)) * 0x1p-32F;
  const float u = upper != 0 ? 1.0F - least : least;
  uint32_t bits = 0;
  memcpy(&bits, &u, sizeof(bits));
  const uint32_t cut = 0x3F3504F3U, bias = 256;  // Explained in ls_logarithm.
  const uint32_t exponent = (bits - cut + (bias << 23)) >> 23;
  bits -= (exponent - bias) << 23;
  float m = 0;
  memcpy(&m, &bits, sizeof(m));
  const float f = exponent == bias ? -least : m - 1.0F;
  const float s = f / (f + 2.0F);
  const float z = s * s;
  const float sum = ls_series_f32(odd, 4, z);
  const float e = (float)((int32_t)exponent - (int32_t)bias);
  return e * 0.693147181F + (2.0F * s + 2.0F * s * (z * sum));
}

// Computes cosine and sine of word / 2^32 turns, error below 1.2e-7.
static inline __attribute__((always_inline)) void
ls_turn_to_circle_f32(uint32_t word, float *out_cos, float *out_sin) {
  static const float cosine[] = {1.0F,        -1.0F / 2,    1.0F / 24,
                                 -1.0F / 720, 1.0F / 40320, -1.0F / 3628800};
  static const float sine[] = {1.0F, -1.0F / 6, 1.0F / 120, -1.0F / 5040,
                               1.0F / 362880};
  const uint32_t quarter = (word + (1U << 29)) >> 30;  // 0 to 3.
  const float x = (float)(int32_t)(word << 2) * (1.57079633F * 0x1p-32F);
  const float z = x * x;
  const float c = ls_series_f32(cosine, 6, z);
  const float s = ls_series_f32(sine, 5, z) * x;
  const float a = (quarter & 1) != 0 ? s : c;
  const float b = (quarter & 1) != 0 ? c : s;
  *out_cos = ((quarter + 1) & 2) != 0 ? -a : a;
  *out_sin = (quarter & 2) != 0 ? -b : b;
}

static inline __attribute__((always_inline)) void
ls_box_muller_f32(const uint32_t bits[2], float out[2]) {
  const float radius = __builtin_sqrtf(-2.0F * ls_logarithm_f32(bits[0]));
  float c = 0, s = 0;
  ls_turn_to_circle_f32(bits[1], &c, &s);
  out[0] = radius * c;
  out[1] = radius * s;
}

#endif  // LS_BASE_VALUES_BOX_MULLER_H_
