// SPDX-License-Identifier: Apache-2.0
// Arrays of floats that end where they should, for a sanitizer to see a kernel
// that reaches past a tail. Freed by free.
#ifndef LS_TESTS_SUPPORT_FLOATS_H_
#define LS_TESTS_SUPPORT_FLOATS_H_

#include <stddef.h>

// Fails the test where there is no memory.
void *floats_allocate(size_t bytes);
// Random numbers in [-1, 1), the same in each run of a test program.
float *floats_create(size_t count);
float *floats_copy(const float *source, size_t count);

float floats_random_unit(void);
size_t floats_random_below(size_t n);

// The bf16 nearest to a number, of two the even one.
float rounded_to_bf16(float x);

// Fails at the first float that differs in bits; NaNs are all alike.
void expect_same_floats(const char *what, const char *table, const float *got,
                        const float *want, size_t count);
void expect_near_floats(const char *what, const char *table, const float *got,
                        const double *want, double tolerance, size_t count);

#endif  // LS_TESTS_SUPPORT_FLOATS_H_
