// SPDX-License-Identifier: Apache-2.0
//
// Programs: lowered graphs, compiled once. One cache serves functions, eager
// ops and sessions: equal programs share an executable.
#ifndef LS_RUNTIME_PROGRAM_H_
#define LS_RUNTIME_PROGRAM_H_

#include "base/memory/own.h"
#include "lower/lower.h"
#include "runtime/store.h"

// A program with its executable and idle instances. Counted.
typedef struct ls_compiled ls_compiled;

// Lowers and compiles a request.
ls_status ls_compile(ls_runtime *runtime, const ls_lower_request *request,
                     ls_compiled **out_compiled);
ls_compiled *ls_compiled_retain(ls_compiled *compiled);
void ls_compiled_release(ls_compiled *compiled);
LS_OWNED_POINTER(ls_compiled, ls_compiled_release)

const ls_program *ls_compiled_program(const ls_compiled *compiled);
// Returns the type of output `i`.
ls_type ls_compiled_output(const ls_compiled *compiled, size_t i);
// Returns true if results depend on the step of a run.
bool ls_compiled_draws(const ls_compiled *compiled);
// Returns true if results may arrive after the end of a run.
bool ls_compiled_is_late(const ls_compiled *compiled);
ls_program_figures ls_compiled_figures(const ls_compiled *compiled);
// See ls_function_list_instructions.
ls_status ls_compiled_list_instructions(const ls_compiled *compiled,
                                        ls_instruction_figures *instructions,
                                        size_t capacity, size_t *out_count);
// Prints the plan as text, which the caller releases with ls_text_release.
ls_status ls_compiled_print_plan(const ls_compiled *compiled, char **out_text);

// Returns false if a TPU system of its computations is gone or initialized
// again: the program cannot be run any more.
bool ls_compiled_is_current(const ls_compiled *compiled);
// Returns true if the store's variables are initialized, and distributed ones
// shared, as the program expects; else the request must be lowered again.
bool ls_compiled_fits(const ls_compiled *compiled, const ls_store *store);
// Runs on the variables of `store`, after waiting at the store's gate. Uses an
// idle instance, or binds a new one.
//   LS_FAILED_PRECONDITION  a variable that is read has no value.
//   LS_ABORTED              stale: the program no longer fits the store, and
//                           was not run.
ls_status ls_compiled_run(ls_compiled *compiled, ls_store *store,
                          const ls_run_args *args, bool *out_stale);
// Computes the only output into a buffer, maybe later; see `fill` in
// engine/backend.h.
ls_status ls_compiled_fill(const ls_compiled *compiled, ls_buffer *buffer,
                           uint64_t step);
// Starts or stops measuring each instruction's time on `store`.
ls_status ls_compiled_measure(ls_compiled *compiled, ls_store *store, bool on);
// Prints the measurements as text, which the caller releases with
// ls_text_release.
ls_status ls_compiled_print_cost(ls_compiled *compiled, ls_store *store,
                                 char **out_text);
// Returns the bytes that the program and an idle instance hold.
size_t ls_compiled_bytes(const ls_compiled *compiled);
// Drops the idle instance of a program that a run has just used, unless it is
// small: few bytes are kept for the next run.
void ls_compiled_drop_large(ls_compiled *compiled, const ls_store *store);
// Drops the instances on a store that will be destroyed.
void ls_compiled_forget_store(ls_compiled *compiled, const ls_store *store);

// ---- State -----------------------------------------------------------------
// State of this layer in each runtime: the eager graphs of its threads, the
// eager store, the program cache.
typedef struct ls_runtime_state {
  ls_runtime *runtime;
  ls_allocator *allocator;
  ls_store *store;                // Values of eager variables.
  ls_map programs;                // Structure -> ls_compiled, not owned.
  ls_map eager_ops;               // Key of an eager op -> ls_compiled.
  size_t eager_bytes;             // Bytes that those hold.
  ls_map eager_graphs;            // Number of a thread -> its eager graph.
  ls_graph *idle_graphs;          // Empty graphs of threads that have ended.
  size_t num_leaving;             // Number of graphs being emptied.
  struct ls_runtime_state *next;  // Link in the list of all states.
  uint64_t serial;                // Unique among states.
  uint64_t eager_random;          // Number of eager random ops so far.
  uint64_t numbers_for_ranks;  // See ls_runtime_number_for_ranks. Atomic.
  // Programs that ranks have compared, the number of comparisons of each
  // strategy, and an owned count of the runs of each program, which is atomic
  // (runtime/ranks.h). Guarded by the runtime's lock.
  ls_map compared, comparisons, runs;
} ls_runtime_state;

// Returns the next number of what ranks make in the same order, from 1:
// strategies of several replicas, groups and checkpoints of several ranks. One
// that has exchanged nothing gives its number back, if it is the newest: then
// one that could not be made and is made again has the number that it has on
// other ranks.
LS_MUST_USE ls_status ls_runtime_number_for_ranks(ls_runtime *runtime,
                                                 uint64_t *out_number);
void ls_runtime_return_number(ls_runtime *runtime, uint64_t number);

// Returns the runtime's state, made at first use.
ls_status ls_runtime_state_get(ls_runtime *runtime,
                               ls_runtime_state **out_state);

// Empties the cache of eager ops.
void ls_runtime_state_drop_ops(ls_runtime_state *state);

#endif  // LS_RUNTIME_PROGRAM_H_
