// SPDX-License-Identifier: Apache-2.0
//
// Evaluates checkpoints as they come, and exports what was evaluated.
#ifndef LS_ESTIMATOR_CALLS_EVAL_ROUNDS_H_
#define LS_ESTIMATOR_CALLS_EVAL_ROUNDS_H_

#include "estimator/calls/estimator.h"
#include "lockstep/train_and_evaluate.h"

typedef struct ls_eval_rounds {
  ls_estimator *estimator;  // Lent, as is all but the path.
  const ls_eval_spec *eval;
  ls_opt max_steps;
  const ls_train_stop *stop;
  ls_train_and_evaluation *out;
  char *previous;  // The checkpoint that was evaluated last,
  int64_t step;    //   and its step.
  int64_t newest;  // The newest there was then, whole or not.
  int64_t warned;  // When it was said that there is none.
  bool has_warned;
} ls_eval_rounds;

// Evaluates the newest checkpoint, if it is another than the last one, and
// calls exporters.
LS_MUST_USE ls_status ls_eval_rounds_run(ls_eval_rounds *self,
                                         bool *out_is_new);
// The same again and again, until one has the steps of the training, or a stop
// is requested.
LS_MUST_USE ls_status ls_eval_rounds_go_on(ls_eval_rounds *self);
void ls_eval_rounds_deinit(ls_eval_rounds *self);

// In nanoseconds.
int64_t ls_eval_rounds_throttle(const ls_eval_spec *eval);
// Returns whether all of it has passed, and no stop was requested.
bool ls_eval_rounds_wait(const ls_runtime *runtime, int64_t nanos,
                         const ls_train_stop *stop);
void ls_eval_rounds_drop_exports(ls_train_and_evaluation *result);

#endif  // LS_ESTIMATOR_CALLS_EVAL_ROUNDS_H_
