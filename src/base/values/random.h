// SPDX-License-Identifier: Apache-2.0
// Random numbers that depend on their use, not on earlier draws: Philox 4x32-10
// (Salmon et al., SC 2011).
//
// A block of four 32-bit numbers is a function of seed, stream (which random
// op), step, iteration of enclosing loops, example or replica id, and the
// block's number. Seed, stream, step and iteration are folded into the 64-bit
// key, each by one Philox call; id and block are the 128-bit counter, so that
// within one key no counter occurs twice.
//
// Everything is exact integer arithmetic, or double arithmetic in fixed steps
// with sqrt, which IEEE defines, as the only library call: the same bits on
// every machine, given -ffp-contract=off.
#ifndef LS_BASE_VALUES_RANDOM_H_
#define LS_BASE_VALUES_RANDOM_H_

#include <stdint.h>

#include "lockstep/shape.h"

// Identifies the use of a random number.
typedef struct ls_random_key {
  uint64_t seed;
  uint64_t stream;     // Index among the random ops of its function.
  uint64_t step;       // The function's saved counter, or the global step.
  uint64_t iteration;  // Counters of the enclosing loops, flattened.
  uint64_t id;         // Id of the example or replica.
} ls_random_key;

// A folded key to draw from. `id` may change from row to row.
typedef struct ls_random_source {
  uint32_t key[2];
  uint64_t id;
} ls_random_source;

// Constants of Philox 4x32: the factors, and the numbers added to the key.
#define LS_PHILOX_FACTOR_0 0xD2511F53U
#define LS_PHILOX_FACTOR_2 0xCD9E8D57U
#define LS_PHILOX_STEP_0 0x9E3779B9U
#define LS_PHILOX_STEP_1 0xBB67AE85U
enum { LS_PHILOX_ROUNDS = 10 };

// Runs ten rounds of Philox 4x32.
static inline void ls_philox(const uint32_t counter[4], const uint32_t key[2],
                             uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < LS_PHILOX_ROUNDS; ++round) {
    const uint64_t a = (uint64_t)LS_PHILOX_FACTOR_0 * c0;
    const uint64_t b = (uint64_t)LS_PHILOX_FACTOR_2 * c2;
    const uint32_t next0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
    const uint32_t next2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)b;
    c3 = (uint32_t)a;
    c0 = next0;
    c2 = next2;
    k0 += LS_PHILOX_STEP_0;
    k1 += LS_PHILOX_STEP_1;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

// Folds a key: once per op and step, three Philox calls.
ls_random_source ls_random_source_make(const ls_random_key *key);

// Draws block number `block`.
static inline void ls_random_source_bits(const ls_random_source *source,
                                         uint64_t block, uint32_t out[4]) {
  const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32),
                               (uint32_t)source->id,
                               (uint32_t)(source->id >> 32)};
  ls_philox(counter, source->key, out);
}

// Folds a key and draws a single block.
void ls_random_bits(const ls_random_key *key, uint64_t block, uint32_t out[4]);

// Returns a number uniform in [0, 1) from the upper 24 bits.
static inline float ls_random_uniform_f32(uint32_t bits) {
  return (float)(bits >> 8) * 0x1p-24F;
}
// Returns a number uniform in [0, 1) from the upper 53 of 64 bits.
static inline double ls_random_uniform_f64(uint32_t high, uint32_t low) {
  // In two parts, since every instruction set converts int32_t.
  const int32_t upper = (int32_t)(high >> 5);
  const int32_t lower = (int32_t)((high & 31U) << 21 | low >> 11);
  return (double)upper * 0x1p-27 + (double)lower * 0x1p-53;
}

// Arithmetic of a number in [low, high) from a u in [0, 1): (u factor + offset)
// scale, clamped to [least, most], the type's smallest and largest number in
// the range, which rounding must not leave. The scale is 1, or 2 if high - low
// overflows. `least` is -infinity if `low` is a number of the type, below which
// nothing is rounded; `most` is `low` if there is no number above that.
typedef struct ls_random_range {
  double factor, offset, scale;
  double least, most;
} ls_random_range;
ls_random_range ls_random_range_of(ls_dtype dtype, double low, double high);

// Makes four standard normals of one block, by Box and Muller from the pairs
// (0, 1) and (2, 3): sqrt(-2 ln u) times cos and sin of a turn. |x| <= 6.67.
void ls_random_normals_f32(const uint32_t bits[4], float out[4]);
// Makes two normals of one block, in double: words 0 and 1 give the radius, 2
// and 3 the turn. |x| <= 8.58.
void ls_random_normals_f64(const uint32_t bits[4], double out[2]);

#endif  // LS_BASE_VALUES_RANDOM_H_
