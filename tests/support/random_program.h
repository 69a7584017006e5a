// SPDX-License-Identifier: Apache-2.0
//
// Programs that a number draws: arguments, variables, an optimizer, and ops of
// all kinds between them. A program draws its ops anew each time it is built,
// to the same, so one description serves every way to run it.
#ifndef LS_TESTS_SUPPORT_RANDOM_PROGRAM_H_
#define LS_TESTS_SUPPORT_RANDOM_PROGRAM_H_

#include "lockstep/optimizers.h"
#include "support/loop_case.h"

enum {
  RANDOM_ARGS = 3,
  RANDOM_VARIABLES = 4,
  RANDOM_SIZES = 4,
  RANDOM_VALUES = 96,
};

// What is drawn before any op. A plain value; nothing to free.
typedef struct random_program {
  uint64_t seed;
  ls_dtype dtype;               // Of most values.
  int64_t sizes[RANDOM_SIZES];  // Of most dimensions.
  ls_type args[RANDOM_ARGS], variables[RANDOM_VARIABLES];
  int length;  // Ops that are asked for.
  int steps;
  bool trains;
  // Gradients pass through loops and branches. What their trips give is added
  // up apart, which op by op it is not: there the last bits differ.
  bool through_flow;
  ls_random_options random;  // Draws the same in every way.
} random_program;

random_program random_program_draw(uint64_t seed);
// An argument of a replica, or a variable's first value; the caller's.
ls_array *random_program_arg(const random_program *self, size_t index,
                             int replica);
ls_array *random_program_initial(const random_program *self, size_t index);
ls_status random_program_optimizer(const random_program *self,
                                   ls_optimizer **out_optimizer);

// All values of one build, in the order in which they were made.
typedef struct random_values {
  ls_tensor items[RANDOM_VALUES];
  const char *names[RANDOM_VALUES];  // Of the ops; static.
  size_t count;
  ls_tensor loss;
} random_values;
// Adds the program's ops to the current graph.
void random_program_build(const random_program *self, const ls_tensor *args,
                          ls_variable *const *variables, random_values *out);

#endif  // LS_TESTS_SUPPORT_RANDOM_PROGRAM_H_
