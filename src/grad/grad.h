// SPDX-License-Identifier: Apache-2.0
//
// Gradients: rules, one per op, and the walk that applies them.
//
// The walk goes backwards over the ops between some xs and some ys, and passes
// each op's rule the gradients of its results; the rule adds ops that compute
// the gradients of its operands. New ops go to the thread's current graph,
// wherever the forward ops are; a rule finds forward values with
// ls_gradient_input and ls_gradient_output. Rules never read sizes while
// building: they take them from operands.
#ifndef LS_GRAD_GRAD_H_
#define LS_GRAD_GRAD_H_

#include "graph/graph.h"
#include "lockstep/gradients.h"

typedef struct ls_gradient_walk ls_gradient_walk;

// The arguments and results of a rule.
typedef struct ls_backward {
  ls_op op;  // The forward op, and its node.
  const ls_node *node;
  const ls_tensor *dout;  // Gradients of the results; zeroed: none.
  ls_tensor *din;  // Set by the rule: gradients of the operands; zeroed: none.
  const bool *wanted;  // By operand: true if its gradient is needed.
  size_t num_inputs, num_outputs;
  ls_gradient_walk *walk;
} ls_backward;

// Sets `din` for the operands in `wanted`. At least one `dout` is set. Rules
// need not check op makers for failures, which the walk finds.
typedef ls_status (*ls_gradient_function)(ls_backward *g);

// Rules, indexed by op: the column `gradient` of ops.def.
extern const ls_gradient_function ls_gradient_table[LS_OP_COUNT];
#define LS_OP(id, name, inputs, traits, shape, gradient, ...)                  \
  ls_status gradient_##gradient(ls_backward *g);
#include "lockstep/ops.def"
#undef LS_OP

// Returns an operand of the forward op as a value of the graph being built.
// ls_gradient_output returns a result.
ls_tensor ls_gradient_input(ls_backward *g, size_t index);
ls_tensor ls_gradient_output(ls_backward *g, size_t index);

// Computes gradients over the ops of `graph` with ids from `first_id` up to
// `end_id` (exclusive; 0: up to the newest). first_id 0: over all ops of
// `graph`, and of the enclosing graphs whose values it captures. xs need not be
// results of these ops. New ops go to the current graph: `graph`, or one inside
// it.
ls_status ls_gradients_walk(ls_graph *graph, uint64_t first_id, uint64_t end_id,
                            const ls_nest *ys, size_t num_ys, const ls_nest *xs,
                            size_t num_xs, const ls_gradient_options *options,
                            ls_nest *grads);

#endif  // LS_GRAD_GRAD_H_
