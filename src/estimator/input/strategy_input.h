// SPDX-License-Identifier: Apache-2.0
// Input of a model in a strategy's replicas: each gets its part of a batch, of
// any size.
#ifndef LS_ESTIMATOR_INPUT_STRATEGY_INPUT_H_
#define LS_ESTIMATOR_INPUT_STRATEGY_INPUT_H_

#include "estimator/input/cpu_input.h"
#include "lockstep/strategy.h"

typedef struct ls_strategy_input {
  ls_cpu_input input;  // Values of the replicas; its hook feeds them.
  ls_nest examples;    // PerReplica: how many each has, i64. None: all as many.
} ls_strategy_input;

// Calls the input function in the current graph, in the strategy's scope.
//   LS_INVALID_ARGUMENT  it gives no data set.
LS_MUST_USE ls_status ls_strategy_input_make(const ls_estimator_calls *calls,
                                             ls_strategy *strategy,
                                             ls_strategy_input *out_input);
void ls_strategy_input_drop(ls_strategy_input *input);  // Zeroed is fine.

#endif  // LS_ESTIMATOR_INPUT_STRATEGY_INPUT_H_
