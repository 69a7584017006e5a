// SPDX-License-Identifier: Apache-2.0
//
// The backward walk over forward ops.
//
// An op is visited once all gradients of its results are there: first ready,
// first served, beginning with the ys in their order. So names and sums are
// the same in every process. Only ops on a path of trainable values from an x
// to a y are visited; an x with no other x before it is not differentiated
// through.
//
// The body of a call, and each branch of a cond, is walked by a walk of its
// own, which the op's rule starts.
#ifndef LS_GRAD_WALK_H_
#define LS_GRAD_WALK_H_

#include "grad/forward.h"
#include "grad/grad.h"

// Shared by all walks of one call of ls_gradients.
typedef struct ls_gradient_context {
  ls_arena *arena;
  ls_runtime *runtime;
  int aggregation;
  bool gate, colocate;
  bool in_replica;  // Where replicas have met, they meet again; elsewhere the
                    // gradient passes through what was done for all.
  const char *uid;  // Tells this call's gradient ops from another's. NULL:
                    // nothing does, which flows may not take.
} ls_gradient_context;

// Where the walk starts: a y and its gradient.
typedef struct ls_gradient_seed {
  ls_tensor y, gradient;
} ls_gradient_seed;

// One gradient of a variable, and where in the order of ops it arose.
typedef struct ls_gradient_term {
  size_t order;
  ls_tensor gradient;
} ls_gradient_term;

// The target of a derivative: a tensor, or all reads of a variable.
typedef struct ls_gradient_goal {
  ls_tensor tensor;
  const ls_variable *variable;  // NULL: the tensor.
  ls_tensor gradient;           // The answer; zeroed: none.
  ls_gradient_term *terms;      // Of a variable.
  size_t num_terms, terms_capacity;
} ls_gradient_goal;

// The ops of one graph from place `begin` to before `end`; `base` is the place
// of the first one among all ops of the walk.
typedef struct ls_gradient_span {
  ls_graph *graph;
  size_t begin, end;
  size_t base;
} ls_gradient_span;

typedef struct ls_gradient_entry ls_gradient_entry;

struct ls_gradient_walk {
  const ls_gradient_context *context;
  ls_forward *forward;
  const ls_gradient_span *spans;  // Outermost graph first.
  size_t num_spans;
  const ls_gradient_seed *seeds;
  size_t num_seeds;
  ls_gradient_goal *goals;
  size_t num_goals;
  const ls_op *stops;  // Not differentiated through.
  size_t num_stops;

  // The walk's own.
  ls_gradient_entry *entries;  // One an op of the spans, then `outside`.
  size_t num_entries, num_inside;
  ls_op *outside;  // Ops of ys and xs that are in no span.
  size_t num_outside;
  size_t *queue;
  size_t queue_head, queue_tail;
  size_t visiting;    // The op whose rule runs.
  ls_status failure;  // Of ls_gradient_input and _output in that rule.
};

// Walks; fills `gradient` of the goals.
ls_status ls_gradient_walk_run(ls_gradient_walk *walk);

// The goals that are variables read in the regions of `node`, as new goals of
// an inner walk; `out_sources` are their numbers here. Arrays of the arena.
ls_status ls_gradient_walk_variables(const ls_gradient_walk *walk,
                                     const ls_node *node,
                                     ls_gradient_goal **out_goals,
                                     size_t **out_sources, size_t *out_count);
// Returns true if the op, or one in its regions, reads such a goal.
bool ls_gradient_walk_reads(const ls_gradient_walk *walk, const ls_node *node);
// Adds what the op being visited contributes to a goal that is a variable.
ls_status ls_gradient_walk_contribute(ls_gradient_walk *walk, size_t goal,
                                      ls_tensor gradient);

// ---- What it starts with (grad_ys.c) --------------------------------------
// The gradients of ys, as they were given (NULL: none was) or ones. Of the
// context it needs `colocate` and the uid, which may be left out.
ls_status ls_gradient_fill(const ls_gradient_context *context,
                           const ls_nest *grad_ys, const ls_tensor *ys,
                           size_t count, ls_tensor *gradients);
ls_tensor ls_gradient_filled(ls_tensor like, double value);
// Why `what` number `index` is no tensor: the op's own failure in eager, else
// the graph's error.
ls_status ls_gradient_why_failed(ls_tensor tensor, const char *what,
                                 size_t index);

// ---- Scopes and sums (sum.c) ----------------------------------------------
// Opens the scope in which gradient ops of `op` are made, if they are to be
// beside it.
void ls_gradient_begin_beside(const ls_gradient_context *context,
                              ls_scope *scope, ls_op op);
// The same for an op of a body, whose gradient ops lie in another graph:
// nothing is beside it, but a flow is told.
void ls_gradient_begin_inside(const ls_gradient_context *context,
                              ls_scope *scope, ls_op op);
// Opens the name scope `<op's name><suffix>` in the current one. Not in eager.
void ls_gradient_begin_names(ls_scope *scope, const char *name,
                             const char *suffix);
// The sum of the terms, as the context's aggregation says. `op_name` is the
// visited op's, for names. One term: itself.
ls_tensor ls_gradient_sum(const ls_gradient_context *context,
                          const char *op_name, const ls_tensor *terms,
                          size_t count);
// Passes gradients on only once all of them are there.
void ls_gradient_gate(const ls_gradient_context *context, ls_tensor *items,
                      size_t count);
// The level of the debug area "grad".
int ls_gradient_verbosity(const ls_gradient_context *context);

#endif  // LS_GRAD_WALK_H_
