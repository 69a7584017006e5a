// SPDX-License-Identifier: Apache-2.0
//
// Runs of programs on a store, as tasks: what waits for the host can be left
// and gone on with, so that one thread has several at a time.
#ifndef LS_RUNTIME_RUN_H_
#define LS_RUNTIME_RUN_H_

#include "runtime/gate.h"
#include "runtime/program.h"

// On the stack of who has it run; stays where it is until it is over.
typedef struct ls_run {
  ls_compiled *compiled;
  ls_store *store;
  ls_run_args args;
  ls_access access;
  bool has_store, has_ended;
  uint64_t changes;        // The store's, at the start.
  struct ls_bound *bound;  // NULL: none yet.
} ls_run;

// Begins a run, in its turn at the store's gate; see ls_compiled_run. What args
// point to stays until the run is finished. A run that could not be started is
// over.
LS_MUST_USE ls_status ls_run_start(ls_run *run, ls_compiled *compiled,
                                   ls_store *store, const ls_run_args *args,
                                   bool *out_stale);
// Goes on until the run has ended or waits for the host.
ls_run_state ls_run_advance(ls_run *run);
// Has a run that waits or has ended fail.
void ls_run_stop(ls_run *run, ls_status status);
// How a run that has ended went. Its new values are published, or, if it has
// failed, none is.
LS_MUST_USE ls_status ls_run_finish(ls_run *run);

// Drives runs to their ends, in turns, on this thread, and finishes them all.
// If one fails so do the others; the first failure is told.
LS_MUST_USE ls_status ls_runs_drive(ls_run *runs, size_t count);

#endif  // LS_RUNTIME_RUN_H_
