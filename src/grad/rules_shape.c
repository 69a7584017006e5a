// SPDX-License-Identifier: Apache-2.0
//
// Rules of reshapes and reductions.
#include "base/values/numbers.h"
#include "grad/rules.h"
#include "lockstep/shape_rules.h"

// ---- Reshaping -------------------------------------------------------------
// Operands that are used for their dimensions only get no gradient.
ls_status gradient_reshape(ls_backward *g) {
  g->din[0] = ls_reshape_like(g->dout[0], ls_gradient_input(g, 0));
  return ls_ok();
}

ls_status gradient_broadcast(ls_backward *g) {
  g->din[0] = ls_sum_to_like(g->dout[0], ls_gradient_input(g, 0));
  return ls_ok();
}

ls_status gradient_sum_to(ls_backward *g) {
  g->din[0] = ls_broadcast_like(g->dout[0], ls_gradient_input(g, 0));
  return ls_ok();
}

ls_status gradient_transpose(ls_backward *g) {
  const ls_attr *permutation = ls_node_attr(g->node, LS_ATTR_ID_PERMUTATION);
  int inverse[LS_MAX_RANK] = {0};
  for (size_t i = 0; i < permutation->as.ints.count; ++i)
    inverse[permutation->as.ints.items[i]] = (int)i;
  g->din[0] = ls_transpose(g->dout[0], inverse);
  return ls_ok();
}

// ---- Reductions ------------------------------------------------------------
ls_status gradient_reduce_sum(ls_backward *g) {
  const ls_tensor x = ls_gradient_input(g, 0);
  g->din[0] = ls_broadcast_like(ls_gradient_keep_axes(g, g->dout[0]), x);
  return ls_ok();
}

// Computes 1 / the number of elements in each mean, as a scalar of `dtype`.
static ls_tensor one_over_count(ls_backward *g, ls_dtype dtype) {
  const ls_attr *axes = ls_node_attr(g->node, LS_ATTR_ID_AXES);
  const ls_tensor x = ls_gradient_input(g, 0);
  if (axes->as.ints.count == 0) return ls_scalar(dtype, 1);
  ls_tensor count = ls_dim_size(x, (int)axes->as.ints.items[0]);
  for (size_t i = 1; i < axes->as.ints.count; ++i)
    count = ls_mul(count, ls_dim_size(x, (int)axes->as.ints.items[i]));
  const ls_tensor one = ls_scalar(dtype, 1);
  return ls_div(one, ls_convert(count, dtype));
}

// Computes reciprocal and product in f64 for f64, else in f32, as the mean
// itself does.
ls_status gradient_reduce_mean(ls_backward *g) {
  const ls_dtype dtype = ls_tensor_dtype(g->dout[0]);
  const ls_dtype wide = dtype == LS_DTYPE_F64 ? LS_DTYPE_F64 : LS_DTYPE_F32;
  const ls_tensor x = ls_gradient_input(g, 0);
  const ls_tensor factor = one_over_count(g, wide);
  const ls_tensor scaled = ls_mul(ls_convert(g->dout[0], wide), factor);
  g->din[0] =
      ls_broadcast_like(ls_gradient_keep_axes(g, ls_convert(scaled, dtype)), x);
  return ls_ok();
}

// The rule of maximum and minimum: equal extremes share the gradient equally.
// They are counted in f32 for 16-bit floats, which hold few whole numbers. NaN
// is an extreme, too. Others get 0 by selection: 0 times an infinity is NaN.
ls_status gradient_reduce_max(ls_backward *g) {
  const ls_attr *axes = ls_node_attr(g->node, LS_ATTR_ID_AXES);
  const ls_tensor x = ls_gradient_input(g, 0);
  const ls_tensor y = ls_gradient_keep_axes(g, ls_gradient_output(g, 0));
  const ls_dtype dtype = ls_tensor_dtype(x), wide = ls_wide_dtype(dtype);
  const ls_tensor is_nan = ls_not_equal(x, x);
  const ls_tensor chosen = ls_or(ls_equal(x, y), is_nan);
  int items[LS_MAX_RANK];
  for (size_t i = 0; i < axes->as.ints.count; ++i)
    items[i] = (int)axes->as.ints.items[i];
  const ls_tensor count = ls_reduce_sum_keep(
      ls_convert(chosen, wide),
      (ls_axes){.items = items, .count = axes->as.ints.count});
  const ls_tensor d = ls_gradient_keep_axes(g, g->dout[0]);
  const ls_tensor share = ls_div(ls_convert(d, wide), count);
  const ls_tensor none = ls_gradient_number(x, 0);
  g->din[0] = ls_select(chosen, ls_convert(share, dtype), none);
  return ls_ok();
}

// ---- Stacks -----------------------------------------------------------------
// The gradient of a stack is a stack of the gradients of its values, so that
// push and pop are each other's gradients. The top of the gradient belongs to
// the pushed value.
ls_status gradient_stack_push(ls_backward *g) {
  const ls_tensor value = ls_op_input(g->op, 1);
  g->din[0] = g->dout[0];
  if (!ls_dtype_is_trainable(ls_tensor_dtype(value))) return ls_ok();
  const ls_op pop =
      ls_stack_pop(g->dout[0], ls_tensor_dtype(value), ls_tensor_shape(value));
  g->din[0] = ls_op_output(pop, 0);
  g->din[1] = ls_op_output(pop, 1);
  return ls_ok();
}

ls_status gradient_stack_pop(ls_backward *g) {
  const ls_tensor value = ls_op_output(g->op, 1);
  ls_tensor rest = g->dout[0], top = g->dout[1];
  if (rest.ref == 0) rest = ls_stack_zeros();
  g->din[0] = rest;
  if (!ls_dtype_is_trainable(ls_tensor_dtype(value))) return ls_ok();
  if (top.ref == 0) top = ls_gradient_zeros(ls_gradient_output(g, 1));
  g->din[0] = ls_stack_push(rest, top);
  return ls_ok();
}
