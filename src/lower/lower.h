// SPDX-License-Identifier: Apache-2.0
//
// Lowering: makes a program from a build or function graph.
//
// It makes a copy and never rewrites: only nodes that the results need, with
// every shape known, variables as values, and equal pure ops merged. Nodes keep
// the order of creation, so effects do, too. There is one function per op,
// named in the `lower` column of ops.def; it works on a scope, a graph or
// region being copied into its lowered counterpart.
#ifndef LS_LOWER_LOWER_H_
#define LS_LOWER_LOWER_H_

#include "base/memory/own.h"
#include "engine/backend.h"
#include "graph/variables/variable.h"

// States of variables where the program will run, which become part of the
// program. Without the functions no variable has a value, and none is shared.
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
  // Values that the program's inputs replace, with their actual types; in a
  // function its parameters.
  const uint64_t *feeds;
  const ls_type *feed_types;
  size_t num_feeds;
  const ls_op *targets;  // Ops that must run.
  size_t num_targets;
  bool effects_are_roots;  // True in functions: every effect runs.
  ls_variable_states variables;
  // Receives the index of each fetch's output. Fetches of one value share an
  // output. NULL: each has its own.
  uint32_t *outputs;
} ls_lower_request;

// Converts replicated computations of the request's graph to replicate ops of a
// copy, and the request to the copy. The caller frees the copy after lowering
// (ls_held_graph); NULL if there are no computations. Lists are in `memory`.
ls_status ls_lower_gather(ls_lower_request *request, ls_arena *memory,
                          ls_graph **out_copy);

// Makes the program in the form that `backend` wants. The caller owns a
// reference.
//   LS_INVALID_ARGUMENT  shapes that turn out not to fit, or a placeholder that
//                        is needed and has no feed
ls_status ls_lower(ls_backend *backend, const ls_lower_request *request,
                   ls_program **out_program);
LS_OWNED_POINTER(ls_program, ls_object_release)

// Appends the variables that a graph writes, at any depth, in order of their
// first write, to a growable list.
ls_status ls_graph_written(const ls_graph *graph, ls_allocator *allocator,
                           ls_variable ***list, size_t *count,
                           size_t *capacity);

#endif  // LS_LOWER_LOWER_H_
