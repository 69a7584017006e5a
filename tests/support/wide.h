// SPDX-License-Identifier: Apache-2.0
// Lowered programs whose replicas go through several replicate ops.
#ifndef LS_TESTS_SUPPORT_WIDE_H_
#define LS_TESTS_SUPPORT_WIDE_H_

#include <stddef.h>
#include <stdint.h>

// The text of a template for so many replicas; the caller frees it. $R is their
// number, $P their parameters, f32[7] each, which $A lists, $T the types of a
// result of each, and $G the results of op %9000.
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

// Rows of replicas whose sums depend on their order, and so small that no
// exponential of them is infinite: lanes_values.
const void *const *wide_rows(void);

#endif  // LS_TESTS_SUPPORT_WIDE_H_
