// SPDX-License-Identifier: Apache-2.0
// Hashes of arrays: whether they hold the same, at the speed of memory. Equal
// on every machine of one byte order; no help against who wants a collision.
#ifndef LS_DATA_HASH_H_
#define LS_DATA_HASH_H_

#include <stdint.h>

#include "lockstep/array.h"

// Type, shape and elements, and what was hashed before.
uint64_t ls_hash_array(const ls_array *array, uint64_t before);

#endif  // LS_DATA_HASH_H_
