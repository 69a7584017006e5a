// SPDX-License-Identifier: Apache-2.0
//
// Elementwise ops of one operand.
//
// Integers wrap around. Float versions are in isa/span.c and isa/elementary.c.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

#define UNARY(name, E, D, T, W) LS_SPAN_OF_ONE(name, E, D, T, T, W)

#define NEG_INTEGER(T, W, x) ((T)(0 - (W)(x)))
LS_EACH_INTEGER(UNARY, neg, NEG_INTEGER)

#define ABS_SIGNED(T, W, x) ((x) < 0 ? NEG_INTEGER(T, W, x) : (x))
#define ABS_UNSIGNED(T, W, x) (x)
LS_EACH_SIGNED(UNARY, abs, ABS_SIGNED)
LS_EACH_UNSIGNED(UNARY, abs, ABS_UNSIGNED)

#define SIGN_SIGNED(T, W, x) ((T)(((x) > 0) - ((x) < 0)))
#define SIGN_UNSIGNED(T, W, x) ((T)((x) != 0))
LS_EACH_SIGNED(UNARY, sign, SIGN_SIGNED)
LS_EACH_UNSIGNED(UNARY, sign, SIGN_UNSIGNED)

#define RELU_SIGNED(T, W, x) ((x) < 0 ? (T)0 : (x))
#define RELU_UNSIGNED(T, W, x) (x)
LS_EACH_SIGNED(UNARY, relu, RELU_SIGNED)
LS_EACH_UNSIGNED(UNARY, relu, RELU_UNSIGNED)

#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define INTEGERS(name)                                                         \
  { LS_EACH_INTEGER(ENTRY, name) }

static const ls_span spans[LS_OP_COUNT][LS_DTYPE_COUNT] = {
    [LS_OP_NEG] = INTEGERS(neg),
    [LS_OP_ABS] = INTEGERS(abs),
    [LS_OP_SIGN] = INTEGERS(sign),
    [LS_OP_RELU] = INTEGERS(relu),
};

ls_status kernel_unary(ls_kernel_plan *plan) {
  return ls_elementwise_plan_by_dtype(plan, spans[plan->node->type],
                                      (ls_elementwise){0});
}

ls_status kernel_clamp(ls_kernel_plan *plan) {
  return ls_elementwise_plan_by_dtype(plan, plan->kernels->typed_spans->clamp,
                                      (ls_elementwise){0});
}
