// SPDX-License-Identifier: Apache-2.0
//
// Payne and Hanek's method: it forms only those bits of the product of the
// number's 53 bits with 2 / pi that matter modulo 4. 192 bits of 2 / pi are
// enough: no double is closer to a multiple of pi / 2 than 2^-62 of a quarter,
// and the product is exact to 2^-137.
#include "engine/cpu/elementary/large_angle.h"

#include <stdbool.h>

#include "engine/cpu/elementary/f64math.h"

__extension__ typedef unsigned __int128 wide;

// Holds 2 / pi in binary after 64 zeros: bit p from the left weighs 2^(63 - p).
static const uint64_t two_over_pi[] = {
    UINT64_C(0x0000000000000000), UINT64_C(0xA2F9836E4E441529),
    UINT64_C(0xFC2757D1F534DDC0), UINT64_C(0xDB6295993C439041),
    UINT64_C(0xFE5163ABDEBBC561), UINT64_C(0xB7246E3A424DD2E0),
    UINT64_C(0x06492EEA09D1921C), UINT64_C(0xFE1DEB1CB129A73E),
    UINT64_C(0xE88235F52EBB4484), UINT64_C(0xE99C7026B45F7E41),
    UINT64_C(0x3991D639835339F4), UINT64_C(0x9C845F8BBDF9283B),
    UINT64_C(0x1FF897FFDE05980F), UINT64_C(0xEF2F118B5A0A6D1F),
    UINT64_C(0x6D367ECF27CB09B7), UINT64_C(0x4F463F669E5FEA2D),
    UINT64_C(0x7527BAC7EBE5F17B), UINT64_C(0x3D0739F78A5292EA),
    UINT64_C(0x6BFB5FB11F8D5D08), UINT64_C(0x56033046FC7B6BAB)};

// Returns 64 bits of it, from bit `from` on.
static uint64_t word_at(unsigned from) {
  const uint64_t *word = &two_over_pi[from / 64];
  const unsigned shift = from % 64;
  return shift == 0 ? word[0] : word[0] << shift | word[1] >> (64 - shift);
}

// Computes 192 bits of |x| 2 / pi modulo 4, of which the first two are the
// quarter.
static void find_turns(uint64_t bits, uint64_t turns[3]) {
  const unsigned exponent = (unsigned)(bits >> 52) & 2047U;
  const uint64_t mantissa = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1)
                                                                     << 52;
  // |x| = mantissa * 2^(exponent - 1075). Bits of the product that weigh 4 or
  // more drop out: the window begins after them.
  const unsigned from = exponent - 1013U;
  wide sum = 0;
  for (unsigned i = 3; i-- > 0;) {
    sum = (sum >> 64) + (wide)mantissa * word_at(from + 64 * i);
    turns[i] = (uint64_t)sum;
  }
}

double ls_turn_reduce(double x, double *out_low, uint64_t *out_quarter) {
  uint64_t bits, turns[3];
  memcpy(&bits, &x, sizeof(bits));
  *out_low = 0;
  *out_quarter = 0;
  if ((bits >> 52 & 2047U) == 2047U) return x - x;
  find_turns(bits, turns);
  const uint64_t quarter = (turns[0] + (UINT64_C(1) << 61)) >> 62;
  // The fraction of a quarter, in units of 2^-192, and its size.
  uint64_t high = turns[0] << 2 | turns[1] >> 62;
  uint64_t middle = turns[1] << 2 | turns[2] >> 62, low = turns[2] << 2;
  const bool is_below = high >> 63 != 0;
  if (is_below) {
    low = ~low + 1;
    middle = ~middle + (low == 0 ? 1U : 0U);
    high = ~high + (low == 0 && middle == 0 ? 1U : 0U);
  }
  double scale = 0x1p-53;
  if (high == 0) {
    high = middle, middle = low, low = 0;
    scale = 0x1p-117;
  }
  const unsigned shift = high == 0 ? 0 : (unsigned)__builtin_clzll(high);
  const wide top = ((wide)high << 64 | middle) << shift |
                   (shift == 0 ? 0 : low >> (64 - shift));
  scale = ls_f64_scale(scale, (uint64_t)0 - shift);
  const ls_f64_pair fraction = {
      (double)(uint64_t)(top >> 75) * scale,
      (double)(uint64_t)(top >> 22 & ((UINT64_C(1) << 53) - 1)) * scale *
          0x1p-53};
  const ls_f64_pair half_pi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
  const ls_f64_pair r = ls_f64_mul_pairs(fraction, half_pi);
  const bool is_negative = bits >> 63 != 0;
  *out_quarter = is_negative ? (uint64_t)0 - quarter : quarter;
  *out_low = is_below != is_negative ? -r.lo : r.lo;
  return is_below != is_negative ? -r.hi : r.hi;
}
