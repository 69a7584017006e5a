// SPDX-License-Identifier: Apache-2.0
// Numbers: converts arrays of any type to doubles or i64, and back by the rules
// of ls_array_set_f64 and ls_array_set_i64.
#ifndef LS_BASE_VALUES_NUMBERS_H_
#define LS_BASE_VALUES_NUMBERS_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lockstep/array.h"
#include "lockstep/shape_rules.h"

// Returns true for floats of 16 bits, which are computed in f32.
static inline bool ls_is_half(ls_dtype dtype) {
  return dtype == LS_DTYPE_F16 || dtype == LS_DTYPE_BF16;
}
// Returns the type in which floats of this type are computed.
static inline ls_dtype ls_wide_dtype(ls_dtype dtype) {
  return ls_is_half(dtype) ? LS_DTYPE_F32 : dtype;
}

// Converts a float to its bits, and back.
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

// Returns how many numbers of an ascending list, `step` bytes from one to the
// next, are at most `most`.
static inline size_t ls_count_up_to(const int64_t *sorted, size_t step,
                                    size_t count, int64_t most) {
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    int64_t number;
    memcpy(&number, (const char *)sorted + middle * step, sizeof(number));
    if (number <= most)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Converts floats, integers and bools.
void ls_values_to_f64(ls_dtype dtype, const void *from, size_t count,
                      double *to);
void ls_values_from_f64(ls_dtype dtype, const double *from, size_t count,
                        void *to);
// Converts to integers and from them; floats are truncated and clamped,
// integers that do not fit a type keep their low bits.
void ls_values_to_i64(ls_dtype dtype, const void *from, size_t count,
                      int64_t *to);
void ls_values_from_i64(ls_dtype dtype, const int64_t *from, size_t count,
                        void *to);

// Truncates; clamps a value that does not fit; NaN gives 0.
static inline int64_t ls_i64_of_f64(double value, int64_t low, int64_t high) {
  if (value != value) return 0;
  if (value <= (double)low) return low;
  if (value >= (double)high) return high;
  return (int64_t)value;
}

static inline uint64_t ls_u64_of_f64(double value) {
  if (!(value > 0)) return 0;
  return value >= 0x1p64 ? UINT64_MAX : (uint64_t)value;
}

// Stores an integer or bool given by its sign and magnitude; returns false, and
// stores nothing, if the type has no such value.
static inline bool ls_store_integer(ls_dtype dtype, bool is_negative,
                                    uint64_t magnitude, void *to) {
  const size_t size = ls_dtype_size(dtype);
  const uint64_t all = UINT64_MAX >> (64 - 8 * size);
  uint64_t most = is_negative ? 0 : all;
  if (dtype == LS_DTYPE_BOOL)
    most = !is_negative;
  else if (!ls_dtype_is_unsigned(dtype))
    most = all / 2 + is_negative;
  const uint64_t bits = is_negative ? 0 - magnitude : magnitude;
  if (magnitude > most) return false;
  memcpy(to, &bits, size);  // The machine is little-endian.
  return true;
}

// Rounds to odd: truncates, and sets the last bit if inexact, so that rounding
// the result again to fewer bits equals rounding `value` directly.
float ls_odd_f32_of_f64(double value);
// Reads a float of any type from plain text, as strtod does, rounded once;
// 16-bit ones from the nearest f64, which has the first 15 digits at least.
void ls_read_float(ls_dtype dtype, const char *text, char **out_end, void *out);

#endif  // LS_BASE_VALUES_NUMBERS_H_
