// SPDX-License-Identifier: Apache-2.0
//
// Lowering: makes a program from a build or function graph.
//
// The graph is copied, never changed: only nodes that the results need, with
// every shape known, variables as values, and equal pure ops merged. Nodes keep
// the order of creation, and so do effects. There is one function per op, named
// in the `lower` column of ops.def; it works on a scope: a graph or region that
// is being copied into its lowered counterpart.
#ifndef LS_LOWER_LOWER_H_
#define LS_LOWER_LOWER_H_

#include "base/memory/own.h"
#include "engine/backend.h"
#include "graph/variables/variable.h"

// The states of variables where the program will run. A program depends on
// them. Without the functions no variable has a value, and no value is shared.
typedef struct ls_variable_states {
  const struct ls_store *store;  // Passed to the functions.
  bool (*has_value)(const struct ls_store *store, const ls_variable *variable);
  // Returns true if the components of a distributed variable share one value.
  bool (*is_shared)(const struct ls_store *store, const ls_variable *container);
} ls_variable_states;

// A request to lower.
typedef struct ls_lower_request {
  ls_graph *graph;
  const uint64_t *fetches;  // Refs of `graph`.
  size_t num_fetches;
  // Values for which the program has inputs, with the inputs' types; in a
  // function, its parameters.
  const uint64_t *feeds;
  const ls_type *feed_types;
  size_t num_feeds;
  const ls_op *targets;  // Ops that must run.
  size_t num_targets;
  bool effects_are_roots;  // True in functions: all ops with effects run.
  bool on_host;            // See ls_program.
  ls_variable_states variables;
  // Receives the index of each fetch's output. Fetches of one value share an
  // output. NULL: each fetch has its own output.
  uint32_t *outputs;
} ls_lower_request;

// Returns true if the ref is among the feeds.
bool ls_is_fed(const uint64_t *feeds, size_t count, uint64_t ref);

// Copies the graph of a request with its replicated computations converted to
// replicate ops, and makes the request one of the copy. The caller frees the
// copy after lowering (ls_held_graph); NULL if there are no computations. Lists
// are in `memory`.
ls_status ls_lower_gather(ls_lower_request *request, ls_arena *memory,
                          ls_graph **out_copy);

// Makes the program in the form that `backend` wants. The caller owns a
// reference.
//   LS_INVALID_ARGUMENT  shapes that do not fit, or a needed placeholder
//                        without a feed
ls_status ls_lower(ls_backend *backend, const ls_lower_request *request,
                   ls_program **out_program);
LS_OWNED_POINTER(ls_program, ls_object_release)

// Appends the variables that a graph or its regions write to a growable list,
// in order of their first write.
ls_status ls_graph_written(const ls_graph *graph, ls_allocator *allocator,
                           ls_variable ***list, size_t *count,
                           size_t *capacity);

#endif  // LS_LOWER_LOWER_H_
