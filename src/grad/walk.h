// SPDX-License-Identifier: Apache-2.0
// The backward walk over forward ops.
//
// An op is visited when all gradients of its results have arrived: first ready,
// first served, starting with the ys in their order. So names and sums are the
// same in every process. Only ops on a path of trainable values from an x to a
// y are visited; gradients do not pass through an x that depends on no other x.
//
// The body of a call, and each branch of a cond, has a walk of its own, which
// the op's rule starts.
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
  // True: collectives that were recorded exchange their gradients; false:
  // gradients pass to their results.
  bool in_replica;
  // Identifies this call's gradient ops. NULL: not set, which flows may refuse.
  const char *uid;
} ls_gradient_context;

// A start of the walk: a y and its gradient.
typedef struct ls_gradient_seed {
  ls_tensor y, gradient;
} ls_gradient_seed;

// One gradient of a variable, and the position of the op it comes from.
typedef struct ls_gradient_term {
  size_t order;
  ls_tensor gradient;
} ls_gradient_term;

// The target of a derivative: a tensor, or all reads of a variable.
typedef struct ls_gradient_goal {
  ls_tensor tensor;
  const ls_variable *variable;  // NULL: the tensor.
  ls_tensor gradient;           // Result; zeroed: none.
  ls_gradient_term *terms;      // Gradients of a variable's reads.
  size_t num_terms, terms_capacity;
} ls_gradient_goal;

// The ops of one graph from position `begin` up to `end` (exclusive); `base` is
// the number of the first one in the walk.
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
  const ls_op *stops;  // Gradients do not pass through these.
  size_t num_stops;

  // Set by the walk itself.
  ls_gradient_entry *entries;  // One per op of the spans, then of `outside`.
  size_t num_entries, num_inside;
  ls_op *outside;  // Ops of ys and xs that are in no span.
  size_t num_outside;
  size_t *queue;
  size_t queue_head, queue_tail;
  size_t visiting;    // The op whose rule is running.
  ls_status failure;  // Failure of ls_gradient_input or _output in that rule.
};

// Runs the walk; sets `gradient` of the goals.
ls_status ls_gradient_walk_run(ls_gradient_walk *walk);

// Lists the goals that are variables read in the regions of `node`, as goals of
// an inner walk; `out_sources` has their numbers here. Arrays are in the arena.
ls_status ls_gradient_walk_variables(const ls_gradient_walk *walk,
                                     const ls_node *node,
                                     ls_gradient_goal **out_goals,
                                     size_t **out_sources, size_t *out_count);
// Returns true if the op or one in its regions reads such a goal.
bool ls_gradient_walk_reads(const ls_gradient_walk *walk, const ls_node *node);
// Adds a contribution of the op being visited to a goal that is a variable.
ls_status ls_gradient_walk_contribute(ls_gradient_walk *walk, size_t goal,
                                      ls_tensor gradient);

// ---- Start values (gradients.c) -------------------------------------------
// Makes the gradients of ys: the given ones, or ones. `grad_ys` NULL: none is
// given. Of the context it uses `colocate` and the uid, which may be unset.
ls_status ls_gradient_fill(const ls_gradient_context *context,
                           const ls_nest *grad_ys, const ls_tensor *ys,
                           size_t count, ls_tensor *gradients);
ls_tensor ls_gradient_filled(ls_tensor like, double value);
// Returns why `what` number `index` is not a tensor: the op's own failure in
// eager mode, else the graph's error.
ls_status ls_gradient_why_failed(ls_tensor tensor, const char *what,
                                 size_t index);

// ---- Scopes and sums (sum.c) ----------------------------------------------
// Opens the scope for gradient ops of `op`, colocated with it if so requested.
void ls_gradient_begin_beside(const ls_gradient_context *context,
                              ls_scope *scope, ls_op op);
// Opens the scope for gradient ops of an op in a body, which are in another
// graph: without colocation, but flows are notified.
void ls_gradient_begin_inside(const ls_gradient_context *context,
                              ls_scope *scope, ls_op op);
// Opens the name scope `<op's name><suffix>` below the current one. Does
// nothing in eager mode.
void ls_gradient_begin_names(ls_scope *scope, const char *name,
                             const char *suffix);
// Sums the terms by the context's aggregation method; a single term is returned
// as it is. `op_name` is the visited op's, for names.
ls_tensor ls_gradient_sum(const ls_gradient_context *context,
                          const char *op_name, const ls_tensor *terms,
                          size_t count);
// Lets gradients pass only when all of them are computed.
void ls_gradient_gate(const ls_gradient_context *context, ls_tensor *items,
                      size_t count);
// Returns the level of the debug area "grad".
int ls_gradient_verbosity(const ls_gradient_context *context);

// ---- The ops of a walk -----------------------------------------------------
// Finds the ops that a walk visits: those on a path of trainable values from an
// x to a y. All ops of its spans, and ops of xs and ys outside of them, are
// numbered; an operand has a lower number than its users.

enum {
  LS_GRADIENT_TARGET = 1,   // One of its results is an x.
  LS_GRADIENT_REACHED = 2,  // Depends on an x.
  LS_GRADIENT_BETWEEN = 4,  // Also, a y depends on it.
  LS_GRADIENT_STOP = 8,     // Gradients do not pass through it.
  LS_GRADIENT_QUEUED = 16,
};

// Gradients received for one result, and their sum.
typedef struct ls_gradient_slot {
  ls_tensor *terms;
  size_t count, capacity;
  ls_tensor sum;
} ls_gradient_slot;

struct ls_gradient_entry {
  uint32_t pending;  // Number of users still to be visited.
  uint8_t flags;
  uint32_t num_slots;
  // One per result; NULL until a gradient is received.
  ls_gradient_slot *slots;
};

// Numbers the ops, counts their uses, and sets all flags except QUEUED.
ls_status ls_gradient_find_ops(ls_gradient_walk *walk);

// Return the number of an op, or SIZE_MAX, and the op of a number.
size_t ls_gradient_index(const ls_gradient_walk *walk, ls_op op);
ls_op ls_gradient_op_at(const ls_gradient_walk *walk, size_t index);

// ---- Operands --------------------------------------------------------------
// Return an op's operands as the walk sees them, without those that only
// provide dimensions. Operands that the walk does not follow are failed
// tensors.
size_t ls_gradient_count_operands(const ls_gradient_walk *walk,
                                  const ls_graph *graph, const ls_node *node);
ls_tensor ls_gradient_operand(const ls_gradient_walk *walk, ls_graph *graph,
                              const ls_node *node, size_t i);
// Returns the capture of a parameter whose outer value the walk follows, else
// NULL. Such a parameter has one operand, the outer value.
const ls_capture *ls_gradient_capture(const ls_gradient_walk *walk,
                                      const ls_graph *graph,
                                      const ls_node *node);
// Returns the initial value of a loop value in a body that is being traced,
// which is its operand, else NULL. No gradient passes to it.
const ls_tensor *ls_gradient_initial(const ls_gradient_walk *walk,
                                     const ls_graph *graph,
                                     const ls_node *node);
// Returns the entry and number of the op that makes a value, if gradients may
// flow to it.
ls_gradient_entry *ls_gradient_source(const ls_gradient_walk *walk,
                                      ls_tensor value, size_t *out_index);

// ---- Reads -----------------------------------------------------------------
// Returns true if a goal is a variable.
bool ls_gradient_has_variables(const ls_gradient_walk *walk);
// Returns the goal that a read reads, or SIZE_MAX.
size_t ls_gradient_goal_of_read(const ls_gradient_walk *walk,
                                const ls_node *node);
// Marks in `read` (may be NULL) the goals that are read in the op's regions;
// returns true if there is one.
bool ls_gradient_find_reads(const ls_gradient_walk *walk, const ls_node *node,
                            bool *read);

#endif  // LS_GRAD_WALK_H_
