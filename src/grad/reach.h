// SPDX-License-Identifier: Apache-2.0
//
// Finds the ops that a walk visits: those on a path of trainable values from an
// x to a y. All ops of its spans, and ops of xs and ys outside of them, are
// numbered; an operand has a lower number than its users.
#ifndef LS_GRAD_REACH_H_
#define LS_GRAD_REACH_H_

#include "grad/walk.h"

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

#endif  // LS_GRAD_REACH_H_
