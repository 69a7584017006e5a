// SPDX-License-Identifier: Apache-2.0
#include "data/streams.h"

#include "base/values/random.h"

// One random draw gives the first key; the rounds' keys follow in steps of the
// golden ratio (SplitMix64).
ls_permutation ls_permutation_make(uint64_t size, uint64_t seed,
                                   uint64_t stream, uint64_t epoch) {
  ls_permutation self = {.size = size};
  int bits = 2;
  while (bits < 63 && (UINT64_C(1) << bits) < size)
    ++bits;
  self.low_bits = bits / 2;
  self.high_bits = bits - self.low_bits;
  // Halves of few bits have few mixing functions, and need more rounds.
  self.rounds = bits < 8 ? LS_PERMUTATION_ROUNDS : bits < 16 ? 12 : 8;
  uint32_t drawn[4];
  ls_random_bits(
      &(ls_random_key){
          .seed = seed, .stream = stream, .step = epoch, .id = size},
      0, drawn);
  uint64_t state = (uint64_t)drawn[0] << 32 | drawn[1];
  const uint64_t other = (uint64_t)drawn[2] << 32 | drawn[3];
  for (int i = 0; i < self.rounds; ++i) {
    state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t x = state;
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    self.keys[i] = x ^ x >> 31 ^ other;
  }
  return self;
}

// Returns the upper bits of the second product, which depend on all bits of
// `x`. A single product favours some orders of a few elements.
static inline uint64_t mix(uint64_t x) {
  x *= UINT64_C(0xD6E8FEB86659FD93);
  x ^= x >> 32;
  return x * UINT64_C(0xD6E8FEB86659FD93) >> 32;
}

// Changes each half in turn by a function of the other (Feistel rounds).
static inline uint64_t encipher(const ls_permutation *self, uint64_t number) {
  const uint64_t low_mask = (UINT64_C(1) << self->low_bits) - 1;
  const uint64_t high_mask = (UINT64_C(1) << self->high_bits) - 1;
  uint64_t low = number & low_mask, high = number >> self->low_bits;
  for (int i = 0; i < self->rounds; i += 2) {
    low = (low ^ mix(high + self->keys[i])) & low_mask;
    high = (high ^ mix(low + self->keys[i + 1])) & high_mask;
  }
  return high << self->low_bits | low;
}

uint64_t ls_permutation_at(const ls_permutation *self, uint64_t index) {
  do {
    index = encipher(self, index);
  } while (index >= self->size);
  return index;
}

// Numbers processed side by side, so that their multiplications overlap.
enum { LANES = 4, BLOCK = 64 };

static void encipher_lanes(const ls_permutation *self, uint64_t at[LANES]) {
  const uint64_t low_mask = (UINT64_C(1) << self->low_bits) - 1;
  const uint64_t high_mask = (UINT64_C(1) << self->high_bits) - 1;
  uint64_t low[LANES], high[LANES];
  for (int k = 0; k < LANES; ++k) {
    low[k] = at[k] & low_mask;
    high[k] = at[k] >> self->low_bits;
  }
  for (int i = 0; i < self->rounds; i += 2) {
    const uint64_t a = self->keys[i], b = self->keys[i + 1];
    for (int k = 0; k < LANES; ++k)
      low[k] = (low[k] ^ mix(high[k] + a)) & low_mask;
    for (int k = 0; k < LANES; ++k)
      high[k] = (high[k] ^ mix(low[k] + b)) & high_mask;
  }
  for (int k = 0; k < LANES; ++k)
    at[k] = high[k] << self->low_bits | low[k];
}

// Keeps walking the numbers that are not yet below the size, compacted.
static void map_block(const ls_permutation *self, const int64_t *indices,
                      size_t count, int64_t *out) {
  uint64_t at[BLOCK] = {0};
  uint8_t whose[BLOCK];
  for (size_t i = 0; i < count; ++i) {
    at[i] = (uint64_t)indices[i];
    whose[i] = (uint8_t)i;
  }
  while (count > 0) {
    for (size_t i = 0; i < count; i += LANES)
      encipher_lanes(self, at + i);
    size_t left = 0;
    for (size_t i = 0; i < count; ++i) {
      if (at[i] < self->size) {
        out[whose[i]] = (int64_t)at[i];
        continue;
      }
      at[left] = at[i];
      whose[left++] = whose[i];
    }
    count = left;
  }
}

void ls_permutation_map(const ls_permutation *self, const int64_t *indices,
                        size_t count, int64_t *out) {
  for (size_t i = 0; i < count; i += BLOCK)
    map_block(self, indices + i, count - i < BLOCK ? count - i : BLOCK,
              out + i);
}
