// SPDX-License-Identifier: Apache-2.0
//
// Tables that come from layers above, where no table comes with a call.
// src/layers.c, which is of no layer, ties them together.
#ifndef LS_GRAPH_LAYERS_H_
#define LS_GRAPH_LAYERS_H_

#include "base/runtime_internal.h"
#include "graph/graph.h"
#include "lockstep/variable.h"

// The eager graph, which is asked when no graph is open. It runs ops, which
// takes an engine, so it lives in runtime/.
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
  // Starts of an eager variable: a value, zeros that are made nowhere else
  // first, a place without a value; and that it is gone.
  ls_status (*initialize)(ls_variable *variable, ls_tensor value);
  ls_status (*initialize_zero)(ls_variable *variable);
  ls_status (*reserve)(ls_variable *variable);
  void (*forget)(ls_variable *variable);
} ls_eager_vtable;

typedef struct ls_layers {
  const ls_eager_vtable *eager;
  // The strategy in force where no other is.
  const struct ls_strategy_class *default_strategy;
} ls_layers;

extern const ls_layers ls_library_layers __attribute__((visibility("hidden")));

#endif  // LS_GRAPH_LAYERS_H_
