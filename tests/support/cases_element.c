// SPDX-License-Identifier: Apache-2.0
//
// Conformance cases: ops that work element by element.
#include "lockstep/ops.h"
#include "support/expect.h"
#include "support/op_case.h"

// ---- Types -----------------------------------------------------------------
// Of any type into any other.
static void draw_convert(trial *t) {
  trial_add(t, trial_shape(t, 0, 4));
  t->number[0] = trial_between(t, LS_DTYPE_F64, LS_DTYPE_U64);
  if (t->number[0] == (int64_t)t->dtype) t->number[0] = LS_DTYPE_BOOL;
}

static ls_nest make_convert(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_convert(xs[0], (ls_dtype)t->number[0]));
}

static ls_nest make_bitcast(const trial *t, const ls_tensor *xs) {
  static const ls_dtype to[LS_DTYPE_COUNT] = {
      [LS_DTYPE_F64] = LS_DTYPE_U64, [LS_DTYPE_F32] = LS_DTYPE_I32,
      [LS_DTYPE_F16] = LS_DTYPE_U16, [LS_DTYPE_BF16] = LS_DTYPE_F16,
      [LS_DTYPE_I8] = LS_DTYPE_U8,   [LS_DTYPE_I16] = LS_DTYPE_U16,
      [LS_DTYPE_I32] = LS_DTYPE_F32, [LS_DTYPE_I64] = LS_DTYPE_F64,
      [LS_DTYPE_U8] = LS_DTYPE_I8,   [LS_DTYPE_U16] = LS_DTYPE_I16,
      [LS_DTYPE_U32] = LS_DTYPE_I32, [LS_DTYPE_U64] = LS_DTYPE_I64,
      [LS_DTYPE_BOOL] = LS_DTYPE_U8,
  };
  return ls_leaf(ls_bitcast(xs[0], to[t->dtype]));
}

// ---- Several operands ------------------------------------------------------
static void draw_select(trial *t) {
  const ls_shape shape = trial_shape(t, 0, 4);
  trial_add_in(t, LS_DTYPE_BOOL, trial_part(t, shape), 0, 1);
  trial_add(t, shape);
  trial_add(t, trial_part(t, shape));
}

static ls_nest make_select(const trial *t, const ls_tensor *xs) {
  (void)t;
  return ls_leaf(ls_select(xs[0], xs[1], xs[2]));
}

// Bounds of one number or many, now and then the wrong way round.
static void draw_clamp(trial *t) {
  const ls_shape shape = trial_shape(t, 0, 3);
  const bool many = trial_between(t, 0, 1) == 1;
  trial_add_in(t, t->dtype, many ? shape : LS_SCALAR, -3, 1);
  trial_add_in(t, t->dtype, shape, -5, 5);
  trial_add_in(t, t->dtype, many ? shape : LS_SCALAR, 0, 4);
}

static ls_nest make_clamp(const trial *t, const ls_tensor *xs) {
  (void)t;
  return ls_leaf(ls_clamp(xs[0], xs[1], xs[2]));
}

#define ONE(id, f, types, ...)                                                 \
  { .op = LS_OP_##id, .dtypes = (types), .one = ls_##f, __VA_ARGS__ }
#define TWO(id, f, types, ...)                                                 \
  { .op = LS_OP_##id, .dtypes = (types), .two = ls_##f, __VA_ARGS__ }
#define TWICE .gradient = 2

const op_case element_cases[] = {
    ONE(NEG, neg, NUMBERS, .low = -9, .high = 9, .odd = true, TWICE),
    ONE(ABS, abs, NUMBERS, .low = -9, .high = 9, .odd = true, TWICE),
    ONE(SIGN, sign, NUMBERS, .low = -2, .high = 2, .odd = true),
    ONE(EXP, exp, FLOATS, .low = -20, .high = 9, TWICE),
    ONE(LOG, log, FLOATS, .low = 0.01, .high = 100, TWICE, .from = 0.5,
        .to = 3),
    ONE(SQRT, sqrt, FLOATS, .low = 0, .high = 100, TWICE, .from = 0.5, .to = 3),
    ONE(RSQRT, rsqrt, FLOATS, .low = 0.01, .high = 100, TWICE, .from = 0.5,
        .to = 3),
    ONE(TANH, tanh, FLOATS, .low = -5, .high = 5, TWICE),
    ONE(SIGMOID, sigmoid, FLOATS, .low = -20, .high = 20, TWICE),
    ONE(ERF, erf, FLOATS, .low = -3, .high = 3, TWICE),
    ONE(ERFC, erfc, FLOATS, .low = -5, .high = 3, TWICE),
    ONE(RELU, relu, NUMBERS, .low = -9, .high = 9, TWICE),
    ONE(EXPM1, expm1, FLOATS, .low = -20, .high = 9, TWICE),
    ONE(LOG1P, log1p, FLOATS, .low = -0.99, .high = 100, TWICE, .from = -0.5,
        .to = 2),
    ONE(CEIL, ceil, FLOATS, .low = -100, .high = 100, .odd = true),
    ONE(FLOOR, floor, FLOATS, .low = -100, .high = 100, .odd = true),
    ONE(ROUND, round, FLOATS, .low = -4, .high = 4),
    ONE(ROUND_AWAY, round_away, FLOATS, .low = -4, .high = 4),
    ONE(COS, cos, FLOATS, .low = -50, .high = 50, TWICE),
    ONE(SIN, sin, FLOATS, .low = -50, .high = 50, TWICE),
    ONE(TAN, tan, FLOATS, .low = -50, .high = 50, .slack = 2, TWICE, .from = -1,
        .to = 1),
    ONE(CBRT, cbrt, FLOATS, .low = -1000, .high = 1000, TWICE, .from = 0.5,
        .to = 2),
    ONE(SOFTPLUS, softplus, FLOATS, .low = -20, .high = 20, TWICE),
    ONE(GELU, gelu, FLOATS, .low = -3, .high = 6, .slack = 8, TWICE),
    ONE(IS_FINITE, is_finite, FLOATS, .odd = true),
    ONE(NOT, not, INTEGERS | BOOLS, .low = -9, .high = 9),
    ONE(POPCOUNT, popcount, INTEGERS, .low = -9, .high = 9),
    ONE(COUNT_LEADING_ZEROS, count_leading_zeros, INTEGERS, .low = -9,
        .high = 9),
    {.op = LS_OP_CONVERT,
     .dtypes = EVERY,
     .make = make_convert,
     .draw = draw_convert,
     .low = -90,
     .high = 90,
     .odd = true},
    {.op = LS_OP_BITCAST,
     .dtypes = NUMBERS,
     .make = make_bitcast,
     .low = -90,
     .high = 90},

    TWO(ADD, add, NUMBERS, .odd = true, TWICE),
    TWO(SUB, sub, NUMBERS, .odd = true, TWICE),
    TWO(MUL, mul, NUMBERS, .odd = true, TWICE),
    TWO(DIV, div, NUMBERS, .low = -3, .high = 9, .odd = true, TWICE,
        .from = 0.5, .to = 2),
    TWO(MAXIMUM, maximum, NUMBERS, .odd = true, TWICE),
    TWO(MINIMUM, minimum, NUMBERS, .odd = true, TWICE),
    TWO(POW, pow, NUMBERS, .low = -3, .high = 4, TWICE, .from = 0.5, .to = 2),
    TWO(RELU_GRAD, relu_grad, NUMBERS, TWICE),
    TWO(GELU_GRAD, gelu_grad, FLOATS, .slack = 8, TWICE),
    TWO(ATAN2, atan2, FLOATS, TWICE),
    TWO(REMAINDER, remainder, NUMBERS, .low = -9, .high = 9, TWICE, .from = 0.5,
        .to = 2),
    TWO(AND, and, INTEGERS | BOOLS, .low = -9, .high = 9),
    TWO(OR, or, INTEGERS | BOOLS, .low = -9, .high = 9),
    TWO(XOR, xor, INTEGERS | BOOLS, .low = -9, .high = 9),
    TWO(SHIFT_LEFT, shift_left, INTEGERS, .low = -1, .high = 9),
    TWO(SHIFT_RIGHT_ARITHMETIC, shift_right_arithmetic, INTEGERS, .low = -1,
        .high = 9),
    TWO(SHIFT_RIGHT_LOGICAL, shift_right_logical, INTEGERS, .low = -1,
        .high = 9),
    TWO(EQUAL, equal, EVERY, .odd = true),
    TWO(NOT_EQUAL, not_equal, EVERY, .odd = true),
    TWO(LESS, less, EVERY, .odd = true),
    TWO(LESS_EQUAL, less_equal, EVERY, .odd = true),
    TWO(GREATER, greater, EVERY, .odd = true),
    TWO(GREATER_EQUAL, greater_equal, EVERY, .odd = true),
    {.op = LS_OP_SELECT,
     .dtypes = EVERY,
     .make = make_select,
     .draw = draw_select,
     .odd = true,
     TWICE},
    {.op = LS_OP_CLAMP,
     .dtypes = NUMBERS,
     .make = make_clamp,
     .draw = draw_clamp,
     TWICE},
    {0},
};
