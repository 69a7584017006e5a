// SPDX-License-Identifier: Apache-2.0
//
// Where a gradient finds forward values.
//
// Forward ops may stand in the body of a call or loop or in a branch, while
// their gradients are made in another graph.
//
// The body of a call is always run, so its values come out as further results
// of the call. A branch may not have run, so what a gradient needs of it is
// computed again where it is needed; only what cannot be (a variable's value
// then, an effect's result, what a loop saved) comes out as a further result,
// beside which the other branch gives a value without meaning.
//
// The body of a loop runs many times, and its gradient as many times, the last
// trip first. What the gradient needs of a trip is saved: the loop gives a
// stack of it as a further result, and the gradient's body takes the top. What
// is the same in every trip (captures, constants, variables that the loop does
// not write, and what is computed of these) is not saved but found, or
// computed again, outside of the gradient's loop.
#ifndef LS_GRAD_FORWARD_H_
#define LS_GRAD_FORWARD_H_

#include "graph/context.h"

typedef struct ls_forward_value_list ls_forward_value_list;

// The scopes of ops that are made in the graph around `home`.
typedef struct ls_forward_scopes {
  const ls_name_scope *names;
  const char *device;
  const ls_open_scope *control, *colocate;
} ls_forward_scopes;

// One forward graph. Lives in an arena, nothing to free.
typedef struct ls_forward {
  struct ls_forward *outer;  // Where `op` stands.
  ls_graph *graph;           // NULL: values stand for themselves.
  ls_op op;                  // The call or cond, and which of its regions.
  size_t region;
  size_t first_input;  // Its operand for parameter 0.
  bool recompute;      // Else all values come out as results.
  bool in_loop;        // In a loop's body, at any depth: what draws random
                       // numbers draws others when computed again.
  // Where the gradient of a branch or body is being built, and the scopes
  // around it for what is made there. NULL: where the current graph is.
  ls_graph *home;
  ls_forward_scopes around;
  struct ls_forward_loop *loop;  // NULL: not the body of a loop.
  ls_arena *arena;
  ls_forward_value_list **made;  // By place, what was found before.
  struct ls_forward **calls;     // By place, bodies of calls seen inside.
  size_t num_nodes;
} ls_forward;

// The outermost: values that stand for themselves.
ls_forward *ls_forward_plain(ls_arena *arena);
// Region `region` of `op`, an op of `outer`'s graph. NULL: no memory. `home`,
// if not NULL, is the region inside of the current graph, or that graph itself,
// in which its gradient is built; the bodies of loops need one.
ls_forward *ls_forward_region(ls_forward *outer, ls_op op, size_t region,
                              ls_graph *home);

// Finds what `value`, of the forward graph, is in the current graph.
//   LS_UNIMPLEMENTED  it cannot come out of its branch.
ls_status ls_forward_value(ls_forward *forward, ls_tensor value,
                           ls_tensor *out_value);

// ---- Loops (forward_loop.c) ------------------------------------------------
// A stack that the gradient's body takes from, once in each trip.
typedef struct ls_forward_stack {
  ls_tensor stack;   // Of the graph around `home`.
  uint64_t capture;  // Of `home`: the parameter that stands for it.
  uint64_t rest;     // Of `home`: the stack without its top.
} ls_forward_stack;

typedef struct ls_forward_loop {
  bool *same;  // By place: whether the value is the same in every trip.
  ls_forward_stack *stacks;
  size_t num_stacks, stacks_capacity;
} ls_forward_loop;

// The number of trips that the loop made, as a value of the current graph.
ls_status ls_forward_trips(ls_forward *forward, ls_tensor *out_trips);
// Takes the top, of this type, of a stack of the graph around `home`: in a loop
// once in each trip.
ls_status ls_forward_take(ls_forward *forward, ls_tensor stack, ls_type type,
                          ls_tensor *out_value);

// ---- Inside ----------------------------------------------------------------
// Returns what was found before for use in graph `in`; notes what is found now.
bool ls_forward_recall(const ls_forward *f, const ls_graph *in, ls_tensor value,
                       ls_tensor *out_value);
ls_status ls_forward_remember(ls_forward *f, const ls_graph *in,
                              ls_tensor value, ls_tensor found);
// Computes `value` again in the current graph, with all that it needs.
ls_status ls_forward_compute(ls_forward *f, ls_tensor value,
                             ls_tensor *out_value);
// The value, whose copies stand on a stack that the op gives: takes it from
// there, and remembers it.
ls_status ls_forward_unstack(ls_forward *f, ls_tensor stack, ls_tensor value,
                             ls_tensor *out_value);
// Enters the graph around `home`, or `home`; the pair of ls_scope_end.
void ls_forward_enter_around(const ls_forward *f, ls_scope *scope);
void ls_forward_enter_home(const ls_forward *f, ls_scope *scope);
// Makes `ref` a further result of the graph, and of the op a further output.
ls_status ls_forward_add_result(ls_graph *graph, uint64_t ref);
ls_status ls_forward_add_output(ls_forward *f, ls_type type);
// Finds whether the value is the same in every trip; then the value of an
// operand of the loop or of a variable outside of it, if it is one of these.
bool ls_forward_is_same(const ls_forward *f, ls_tensor value);
ls_status ls_forward_find_same(ls_forward *f, ls_tensor value, bool *out_found,
                               ls_tensor *out_value);
ls_status ls_forward_init_loop(ls_forward *f);
// A value of the body of a loop.
ls_status ls_forward_loop_value(ls_forward *f, ls_tensor value,
                                ls_tensor *out_value);

#endif  // LS_GRAD_FORWARD_H_
