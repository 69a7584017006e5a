// SPDX-License-Identifier: Apache-2.0
// Time budget of some steps: shares of compute, input and waits.
#ifndef LS_TRAIN_BUDGET_H_
#define LS_TRAIN_BUDGET_H_

#include "base/runtime_internal.h"
#include "lockstep/iterator.h"
#include "lockstep/train.h"

enum { LS_BUDGET_RANKS = 64 };

// Nanoseconds that a run has spent so far, by its own measurement.
typedef struct ls_spent {
  int64_t input, run, save;
} ls_spent;

// Counters at the time a budget was begun.
typedef struct ls_budget {
  int64_t began;
  ls_spent spent;
  int64_t waited[LS_WAITS];  // The runtime's waits at that time.
  // Waits for the first LS_BUDGET_RANKS ranks at that time.
  int64_t waited_for[LS_BUDGET_RANKS];
} ls_budget;

void ls_budget_begin(const ls_runtime *runtime, const ls_spent *spent,
                     ls_budget *budget);
// Returns the budget since `budget` was begun; asks `input` which of its stages
// takes most time.
ls_train_budget ls_budget_of(const ls_runtime *runtime, const ls_spent *spent,
                             const ls_budget *budget, ls_iterator *input);

// Prints the largest parts that fit, "compute 97% input 2% (map)". Returns
// `buffer`.
const char *ls_budget_print(const ls_train_budget *budget, char *buffer,
                            size_t size);

#endif  // LS_TRAIN_BUDGET_H_
