// SPDX-License-Identifier: Apache-2.0
// Where the time of some steps goes.
#ifndef LS_TRAIN_BUDGET_H_
#define LS_TRAIN_BUDGET_H_

#include "base/runtime_internal.h"
#include "lockstep/iterator.h"
#include "lockstep/train.h"

enum { LS_BUDGET_RANKS = 64 };

// Nanoseconds that a run has taken so far, by what it knows itself.
typedef struct ls_spent {
  int64_t input, run, save;
} ls_spent;

// The counts when it was begun.
typedef struct ls_budget {
  int64_t began;
  ls_spent spent;
  int64_t waited[LS_WAITS];  // Of the runtime, when it began.
  // For each rank, the same; others than the first ones are not named.
  int64_t waited_for[LS_BUDGET_RANKS];
} ls_budget;

void ls_budget_begin(const ls_runtime *runtime, const ls_spent *spent,
                     ls_budget *budget);
// Since then; `input` is asked which of its stages takes most time.
ls_train_budget ls_budget_of(const ls_runtime *runtime, const ls_spent *spent,
                             const ls_budget *budget, ls_iterator *input);

// The parts that matter, largest first: "compute 97% input 2% (map)", as many
// as fit. Returns `buffer`.
const char *ls_budget_print(const ls_train_budget *budget, char *buffer,
                            size_t size);

#endif  // LS_TRAIN_BUDGET_H_
