// SPDX-License-Identifier: Apache-2.0
//
// Input on CPUs: what an input function gives, as a model takes it.
#ifndef LS_ESTIMATOR_INPUT_CPU_INPUT_H_
#define LS_ESTIMATOR_INPUT_CPU_INPUT_H_

#include "estimator/spec/calls.h"
#include "lockstep/hook.h"
#include "lockstep/iterator.h"

typedef struct ls_cpu_input {
  ls_nest features, labels;  // Of the current graph. No labels: none.
  // Of a data set, which begins with each session: where a checkpoint has put
  // it, else at its start. Where its batches are of several sizes, the hook
  // feeds each run one, and ends the loop behind the last one (OUT_OF_RANGE);
  // else the graph reads them. NULL: there is none.
  ls_hook *hook;
  ls_iterator *iterator;
  // Which dimension of the first feature says how many examples there are.
  int64_t axis;
} ls_cpu_input;

// Calls the input function: what it gives, the caller's.
//   LS_INVALID_ARGUMENT  SLICED input
LS_MUST_USE ls_status ls_cpu_input_call(const ls_estimator_calls *calls,
                                        ls_nest *out_made);
// The same, as tensors of the current graph.
//   LS_INVALID_ARGUMENT  a tuple that is no pair
LS_MUST_USE ls_status ls_cpu_input_make(const ls_estimator_calls *calls,
                                        ls_cpu_input *out_input);
void ls_cpu_input_drop(ls_cpu_input *input);  // Zeroed is fine.
// Examples in a batch: in the one that was fed last, or in each; -1: it is not
// known.
int64_t ls_cpu_input_rows(const ls_cpu_input *input);

// The iterator of an input's data set, seeded as its configuration says.
LS_MUST_USE ls_status ls_input_iterator(const ls_estimator_calls *calls,
                                        ls_dataset *dataset,
                                        ls_iterator **out_iterator);

#endif  // LS_ESTIMATOR_INPUT_CPU_INPUT_H_
