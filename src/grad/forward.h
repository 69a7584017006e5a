// SPDX-License-Identifier: Apache-2.0
//
// Where a gradient finds forward values.
//
// Forward ops may stand in the body of a call or in a branch, while their
// gradients are made in another graph. A body is always run, so its values
// come out as further results of its call. A branch may not have run, so what
// a gradient needs of it is computed again where it is needed; only what
// cannot be (a variable's value then, an effect's result) comes out as a
// further result, beside which the other branch gives a value without meaning.
#ifndef LS_GRAD_FORWARD_H_
#define LS_GRAD_FORWARD_H_

#include "graph/graph.h"

typedef struct ls_forward_value_list ls_forward_value_list;

// One forward graph. Lives in an arena, nothing to free.
typedef struct ls_forward {
  struct ls_forward *outer;  // Where `op` stands.
  ls_graph *graph;           // NULL: values stand for themselves.
  ls_op op;                  // The call or cond, and which of its regions.
  size_t region;
  size_t first_input;  // Its operand for parameter 0.
  bool recompute;      // Else all values come out as results.
  ls_arena *arena;
  ls_forward_value_list **made;  // By place, what was found before.
  struct ls_forward **calls;     // By place, bodies of calls seen inside.
  size_t num_nodes;
} ls_forward;

// The outermost: values that stand for themselves.
ls_forward *ls_forward_plain(ls_arena *arena);
// Region `region` of `op`, an op of `outer`'s graph. NULL: no memory.
ls_forward *ls_forward_region(ls_forward *outer, ls_op op, size_t region);

// What `value`, of the forward graph, is in the current graph.
//   LS_UNIMPLEMENTED  it cannot come out of its branch.
ls_status ls_forward_value(ls_forward *forward, ls_tensor value,
                           ls_tensor *out_value);

#endif  // LS_GRAD_FORWARD_H_
