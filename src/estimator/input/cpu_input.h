// SPDX-License-Identifier: Apache-2.0
//
// Input on CPUs: the features and labels of a model, or of one in each replica
// of the plan's strategy, which get shares of each batch.
#ifndef LS_ESTIMATOR_INPUT_CPU_INPUT_H_
#define LS_ESTIMATOR_INPUT_CPU_INPUT_H_

#include "estimator/spec/calls.h"
#include "lockstep/hook.h"
#include "lockstep/iterator.h"

typedef struct ls_cpu_input {
  // Values of the current graph; of several replicas PerReplica. No labels:
  // none.
  ls_nest features, labels;
  // PerReplica: how many examples each has, i64. None: all as many.
  ls_nest examples;
  // Begins a data set with each session: where a checkpoint has put it, else at
  // its start. Where its batches are of several sizes, or shared out, the hook
  // feeds each run one, and ends the loop after the last one (OUT_OF_RANGE);
  // else the graph reads them. NULL: there is no data set.
  ls_hook *hook;
  ls_iterator *iterator;
  // The dimension of the first feature that is the number of examples.
  int64_t axis;
} ls_cpu_input;

// Calls the input function in the current graph, in the strategy's scope.
//   LS_INVALID_ARGUMENT  SLICED input; a tuple that is no pair; with a strategy
//                        no data set
LS_MUST_USE ls_status ls_cpu_input_make(const ls_estimator_calls *calls,
                                        ls_cpu_input *out_input);
void ls_cpu_input_drop(ls_cpu_input *input);  // Zeroed is fine.
// Examples in a batch: in the latest one that was fed, or in each; -1: unknown.
int64_t ls_cpu_input_rows(const ls_cpu_input *input);

#endif  // LS_ESTIMATOR_INPUT_CPU_INPUT_H_
