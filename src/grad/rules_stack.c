// SPDX-License-Identifier: Apache-2.0
//
// Rules of stacks. The gradient of a stack is a stack of its values' gradients,
// so pushing and taking are each other's.
#include "grad/rules.h"
#include "lockstep/shape_rules.h"

// What is on top of the gradient belongs to the value.
ls_status gradient_stack_push(ls_gradient *g) {
  const ls_tensor value = ls_op_input(g->op, 1);
  g->din[0] = g->dout[0];
  if (!ls_dtype_is_trainable(ls_tensor_dtype(value))) return ls_ok();
  const ls_op pop =
      ls_stack_pop(g->dout[0], ls_tensor_dtype(value), ls_tensor_shape(value));
  g->din[0] = ls_op_output(pop, 0);
  g->din[1] = ls_op_output(pop, 1);
  return ls_ok();
}

ls_status gradient_stack_pop(ls_gradient *g) {
  const ls_tensor value = ls_op_output(g->op, 1);
  ls_tensor rest = g->dout[0], top = g->dout[1];
  if (rest.ref == 0) rest = ls_stack_zeros();
  g->din[0] = rest;
  if (!ls_dtype_is_trainable(ls_tensor_dtype(value))) return ls_ok();
  if (top.ref == 0) top = ls_gradient_zeros(ls_gradient_output(g, 1));
  g->din[0] = ls_stack_push(rest, top);
  return ls_ok();
}
