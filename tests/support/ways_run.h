// SPDX-License-Identifier: Apache-2.0
// Between the table of ways and the runs: one case in one way.
#ifndef LS_TESTS_SUPPORT_WAYS_RUN_H_
#define LS_TESTS_SUPPORT_WAYS_RUN_H_

#include "lockstep/function.h"
#include "lockstep/session.h"
#include "support/ways.h"

// The case that is run, and where: what a step needs beside its arguments.
typedef struct ways_run {
  const ways_case *c;
  ways self;
  // Of a session.
  ls_graph *graph;
  ls_session *session;
  ls_function *function;
  ls_op init;
  ls_nest placeholders[WAYS_MOST_REPLICAS];  // Of each replica's arguments.
} ways_run;

// Where it runs, for messages; until the next call.
const char *ways_place(const ways *self);
// Makes the strategy, and what the case makes in its scope.
void ways_set_up(ways_run *run);
// Releases all of it.
void ways_tear_down(ways_run *run);

// Each way's: sets up, runs the steps, and keeps what comes out. A refused step
// leaves no trace.
ls_status ways_run_traced(ways_run *run);
ls_status ways_run_eager(ways_run *run);
ls_status ways_run_session(ways_run *run);

#endif  // LS_TESTS_SUPPORT_WAYS_RUN_H_
