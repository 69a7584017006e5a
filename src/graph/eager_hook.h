// SPDX-License-Identifier: Apache-2.0
//
// What the graph layer calls when no graph is open. The eager graph runs ops,
// which takes an engine, so it lives in runtime/eager.c; these functions are
// the whole of what is known of it down here.
#ifndef LS_GRAPH_EAGER_HOOK_H_
#define LS_GRAPH_EAGER_HOOK_H_

#include "graph/graph.h"

// The runtime's eager graph, made at first use. NULL: no memory.
ls_graph *ls_eager_graph(ls_runtime *runtime);

// Runs an op on values of the eager graph and keeps its results there. Never
// fails: a failed op is a failed value. `input_refs` are checked to be its own.
ls_op ls_eager_run(ls_graph *graph, const ls_op_spec *spec,
                   const uint64_t *input_refs, const ls_type *out,
                   size_t num_out);
// A draw waits until its value is asked for. Who looks at a node's values calls
// this first; then they are there, or the failure is.
void ls_eager_catch_up(const ls_graph *graph, ls_node *node);
// Frees the values of the eager graph that were made since it had `num_nodes`
// and its arena was at `memory`, unless a tape may need them. Their handles are
// stale then.
void ls_eager_drop_since(ls_graph *graph, size_t num_nodes,
                         ls_arena_mark_point memory);
// A value of the eager graph that failed with `status`, taken over.
ls_op ls_eager_fail(ls_graph *graph, ls_status status);

#endif  // LS_GRAPH_EAGER_HOOK_H_
