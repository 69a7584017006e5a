// SPDX-License-Identifier: Apache-2.0
//
// Lowering: from a build or function graph to a program.
//
// A copy is made, never a rewrite: only what the results need, with every
// shape known, variables as values, equal pure ops merged. The order of nodes
// is the order of creation, so effects keep it. One function per op, named in
// the `lower` column of ops.def, works on one scope: a graph or region being
// copied into its lowered counterpart.
#ifndef LS_LOWER_LOWER_H_
#define LS_LOWER_LOWER_H_

#include "base/memory/own.h"
#include "engine/backend.h"
#include "graph/variables/variable.h"

// States of variables where the program will run: they become part of the
// program. Without functions none has a value, and none is shared.
typedef struct ls_variable_states {
  const struct ls_store *store;  // Theirs.
  bool (*has_value)(const struct ls_store *store, const ls_variable *variable);
  // Returns true if the components of a distributed variable are one value.
  bool (*is_shared)(const struct ls_store *store, const ls_variable *container);
} ls_variable_states;

// A request to lower.
typedef struct ls_lower_request {
  ls_graph *graph;
  const uint64_t *fetches;  // Refs of `graph`.
  size_t num_fetches;
  // Values that the program's inputs replace, with their actual types. In a
  // function these are its parameters.
  const uint64_t *feeds;
  const ls_type *feed_types;
  size_t num_feeds;
  const ls_op *targets;  // Ops that must run.
  size_t num_targets;
  bool effects_are_roots;  // In functions every effect runs.
  ls_variable_states variables;
  // Filled: which of the program's outputs each fetch is. Fetches that are one
  // value are one output. NULL: each is an output of its own.
  uint32_t *outputs;
} ls_lower_request;

// Turns replicated computations of the request's graph into replicate ops of a
// copy, which the request is of then and which is the caller's until it has
// been lowered (ls_held_graph). NULL: there are none. Its lists are in
// `memory`.
ls_status ls_lower_gather(ls_lower_request *request, ls_arena *memory,
                          ls_graph **out_copy);

// Makes the program, as `backend` wants it. The caller owns a reference.
//   LS_INVALID_ARGUMENT  shapes that do not fit once they are known, or a
//                        placeholder that is needed and not fed.
ls_status ls_lower(ls_backend *backend, const ls_lower_request *request,
                   ls_program **out_program);
LS_OWNED_POINTER(ls_program, ls_object_release)

// The variables that a graph writes, at any depth, in order of their first
// write; appended to a growable list.
ls_status ls_graph_written(const ls_graph *graph, ls_allocator *allocator,
                           ls_variable ***list, size_t *count,
                           size_t *capacity);

#endif  // LS_LOWER_LOWER_H_
