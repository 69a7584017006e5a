// SPDX-License-Identifier: Apache-2.0
//
// The ops that a walk visits: those on a path of trainable values from an x to
// a y. All ops of its spans, and those of xs and ys outside of them, are
// numbered; an operand has a lower number than its use.
#ifndef LS_GRAD_REACH_H_
#define LS_GRAD_REACH_H_

#include "grad/walk.h"

enum {
  LS_GRADIENT_TARGET = 1,   // An x is among its results.
  LS_GRADIENT_REACHED = 2,  // Depends on an x.
  LS_GRADIENT_BETWEEN = 4,  // And a y depends on it.
  LS_GRADIENT_STOP = 8,     // Not differentiated through.
  LS_GRADIENT_QUEUED = 16,
};

// The gradients that came in for one result, and their sum.
typedef struct ls_gradient_slot {
  ls_tensor *terms;
  size_t count, capacity;
  ls_tensor sum;
} ls_gradient_slot;

struct ls_gradient_entry {
  uint32_t pending;  // Uses by ops that are still to be visited.
  uint8_t flags;
  uint32_t num_slots;
  ls_gradient_slot *slots;  // One a result; NULL while there is no term.
};

// Numbers the ops and sets their flags, but for QUEUED, and their uses.
ls_status ls_gradient_find_ops(ls_gradient_walk *walk);

// The number of an op, or SIZE_MAX, and back.
size_t ls_gradient_index(const ls_gradient_walk *walk, ls_op op);
ls_op ls_gradient_op_at(const ls_gradient_walk *walk, size_t index);

// ---- Operands --------------------------------------------------------------
// Operands of an op as a walk goes along them: those that only lend their
// dimensions are none. One that the walk does not follow is a failed tensor.
size_t ls_gradient_count_operands(const ls_gradient_walk *walk,
                                  const ls_graph *graph, const ls_node *node);
ls_tensor ls_gradient_operand(const ls_gradient_walk *walk, ls_graph *graph,
                              const ls_node *node, size_t i);
// A capture has one operand: the value outside that it stands for, if the walk
// goes there. Else NULL.
const ls_capture *ls_gradient_capture(const ls_gradient_walk *walk,
                                      const ls_graph *graph,
                                      const ls_node *node);
// A value that goes round in a loop whose body is being traced has one too:
// what it starts from. No gradient passes there.
const ls_tensor *ls_gradient_initial(const ls_gradient_walk *walk,
                                     const ls_graph *graph,
                                     const ls_node *node);
// The entry of the op that a value comes from, if gradients may flow there, and
// its number.
ls_gradient_entry *ls_gradient_source(const ls_gradient_walk *walk,
                                      ls_tensor value, size_t *out_index);

// ---- Reads -----------------------------------------------------------------
// Returns true if a goal is a variable.
bool ls_gradient_has_variables(const ls_gradient_walk *walk);
// The goal that a read reads, or SIZE_MAX.
size_t ls_gradient_goal_of_read(const ls_gradient_walk *walk,
                                const ls_node *node);
// Marks in `read`, unless it is NULL, the goals that are read in the op's
// regions; returns whether there is one.
bool ls_gradient_find_reads(const ls_gradient_walk *walk, const ls_node *node,
                            bool *read);

#endif  // LS_GRAD_REACH_H_
