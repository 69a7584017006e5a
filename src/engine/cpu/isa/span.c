// SPDX-License-Identifier: Apache-2.0
//
// Spans of floats whose elements are an IEEE operation or two: the compiler
// vectorizes them, with the same bits on every instruction set.
#include <math.h>

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/kernels/loops.h"

// ---- Two operands ----------------------------------------------------------
#define BINARY(name, E, D, T, W) LS_SPAN_OF_TWO(name, E, D, T, T, W)

#define RELU_GRAD(T, W, x, y) ((y) > 0 ? (x) : (T)0)
LS_EACH_FLOAT(BINARY, add, LS_ADD_FLOAT)
LS_EACH_FLOAT(BINARY, sub, LS_SUB_FLOAT)
LS_EACH_FLOAT(BINARY, mul, LS_MUL_FLOAT)
LS_EACH_FLOAT(BINARY, div, LS_DIV_FLOAT)
LS_EACH_FLOAT(BINARY, maximum, LS_MAX_FLOAT)
LS_EACH_FLOAT(BINARY, minimum, LS_MIN_FLOAT)
LS_EACH_FLOAT(BINARY, relu_grad, RELU_GRAD)

// ---- One operand -----------------------------------------------------------
#define UNARY(name, E, D, T, W) LS_SPAN_OF_ONE(name, E, D, T, T, W)

#define NEG(T, W, x) (-(x))
#define ABS_F32(T, W, x) fabsf(x)
#define ABS_F64(T, W, x) fabs(x)
#define SQRT_F32(T, W, x) sqrtf(x)
#define SQRT_F64(T, W, x) sqrt(x)
// A zero keeps its sign, and NaN stays.
#define SIGN(T, W, x) ((x) > 0 ? (T)1 : (x) < 0 ? (T)-1 : (x))
// Matches the product's epilogue: -0 and NaN stay.
#define RELU(T, W, x) ((x) < 0 ? (T)0 : (x))
LS_EACH_FLOAT(UNARY, neg, NEG)
UNARY(abs, ABS_F32, F32, float, float)
UNARY(abs, ABS_F64, F64, double, double)
UNARY(sqrt, SQRT_F32, F32, float, float)
UNARY(sqrt, SQRT_F64, F64, double, double)
LS_EACH_FLOAT(UNARY, sign, SIGN)
LS_EACH_FLOAT(UNARY, relu, RELU)

// ---- All -------------------------------------------------------------------
#define ENTRIES(D)                                                             \
  {                                                                            \
    [LS_OP_ADD] = add_##D, [LS_OP_SUB] = sub_##D, [LS_OP_MUL] = mul_##D,       \
    [LS_OP_DIV] = div_##D, [LS_OP_MAXIMUM] = maximum_##D,                      \
    [LS_OP_MINIMUM] = minimum_##D, [LS_OP_RELU_GRAD] = relu_grad_##D,          \
    [LS_OP_NEG] = neg_##D, [LS_OP_ABS] = abs_##D, [LS_OP_SQRT] = sqrt_##D,     \
    [LS_OP_SIGN] = sign_##D, [LS_OP_RELU] = relu_##D,                          \
  }

const ls_cpu_spans LS_ISA_NAME(ls_cpu_spans) = {ENTRIES(F32), ENTRIES(F64)};
