// SPDX-License-Identifier: Apache-2.0
//
// What this layer keeps in each runtime: the eager graphs of its threads, the
// eager store, the program cache.
#ifndef LS_RUNTIME_STATE_H_
#define LS_RUNTIME_STATE_H_

#include "runtime/program.h"

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

#endif  // LS_RUNTIME_STATE_H_
