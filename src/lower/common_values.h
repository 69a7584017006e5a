// SPDX-License-Identifier: Apache-2.0
//
// Which values of a lowered replicate body are the same on all replicas, one by
// one: what goes round in a loop may be, though the loop also holds what
// differs. ls_mark_varying looks at whole nodes.
#ifndef LS_LOWER_COMMON_VALUES_H_
#define LS_LOWER_COMMON_VALUES_H_

#include "graph/graph.h"

typedef struct ls_common_values {
  ls_arena memory;
  ls_map graphs;  // Id of the body or of a region in it -> its marks.
} ls_common_values;

void ls_common_values_init(ls_common_values *self, ls_allocator *allocator);
void ls_common_values_deinit(ls_common_values *self);

// Finds them in a body of which the first `num_split` parameters differ.
ls_status ls_find_common_values(ls_common_values *self, const ls_graph *body,
                                size_t num_split);
// Whether a value of the body, or of a region of an op that leaves, differs.
bool ls_value_varies(const ls_common_values *self, const ls_graph *graph,
                     uint64_t ref);
// Whether replicas may go through a loop or branch in ways of their own. False
// where they may already through what is around it.
bool ls_node_goes_apart(const ls_common_values *self, const ls_graph *graph,
                        const ls_node *node);
// Whether a stack is an operand or a result of the op.
bool ls_node_has_stack(const ls_graph *graph, const ls_node *node);
// Whether all replicas come to the op together and it can stand around
// replicate ops: a host call, or a loop or branch that goes the same way on all
// and in which something differs or is put together.
bool ls_node_leaves(const ls_common_values *self, const ls_graph *graph,
                    const ls_node *node);

#endif  // LS_LOWER_COMMON_VALUES_H_
