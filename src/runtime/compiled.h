// SPDX-License-Identifier: Apache-2.0
//
// Inside of a compiled program: program.c makes it, run.c runs it.
#ifndef LS_RUNTIME_COMPILED_H_
#define LS_RUNTIME_COMPILED_H_

#include "runtime/gate.h"
#include "runtime/program.h"

// A program bound to a store; a list of idle ones.
typedef struct ls_bound {
  struct ls_bound *next;
  uint64_t store_id;
  uint64_t moves;  // The store's when buffers were looked up last.
  ls_instance *instance;
  ls_place **places;    // One a use.
  ls_buffer **buffers;  // Those of the uses, then those that are borrowed.
  struct ls_padded_inputs *padded;  // NULL: the program pads none.
} ls_bound;

struct ls_compiled {
  ls_object object;
  ls_allocator *allocator;
  ls_backend *backend;
  ls_program *program;
  ls_executable *executable;
  char *key;  // In the runtime's program cache, which does not own it.
  size_t key_size;
  bool distributed;   // Uses a distributed variable or a part of one.
  bool draws;         // By the step.
  ls_touch *touches;  // What it uses of a store, for the gate.
  size_t num_touches;
  ls_bound *idle;    // One is taken and given back with an atomic exchange.
  uint64_t settled;  // A store's changes as they were when all that is asked
                     // before a run, and noted after it, was so. Atomic.
};

// Room for a program's inputs with their padding: pad.c. NULL if it pads none.
ls_status ls_padded_inputs_create(const ls_program *program,
                                  ls_allocator *allocator,
                                  struct ls_padded_inputs **out);
void ls_padded_inputs_destroy(struct ls_padded_inputs *padded);
// Copies what a run is given there, with zeros behind it, and has the run take
// that in its place, with the numbers of rows.
ls_status ls_padded_inputs_fill(struct ls_padded_inputs *padded,
                                ls_run_args *args);

// Destroys a list of instances.
void ls_compiled_drop_bound(const ls_compiled *compiled, ls_bound *list);

// ---- Runs -------------------------------------------------------------------
// Runs of programs on a store, as tasks: one that waits for the host can be
// left and gone on with, so that one thread has several at a time.

// A run, on the stack of who has it run; stays where it is until it is over.
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
// Returns how a run that has ended went. Its new values are published, or, if
// it has failed, none is.
LS_MUST_USE ls_status ls_run_finish(ls_run *run);

// Drives runs to their ends, in turns, on this thread, and finishes them all.
// If one fails so do the others; the first failure is told.
LS_MUST_USE ls_status ls_runs_drive(ls_run *runs, size_t count);

#endif  // LS_RUNTIME_COMPILED_H_
