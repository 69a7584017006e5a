// SPDX-License-Identifier: Apache-2.0
//
// Helpers of rules. The rule named <x> in the column `gradient` of ops.def is
// gradient_<x>, and reads like its formula.
#ifndef LS_GRAD_RULES_H_
#define LS_GRAD_RULES_H_

#include "grad/grad.h"
#include "grad/walk.h"

// Sums `term`, of the result's shape, down to the shape of operand `index`,
// which was broadcast with operand `other`.
ls_tensor ls_gradient_sum_to(ls_backward *g, ls_tensor term, size_t index,
                             size_t other);
// Restores the dimensions of `term`, a reduction of operand 0 along the op's
// axes, with size 1.
ls_tensor ls_gradient_keep_axes(ls_backward *g, ls_tensor term);
// Returns the product of dimensions `first` to `end`; if a dimension is not
// known, -1, for a size that reshape infers.
int64_t ls_gradient_product(ls_shape shape, int32_t first, int32_t end);
// Reshapes [..., n] to [m, n].
ls_tensor ls_gradient_as_matrix(ls_tensor x);
// Reshapes [...] to [..., 1].
ls_tensor ls_gradient_with_last(ls_tensor x);
// Adds gradients of which either may be missing; a failed tensor if both are.
ls_tensor ls_gradient_plus(ls_tensor a, ls_tensor b);
// Sets the gradient of operand `i`, if it is wanted, to `value`, if it is set,
// in the operand's dtype.
void ls_gradient_give(ls_backward *g, size_t i, ls_tensor value);
// Sets the gradient of operand `i` of two from `term`, which has the result's
// shape.
static inline void ls_gradient_give_to(ls_backward *g, size_t i,
                                       ls_tensor term) {
  g->din[i] = ls_gradient_sum_to(g, term, i, 1 - i);
}
// Returns the zero gradient of x: zeros of its shape, or an empty stack.
ls_tensor ls_gradient_zeros(ls_tensor x);
// Fails with UNIMPLEMENTED: the gradient needs `what` to be known while
// building.
ls_status ls_gradient_needs(const ls_backward *g, const char *what);
// Makes a scalar of x's dtype.
ls_tensor ls_gradient_number(ls_tensor x, double value);
// Returns the type for sums: f32 for 16-bit floats, because sums may have many
// terms.
static inline ls_dtype ls_sum_dtype(ls_tensor x) {
  return ls_tensor_dtype(x) == LS_DTYPE_F64 ? LS_DTYPE_F64 : LS_DTYPE_F32;
}

// ---- Ops with regions -------------------------------------------------------
// A walk over the ops of a region: from some of its values, with gradients as
// seeds, to goals among its values and to variables.
typedef struct ls_gradient_inner {
  ls_forward *forward;
  ls_gradient_seed *seeds;
  size_t num_seeds;
  ls_gradient_goal *goals;
  size_t num_goals;
} ls_gradient_inner;

ls_status ls_gradient_walk_inner(const ls_backward *g,
                                 const ls_gradient_inner *inner);
// Returns parameter `index` of the region.
static inline ls_tensor ls_gradient_parameter(const ls_forward *forward,
                                              size_t index) {
  return (ls_tensor){forward->graph, forward->graph->parameters[index]};
}

#endif  // LS_GRAD_RULES_H_
