// SPDX-License-Identifier: Apache-2.0
// Runs of a TPU strategy for tests: one body, traced in a function or built in
// a graph with a session.
#ifndef LS_TESTS_SUPPORT_TPU_RUNS_H_
#define LS_TESTS_SUPPORT_TPU_RUNS_H_

#include "lockstep/tpu_strategy.h"
#include "support/computation.h"

enum { TPU_RUNS_REPLICAS = 3 };  // A case runs on 1 to so many.

typedef struct tpu_runs {
  bool in_graph;
  int replicas;
  ls_strategy *strategy;
  computation computation;  // In a graph.
  ls_variable *v;           // Of the strategy; a scalar, 100.
  ls_nest result;           // Of the last run.
} tpu_runs;

// Calls `body` in both ways on 1 to 3 replicas.
void tpu_runs_all(void (*body)(tpu_runs *self));

// A run of a callback with these parameters (NULL: none declared), traced anew
// in a function. Takes over the arguments, `named` too (none: there are none).
ls_status tpu_runs_call(tpu_runs *self, ls_callback fn, void *user,
                        const ls_parameters *parameters, ls_nest args,
                        ls_nest named);
// Replica r's part of the last result's leaf `i`, or of it alone for -1.
double tpu_runs_number(tpu_runs *self, int i, int r);
// A PerReplica of scalars: first + r.
ls_nest tpu_runs_per_replica(const tpu_runs *self, double first);
ls_nest tpu_runs_variable(const tpu_runs *self);

#endif  // LS_TESTS_SUPPORT_TPU_RUNS_H_
