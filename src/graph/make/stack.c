// SPDX-License-Identifier: Apache-2.0
//
// Op makers: stacks.
#include "graph/make/make.h"

ls_tensor ls_stack_new(ls_dtype dtype, ls_shape shape) {
  const ls_attr attrs[] = {LS_OWN_T(DTYPE, dtype), LS_OWN_SH(SHAPE, shape)};
  return ls_make(LS_OP_STACK_NEW, NULL, 0, attrs,
                 dtype == LS_DTYPE_NONE ? 0 : LS_COUNT_OF(attrs));
}

ls_tensor ls_stack_zeros(void) {
  const ls_attr attr = LS_OWN_B(ENDLESS, true);
  return ls_make(LS_OP_STACK_NEW, NULL, 0, &attr, 1);
}

ls_tensor ls_stack_push(ls_tensor stack, ls_tensor value) {
  const ls_tensor inputs[] = {stack, value};
  return ls_make(LS_OP_STACK_PUSH, inputs, 2, NULL, 0);
}

ls_op ls_stack_pop(ls_tensor stack, ls_dtype dtype, ls_shape shape) {
  const ls_attr attrs[] = {LS_OWN_T(DTYPE, dtype), LS_OWN_SH(SHAPE, shape)};
  return ls_op_add(&(ls_op_spec){.type = LS_OP_STACK_POP,
                                 .inputs = &stack,
                                 .num_inputs = 1,
                                 .attrs = attrs,
                                 .num_attrs = LS_COUNT_OF(attrs)});
}
