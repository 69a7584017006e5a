// SPDX-License-Identifier: Apache-2.0
//
// Programs: lowered graphs, compiled once. One cache serves functions, eager
// ops and sessions: equal programs share an executable.
#ifndef LS_RUNTIME_PROGRAM_H_
#define LS_RUNTIME_PROGRAM_H_

#include "base/memory/own.h"
#include "lower/lower.h"
#include "runtime/store.h"

// A program with its executable and idle instances on one store. Counted.
typedef struct ls_compiled ls_compiled;

// Lowers and compiles.
ls_status ls_compile(ls_runtime *runtime, const ls_lower_request *request,
                     ls_compiled **out_compiled);
ls_compiled *ls_compiled_retain(ls_compiled *compiled);
void ls_compiled_release(ls_compiled *compiled);
LS_OWNED_POINTER(ls_compiled, ls_compiled_release)

const ls_program *ls_compiled_program(const ls_compiled *compiled);
// The type of output `i`.
ls_type ls_compiled_output(const ls_compiled *compiled, size_t i);
// Returns true if its results depend on the step of a run.
bool ls_compiled_draws(const ls_compiled *compiled);
// The plan as text, the caller's (ls_text_release).
ls_status ls_compiled_print_plan(const ls_compiled *compiled, char **out_text);

// Returns true if the store's variables are initialized, and distributed ones
// shared, as the program expects; else another one must be lowered for it.
bool ls_compiled_fits(const ls_compiled *compiled, const ls_store *store);
// Runs on the variables of `store`, in its turn at the store's gate. An idle
// instance is taken; without one, one is bound.
//   LS_FAILED_PRECONDITION  a variable is read that has no value.
//   LS_ABORTED              stale: the program does not fit any more, and
//                           nothing was run: no step.
ls_status ls_compiled_run(ls_compiled *compiled, ls_store *store,
                          const ls_run_args *args, bool *out_stale);
// Gives a buffer the value of the only output, maybe later; see `fill` in
// engine/backend.h.
ls_status ls_compiled_fill(const ls_compiled *compiled, ls_buffer *buffer,
                           uint64_t step);
// Counts from now on what each instruction takes on `store`, or stops that.
ls_status ls_compiled_measure(ls_compiled *compiled, ls_store *store, bool on);
// Prints what was counted, as text, the caller's (ls_text_release).
ls_status ls_compiled_print_cost(ls_compiled *compiled, ls_store *store,
                                 char **out_text);
// Drops the instances on a store that is about to go.
void ls_compiled_forget_store(ls_compiled *compiled, const ls_store *store);

// ---- State ------------------------------------------------------------------
// State of this layer in each runtime: the eager graphs of its threads, the
// eager store, the program cache.
typedef struct ls_runtime_state {
  ls_runtime *runtime;
  ls_allocator *allocator;
  ls_store *store;      // Of eager variables.
  ls_map programs;      // Structure -> ls_compiled, which leaves when it goes.
  ls_map eager_ops;     // An eager op's key -> ls_compiled.
  ls_map eager_graphs;  // Number of a thread -> its eager graph.
  ls_graph *idle_graphs;          // Emptied, of threads that have ended.
  size_t num_leaving;             // Graphs that are being emptied.
  struct ls_runtime_state *next;  // Of all that there are.
  uint64_t serial;                // Never the same for two states.
  uint64_t eager_random;          // Steps of eager random ops so far.
} ls_runtime_state;

// The runtime's, made at first use.
ls_status ls_runtime_state_get(ls_runtime *runtime,
                               ls_runtime_state **out_state);

// Empties the cache of eager ops.
void ls_runtime_state_drop_ops(ls_runtime_state *state);

#endif  // LS_RUNTIME_PROGRAM_H_
