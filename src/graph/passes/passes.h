// SPDX-License-Identifier: Apache-2.0
//
// Passes over lowered graphs that are nobody's in particular, and what the
// debug switches make of each pass.
#ifndef LS_GRAPH_PASSES_PASSES_H_
#define LS_GRAPH_PASSES_PASSES_H_

#include "graph/graph.h"

// Removes nodes that nothing uses, values that go round in loops for nobody,
// results of branches, captures. Parameters stay.
ls_status ls_drop_unused(ls_graph *graph);

// A pass over a program's graph is done: logs, writes down and checks what is
// there now, as far as debug switches ask for it. `is_last`: no other follows.
ls_status ls_watch_pass(ls_runtime *runtime, const ls_graph *graph,
                        const char *pass, bool is_last);

#endif  // LS_GRAPH_PASSES_PASSES_H_
