// SPDX-License-Identifier: Apache-2.0
#include "data/permutation.h"

#include "base/values/random.h"

ls_permutation ls_permutation_make(uint64_t size, uint64_t seed,
                                   uint64_t stream, uint64_t epoch) {
  ls_permutation self = {.size = size};
  int bits = 2;
  while (bits < 62 && (UINT64_C(1) << bits) < size)
    ++bits;
  self.low_bits = bits / 2;
  self.high_bits = bits - self.low_bits;
  const ls_random_source source = ls_random_source_make(&(ls_random_key){
      .seed = seed, .stream = stream, .step = epoch, .id = size});
  for (uint64_t i = 0; i < LS_PERMUTATION_ROUNDS / 2; ++i) {
    uint32_t drawn[4];
    ls_random_source_bits(&source, i, drawn);
    self.keys[2 * i] = (uint64_t)drawn[0] << 32 | drawn[1];
    self.keys[2 * i + 1] = (uint64_t)drawn[2] << 32 | drawn[3];
  }
  return self;
}

// Mixes well and costs two products (the finalizer of MurmurHash3).
static inline uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= UINT64_C(0xFF51AFD7ED558CCD);
  x ^= x >> 33;
  x *= UINT64_C(0xC4CEB9FE1A85EC53);
  return x ^ x >> 33;
}

// Each half in turn is changed by what the other one says.
static inline uint64_t encipher(const ls_permutation *self, uint64_t number) {
  const uint64_t low_mask = (UINT64_C(1) << self->low_bits) - 1;
  const uint64_t high_mask = (UINT64_C(1) << self->high_bits) - 1;
  uint64_t low = number & low_mask, high = number >> self->low_bits;
  for (int i = 0; i < LS_PERMUTATION_ROUNDS; i += 2) {
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
