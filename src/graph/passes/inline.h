// SPDX-License-Identifier: Apache-2.0
//
// Copying ops from one graph into another. Copies are made by the ordinary
// way in, in the thread's current graph and scopes.
#ifndef LS_GRAPH_PASSES_INLINE_H_
#define LS_GRAPH_PASSES_INLINE_H_

#include "graph/graph.h"

// Adds a copy of `node`, an op of `from`, with these operands (one each of the
// node's) and control inputs. Its regions are copied whole.
ls_status ls_graph_copy_op(ls_graph *from, const ls_node *node,
                           const ls_tensor *inputs, const ls_op *control,
                           size_t num_control, ls_op *out_op);

// Adds a copy of every op of `body`, a function or region, and gives the
// values of its results. `args` stand for its parameters: for the declared
// ones, or for those and then the captures. Without the latter captures mean
// what they mean in `body`, whose parent must be around the current graph.
ls_status ls_graph_inline(ls_graph *body, const ls_tensor *args,
                          size_t num_args, ls_tensor *results);

// Which ops are copied, by their places.
typedef struct ls_inline_part {
  const bool *keep;        // All that the wanted results need.
  const ls_tensor *known;  // Not zeroed: what stands for the op's first value.
} ls_inline_part;
// The same of a part of the ops; other results are failed tensors.
ls_status ls_graph_inline_part(ls_graph *body, const ls_tensor *args,
                               size_t num_args, const ls_inline_part *part,
                               ls_tensor *results);

// Whether a second copy of the op does no harm and gives the same values: it
// neither reads or writes variables nor calls the host nor uses stacks, nor
// does what is in its regions. Inside a loop a copy of what draws random
// numbers gives others, though.
bool ls_node_is_repeatable(const ls_node *node);
// Whether the op, or one in its regions, writes the variable.
bool ls_node_writes(const ls_node *node, const ls_object *variable);

#endif  // LS_GRAPH_PASSES_INLINE_H_
