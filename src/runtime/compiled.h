// SPDX-License-Identifier: Apache-2.0
//
// The inside of a compiled program: program.c makes it, run.c runs it.
#ifndef LS_RUNTIME_COMPILED_H_
#define LS_RUNTIME_COMPILED_H_

#include "runtime/gate.h"
#include "runtime/program.h"

// An instance of a program, bound to a store; instances form lists of idle
// ones.
typedef struct ls_bound {
  struct ls_bound *next;
  uint64_t store_id;
  uint64_t moves;  // The store's `moves` at the last lookup of buffers.
  ls_instance *instance;
  ls_place **places;                // One per variable use.
  ls_buffer **buffers;              // Buffers of uses, then borrowed ones.
  struct ls_padded_inputs *padded;  // NULL: the program pads no inputs.
} ls_bound;

struct ls_compiled {
  ls_object object;
  ls_allocator *allocator;
  ls_backend *backend;
  ls_program *program;
  ls_executable *executable;
  int64_t compile_nanos;
  // Bytes of the program, and of an instance beside its arguments and results.
  size_t program_bytes, instance_bytes;
  char *key;  // Key in the program cache, which owns no programs.
  size_t key_size;
  bool distributed;   // Uses a distributed variable or its component.
  bool draws;         // Results depend on the step.
  ls_touch *touches;  // Touches of the variables used, for the gate.
  size_t num_touches;
  char *ops;          // The program's ops as other ranks get them, or NULL.
  uint64_t compared;  // The last seed with which ranks compared it. Atomic.
  bool was_compared;  // True if there is such a seed. Atomic.
  uint64_t *runs;     // Count of its shared runs; NULL before. Both atomic.
  ls_bound *idle;     // Taken and given back by an atomic exchange.
  uint64_t settled;   // The store's `changes` when all states checked before a
                      // run and noted after a run were last up to date. Atomic.
};

// Destroys a list of instances.
void ls_compiled_drop_bound(const ls_compiled *compiled, ls_bound *list);

// ---- Runs ------------------------------------------------------------------
// Runs of programs on a store, as tasks: a run that waits for the host can be
// left and resumed, so that one thread drives several runs.

// A run, on its driver's stack; must not move until it has ended.
typedef struct ls_run {
  ls_compiled *compiled;
  ls_store *store;
  ls_run_args args;
  ls_access access;
  bool has_store, has_ended;
  uint64_t changes;        // The store's `changes` at the start.
  struct ls_bound *bound;  // NULL: no instance yet.
} ls_run;

// Starts a run, after waiting at the store's gate; see ls_compiled_run. Memory
// that `args` refers to must stay until the run is finished. A run that fails
// to start has ended.
LS_MUST_USE ls_status ls_run_start(ls_run *run, ls_compiled *compiled,
                                   ls_store *store, const ls_run_args *args,
                                   bool *out_stale);
// Fails a run that waits or has ended.
void ls_run_stop(ls_run *run, ls_status status);
// Returns the status of a run that has ended. Publishes its new values, or none
// if it has failed.
LS_MUST_USE ls_status ls_run_finish(ls_run *run);

// Drives runs in turns on this thread until all have ended, and finishes them.
// If one fails the others are stopped; returns the first failure.
LS_MUST_USE ls_status ls_runs_drive(ls_run *runs, size_t count);

#endif  // LS_RUNTIME_COMPILED_H_
