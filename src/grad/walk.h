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

// Data shared by all walks of one call of ls_gradients.
typedef struct ls_gradient_context {
  ls_arena *arena;
  ls_runtime *runtime;
  int aggregation;
  bool gate, colocate;
  // True: recorded collectives exchange their gradients. False: gradients pass
  // to the recorded results.
  bool in_replica;
  // The uid that identifies this call's gradient ops. NULL: not set; flows may
  // refuse that.
  const char *uid;
} ls_gradient_context;

// A start of the walk: a y and the gradient of that y.
typedef struct ls_gradient_seed {
  ls_tensor y, gradient;
} ls_gradient_seed;

// One term of a variable's gradient, and the position of the op that gives it.
typedef struct ls_gradient_term {
  size_t order;
  ls_tensor gradient;
} ls_gradient_term;

// The target of a derivative: a tensor, or all reads of a variable.
typedef struct ls_gradient_goal {
  ls_tensor tensor;
  // Set: all reads of the variable; NULL: the tensor.
  const ls_variable *variable;
  ls_tensor gradient;       // Result; zeroed: none.
  ls_gradient_term *terms;  // Gradients of a variable's reads.
  size_t num_terms, terms_capacity;
} ls_gradient_goal;

// The ops of one graph from position `begin` up to `end` (exclusive). `base` is
// the place of the first op among all ops of the spans.
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
  const ls_op *stops;  // Gradients do not pass through these ops.
  size_t num_stops;

  // Fields set by the walk.
  // Places, among all ops of the spans, of the ops on which an x or a y
  // depends: ascending.
  size_t *places;
  size_t num_inside;
  // One per op in `places`, then per op in `outside`.
  ls_gradient_entry *entries;
  ls_op *outside;  // Ops of ys and xs that no span contains.
  size_t num_outside;
  size_t *queue;
  size_t queue_head, queue_tail;
  size_t visiting;    // The op whose rule is running.
  ls_status failure;  // Failure of a forward value in that rule.
};

// Runs the walk; sets `gradient` of the goals.
ls_status ls_gradient_walk_run(ls_gradient_walk *walk);

// Lists the goals that are variables read in the regions of `node`, as goals of
// an inner walk. `*out_sources` has the numbers of these goals in this walk.
// Arrays are in the arena.
ls_status ls_gradient_walk_variables(const ls_gradient_walk *walk,
                                     const ls_node *node,
                                     ls_gradient_goal **out_goals,
                                     size_t **out_sources, size_t *out_count);
// Returns true if the op, or an op in its regions, reads a variable that is a
// goal.
bool ls_gradient_walk_reads(const ls_gradient_walk *walk, const ls_node *node);
// Adds a term, from the op being visited, to a goal that is a variable.
ls_status ls_gradient_walk_contribute(ls_gradient_walk *walk, size_t goal,
                                      ls_tensor gradient);
// Adds it to each goal whose variable a read reads.
ls_status ls_gradient_walk_read(ls_gradient_walk *walk, const ls_node *read,
                                ls_tensor gradient);

// ---- Start values (gradients.c) -------------------------------------------
// Makes the gradients of the ys: the given ones, else ones. `grad_ys` NULL:
// none are given. Uses only `colocate` and the uid of the context; the uid may
// be unset.
ls_status ls_gradient_fill(const ls_gradient_context *context,
                           const ls_nest *grad_ys, const ls_tensor *ys,
                           size_t count, ls_tensor *gradients);

// ---- Scopes and sums (sum.c) ----------------------------------------------
// Opens the scope for gradient ops of `op`, colocated with `op` if so
// requested.
void ls_gradient_begin_beside(const ls_gradient_context *context,
                              ls_scope *scope, ls_op op);
// Opens the scope for gradient ops of an op in a body. They are in another
// graph than the op, so that they are not colocated, but flows are notified.
void ls_gradient_begin_inside(const ls_gradient_context *context,
                              ls_scope *scope, ls_op op);
// Opens the name scope `<op's name><suffix>` in the current name scope. Does
// nothing in eager mode.
void ls_gradient_begin_names(ls_scope *scope, const char *name,
                             const char *suffix);
// Sums the terms by the context's aggregation method. A single term is returned
// unchanged. `op_name` is the name of the visited op, for names.
ls_tensor ls_gradient_sum(const ls_gradient_context *context,
                          const char *op_name, const ls_tensor *terms,
                          size_t count);
// Makes each gradient wait until all are computed.
void ls_gradient_gate(const ls_gradient_context *context, ls_tensor *items,
                      size_t count);
// Returns the level of the debug area "grad".
int ls_gradient_verbosity(const ls_gradient_context *context);

// ---- The ops of a walk -----------------------------------------------------
// Finds the ops that a walk visits: those on a path of trainable values from an
// x to a y. The ops of the spans on which an x or a y depends, and ops of xs
// and ys outside of these, have numbers; an operand's number is lower than its
// users'.

enum {
  LS_GRADIENT_TARGET = 1,   // A result of the op is an x.
  LS_GRADIENT_REACHED = 2,  // The op depends on an x.
  LS_GRADIENT_BETWEEN = 4,  // The op depends on an x, and a y on the op.
  LS_GRADIENT_STOP = 8,     // Gradients do not pass through the op.
  LS_GRADIENT_QUEUED = 16,
};

// Gradients received for one result, and their sum.
typedef struct ls_gradient_slot {
  ls_tensor *terms;
  size_t count, capacity;
  ls_tensor sum;
} ls_gradient_slot;

struct ls_gradient_entry {
  uint32_t pending;  // Number of users that were not visited yet.
  uint8_t flags;
  uint32_t num_slots;
  // One slot per result; NULL until a gradient is received.
  ls_gradient_slot *slots;
};

// Numbers the ops, counts their uses, and sets all flags except QUEUED.
ls_status ls_gradient_find_ops(ls_gradient_walk *walk);

// Returns the number of an op, or SIZE_MAX. ls_gradient_op_at returns the op of
// a number.
size_t ls_gradient_index(const ls_gradient_walk *walk, ls_op op);
ls_op ls_gradient_op_at(const ls_gradient_walk *walk, size_t index);

// ---- Operands --------------------------------------------------------------
// Returns the number of an op's operands without those that are used for their
// dimensions only. ls_gradient_operand returns one, failed if the walk does not
// follow it.
size_t ls_gradient_count_operands(const ls_gradient_walk *walk,
                                  const ls_graph *graph, const ls_node *node);
ls_tensor ls_gradient_operand(const ls_gradient_walk *walk, ls_graph *graph,
                              const ls_node *node, size_t i);
// Returns the capture for which a parameter stands, if the walk follows the
// outer value, else NULL. The parameter then counts as an op with the outer
// value as operand.
const ls_capture *ls_gradient_capture(const ls_gradient_walk *walk,
                                      const ls_graph *graph,
                                      const ls_node *node);
// Returns the initial value of a loop value, in a body that is being traced,
// else NULL. It counts as the parameter's operand, but no gradient passes to
// it.
const ls_tensor *ls_gradient_initial(const ls_gradient_walk *walk,
                                     const ls_graph *graph,
                                     const ls_node *node);
// Returns the entry and the number of the op that makes a value, if gradients
// may flow to the value.
ls_gradient_entry *ls_gradient_source(const ls_gradient_walk *walk,
                                      ls_tensor value, size_t *out_index);

// ---- Reads -----------------------------------------------------------------
// Returns true if a goal is a variable.
bool ls_gradient_has_variables(const ls_gradient_walk *walk);
// Returns the first of the goals with this goal's variable. It gets the
// gradient, and the others the same.
size_t ls_gradient_first_goal(const ls_gradient_walk *walk, size_t goal);
// Returns the next goal, from number `from` on, whose variable a read reads, or
// SIZE_MAX: a read has several if a variable and its component or a handle over
// it are goals.
size_t ls_gradient_goal_of_read(const ls_gradient_walk *walk,
                                const ls_node *node, size_t from);
// Marks in `read` (may be NULL) the goals whose variables the op's regions
// read; returns true if there is one.
bool ls_gradient_find_reads(const ls_gradient_walk *walk, const ls_node *node,
                            bool *read);

#endif  // LS_GRAD_WALK_H_
