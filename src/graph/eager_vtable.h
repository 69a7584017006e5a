// SPDX-License-Identifier: Apache-2.0
//
// What the graph layer asks when no graph is open. The eager graph runs ops,
// which takes an engine, so it lives in runtime/; this table, which
// src/layers.c ties to the library, is the whole of what is known of it here.
#ifndef LS_GRAPH_EAGER_VTABLE_H_
#define LS_GRAPH_EAGER_VTABLE_H_

#include "base/runtime_internal.h"
#include "graph/graph.h"
#include "graph/layers.h"
#include "lockstep/variable.h"

typedef struct ls_eager_vtable {
  // The thread's eager graph, made at first use. NULL: no memory.
  ls_graph *(*graph)(ls_runtime *runtime);
  // Runs an op on values of the eager graph and keeps its results there. Never
  // fails: a failed op is a failed value. `input_refs` are checked to be its
  // own.
  ls_op (*run)(ls_graph *graph, const ls_op_spec *spec,
               const uint64_t *input_refs, const ls_type *out, size_t num_out);
  // A draw waits until its value is asked for. Who looks at a node's values
  // calls this first; then they are there, or the failure is.
  void (*catch_up)(const ls_graph *graph, ls_node *node);
  // Frees the values of the eager graph that were made since it had `num_nodes`
  // and its arena was at `memory`, unless a tape may need them. Their handles
  // are stale then.
  void (*drop_since)(ls_graph *graph, size_t num_nodes,
                     ls_arena_mark_point memory);
  // A value of the eager graph that failed with `status`, taken over.
  ls_op (*fail)(ls_graph *graph, ls_status status);
  // What an eager variable starts with: a value, zeros that are made nowhere
  // else first, a place without a value; and that it is gone.
  ls_status (*initialize)(ls_variable *variable, ls_tensor value);
  ls_status (*initialize_zero)(ls_variable *variable);
  ls_status (*reserve)(ls_variable *variable);
  void (*forget)(ls_variable *variable);
} ls_eager_vtable;

#endif  // LS_GRAPH_EAGER_VTABLE_H_
