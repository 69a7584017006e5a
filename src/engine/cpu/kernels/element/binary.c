// SPDX-License-Identifier: Apache-2.0
//
// Elementwise ops of two operands of one type.
//
// Floats are computed by isa/span.c and isa/elementary.c. Integers wrap around.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

#define BINARY(name, E, D, T, W) LS_SPAN_OF_TWO(name, E, D, T, T, W)

LS_EACH_INTEGER(BINARY, add, LS_ADD_INTEGER)
LS_EACH_INTEGER(BINARY, sub, LS_SUB_INTEGER)
LS_EACH_INTEGER(BINARY, mul, LS_MUL_INTEGER)
LS_EACH_SIGNED(BINARY, div, LS_DIV_SIGNED)
LS_EACH_UNSIGNED(BINARY, div, LS_DIV_UNSIGNED)
LS_EACH_INTEGER(BINARY, maximum, LS_MAX_INTEGER)
LS_EACH_INTEGER(BINARY, minimum, LS_MIN_INTEGER)

static uint64_t integer_power(uint64_t base, uint64_t exponent) {
  uint64_t power = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1U) != 0) power *= base;
    base *= base;
  }
  return power;
}

// Negative exponents: x^-n is 1 / x^n towards zero, which is 0 except for 1 and
// -1; all bits set for x = 0.
static uint64_t signed_power(int64_t base, int64_t exponent) {
  if (exponent >= 0) return integer_power((uint64_t)base, (uint64_t)exponent);
  if (base == 0) return ~UINT64_C(0);
  if (base == 1) return 1;
  if (base == -1) return (exponent & 1) != 0 ? ~UINT64_C(0) : 1;
  return 0;
}

#define POW_SIGNED(T, W, x, y) ((T)signed_power((x), (y)))
#define POW_UNSIGNED(T, W, x, y) ((T)integer_power((x), (y)))
LS_EACH_SIGNED(BINARY, pow, POW_SIGNED)
LS_EACH_UNSIGNED(BINARY, pow, POW_UNSIGNED)

#define RELU_GRAD(T, W, x, y) ((y) > 0 ? (x) : (T)0)
LS_EACH_INTEGER(BINARY, relu_grad, RELU_GRAD)

#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define INTEGERS(name)                                                         \
  { LS_EACH_INTEGER(ENTRY, name) }

static const ls_span spans[LS_OP_COUNT][LS_DTYPE_COUNT] = {
    [LS_OP_ADD] = INTEGERS(add),
    [LS_OP_SUB] = INTEGERS(sub),
    [LS_OP_MUL] = INTEGERS(mul),
    [LS_OP_DIV] = INTEGERS(div),
    [LS_OP_MAXIMUM] = INTEGERS(maximum),
    [LS_OP_MINIMUM] = INTEGERS(minimum),
    [LS_OP_POW] = INTEGERS(pow),
    [LS_OP_RELU_GRAD] = INTEGERS(relu_grad),
};

ls_span ls_binary_span(uint16_t op, ls_dtype dtype,
                       const ls_cpu_kernels *kernels) {
  if (ls_is_half(dtype)) dtype = LS_DTYPE_F32;
  const ls_span span = spans[op][dtype];
  return span != NULL ? span : ls_float_span(op, dtype, kernels);
}

ls_status kernel_binary(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->out[0].dtype;
  const ls_elementwise work = {
      .half = ls_is_half(dtype) ? dtype : LS_DTYPE_NONE,
      .out_is_half = ls_is_half(dtype),
      .span = ls_binary_span(plan->node->type, dtype, plan->kernels),
  };
  return work.span == NULL ? ls_kernel_unsupported(plan, dtype)
                           : ls_elementwise_plan(plan, work);
}

// ---- One operand -----------------------------------------------------------
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

static const ls_span unary_spans[LS_OP_COUNT][LS_DTYPE_COUNT] = {
    [LS_OP_NEG] = INTEGERS(neg),
    [LS_OP_ABS] = INTEGERS(abs),
    [LS_OP_SIGN] = INTEGERS(sign),
    [LS_OP_RELU] = INTEGERS(relu),
};

ls_status kernel_unary(ls_kernel_plan *plan) {
  return ls_elementwise_plan_by_dtype(plan, unary_spans[plan->node->type],
                                      (ls_elementwise){0});
}

ls_status kernel_clamp(ls_kernel_plan *plan) {
  return ls_elementwise_plan_by_dtype(plan, plan->kernels->typed_spans->clamp,
                                      (ls_elementwise){0});
}
