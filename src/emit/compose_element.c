// SPDX-License-Identifier: Apache-2.0
//
// Emits elementwise ops that languages lack, and those whose results at the
// edges are ours: integer division by zero, conversion out of range, rounding
// to 16 bits in one step.
#include <math.h>

#include "emit/emit.h"
#include "lockstep/shape_rules.h"

ls_emitted ls_emit_wide(ls_emitter *e, ls_emitted x) {
  const ls_dtype dtype = ls_dtype_at(e, x);
  const bool narrow = dtype == LS_DTYPE_F16 || dtype == LS_DTYPE_BF16;
  return narrow ? ls_emit_convert(e, x, LS_DTYPE_F32) : x;
}

ls_emitted ls_emit_reciprocal(ls_emitter *e, ls_emitted x) {
  return ls_emit_2(e, LS_OP_DIV, ls_emit_number(e, x, 1), x);
}

static ls_emitted relu(ls_emitter *e, ls_emitted x) {
  return ls_emit_2(e, LS_OP_MAXIMUM, x, ls_emit_number(e, x, 0));
}

ls_emitted ls_emit_activation(ls_emitter *e, ls_emitted x) {
  return ls_node_attr(e->node, LS_ATTR_ID_ACTIVATION) != NULL ? relu(e, x) : x;
}

// Compares x with a number.
static ls_emitted compare_number(ls_emitter *e, uint16_t op, ls_emitted x,
                                 double number) {
  return ls_emit_2(e, op, x, ls_emit_number(e, x, number));
}

// Computes c[0] x^(count - 1) + ... + c[count - 1] by Horner's rule.
static ls_emitted polynomial(ls_emitter *e, ls_emitted x, const double *c,
                             size_t count) {
  ls_emitted sum = ls_emit_number(e, x, c[0]);
  for (size_t i = 1; i < count; ++i)
    sum = ls_emit_add(e, ls_emit_mul(e, sum, x), ls_emit_number(e, x, c[i]));
  return sum;
}
#define POLYNOMIAL(e, x, c) polynomial(e, x, c, LS_COUNT_OF(c))

// ---- Activations -----------------------------------------------------------
// Parts of gelu, x s with s = sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
// Limits operands of f32 to [-10, 10], where the sigmoid ends.
typedef struct gelu_parts {
  ls_emitted x, near;  // Limited below, and on both sides.
  ls_emitted sigmoid;  // s
  ls_emitted rest;     // 1 - s
  ls_emitted square;   // of `near`
} gelu_parts;

#define GELU_A 1.5957691216057308   // 2 sqrt(2 / pi)
#define GELU_B 0.07135481627260025  // A times 0.044715

static gelu_parts gelu_begin(ls_emitter *e, ls_emitted x) {
  const double end = ls_dtype_at(e, x) == LS_DTYPE_F64 ? 21 : 10;
  gelu_parts g = {
      .x = ls_emit_2(e, LS_OP_MAXIMUM, x, ls_emit_number(e, x, -end))};
  g.near = ls_emit_2(e, LS_OP_MINIMUM, g.x, ls_emit_number(e, x, end));
  g.square = ls_emit_mul(e, g.near, g.near);
  const ls_emitted slope =
      ls_emit_sub(e, ls_emit_number(e, x, -GELU_A),
                  ls_emit_mul(e, g.square, ls_emit_number(e, x, GELU_B)));
  const ls_emitted power =
      ls_emit_1(e, LS_OP_EXP, ls_emit_mul(e, g.near, slope));
  g.sigmoid =
      ls_emit_reciprocal(e, ls_emit_add(e, ls_emit_number(e, x, 1), power));
  g.rest = ls_emit_mul(e, power, g.sigmoid);
  return g;
}

static ls_emitted gelu(ls_emitter *e, ls_emitted x) {
  const gelu_parts g = gelu_begin(e, x);
  return ls_emit_mul(e, g.x, g.sigmoid);
}

// Computes dy (s + x s (1 - s) (2u)').
static ls_emitted gelu_grad(ls_emitter *e, ls_emitted dy, ls_emitted x) {
  const gelu_parts g = gelu_begin(e, x);
  const ls_emitted inner =
      ls_emit_add(e, ls_emit_mul(e, g.square, ls_emit_number(e, x, 3 * GELU_B)),
                  ls_emit_number(e, x, GELU_A));
  const ls_emitted product =
      ls_emit_mul(e, ls_emit_mul(e, g.sigmoid, g.rest), g.near);
  return ls_emit_mul(e, dy,
                     ls_emit_add(e, ls_emit_mul(e, product, inner), g.sigmoid));
}

// Computes max(x, 0) + log(1 + e^-|x|).
static ls_emitted softplus(ls_emitter *e, ls_emitted x) {
  const ls_emitted below = ls_emit_1(e, LS_OP_NEG, ls_emit_1(e, LS_OP_ABS, x));
  return ls_emit_add(e, relu(e, x),
                     ls_emit_1(e, LS_OP_LOG1P, ls_emit_1(e, LS_OP_EXP, below)));
}

// ---- Error function --------------------------------------------------------
// The polynomials are those of engine/cpu: isa/vecmath.h and elementary/
// f64erf.h.

// Computes erf of f32: up to 0.8 x + x p(x^2), above 1 - e^(-t - t q(t)).
static ls_emitted erf_f32(ls_emitter *e, ls_emitted x) {
  static const double p[] = {-0.000653523894, 0.00508513069, -0.0268208068,
                             0.112831131,     -0.376126021,  0.128379166};
  static const double q[] = {-0.000216262153, 0.00323351007, -0.0229487009,
                             0.105352171,     0.635650814,   0.128533989};
  const ls_emitted small = ls_emit_add(
      e, ls_emit_mul(e, POLYNOMIAL(e, ls_emit_mul(e, x, x), p), x), x);
  const ls_emitted size = ls_emit_1(e, LS_OP_ABS, x);
  const ls_emitted t =
      ls_emit_2(e, LS_OP_MINIMUM, size, ls_emit_number(e, x, 3.95));
  const ls_emitted power = ls_emit_1(
      e, LS_OP_EXP,
      ls_emit_1(e, LS_OP_NEG,
                ls_emit_add(e, ls_emit_mul(e, POLYNOMIAL(e, t, q), t), t)));
  const ls_emitted large =
      ls_emit_mul(e, ls_emit_1(e, LS_OP_SIGN, x),
                  ls_emit_sub(e, ls_emit_number(e, x, 1), power));
  return ls_emit_select(e, compare_number(e, LS_OP_GREATER, size, 0.8), large,
                        small);
}

// Computes erf of f64 for |x| < 0.72.
static ls_emitted erf_small(ls_emitter *e, ls_emitted x) {
  static const double p[] = {
      0x1.89e42141c9ba5p-27,  -0x1.5641db9181527p-23, 0x1.b90cc3be9b229p-20,
      -0x1.f4c5b36e42fdfp-17, 0x1.f9a2ad76db591p-14,  -0x1.c02db110bca79p-11,
      0x1.565bcd0311866p-8,   -0x1.b82ce312556d1p-6,  0x1.ce2f21a042470p-4,
      -0x1.812746b0379e0p-2,  0x1.20dd750429b6dp+0};
  return ls_emit_mul(e, x, POLYNOMIAL(e, ls_emit_mul(e, x, x), p));
}

// Computes erfc of f64 for a from 0.3 on, as e^(-a^2) / (1 + 2a) times a
// polynomial in (a - 4) / (a + 4). The exponent is -s^2 + (s - a) (s + a), with
// the upper half of a's bits as s, whose square is exact.
static ls_emitted erfc_large(ls_emitter *e, ls_emitted a) {
  static const double p[] = {
      -0x1.7241cc632f941p-27, -0x1.a6c5738782cf9p-27, 0x1.c99e52fc70b52p-24,
      0x1.20b6fc635c8e3p-24,  -0x1.ba2ffd5f95d43p-21, 0x1.416e9a0760b04p-22,
      0x1.7f26a5fdfe83bp-18,  -0x1.78a2c5e5de5ddp-17, -0x1.995a37a3b2736p-16,
      0x1.3be0d15c14683p-13,  -0x1.a1df163dc1d34p-13, -0x1.8d4aa139dd0d5p-11,
      0x1.49c6726aa03ecp-8,   -0x1.0962387dd55bep-6,  0x1.3079edf6ee127p-5,
      -0x1.0fb06dfe6acc4p-4,  0x1.7fee004e0eea2p-4,   -0x1.9ddb23c3e7cd6p-4,
      0x1.16ecefcfa5525p-4,   0x1.f7f5df66fd564p-7,   -0x1.1df1ad154a290p-3,
      0x1.3ba5916e9fd7fp+0};
  a = ls_emit_2(e, LS_OP_MINIMUM, a, ls_emit_number(e, a, 28));
  const ls_emitted four = ls_emit_number(e, a, 4);
  const ls_emitted t =
      ls_emit_2(e, LS_OP_DIV, ls_emit_sub(e, a, four), ls_emit_add(e, a, four));
  const ls_emitted bits =
      ls_emit_2(e, LS_OP_AND, ls_emit_bitcast(e, a, LS_DTYPE_I64),
                ls_emit_scalar(e, LS_DTYPE_I64, -0x1p27));
  const ls_emitted s = ls_emit_bitcast(e, bits, LS_DTYPE_F64);
  const ls_emitted rest =
      ls_emit_mul(e, ls_emit_sub(e, s, a), ls_emit_add(e, s, a));
  const ls_emitted power = ls_emit_mul(
      e, ls_emit_1(e, LS_OP_EXP, ls_emit_1(e, LS_OP_NEG, ls_emit_mul(e, s, s))),
      ls_emit_1(e, LS_OP_EXP, rest));
  const ls_emitted under =
      ls_emit_add(e, ls_emit_add(e, a, a), ls_emit_number(e, a, 1));
  return ls_emit_2(e, LS_OP_DIV, ls_emit_mul(e, power, POLYNOMIAL(e, t, p)),
                   under);
}

static ls_emitted error_function(ls_emitter *e, ls_emitted x, bool complement) {
  if (e->language->is_lenient) {
    const ls_emitted y = ls_emit_1(e, LS_OP_ERF, x);
    return complement ? ls_emit_sub(e, ls_emit_number(e, x, 1), y) : y;
  }
  const ls_dtype dtype = ls_dtype_at(e, x);
  if (dtype == LS_DTYPE_F32 && !complement) return erf_f32(e, x);
  x = ls_emit_convert(e, x, LS_DTYPE_F64);
  const ls_emitted size = ls_emit_1(e, LS_OP_ABS, x);
  const ls_emitted one = ls_emit_number(e, x, 1);
  ls_emitted small = erf_small(e, x), large = erfc_large(e, size);
  if (complement) {
    small = ls_emit_sub(e, one, small);
    large =
        ls_emit_select(e, compare_number(e, LS_OP_LESS, x, 0),
                       ls_emit_sub(e, ls_emit_number(e, x, 2), large), large);
  } else {
    large =
        ls_emit_mul(e, ls_emit_1(e, LS_OP_SIGN, x), ls_emit_sub(e, one, large));
  }
  const ls_emitted is_small =
      compare_number(e, LS_OP_LESS, size, complement ? 0.3 : 0.72);
  return ls_emit_convert(e, ls_emit_select(e, is_small, small, large), dtype);
}

// ---- Integers --------------------------------------------------------------
// Divides integers: by 0 gives all bits set, and the remainder x.
static ls_emitted divide(ls_emitter *e, ls_emitted x, ls_emitted y) {
  const bool rest = e->node->type == LS_OP_REMAINDER;
  const ls_dtype dtype = ls_dtype_at(e, x);
  const bool is_signed = !ls_dtype_is_unsigned(dtype);
  const ls_emitted zero = ls_emit_number(e, x, 0);
  const ls_emitted is_zero = ls_emit_2(e, LS_OP_EQUAL, y, zero);
  ls_emitted is_odd = is_zero, minus = 0;
  if (is_signed) {
    minus = compare_number(e, LS_OP_EQUAL, y, -1);
    is_odd = ls_emit_2(e, LS_OP_OR, is_zero, minus);
  }
  const ls_emitted divisor =
      ls_emit_select(e, is_odd, ls_emit_number(e, x, 1), y);
  ls_emitted z = ls_emit_2(e, e->node->type, x, divisor);
  if (is_signed && !rest)
    z = ls_emit_select(e, minus, ls_emit_1(e, LS_OP_NEG, x), z);
  const ls_emitted by_zero = rest        ? x
                             : is_signed ? ls_emit_number(e, x, -1)
                                         : ls_emit_extreme(e, dtype, false);
  return ls_emit_select(e, is_zero, by_zero, z);
}

// Raises integers to a power that is not negative, by squaring: XLA's own op
// looks at six bits of the exponent.
static ls_emitted whole_power(ls_emitter *e, ls_emitted x, ls_emitted y) {
  const ls_dtype dtype = ls_dtype_at(e, x);
  const int bits = 8 * (int)ls_dtype_size(dtype) - !ls_dtype_is_unsigned(dtype);
  const ls_emitted one = ls_emit_number(e, x, 1);
  ls_emitted product = one;
  for (int i = 0; i < bits; ++i) {
    const ls_emitted is_set =
        ls_emit_2(e, LS_OP_EQUAL, ls_emit_2(e, LS_OP_AND, y, one), one);
    product = ls_emit_mul(e, product, ls_emit_select(e, is_set, x, one));
    if (i + 1 == bits) break;
    x = ls_emit_mul(e, x, x);
    y = ls_emit_2(e, LS_OP_SHIFT_RIGHT_LOGICAL, y, one);
  }
  return product;
}

// Raises integers to a power: x^-n is 1 / x^n towards zero, all bits set for 0.
static ls_emitted power(ls_emitter *e, ls_emitted x, ls_emitted y) {
  if (ls_dtype_is_unsigned(ls_dtype_at(e, x))) return whole_power(e, x, y);
  const ls_emitted zero = ls_emit_number(e, x, 0);
  const ls_emitted one = ls_emit_number(e, x, 1);
  const ls_emitted minus = ls_emit_number(e, x, -1);
  const ls_emitted is_even =
      ls_emit_2(e, LS_OP_EQUAL, ls_emit_2(e, LS_OP_AND, y, one), zero);
  ls_emitted below =
      ls_emit_select(e, ls_emit_2(e, LS_OP_EQUAL, x, minus),
                     ls_emit_select(e, is_even, one, minus), zero);
  below = ls_emit_select(e, ls_emit_2(e, LS_OP_EQUAL, x, one), one, below);
  below = ls_emit_select(e, ls_emit_2(e, LS_OP_EQUAL, x, zero), minus, below);
  return ls_emit_select(e, ls_emit_2(e, LS_OP_LESS, y, zero), below,
                        whole_power(e, x, y));
}

// Converts a float to an integer: towards zero, to the nearest limit, a NaN to
// 0.
static ls_emitted float_to_integer(ls_emitter *e, ls_emitted x, ls_dtype to) {
  x = ls_emit_wide(e, x);
  const bool is_signed = !ls_dtype_is_unsigned(to);
  const double bound = ldexp(1, 8 * (int)ls_dtype_size(to) - is_signed);
  const ls_emitted is_above = compare_number(e, LS_OP_GREATER_EQUAL, x, bound);
  const ls_emitted is_below =
      compare_number(e, LS_OP_LESS_EQUAL, x, is_signed ? -bound : 0);
  const ls_emitted is_within =
      ls_emit_2(e, LS_OP_AND, compare_number(e, LS_OP_LESS, x, bound),
                ls_emit_1(e, LS_OP_NOT, is_below));
  const ls_emitted y = ls_emit_convert(
      e, ls_emit_select(e, is_within, x, ls_emit_number(e, x, 0)), to);
  return ls_emit_select(
      e, is_above, ls_emit_extreme(e, to, false),
      ls_emit_select(e, is_below, ls_emit_extreme(e, to, true), y));
}

// ---- Rounding to 16 bits ---------------------------------------------------
// Replaces the low 12 bits of integers from 2^53 on by one that says if any was
// set: f64 holds what is left.
static ls_emitted integer_to_f64(ls_emitter *e, ls_emitted x) {
  const ls_dtype dtype = ls_dtype_at(e, x);
  if (ls_dtype_size(dtype) == 8) {
    const ls_emitted low =
        ls_emit_2(e, LS_OP_AND, x, ls_emit_number(e, x, 4095));
    const ls_emitted sticky =
        ls_emit_select(e, compare_number(e, LS_OP_EQUAL, low, 0), low,
                       ls_emit_number(e, x, 2048));
    const ls_emitted cut = ls_emit_add(e, ls_emit_sub(e, x, low), sticky);
    ls_emitted is_large = compare_number(e, LS_OP_GREATER, x, 0x1p53);
    if (dtype == LS_DTYPE_I64)
      is_large = ls_emit_2(e, LS_OP_OR, is_large,
                           compare_number(e, LS_OP_LESS, x, -0x1p53));
    x = ls_emit_select(e, is_large, cut, x);
  }
  return ls_emit_convert(e, x, LS_DTYPE_F64);
}

// Rounds f64 to f32 so that a second rounding gives what one would: towards
// zero, with the last bit set if that is not exact.
static ls_emitted round_to_odd(ls_emitter *e, ls_emitted x) {
  const ls_emitted y = ls_emit_convert(e, x, LS_DTYPE_F32);
  const ls_emitted back = ls_emit_convert(e, y, LS_DTYPE_F64);
  const ls_emitted is_away =
      ls_emit_2(e, LS_OP_GREATER, ls_emit_1(e, LS_OP_ABS, back),
                ls_emit_1(e, LS_OP_ABS, x));
  const ls_emitted bits = ls_emit_bitcast(e, y, LS_DTYPE_U32);
  const ls_emitted one = ls_emit_scalar(e, LS_DTYPE_U32, 1);
  const ls_emitted cut =
      ls_emit_select(e, is_away, ls_emit_sub(e, bits, one), bits);
  const ls_emitted odd = ls_emit_select(e, ls_emit_2(e, LS_OP_EQUAL, back, x),
                                        bits, ls_emit_2(e, LS_OP_OR, cut, one));
  return ls_emit_bitcast(e, odd, LS_DTYPE_F32);
}

static ls_emitted convert(ls_emitter *e, ls_emitted x, ls_dtype to) {
  const ls_dtype from = ls_dtype_at(e, x);
  if (ls_dtype_is_float(from) && ls_dtype_is_integer(to))
    return float_to_integer(e, x, to);
  if ((to == LS_DTYPE_F16 || to == LS_DTYPE_BF16) && ls_dtype_size(from) >= 4 &&
      from != LS_DTYPE_F32)
    x = round_to_odd(e, from == LS_DTYPE_F64 ? x : integer_to_f64(e, x));
  return ls_emit_convert(e, x, to);
}

// ---- Several operands ------------------------------------------------------
ls_emitted ls_emit_tree(ls_emitter *e, uint16_t op, const ls_emitted *items,
                        int32_t count) {
  int32_t split = 1;
  if (count == 1) return ls_emit_wide(e, items[0]);
  while (split * 2 < count)
    split *= 2;
  const ls_emitted left = ls_emit_tree(e, op, items, split);
  return ls_emit_2(e, op, left,
                   ls_emit_tree(e, op, items + split, count - split));
}

static ls_emitted clamp(ls_emitter *e) {
  const ls_emitted above =
      ls_emit_2(e, LS_OP_MAXIMUM, ls_operand(e, 1), ls_operand(e, 0));
  return ls_emit_2(e, LS_OP_MINIMUM, above, ls_operand(e, 2));
}

// Emits the current op, whose first operand is x, a 16-bit float as f32.
static ls_emitted compute(ls_emitter *e, ls_emitted x) {
  switch (e->node->type) {
  case LS_OP_SIGMOID:
    return ls_emit_1(e, LS_OP_SIGMOID, x);
  case LS_OP_RELU:
    return relu(e, x);
  case LS_OP_RELU_GRAD:
    return ls_emit_select(e,
                          compare_number(e, LS_OP_GREATER, ls_operand(e, 1), 0),
                          x, ls_emit_number(e, x, 0));
  case LS_OP_GELU:
    return gelu(e, x);
  case LS_OP_GELU_GRAD:
    return gelu_grad(e, x, ls_emit_wide(e, ls_operand(e, 1)));
  case LS_OP_SOFTPLUS:
    return softplus(e, x);
  case LS_OP_RSQRT:
    return ls_emit_reciprocal(e, ls_emit_1(e, LS_OP_SQRT, x));
  case LS_OP_ERF:
    return error_function(e, x, false);
  default:  // LS_OP_ERFC
    return error_function(e, x, true);
  }
}

// Emits ops of integers that have rules of their own; 0: none of these.
static ls_emitted compute_integers(ls_emitter *e) {
  const ls_emitted x = ls_operand(e, 0);
  const bool is_unsigned = ls_dtype_is_unsigned(ls_dtype_at(e, x));
  switch (e->node->type) {
  case LS_OP_ABS:
    return is_unsigned ? x : 0;
  case LS_OP_SIGN:
    return is_unsigned ? ls_emit_2(e, LS_OP_MINIMUM, x, ls_emit_number(e, x, 1))
                       : 0;
  case LS_OP_DIV:
  case LS_OP_REMAINDER:
    return divide(e, x, ls_operand(e, 1));
  case LS_OP_POW:
    return power(e, x, ls_operand(e, 1));
  default:
    return 0;
  }
}

bool ls_compose_element(ls_emitter *e) {
  const ls_node *node = e->node;
  static const uint16_t ops[] = {
      LS_OP_SIGMOID,  LS_OP_RELU,  LS_OP_RELU_GRAD, LS_OP_GELU, LS_OP_GELU_GRAD,
      LS_OP_SOFTPLUS, LS_OP_RSQRT, LS_OP_ERF,       LS_OP_ERFC};
  ls_emitted y = 0;
  if (node->num_outputs == 0) return false;
  for (size_t i = 0; i < LS_COUNT_OF(ops); ++i)
    if (ops[i] == node->type) y = compute(e, ls_emit_wide(e, ls_operand(e, 0)));
  if (node->type == LS_OP_CLAMP)
    y = clamp(e);
  else if (y == 0 && !e->language->is_lenient && node->type == LS_OP_CONVERT)
    y = convert(e, ls_operand(e, 0), node->outputs[0].dtype);
  else if (y == 0 && !e->language->is_lenient && node->num_inputs > 0 &&
           ls_dtype_is_integer(node->outputs[0].dtype))
    y = compute_integers(e);
  if (y != 0) ls_compose_give(e, ls_emit_convert(e, y, node->outputs[0].dtype));
  return y != 0 || !ls_emit_is_ok(e);
}
