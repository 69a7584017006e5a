// SPDX-License-Identifier: Apache-2.0
// Hashes of arrays' contents, at the speed of memory. Equal on all machines of
// the same byte order; not safe against forged collisions.
#ifndef LS_DATA_HASH_H_
#define LS_DATA_HASH_H_

#include <stdint.h>

#include "lockstep/array.h"

// Hashes type, shape and elements; `before` chains a hash.
uint64_t ls_hash_array(const ls_array *array, uint64_t before);

#endif  // LS_DATA_HASH_H_
