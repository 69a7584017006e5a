// SPDX-License-Identifier: Apache-2.0
// Permutations of 0 to n - 1 that are computed, not stored: a Feistel network
// over the next power of two, applied repeatedly until the result is below n
// (Black and Rogaway, CT-RSA 2002). A key selects the permutation.
#ifndef LS_DATA_PERMUTATION_H_
#define LS_DATA_PERMUTATION_H_

#include <stddef.h>
#include <stdint.h>

enum { LS_PERMUTATION_ROUNDS = 32 };

typedef struct ls_permutation {
  uint64_t size;
  int low_bits, high_bits;  // Bits of the two halves of a number.
  int rounds;
  uint64_t keys[LS_PERMUTATION_ROUNDS];
} ls_permutation;

// Makes a permutation of 0 to `size` - 1; `size` is at most 2^63.
ls_permutation ls_permutation_make(uint64_t size, uint64_t seed,
                                   uint64_t stream, uint64_t epoch);
// Returns the image of `index`, which is below the size.
uint64_t ls_permutation_at(const ls_permutation *self, uint64_t index);
// Maps many indices, several times as fast; `out` may be `indices`.
void ls_permutation_map(const ls_permutation *self, const int64_t *indices,
                        size_t count, int64_t *out);

#endif  // LS_DATA_PERMUTATION_H_
