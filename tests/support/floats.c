// SPDX-License-Identifier: Apache-2.0
#include "support/floats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/kernel_tables.h"

static loop_random numbers;

float floats_random_unit(void) {
  return (float)(loop_random_bits(&numbers) >> 8) / 8388608.0F - 1.0F;
}

size_t floats_random_below(size_t n) { return loop_random_bits(&numbers) % n; }

float rounded_to_bf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  bits = (bits + 0x7fffU + (bits >> 16 & 1U)) & 0xffff0000U;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

void *floats_allocate(size_t bytes) {
  void *data = malloc(bytes > 0 ? bytes : 1);
  if (data == NULL) fail_msg("no memory for %zu bytes", bytes);
  return data;
}

float *floats_create(size_t count) {
  float *data = floats_allocate(count * sizeof(*data));
  for (size_t i = 0; i < count; ++i)
    data[i] = floats_random_unit();
  return data;
}

float *floats_copy(const float *source, size_t count) {
  float *data = floats_allocate(count * sizeof(*data));
  if (count > 0) memcpy(data, source, count * sizeof(*data));
  return data;
}

void expect_same_floats(const char *what, const char *table, const float *got,
                        const float *want, size_t count) {
  expect_same_numbers(what, table, LS_DTYPE_F32, want, got, count);
}

void expect_near_floats(const char *what, const char *table, const float *got,
                        const double *want, double tolerance, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!(fabs((double)got[i] - want[i]) <= tolerance))
      fail_msg("%s, table %s: [%zu] is %.9g, want %.9g", what, table, i,
               (double)got[i], want[i]);
}
