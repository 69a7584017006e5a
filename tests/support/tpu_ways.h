// SPDX-License-Identifier: Apache-2.0
// One step of a TPU strategy in all ways to run it: a traced function called in
// eager, a plain callback in a build graph with a session, and a traced
// function there.
#ifndef LS_TESTS_SUPPORT_TPU_WAYS_H_
#define LS_TESTS_SUPPORT_TPU_WAYS_H_

#include "base/memory/own.h"
#include "support/computation.h"
#include "support/tpu_strategies.h"

enum {
  TPU_TRACED,
  TPU_GRAPH,
  TPU_GRAPH_TRACED,
  NUM_TPU_WAYS,
  TPU_RUN_REPLICAS = 8,
};

// What is run. Zero in a field means its default.
typedef struct tpu_step {
  ls_callback fn;
  void *user;
  const double *numbers;  // Replica r gets a tensor of numbers[r * size...].
  ls_shape shape;         // Of that. Default: a scalar.
  ls_dtype dtype;         // Default f32.
  // Makes what the step uses, in the strategy's scope and where it is run.
  // Default: nothing.
  ls_variable *(*make)(void *user);
} tpu_step;

typedef struct tpu_run {
  int way;
  ls_strategy *strategy;
  computation c;  // Unless it is TPU_TRACED.
  ls_function *function;
  ls_nest args, built;
  ls_nest results;        // A nest of arrays for each replica.
  ls_variable *variable;  // What `make` has made, lent to the step too.
} tpu_run;

// Runs the step. Whatever comes, tpu_run_end is the pair.
ls_status tpu_run_begin(tpu_run *self, int way, ls_strategy *strategy,
                        const tpu_step *step);
void tpu_run_end(tpu_run *self);
LS_OWNED_STRUCT(tpu_run, tpu_run_end)
// Leaf `leaf` of what replica r gave, at `element`.
double tpu_run_number(const tpu_run *self, int r, size_t leaf, int64_t element);
const ls_array *tpu_run_array(const tpu_run *self, int r, size_t leaf);
// The graph in which the step was built.
const ls_graph *tpu_run_graph(const tpu_run *self);
// Component i of the variable, as a number.
double tpu_run_component(tpu_run *self, size_t i);

// Runs it in all ways on 1, 2 and 5 replicas, and lets `check` look.
void tpu_run_all(const tpu_step *step, void (*check)(tpu_run *self));
// The same: it is refused in all.
void tpu_run_refused(const tpu_step *step, int replicas, ls_code code,
                     const char *says);
// The replicas of its strategy.
int tpu_run_replicas(const tpu_run *run);

#endif  // LS_TESTS_SUPPORT_TPU_WAYS_H_
