// SPDX-License-Identifier: Apache-2.0
//
// Tables of functions of layers above that this layer calls. src/layers.c,
// which belongs to no layer, sets them.
#ifndef LS_GRAPH_LAYERS_H_
#define LS_GRAPH_LAYERS_H_

#include "base/runtime_internal.h"
#include "graph/graph.h"
#include "lockstep/variable.h"

// Functions of the eager graph, the current graph while no other graph is. They
// need an engine to run ops, and are implemented in runtime/.
typedef struct ls_eager_vtable {
  // Gives the thread's eager graph, made on first use. Fails without memory, or
  // as the runtime's back end, which is made then, too.
  ls_status (*graph)(ls_runtime *runtime, ls_graph **out_graph);
  // Runs an op on values of the eager graph and stores its results there.
  // `input_refs` are valid. Never fails: a failed op has failed values.
  ls_op (*run)(ls_graph *graph, const ls_op_spec *spec,
               const uint64_t *input_refs, const ls_type *out, size_t num_out);
  // Runs delayed random ops up to a node: called before the node's values are
  // read. Afterwards the values exist, or the failure is set.
  void (*catch_up)(const ls_graph *graph, ls_node *node);
  // Frees the eager values made since the graph had `num_nodes` and its arena
  // was at `memory`, except those a tape may need. Their handles become stale.
  void (*drop_since)(ls_graph *graph, size_t num_nodes,
                     ls_arena_mark_point memory);
  // Makes a failed eager value; takes over `status`.
  ls_op (*fail)(ls_graph *graph, ls_status status);
  // Sets the first state of an eager variable: to a value; to zeros, without a
  // temporary tensor; or to storage without a value. `forget` is called when
  // the variable is freed.
  ls_status (*initialize)(ls_variable *variable, ls_tensor value);
  ls_status (*initialize_zero)(ls_variable *variable);
  ls_status (*reserve)(ls_variable *variable);
  void (*forget)(ls_variable *variable);
} ls_eager_vtable;

typedef struct ls_layers {
  const ls_eager_vtable *eager;
  // The strategy class outside of all strategies.
  const struct ls_strategy_class *default_strategy;
} ls_layers;

extern const ls_layers ls_library_layers __attribute__((visibility("hidden")));

#endif  // LS_GRAPH_LAYERS_H_
