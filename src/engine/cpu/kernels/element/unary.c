// SPDX-License-Identifier: Apache-2.0
//
// Elementwise ops of one operand.
//
// Integers wrap around. Float ops of a single operation are in isa/span.c; f32
// functions are those of the kernel table, f64 ones are in isa/elementary.c.
#include "engine/cpu/kernels/list.h"
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

static void call_table(const ls_elementwise *self, void *out,
                       const void *const *in, int64_t count) {
  self->unary(out, in[0], (size_t)count);
}

#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define INTEGERS(name)                                                         \
  { LS_EACH_INTEGER(ENTRY, name) }
#define OF_TABLE                                                               \
  { [LS_DTYPE_F32] = call_table }

static const ls_span spans[LS_OP_COUNT][LS_DTYPE_COUNT] = {
    [LS_OP_NEG] = INTEGERS(neg),   [LS_OP_ABS] = INTEGERS(abs),
    [LS_OP_SIGN] = INTEGERS(sign), [LS_OP_RELU] = INTEGERS(relu),
    [LS_OP_EXP] = OF_TABLE,        [LS_OP_LOG] = OF_TABLE,
    [LS_OP_TANH] = OF_TABLE,       [LS_OP_ERF] = OF_TABLE,
    [LS_OP_SIGMOID] = OF_TABLE,    [LS_OP_RSQRT] = OF_TABLE,
};

static ls_cpu_unary_fn *table_function(const ls_cpu_kernels *kernels,
                                       uint16_t op) {
  switch (op) {
  case LS_OP_EXP:
    return kernels->exp;
  case LS_OP_LOG:
    return kernels->log;
  case LS_OP_TANH:
    return kernels->tanh;
  case LS_OP_ERF:
    return kernels->erf;
  case LS_OP_SIGMOID:
    return kernels->sigmoid;
  case LS_OP_RSQRT:
    return kernels->rsqrt;
  default:
    return NULL;
  }
}

ls_status kernel_unary(ls_kernel_plan *plan) {
  const uint16_t op = plan->node->type;
  return ls_elementwise_plan_by_dtype(
      plan, spans[op],
      (ls_elementwise){.unary = table_function(plan->kernels, op)});
}
