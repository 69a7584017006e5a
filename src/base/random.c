// SPDX-License-Identifier: Apache-2.0
// Random numbers: folding a key, and normals.
//
// Logarithm, sine and cosine are written out, since those of the C library
// differ in the last bit from one system to the next. Their series need no
// fitted constants: after an exact reduction they converge in ten terms.
#include "base/random.h"

#include "base/allocator.h"

// Replaces `key` by 64 bits that depend on it, on `value`, and on `place`,
// which tells one part of a key from another.
static void fold_in(uint32_t key[2], uint64_t value, uint32_t place) {
  const uint32_t counter[4] = {(uint32_t)value, (uint32_t)(value >> 32), place,
                               0x4C6F636BU};  // "Lock": not a drawn block.
  uint32_t out[4];
  ls_philox(counter, key, out);
  key[0] = out[0];
  key[1] = out[1];
}

ls_random_source ls_random_source_make(const ls_random_key *key) {
  ls_random_source source = {
      .key = {(uint32_t)key->seed, (uint32_t)(key->seed >> 32)},
      .id = key->id,
  };
  fold_in(source.key, key->stream, 1);
  fold_in(source.key, key->step, 2);
  fold_in(source.key, key->iteration, 3);
  return source;
}

void ls_random_bits(const ls_random_key *key, uint64_t block, uint32_t out[4]) {
  const ls_random_source source = ls_random_source_make(key);
  ls_random_source_bits(&source, block, out);
}

// ---- Normals ---------------------------------------------------------------
static const double ln_2 = 0.693147180559945309417232121458;
static const double two_pi = 6.28318530717958647692528676656;

// ln(u) for a normal u > 0, relative error below 4e-16. u = m 2^e with m
// between sqrt(1/2) and sqrt(2), and ln m = 2 atanh(s), s = (m - 1) / (m + 1):
// s^2 < 0.0295, so the term after the last is below 2e-18 of the first.
static double logarithm(double u) {
  static const double odd[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,
                               1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17,
                               1.0 / 19, 1.0 / 21};
  uint64_t bits = 0;
  memcpy(&bits, &u, sizeof(bits));
  // Moves the cut between exponents from 1 to sqrt(1/2).
  const uint64_t cut = UINT64_C(0x3FE6A09E667F3BCD);
  const int64_t moved = (int64_t)(bits - cut);
  const int64_t exponent = moved >> 52;
  bits -= (uint64_t)exponent << 52;
  double m = 0;
  memcpy(&m, &bits, sizeof(m));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double sum = odd[LS_COUNT_OF(odd) - 1];
  for (size_t i = LS_COUNT_OF(odd) - 1; i-- > 0;)
    sum = sum * z + odd[i];
  return (double)exponent * ln_2 + (2.0 * s + 2.0 * s * (z * sum));
}

// Cosine and sine of `turn` whole turns, 0 <= turn < 1; error below 3e-16.
// The quarter is taken off exactly, and |x| <= pi / 4 is left.
static void turn_to_circle(double turn, double *out_cos, double *out_sin) {
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
  const int quarter = (int)(turn * 4.0 + 0.5);  // 0 to 4.
  const double x = (turn - (double)quarter * 0.25) * two_pi;
  const double z = x * x;
  double c = cosine[LS_COUNT_OF(cosine) - 1];
  for (size_t i = LS_COUNT_OF(cosine) - 1; i-- > 0;)
    c = c * z + cosine[i];
  double s = sine[LS_COUNT_OF(sine) - 1];
  for (size_t i = LS_COUNT_OF(sine) - 1; i-- > 0;)
    s = s * z + sine[i];
  s *= x;
  const bool swapped = (quarter & 1) != 0;
  const double a = swapped ? s : c;
  const double b = swapped ? c : s;
  *out_cos = ((quarter + 1) & 2) != 0 ? -a : a;
  *out_sin = (quarter & 2) != 0 ? -b : b;
}

// Two normals from a radius in (0, 1] and a turn in [0, 1).
static void box_muller(double u, double turn, double out[2]) {
  const double radius = __builtin_sqrt(-2.0 * logarithm(u));
  double c = 0;
  double s = 0;
  turn_to_circle(turn, &c, &s);
  out[0] = radius * c;
  out[1] = radius * s;
}

void ls_random_normals_f32(const uint32_t bits[4], float out[4]) {
  for (int pair = 0; pair < 4; pair += 2) {
    double normals[2];
    box_muller(((double)bits[pair] + 1.0) * 0x1p-32,
               (double)bits[pair + 1] * 0x1p-32, normals);
    out[pair] = (float)normals[0];
    out[pair + 1] = (float)normals[1];
  }
}

void ls_random_normals_f64(const uint32_t bits[4], double out[2]) {
  box_muller(ls_random_uniform_f64(bits[0], bits[1]) + 0x1p-53,
             ls_random_uniform_f64(bits[2], bits[3]), out);
}
