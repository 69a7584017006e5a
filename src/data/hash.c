// SPDX-License-Identifier: Apache-2.0
#include "data/hash.h"

#include <string.h>

// Works in rounds like those of xxHash64, in four lanes.
enum { LANES = 4 };
static const uint64_t first_prime = UINT64_C(0x9E3779B185EBCA87);
static const uint64_t second_prime = UINT64_C(0xC2B2AE3D27D4EB4F);

static inline uint64_t rotated(uint64_t x, int by) {
  return x << by | x >> (64 - by);
}

static inline uint64_t mixed(uint64_t lane, uint64_t word) {
  return rotated(lane + word * second_prime, 31) * first_prime;
}

static uint64_t hash_bytes(const void *data, size_t size, uint64_t before) {
  const char *at = data;
  uint64_t lanes[LANES] = {before, before + first_prime, before + second_prime,
                           before - first_prime};
  size_t left = size;
  for (; left >= sizeof(lanes); left -= sizeof(lanes), at += sizeof(lanes)) {
    uint64_t words[LANES];
    memcpy(words, at, sizeof(words));
    for (int k = 0; k < LANES; ++k)
      lanes[k] = mixed(lanes[k], words[k]);
  }
  uint64_t rest[LANES] = {0};
  if (left > 0) memcpy(rest, at, left);
  uint64_t hash = mixed(before, size);
  for (int k = 0; k < LANES; ++k)
    hash = mixed(mixed(hash, lanes[k]), rest[k]);
  hash = (hash ^ hash >> 33) * second_prime;
  return hash ^ hash >> 29;
}

uint64_t ls_hash_array(const ls_array *array, uint64_t before) {
  const ls_shape shape = ls_array_shape(array);
  uint64_t hash = mixed(before, (uint64_t)ls_array_dtype(array));
  for (int i = 0; i < shape.rank; ++i)
    hash = mixed(hash, (uint64_t)shape.dim[i]);
  if (ls_array_dtype(array) != LS_DTYPE_STRING)
    return hash_bytes(ls_array_data(array), ls_array_size(array), hash);
  const ls_bytes *strings = ls_array_data(array);
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    hash = hash_bytes(strings[i].data, strings[i].size, hash);
  return hash;
}
