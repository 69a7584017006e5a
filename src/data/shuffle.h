// SPDX-License-Identifier: Apache-2.0
// Shuffle: a random order that depends on (seed, epoch) alone.
#ifndef LS_DATA_SHUFFLE_H_
#define LS_DATA_SHUFFLE_H_

#include <stddef.h>
#include <stdint.h>

// Writes 0 to count - 1 in the order of this epoch. Every order is equally
// likely (Fisher and Yates).
void ls_shuffle(uint64_t seed, uint64_t epoch, uint32_t *order, size_t count);

#endif  // LS_DATA_SHUFFLE_H_
