// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of stacks. A stack is a variant scalar; what it holds is an
// attribute where it is made and taken from, and the value's type where it is
// pushed.
#include "graph/graph.h"
#include "graph/infer/infer.h"
#include "lockstep/shape_rules.h"

static const ls_type stack_type = {LS_DTYPE_VARIANT, {.rank = 0}};

static ls_status check_stack(const ls_infer *infer) {
  if (infer->in[0].dtype == LS_DTYPE_VARIANT &&
      ls_shape_compatible(infer->in[0].shape, LS_SCALAR))
    return ls_ok();
  return ls_invalid_argument("%s: the stack must be a variant scalar, is %s",
                             infer->op_name, LS_OPERAND_TEXT(infer, 0));
}

static ls_status check_element(const ls_infer *infer, ls_dtype dtype) {
  if (dtype != LS_DTYPE_NONE && dtype != LS_DTYPE_STRING &&
      dtype != LS_DTYPE_RESOURCE)
    return ls_ok();
  return ls_unimplemented("%s: a stack of %s; it holds numbers, bools and "
                          "stacks",
                          infer->op_name, ls_dtype_name(dtype));
}

ls_status infer_stack_new(ls_infer *infer) {
  const ls_attr *dtype = ls_infer_attr(infer, LS_ATTR_ID_DTYPE);
  if (dtype != NULL) LS_RETURN_IF_ERROR(check_element(infer, dtype->as.dtype));
  infer->out[0] = stack_type;
  return ls_ok();
}

ls_status infer_stack_push(ls_infer *infer) {
  LS_RETURN_IF_ERROR(check_stack(infer));
  LS_RETURN_IF_ERROR(check_element(infer, infer->in[1].dtype));
  infer->out[0] = stack_type;
  return ls_ok();
}

ls_status infer_stack_pop(ls_infer *infer) {
  const ls_attr *dtype = ls_infer_attr(infer, LS_ATTR_ID_DTYPE);
  const ls_attr *shape = ls_infer_attr(infer, LS_ATTR_ID_SHAPE);
  LS_RETURN_IF_ERROR(check_stack(infer));
  LS_RETURN_IF_ERROR(check_element(infer, dtype->as.dtype));
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, 2));
  infer->out[0] = stack_type;
  infer->out[1] = (ls_type){dtype->as.dtype, shape->as.shape};
  return ls_ok();
}
