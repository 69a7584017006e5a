// SPDX-License-Identifier: Apache-2.0
// The tables of kernels that this machine can run, numbers of all kinds to try
// them on, and arrays that are equal in every byte.
#ifndef LS_TESTS_SUPPORT_KERNEL_TABLES_H_
#define LS_TESTS_SUPPORT_KERNEL_TABLES_H_

#include "engine/cpu/kernels.h"
#include "support/loop_case.h"

typedef struct kernel_tables {
  const ls_cpu_kernels *at[3];  // base, v3, v4.
  size_t count;
} kernel_tables;
kernel_tables kernel_tables_find(void);
// Those that were found by the setup of a group of tests.
extern kernel_tables kernel_tables_here;
int kernel_tables_set_up(void **state);

// Runs an op of one operand on n floats. `y` may be `x`.
void kernel_tables_run(const ls_cpu_kernels *table, uint16_t op, float *y,
                       const float *x, size_t n);

// Numbers of a float type (f32 or f64) in [-1, 1); or any bits at all:
// denormals, infinities, NaNs, and all sizes.
typedef enum number_kind { NUMBERS_SMALL, NUMBERS_ANY } number_kind;
void numbers_fill(ls_dtype dtype, void *data, size_t count, number_kind kind,
                  loop_random *random);

// `bytes` of memory that begin `offset` bytes behind a cache line and end where
// they should, for a sanitizer to see. Freed by numbers_free.
void *numbers_create(size_t bytes, size_t offset);
void numbers_free(void *data, size_t offset);

// Fails at the first number (f32 or f64) that differs in any bit. NaNs are all
// alike: their sign and payload are not promised.
void expect_same_numbers(const char *what, const char *table, ls_dtype dtype,
                         const void *want, const void *got, size_t count);

#endif  // LS_TESTS_SUPPORT_KERNEL_TABLES_H_
