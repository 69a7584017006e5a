// SPDX-License-Identifier: Apache-2.0
// A variable of a TPU strategy, and a step that is run on it: by a traced
// function in eager, or in a build graph with a session.
#ifndef LS_TESTS_SUPPORT_TPU_STEPS_H_
#define LS_TESTS_SUPPORT_TPU_STEPS_H_

#include "base/memory/own.h"
#include "support/computation.h"
#include "support/replicas.h"

typedef struct tpu_step {
  bool in_graph;
  int replicas;
  computation c;
  ls_strategy *s;
  ls_variable *v;
  ls_function *f;
  ls_nest args, results;
} tpu_step;

void tpu_step_open(tpu_step *self, bool in_graph, int replicas,
                   variable_kind kind);
void tpu_step_close(tpu_step *self);
LS_OWNED_STRUCT(tpu_step, tpu_step_close)
// Builds the step and runs it once, on replicas that get 1, 2, ...; `body` gets
// the tpu_step.
ls_status tpu_step_run(tpu_step *self, ls_callback body);
// The argument of a body.
ls_tensor tpu_step_argument(ls_nest args);
// What a replica gave; and what all did, and what the components are.
ls_nest tpu_step_result(const tpu_step *self, int replica);
void tpu_step_expect_results(const tpu_step *self, const double *values);
void tpu_step_expect_parts(tpu_step *self, const double *values);
// Of a variable of any kind, where the thread is outside of the step.
double tpu_step_value(tpu_step *self, ls_variable *variable);

#endif  // LS_TESTS_SUPPORT_TPU_STEPS_H_
