// SPDX-License-Identifier: Apache-2.0
#include "support/kernel_tables.h"

#include "engine/cpu/kernels/loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"

kernel_tables kernel_tables_find(void) {
  static const char *const names[] = {"base", "v3", "v4"};
  kernel_tables tables = {.count = 0};
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i) {
    const ls_cpu_kernels *table = ls_cpu_kernels_find(names[i]);
    if (table != NULL) tables.at[tables.count++] = table;
  }
  return tables;
}

kernel_tables kernel_tables_here;

void kernel_tables_run(const ls_cpu_kernels *table, uint16_t op, float *y,
                       const float *x, size_t n) {
  const ls_elementwise self = {.num_in = 1};
  const ls_span span = ls_span_of(op, LS_DTYPE_F32, table);
  assert_non_null(span);
  span(&self, y, (const void *[]){x}, (int64_t)n);
}

int kernel_tables_set_up(void **state) {
  (void)state;
  kernel_tables_here = kernel_tables_find();
  return 0;
}

// A number of any size, often at the edge of what there is.
static uint64_t any_bits(size_t size, loop_random *random) {
  const uint64_t sign = (uint64_t)(loop_random_bits(random) & 1) << 63;
  const uint64_t bits =
      (uint64_t)loop_random_bits(random) << 32 | loop_random_bits(random);
  const int exponent = size == 4 ? 8 : 11;
  const uint64_t all = ~UINT64_C(0);
  uint64_t x = bits;
  switch (loop_random_bits(random) % 16) {
  case 0:  // Zero.
    x = sign;
    break;
  case 1:  // Infinity.
    x = sign | (all << (64 - exponent)) >> 1;
    break;
  case 2:  // Denormal.
    x = sign | (bits >> (exponent + 1));
    break;
  case 3:  // One.
    x = sign | (all << (65 - exponent)) >> 2;
    break;
  default:
    break;
  }
  return size == 4 ? x >> 32 : x;
}

void numbers_fill(ls_dtype dtype, void *data, size_t count, number_kind kind,
                  loop_random *random) {
  const size_t size = ls_dtype_size(dtype);
  for (size_t i = 0; i < count; ++i) {
    char *at = (char *)data + i * size;
    if (kind == NUMBERS_ANY) {
      const uint64_t bits = any_bits(size, random);
      const uint32_t low = (uint32_t)bits;
      memcpy(at, size == 4 ? (const void *)&low : &bits, size);
      continue;
    }
    // A double has more digits than a float.
    const double x = ((double)loop_random_bits(random) * 0x1p-31 - 1) *
                     (dtype == LS_DTYPE_F64 ? 1 - 0x1p-40 : 1);
    const float narrow = (float)x;
    memcpy(at, size == 4 ? (const void *)&narrow : &x, size);
  }
}

void *numbers_create(size_t bytes, size_t offset) {
  assert_in_range(offset, 0, 64);
  char *memory = NULL;
  assert_int_equal(posix_memalign((void **)&memory, 64, offset + bytes + 1), 0);
  return memory + offset;
}

void numbers_free(void *data, size_t offset) {
  if (data != NULL) free((char *)data - offset);
}

void expect_same_numbers(const char *what, const char *table, ls_dtype dtype,
                         const void *want, const void *got, size_t count) {
  const size_t size = ls_dtype_size(dtype);
  if (memcmp(want, got, count * size) == 0) return;
  for (size_t i = 0; i < count; ++i) {
    const char *a = (const char *)want + i * size;
    const char *b = (const char *)got + i * size;
    if (memcmp(a, b, size) == 0) continue;
    double x = 0, y = 0;
    float narrow[2] = {0};
    if (size == 4) {
      memcpy(&narrow[0], a, size);
      memcpy(&narrow[1], b, size);
      x = (double)narrow[0];
      y = (double)narrow[1];
    } else {
      memcpy(&x, a, size);
      memcpy(&y, b, size);
    }
    if (isnan(x) && isnan(y)) continue;
    fail_msg("%s, table %s: [%zu] is %a, want %a; seed %llu", what, table, i, y,
             x, (unsigned long long)loop_random_seed());
  }
}
