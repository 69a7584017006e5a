// SPDX-License-Identifier: Apache-2.0
//
// What an op waits for beside its operands.
//
// An op gets those ops that its maker names and those of the control scopes
// around it in its graph; a scope whose ops one of its operands waits for adds
// nothing, since that operand was made in it too. What an op of a region names
// in a graph around, the op that holds the region waits for, in the graph that
// both are in; until it is made the region knows (ls_waits_outside).
#ifndef LS_GRAPH_CONTROL_H_
#define LS_GRAPH_CONTROL_H_

#include "graph/context.h"

// The control inputs of an op that is about to be made in `graph`, a build
// graph or one inside: those in `spec`, those of its regions and of the scopes
// that `innermost` ends, each once. Replaces the list in `spec`, by one in
// `memory`. Ops of the eager graph have run.
//   LS_INVALID_ARGUMENT  one failed, or is of a graph that is not around.
ls_status ls_control_gather(const ls_graph *graph, const ls_op_info *info,
                            const ls_open_scope *innermost, ls_op_spec *spec,
                            ls_arena *memory);

// Takes the ops of graphs around `graph` out of the list that was gathered:
// `*out_outside`, in its memory.
ls_status ls_control_split(const ls_graph *graph, ls_op_spec *spec,
                           ls_arena *memory, const ls_op **out_outside,
                           size_t *out_count);

#endif  // LS_GRAPH_CONTROL_H_
