// SPDX-License-Identifier: Apache-2.0
//
// Shared by rules. A rule is named gradient_<x> after the column `gradient` of
// ops.def and reads like the formula it is.
#ifndef LS_GRAD_RULES_H_
#define LS_GRAD_RULES_H_

#include "grad/grad.h"
#include "grad/walk.h"

// `term`, of the result's shape, summed down to operand `index`, which was
// broadcast against operand `other`.
ls_tensor ls_gradient_sum_to(ls_gradient *g, ls_tensor term, size_t index,
                             size_t other);
// `term`, a reduction of operand 0 along the op's axes, with the reduced
// dimensions put back with size 1.
ls_tensor ls_gradient_keep_axes(ls_gradient *g, ls_tensor term);
// The product of dimensions `first` to `end`, or -1 if one is not known yet:
// as a size of a reshape, what is left.
int64_t ls_gradient_product(ls_shape shape, int32_t first, int32_t end);
// [..., n] as [m, n].
ls_tensor ls_gradient_as_matrix(ls_tensor x);
// [...] as [..., 1].
ls_tensor ls_gradient_with_last(ls_tensor x);
// The zero that gradients of x have: zeros like it, or an empty stack.
ls_tensor ls_gradient_zeros(ls_tensor x);
// UNIMPLEMENTED: the op's gradient needs `what` known while building.
ls_status ls_gradient_needs(const ls_gradient *g, const char *what);
// A number of x's dtype.
ls_tensor ls_gradient_number(ls_tensor x, double value);

// ---- Ops that hold child graphs ---------------------------------------------
// A walk of a child graph: from values of it, whose gradients the seeds give,
// to goals among its values and to variables.
typedef struct ls_gradient_inner {
  ls_forward *forward;
  ls_gradient_seed *seeds;
  size_t num_seeds;
  ls_gradient_goal *goals;
  size_t num_goals;
} ls_gradient_inner;

ls_status ls_gradient_walk_inner(const ls_gradient *g,
                                 const ls_gradient_inner *inner);
// Parameter `index` of the child graph.
static inline ls_tensor ls_gradient_parameter(const ls_forward *forward,
                                              size_t index) {
  return (ls_tensor){forward->graph, forward->graph->parameters[index]};
}

#endif  // LS_GRAD_RULES_H_
