// SPDX-License-Identifier: Apache-2.0
// The values of a random program while it is built, and the kinds of ops.
#ifndef LS_TESTS_SUPPORT_RANDOM_BUILD_H_
#define LS_TESTS_SUPPORT_RANDOM_BUILD_H_

#include "support/random_program.h"

enum { RANDOM_MOST_ELEMENTS = 20000, RANDOM_LEAVES = 8 };

typedef struct random_build {
  const random_program *program;
  loop_random random;
  ls_variable *const *variables;
  random_values *values;
} random_build;

int64_t random_between(random_build *b, int64_t low, int64_t high);
bool random_one_in(random_build *b, int64_t n);
// Adds a value: the result.
ls_tensor random_add(random_build *b, const char *name, ls_tensor x);
// A value that is there: of any type; of the program's, mostly a later one.
ls_tensor random_pick_any(random_build *b);
ls_tensor random_pick(random_build *b);
int64_t random_count_of(ls_tensor x);
// x in another shape: repeated and cut.
ls_tensor random_fit(ls_tensor x, ls_shape shape);
// One of the program's sizes, so that there are not too many elements with as
// many beside it.
int64_t random_size(random_build *b, int64_t beside);
// x as a matrix.
ls_tensor random_matrix(ls_tensor x);
// A leaf of a nest, a failed tensor if it has no such one.
ls_tensor random_leaf(ls_nest nest, size_t index);
ls_tensor random_scalar(random_build *b, double value);

// One op or a few of a random kind, on values that are there.
void random_add_element(random_build *b);
void random_add_product(random_build *b);
void random_add_shape(random_build *b);
void random_add_rows(random_build *b);
void random_add_flow(random_build *b);
// An op of the conformance cases, called as there.
void random_add_case(random_build *b);

// One elementwise op on two values of one float type and shape.
ls_tensor random_element(loop_random *random, const char **name, ls_tensor x,
                         ls_tensor y);

#endif  // LS_TESTS_SUPPORT_RANDOM_BUILD_H_
