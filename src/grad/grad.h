// SPDX-License-Identifier: Apache-2.0
//
// Gradients: rules, one per op, and the walk that applies them.
//
// The walk goes backwards over the ops between some xs and some ys and gives
// each op's rule the gradients of its results; the rule makes ops, with the
// public makers, that give the gradients of its operands. New ops go to the
// thread's current graph, wherever the forward ops stand; a rule asks for
// forward values by ls_gradient_input and ls_gradient_output, which find them
// there. Sizes are never read while building: a rule takes them from operands.
#ifndef LS_GRAD_GRAD_H_
#define LS_GRAD_GRAD_H_

#include "graph/graph.h"
#include "lockstep/gradients.h"

typedef struct ls_gradient_walk ls_gradient_walk;

// The question a rule answers.
typedef struct ls_gradient {
  ls_op op;  // The forward op, and its node.
  const ls_node *node;
  const ls_tensor *dout;  // One a result; zeroed: none.
  ls_tensor *din;         // One an operand, zeroed: none. The rule's to set.
  const bool *wanted;     // One an operand: whether anybody asks for it.
  size_t num_inputs, num_outputs;
  ls_gradient_walk *walk;
} ls_gradient;

// Sets `din` where `wanted`. At least one `dout` is there. A maker that fails
// needs no check: the walk finds the error.
typedef ls_status (*ls_gradient_function)(ls_gradient *gradient);

// The rules, by op: the column `gradient` of ops.def.
extern const ls_gradient_function ls_gradient_table[LS_OP_COUNT];
#define LS_OP(id, name, inputs, traits, shape, gradient, ...)                  \
  ls_status gradient_##gradient(ls_gradient *g);
#include "lockstep/ops.def"
#undef LS_OP

// The forward op's operand or result, as a value for the graph being built.
ls_tensor ls_gradient_input(ls_gradient *gradient, size_t index);
ls_tensor ls_gradient_output(ls_gradient *gradient, size_t index);

// ls_gradients over the ops of `graph` with ids from `first_id` on and before
// `end_id` (0: to the newest). first_id 0: over all of its ops, and those of
// the graphs around it, whose values it captures. xs need not be among them.
// New ops go to the current graph: `graph`, or one inside it.
ls_status ls_gradients_walk(ls_graph *graph, uint64_t first_id, uint64_t end_id,
                            const ls_nest *ys, size_t num_ys, const ls_nest *xs,
                            size_t num_xs, const ls_gradient_options *options,
                            ls_nest *grads);

#endif  // LS_GRAD_GRAD_H_
