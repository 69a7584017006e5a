// SPDX-License-Identifier: Apache-2.0
#ifndef LS_BASE_VALUES_FLOAT_BITS_H_
#define LS_BASE_VALUES_FLOAT_BITS_H_

#include <stdint.h>
#include <string.h>

// A float as the bits that it is stored as, and back.
static inline uint32_t ls_float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static inline float ls_float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

#endif  // LS_BASE_VALUES_FLOAT_BITS_H_
