// SPDX-License-Identifier: Apache-2.0
//
// Finds the forward values that a gradient needs.
//
// Forward ops may be in the body of a call or loop or in a branch, while their
// gradients are made in another graph.
//
// The body of a call always runs, so its values become further results of the
// call. A branch may not have run, so a gradient computes its values again;
// only values that cannot be (a variable's value at that time, an effect's
// result, values saved by a loop) become further results, for which the other
// branch returns a value of no meaning.
//
// The body of a loop runs many times, and its gradient as often, last iteration
// first. Values of an iteration are saved: the loop returns them on stacks as
// further results, and the gradient's body pops them. Values that are the same
// in every iteration (captures, constants, variables that the loop does not
// write, and values computed from these) are not saved but found, or computed
// again, outside of the gradient's loop.
#ifndef LS_GRAD_FORWARD_H_
#define LS_GRAD_FORWARD_H_

#include "graph/context.h"

// Prints an op for a message: "'name' (kind)", or the kind alone if the op has
// no name, as in eager. `by` is the operation that the kind is "by", if any.
const char *ls_gradient_op_text(ls_op op, const char *kind, const char *by,
                                char *buffer, size_t size);
#define LS_OP_TEXT_BY(op, kind, by)                                            \
  ls_gradient_op_text((op), (kind), (by), (char[400]){0}, 400)
#define LS_OP_TEXT(op) LS_OP_TEXT_BY((op), ls_op_type_name(op), "")

typedef struct ls_forward_value_list ls_forward_value_list;

// The scopes for ops that are made in the graph that contains `home`.
typedef struct ls_forward_scopes {
  const ls_name_scope *names;
  const char *device;
  const ls_open_scope *control, *colocate;
} ls_forward_scopes;

// A forward graph, in an arena.
typedef struct ls_forward {
  // Forward graph that contains `op`; NULL: outermost.
  struct ls_forward *outer;
  ls_graph *graph;  // Graph of the region; NULL: values are used directly.
  ls_op op;         // The call, loop or cond, and the index of its region.
  size_t region;
  size_t first_input;  // Operand of `op` for the region's parameter 0.
  bool recompute;      // False: the op returns all values as results.
  // True in a loop's body and regions in it, where random ops would draw other
  // numbers if they were computed again.
  bool in_loop;
  // The graph in which the gradient of a branch or body is built; NULL: the
  // current graph. `around` has the scopes for ops made in the graph that
  // contains `home`.
  ls_graph *home;
  ls_forward_scopes around;
  struct ls_forward_loop *loop;  // NULL: not the body of a loop.
  ls_arena *arena;
  ls_forward_value_list **made;  // By node position: values found so far.
  struct ls_forward **calls;     // By node position: forward graphs of calls.
  size_t num_nodes;
} ls_forward;

// Makes the outermost forward graph, whose values are used directly.
ls_forward *ls_forward_plain(ls_arena *arena);
// Makes the forward graph of region `region` of `op`, an op of `outer`'s graph.
// NULL without memory. `home`, if not NULL, is the graph in which the gradient
// is built: the current graph or a region in it. Bodies of loops require it.
ls_forward *ls_forward_region(ls_forward *outer, ls_op op, size_t region,
                              ls_graph *home);

// Finds the value in the current graph for `value`, a value of the forward
// graph.
//   LS_UNIMPLEMENTED  its branch cannot return the value
ls_status ls_forward_value(ls_forward *forward, ls_tensor value,
                           ls_tensor *out_value);

// ---- Loops ----------------------------------------------------------------
// A saved stack. The gradient's body pops a value from it in each iteration.
typedef struct ls_forward_stack {
  ls_tensor stack;   // In the graph that contains `home`.
  uint64_t capture;  // Parameter of `home` that captures the stack.
  uint64_t rest;     // The stack after the pop, a value of `home`.
} ls_forward_stack;

typedef struct ls_forward_loop {
  bool *same;  // By node position: true if all iterations have one value.
  ls_forward_stack *stacks;
  size_t num_stacks, stacks_capacity;
} ls_forward_loop;

// Returns the number of iterations of the loop, as a value of the current
// graph.
ls_status ls_forward_trips(ls_forward *forward, ls_tensor *out_trips);
// Pops a value of this type from a stack in the graph that contains `home`; in
// a loop, once per iteration.
ls_status ls_forward_take(ls_forward *forward, ls_tensor stack, ls_type type,
                          ls_tensor *out_value);

#endif  // LS_GRAD_FORWARD_H_
