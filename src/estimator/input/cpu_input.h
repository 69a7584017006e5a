// SPDX-License-Identifier: Apache-2.0
//
// Input on CPUs: features and labels for a model, or for one in each replica of
// the plan's strategy, which get shares of each batch.
#ifndef LS_ESTIMATOR_INPUT_CPU_INPUT_H_
#define LS_ESTIMATOR_INPUT_CPU_INPUT_H_

#include "estimator/spec/calls.h"
#include "lockstep/hook.h"
#include "lockstep/iterator.h"

typedef struct ls_cpu_input {
  // Values of the current graph; PerReplica with several replicas. `labels` may
  // be none.
  ls_nest features, labels;
  // PerReplica numbers of examples, i64; none if all are equal.
  ls_nest examples;
  // Starts the data set in each session: at the position that a checkpoint
  // restored, else at its start. If batches differ in size or are shared out,
  // the hook also feeds each run a batch, and ends the loop after the last one
  // (OUT_OF_RANGE); else the graph reads them. NULL without a data set.
  ls_hook *hook;
  ls_iterator *iterator;
  // The dimension of the first feature that counts the examples.
  int64_t axis;
} ls_cpu_input;

// Calls the input function in the current graph, in the strategy's scope.
//   LS_INVALID_ARGUMENT  SLICED input; a tuple that is not a pair; with a
//                        strategy, no data set
LS_MUST_USE ls_status ls_cpu_input_make(const ls_estimator_calls *calls,
                                        ls_cpu_input *out_input);
void ls_cpu_input_drop(ls_cpu_input *input);  // May be zeroed.
// Returns the number of examples in the latest fed batch, or in each batch; -1
// if not known.
int64_t ls_cpu_input_rows(const ls_cpu_input *input);

#endif  // LS_ESTIMATOR_INPUT_CPU_INPUT_H_
