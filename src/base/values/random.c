// SPDX-License-Identifier: Apache-2.0
// Random numbers: folding of keys, and normals.
#include "base/values/random.h"

#include <math.h>

#include "base/values/box_muller.h"
#include "lockstep/half.h"

// Replaces `key` by 64 bits that depend on `key`, on `value`, and on `place`,
// the index of the value among a key's parts.
static void fold_in(uint32_t key[2], uint64_t value, uint32_t place) {
  const uint32_t counter[4] = {
      (uint32_t)value, (uint32_t)(value >> 32), place,
      0x4C6F636BU};  // "Lock": in no counter of blocks.
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
void ls_random_normals_f32(const uint32_t bits[4], float out[4]) {
  ls_box_muller_f32(bits, out);
  ls_box_muller_f32(bits + 2, out + 2);
}

void ls_random_normals_f64(const uint32_t bits[4], double out[2]) {
  ls_box_muller_f64(bits, out);
}

// ---- Uniform numbers -------------------------------------------------------
// Rounds down a number that is not below `high` as a 16-bit float: one step
// towards 0 for a positive number, away from 0 for others.
static float half_below(ls_dtype dtype, float x, double high) {
  const bool is_f16 = dtype == LS_DTYPE_F16;
  uint16_t bits = is_f16 ? ls_f16_from_f32(x) : ls_bf16_from_f32(x);
  float back = is_f16 ? ls_f16_to_f32(bits) : ls_bf16_to_f32(bits);
  if ((double)back < high) return back;
  bits = back > 0    ? (uint16_t)(bits - 1)
         : back == 0 ? (uint16_t)0x8001U
                     : (uint16_t)(bits + 1);
  return is_f16 ? ls_f16_to_f32(bits) : ls_bf16_to_f32(bits);
}

// Returns the largest number of the type below `high`.
static double largest_below(ls_dtype dtype, double high) {
  if (dtype == LS_DTYPE_F64) return nextafter(high, -(double)INFINITY);
  float f = (float)high;
  if ((double)f >= high) f = nextafterf(f, -INFINITY);
  return (double)(dtype == LS_DTYPE_F32 ? f : half_below(dtype, f, high));
}

ls_random_range ls_random_range_of(ls_dtype dtype, double low, double high) {
  ls_random_range range = {.factor = high - low,
                           .offset = low,
                           .scale = 1,
                           .least = -(double)INFINITY,
                           .most = largest_below(dtype, high)};
  if (range.most < low) range.most = low;
  if (!(low < high)) return range;
  // The smallest number from `low` on is the largest up to -low, negated.
  const double least = -largest_below(dtype, nextafter(-low, (double)INFINITY));
  if (least > low) range.least = least;
  const bool overflows =
      dtype == LS_DTYPE_F64 ? isinf(range.factor) : isinf((float)range.factor);
  if (!overflows) return range;
  range.factor = high / 2 - low / 2;
  range.offset = low / 2;
  range.scale = 2;
  return range;
}
