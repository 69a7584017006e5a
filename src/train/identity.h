// SPDX-License-Identifier: Apache-2.0
// Identity of runs that may resume each other: their data, and the step's
// program.
#ifndef LS_TRAIN_IDENTITY_H_
#define LS_TRAIN_IDENTITY_H_

#include "base/runtime_internal.h"
#include "lockstep/train.h"

// Hashes the contents of a data set as far as that is cheap: its description,
// which covers arrays in memory, and the bytes of files (parts of large ones).
LS_MUST_USE ls_status ls_train_identify_data(ls_runtime *runtime,
                                             const ls_dataset *dataset,
                                             uint64_t *out_contents);

// Identity of a function's newest trace, as built and as lowered: strategies of
// different kinds build different graphs that lower to the same program.
typedef struct ls_program_identity {
  char all[33];  // Hexadecimal; "": unknown.
  char ops[33];  // Without numeric constants, such as rates.
  char lowered[33], lowered_ops[33];
} ls_program_identity;
void ls_train_identify_program(const ls_function *function,
                               ls_program_identity *out);

#endif  // LS_TRAIN_IDENTITY_H_
