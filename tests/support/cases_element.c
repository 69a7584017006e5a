// SPDX-License-Identifier: Apache-2.0
//
// Conformance cases: ops that work element by element.
#include <math.h>

#include "lockstep/ops.h"
#include "support/expect.h"
#include "support/op_case.h"

// ---- Types -----------------------------------------------------------------
// Towards zero, and to the nearest limit; a nan is 0.
static int64_t whole_of(double x, ls_dtype dtype) {
  const ref_number least = ref_limit(dtype, false);
  const ref_number most = ref_limit(dtype, true);
  if (isnan(x)) return 0;
  x = trunc(x);
  if (x <= ref_double(dtype, least)) return least.whole;
  if (x >= ref_double(dtype, most)) return most.whole;
  return dtype == LS_DTYPE_U64 ? (int64_t)(uint64_t)x : (int64_t)x;
}

static void compute_convert(const ref_op *op, const ref_tensor *in,
                            ref_tensor *out) {
  (void)op;
  const ls_dtype from = in->type.dtype, to = out->type.dtype;
  for (int64_t k = 0; k < out->count; ++k) {
    const ref_number x = in->at[k];
    if (ls_dtype_is_float(to))
      out->at[k].real = ref_double(from, x);
    else if (to == LS_DTYPE_BOOL)
      out->at[k].whole = ls_dtype_is_float(from) ? x.real != 0 : x.whole != 0;
    else
      out->at[k].whole =
          ls_dtype_is_float(from) ? whole_of(x.real, to) : x.whole;
  }
}

static void compute_bitcast(const ref_op *op, const ref_tensor *in,
                            ref_tensor *out) {
  (void)op;
  for (int64_t k = 0; k < out->count; ++k) {
    uint64_t bits = 0;
    ref_store(in->type.dtype, in->at[k], &bits, 0);
    out->at[k] = ref_load(out->type.dtype, &bits, 0);
  }
}

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

static void compute_is_finite(const ref_op *op, const ref_tensor *in,
                              ref_tensor *out) {
  (void)op;
  for (int64_t k = 0; k < out->count; ++k)
    out->at[k].whole = isfinite(in->at[k].real) != 0;
}

// ---- Several operands ------------------------------------------------------
static void compute_select(const ref_op *op, const ref_tensor *in,
                           ref_tensor *out) {
  (void)op;
  const ls_shape shape = out->type.shape;
  for (int64_t k = 0; k < out->count; ++k) {
    const bool first = in[0].at[ref_aligned(&in[0], shape, k)].whole != 0;
    const ref_tensor *from = &in[first ? 1 : 2];
    out->at[k] = from->at[ref_aligned(from, shape, k)];
  }
}

static void compute_clamp(const ref_op *op, const ref_tensor *in,
                          ref_tensor *out) {
  (void)op;
  const ls_shape shape = out->type.shape;
  const ls_dtype dtype = out->type.dtype;
  for (int64_t k = 0; k < out->count; ++k)
    out->at[k] = ref_binary_number(
        LS_OP_MINIMUM, dtype,
        ref_binary_number(LS_OP_MAXIMUM, dtype,
                          in[1].at[ref_aligned(&in[1], shape, k)],
                          in[0].at[ref_aligned(&in[0], shape, k)]),
        in[2].at[ref_aligned(&in[2], shape, k)]);
}

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
  {                                                                            \
    .op = LS_OP_##id, .compute = ref_unary, .dtypes = (types), .one = ls_##f,  \
    __VA_ARGS__                                                                \
  }
#define TWO(id, f, types, ...)                                                 \
  {                                                                            \
    .op = LS_OP_##id, .compute = ref_binary, .dtypes = (types), .two = ls_##f, \
    __VA_ARGS__                                                                \
  }
#define COMPARE(id, f)                                                         \
  {                                                                            \
    .op = LS_OP_##id, .compute = ref_compare, .dtypes = EVERY, .two = ls_##f,  \
    .odd = true                                                                \
  }
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
    {.op = LS_OP_IS_FINITE,
     .compute = compute_is_finite,
     .dtypes = FLOATS,
     .one = ls_is_finite,
     .odd = true},
    ONE(NOT, not, INTEGERS | BOOLS, .low = -9, .high = 9),
    ONE(POPCOUNT, popcount, INTEGERS, .low = -9, .high = 9),
    ONE(COUNT_LEADING_ZEROS, count_leading_zeros, INTEGERS, .low = -9,
        .high = 9),
    {.op = LS_OP_CONVERT,
     .compute = compute_convert,
     .dtypes = EVERY,
     .make = make_convert,
     .draw = draw_convert,
     .low = -90,
     .high = 90,
     .odd = true},
    {.op = LS_OP_BITCAST,
     .compute = compute_bitcast,
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
    COMPARE(EQUAL, equal),
    COMPARE(NOT_EQUAL, not_equal),
    COMPARE(LESS, less),
    COMPARE(LESS_EQUAL, less_equal),
    COMPARE(GREATER, greater),
    COMPARE(GREATER_EQUAL, greater_equal),
    {.op = LS_OP_SELECT,
     .compute = compute_select,
     .dtypes = EVERY,
     .make = make_select,
     .draw = draw_select,
     .odd = true,
     TWICE},
    {.op = LS_OP_CLAMP,
     .compute = compute_clamp,
     .dtypes = NUMBERS,
     .make = make_clamp,
     .draw = draw_clamp,
     TWICE},
    {0},
};
