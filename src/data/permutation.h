// SPDX-License-Identifier: Apache-2.0
// Permutations of 0 to n - 1 that are computed, not stored: a Feistel network
// over the next power of two, walked until it comes to a number below n (Black
// and Rogaway, CT-RSA 2002). Which one is said by a key.
#ifndef LS_DATA_PERMUTATION_H_
#define LS_DATA_PERMUTATION_H_

#include <stddef.h>
#include <stdint.h>

enum { LS_PERMUTATION_ROUNDS = 32 };

typedef struct ls_permutation {
  uint64_t size;
  int low_bits, high_bits;  // Of the two halves of a number.
  int rounds;
  uint64_t keys[LS_PERMUTATION_ROUNDS];
} ls_permutation;

// Of 0 to `size` - 1, where `size` is at most 2^63.
ls_permutation ls_permutation_make(uint64_t size, uint64_t seed,
                                   uint64_t stream, uint64_t epoch);
// Where `index`, below the size, goes.
uint64_t ls_permutation_at(const ls_permutation *self, uint64_t index);
// The same of many, which is several times as fast; `out` may be `indices`.
void ls_permutation_map(const ls_permutation *self, const int64_t *indices,
                        size_t count, int64_t *out);

#endif  // LS_DATA_PERMUTATION_H_
