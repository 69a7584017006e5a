// SPDX-License-Identifier: Apache-2.0
// Lowered programs whose replicas go through several replicate ops.
#ifndef LS_TESTS_SUPPORT_WIDE_H_
#define LS_TESTS_SUPPORT_WIDE_H_

#include "support/lowered.h"

// The text of a template for so many replicas; the caller frees it. $R is their
// number, $P their parameters, f32[7] each, which $A lists, $T the types of a
// result of each, $G the results of op %9000, and $N as many sevens, whose sum
// is $M.
char *wide_expand(const char *template, int32_t replicas);

// Templates as in tests/engine/wide.ls: of replicas that go through one op, and
// the same through several.
typedef struct wide_pair {
  const char *what, *whole, *cut;
} wide_pair;

// All of them, read once; `file` is where they are.
const wide_pair *wide_pairs(const char *file, size_t *out_count);
// One of those that were read.
const wide_pair *wide_pair_of(const char *what);

// The program of a template. Its host kernel "own" gives, of an f32[7] and two
// numbers, the first times two, and more by what the numbers and the replica
// say; and the replica, an i32.
ls_status wide_create(const char *template, int32_t replicas, lowered *out);

// Rows of replicas whose sums depend on their order, and so small that no
// exponential of them is infinite: lanes_values.
const void *const *wide_rows(void);

#endif  // LS_TESTS_SUPPORT_WIDE_H_
