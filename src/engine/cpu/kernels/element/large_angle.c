// SPDX-License-Identifier: Apache-2.0
//
// Payne and Hanek's method: it forms only those bits of the product of the
// float's 24 bits with 2 / pi that matter modulo 4. 96 bits of 2 / pi are
// enough: no float is closer to a multiple of pi / 2 than 2^-31 of a quarter,
// and the product is exact to 2^-70.
#include "engine/cpu/kernels/element/large_angle.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/values/numbers.h"

__extension__ typedef unsigned __int128 wide;
__extension__ typedef __int128 wide_signed;

// 2 / pi in binary, after a word of zeros: bit p from the left weighs
// 2^(31 - p).
static const uint32_t two_over_pi[] = {0x00000000U, 0xA2F9836EU, 0x4E441529U,
                                       0xFC2757D1U, 0xF534DDC0U, 0xDB629599U,
                                       0x3C439041U, 0xFE5163ABU};

enum { WINDOW = 96, FRACTION = WINDOW - 2 };

// Returns bits [from, from + WINDOW) as an integer.
static wide window_at(unsigned from) {
  const uint32_t *word = &two_over_pi[from / 32];
  wide bits = 0;
  for (int i = 0; i < 4; ++i)
    bits = bits << 32 | word[i];
  return (bits >> (32 - from % 32)) & (((wide)1 << WINDOW) - 1);
}

float ls_turn_reduce(float x, float *out_quarter) {
  const uint32_t bits = ls_float_bits(x);
  const unsigned exponent = bits >> 23 & 255U;
  *out_quarter = 0;
  if (exponent == 255U) return x - x;
  // |x| = mantissa * 2^(exponent - 150). Bits of the product that weigh 4 or
  // more drop out: the window begins after them and ends at 2^-94.
  const uint32_t mantissa = (bits & 0x7FFFFFU) | 0x800000U;
  const wide product = mantissa * window_at(exponent - 120U);
  const wide turns = product & (((wide)1 << WINDOW) - 1);
  const wide nearest = (turns + ((wide)1 << (FRACTION - 1))) >> FRACTION;
  const wide_signed rest = (wide_signed)(turns - (nearest << FRACTION));
  const double fraction = (double)(int64_t)(rest >> 30) * 0x1p-64;
  const float r = (float)(fraction * 1.57079632679489661923);
  const unsigned quarter = (unsigned)nearest & 3U;
  const bool negative = bits >> 31 != 0;
  *out_quarter = (float)(negative ? (4U - quarter) & 3U : quarter);
  return negative ? -r : r;
}
