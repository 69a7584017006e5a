// SPDX-License-Identifier: Apache-2.0
//
// The reference: ops that work element by element.
#include <math.h>

#include "lockstep/shape_rules.h"
#include "support/expect.h"
#include "support/reference_ops.h"

static double inner(double x) {
  return 2 * sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
}

static double gelu(double x) { return x / (1 + exp(-inner(x))); }

static ref_number gelu_slope(double x) {
  const double s = 1 / (1 + exp(-inner(x))), rest = 1 / (1 + exp(inner(x)));
  const double du =
      2 * sqrt(2 / 3.14159265358979323846) * (1 + 3 * 0.044715 * x * x);
  ref_number slope = ref_sum(LS_DTYPE_F64, ref_real_number(s),
                             ref_real_number(x * s * rest * du));
  slope.terms *= 1 + fabs(inner(x));  // What rounding that does to e to it.
  return slope;
}

// ---- One operand -----------------------------------------------------------
static double unary_real(uint16_t type, double x) {
  switch (type) {
  case LS_OP_NEG:
    return -x;
  case LS_OP_ABS:
    return fabs(x);
  case LS_OP_SIGN:
    return isnan(x) ? x : (double)((x > 0) - (x < 0));
  case LS_OP_EXP:
    return exp(x);
  case LS_OP_LOG:
    return log(x);
  case LS_OP_SQRT:
    return sqrt(x);
  case LS_OP_RSQRT:
    return 1 / sqrt(x);
  case LS_OP_TANH:
    return tanh(x);
  case LS_OP_SIGMOID:
    return 1 / (1 + exp(-x));
  case LS_OP_ERF:
    return erf(x);
  case LS_OP_ERFC:
    return erfc(x);
  case LS_OP_RELU:
    return x > 0 || isnan(x) ? x : 0;
  case LS_OP_EXPM1:
    return expm1(x);
  case LS_OP_LOG1P:
    return log1p(x);
  case LS_OP_CEIL:
    return ceil(x);
  case LS_OP_FLOOR:
    return floor(x);
  case LS_OP_ROUND:
    return x - remainder(x, 1.0);
  case LS_OP_ROUND_AWAY:
    return round(x);
  case LS_OP_COS:
    return cos(x);
  case LS_OP_SIN:
    return sin(x);
  case LS_OP_TAN:
    return tan(x);
  case LS_OP_CBRT:
    return cbrt(x);
  case LS_OP_SOFTPLUS:
    return fmax(x, 0) + log1p(exp(-fabs(x)));
  case LS_OP_GELU:
    return gelu(x);
  default:
    fail_msg("%s of a float", ls_op_table[type].name);
    return 0;
  }
}

static int64_t count_ones(uint64_t x) {
  int64_t count = 0;
  for (; x != 0; x >>= 1)
    count += (int64_t)(x & 1);
  return count;
}

// The bits of an integer, without copies of the sign above them.
static uint64_t bits_of(ls_dtype dtype, int64_t x) {
  const unsigned width = 8 * (unsigned)ls_dtype_size(dtype);
  return width == 64 ? (uint64_t)x : (uint64_t)x & ((UINT64_C(1) << width) - 1);
}

static int64_t leading_zeros(ls_dtype dtype, int64_t x) {
  int64_t count = 8 * (int64_t)ls_dtype_size(dtype);
  for (uint64_t bits = bits_of(dtype, x); bits != 0; bits >>= 1)
    --count;
  return count;
}

static int64_t unary_whole(uint16_t type, ls_dtype dtype, int64_t x) {
  const bool negative = x < 0 && !ls_dtype_is_unsigned(dtype);
  const int64_t minus = (int64_t)(0 - (uint64_t)x);
  switch (type) {
  case LS_OP_NEG:
    return minus;
  case LS_OP_ABS:
    return negative ? minus : x;
  case LS_OP_SIGN:
    return negative ? -1 : x != 0;
  case LS_OP_RELU:
    return negative ? 0 : x;
  case LS_OP_NOT:
    return dtype == LS_DTYPE_BOOL ? !x : ~x;
  case LS_OP_POPCOUNT:
    return count_ones(bits_of(dtype, x));
  case LS_OP_COUNT_LEADING_ZEROS:
    return leading_zeros(dtype, x);
  default:
    fail_msg("%s of an integer", ls_op_table[type].name);
    return 0;
  }
}

void ref_unary(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const ls_dtype dtype = out->type.dtype;
  for (int64_t k = 0; k < out->count; ++k) {
    if (ls_dtype_is_float(dtype))
      out->at[k].real = unary_real(op->type, in->at[k].real);
    else
      out->at[k].whole = unary_whole(op->type, dtype, in->at[k].whole);
  }
}

// ---- Two operands ----------------------------------------------------------
static double binary_real(uint16_t type, double x, double y) {
  switch (type) {
  case LS_OP_ADD:
    return x + y;
  case LS_OP_SUB:
    return x - y;
  case LS_OP_MUL:
    return x * y;
  case LS_OP_DIV:
    return x / y;
  case LS_OP_MAXIMUM:
    return isnan(x) || isnan(y) ? (double)NAN : fmax(x, y);
  case LS_OP_MINIMUM:
    return isnan(x) || isnan(y) ? (double)NAN : fmin(x, y);
  case LS_OP_POW:
    return pow(x, y);
  case LS_OP_RELU_GRAD:
    return y > 0 ? x : 0;
  case LS_OP_ATAN2:
    return atan2(x, y);
  case LS_OP_REMAINDER:
    return fmod(x, y);
  default:
    fail_msg("%s of floats", ls_op_table[type].name);
    return 0;
  }
}

// x^-n is 1 / x^n towards zero, all bits set for 0.
static int64_t power(ls_dtype dtype, int64_t x, int64_t y) {
  if (y < 0 && !ls_dtype_is_unsigned(dtype)) {
    if (x == 0) return -1;
    if (x == 1) return 1;
    return x != -1 ? 0 : y % 2 == 0 ? 1 : -1;
  }
  if (y == 0) return 1;
  const int64_t half = power(LS_DTYPE_U64, x, (int64_t)((uint64_t)y / 2));
  const uint64_t square = (uint64_t)half * (uint64_t)half;
  return (int64_t)((uint64_t)y % 2 == 0 ? square : square * (uint64_t)x);
}

static int64_t quotient(ls_dtype dtype, int64_t x, int64_t y, bool rest) {
  if (y == 0) return rest ? x : -1;
  if (dtype == LS_DTYPE_U64) {
    const uint64_t a = (uint64_t)x, b = (uint64_t)y;
    return (int64_t)(rest ? a % b : a / b);
  }
  if (y == -1) return rest ? 0 : (int64_t)(0 - (uint64_t)x);
  return rest ? x % y : x / y;
}

static int64_t shifted(uint16_t type, ls_dtype dtype, int64_t x, int64_t y) {
  const int64_t width = 8 * (int64_t)ls_dtype_size(dtype);
  const uint64_t bits = bits_of(dtype, x);
  const bool top = (bits >> (width - 1) & 1) != 0;
  uint64_t result = 0;
  for (int64_t to = 0; to < width; ++to) {
    // Bit `to` comes from bit `from`, if there is one.
    const bool moves = y >= 0 && y < width;
    const int64_t sign = type == LS_OP_SHIFT_LEFT ? -1 : 1;
    const int64_t from = moves ? to + sign * y : -1;
    bool set = type == LS_OP_SHIFT_RIGHT_ARITHMETIC && top;
    if (from >= 0 && from < width) set = (bits >> from & 1) != 0;
    result |= (uint64_t)set << to;
  }
  return (int64_t)result;
}

static int64_t binary_whole(uint16_t type, ls_dtype dtype, int64_t x,
                            int64_t y) {
  const int order =
      ref_order(dtype, (ref_number){.whole = x}, (ref_number){.whole = y});
  const bool positive = ls_dtype_is_unsigned(dtype) ? y != 0 : y > 0;
  switch (type) {
  case LS_OP_ADD:
    return (int64_t)((uint64_t)x + (uint64_t)y);
  case LS_OP_SUB:
    return (int64_t)((uint64_t)x - (uint64_t)y);
  case LS_OP_MUL:
    return (int64_t)((uint64_t)x * (uint64_t)y);
  case LS_OP_DIV:
    return quotient(dtype, x, y, false);
  case LS_OP_REMAINDER:
    return quotient(dtype, x, y, true);
  case LS_OP_MAXIMUM:
    return order > 0 ? x : y;
  case LS_OP_MINIMUM:
    return order < 0 ? x : y;
  case LS_OP_POW:
    return power(dtype, x, y);
  case LS_OP_AND:
    return x & y;
  case LS_OP_OR:
    return x | y;
  case LS_OP_XOR:
    return x ^ y;
  case LS_OP_RELU_GRAD:
    return positive ? x : 0;
  case LS_OP_SHIFT_LEFT:
  case LS_OP_SHIFT_RIGHT_ARITHMETIC:
  case LS_OP_SHIFT_RIGHT_LOGICAL:
    return shifted(type, dtype, x, y);
  default:
    fail_msg("%s of integers", ls_op_table[type].name);
    return 0;
  }
}

ref_number ref_binary_number(uint16_t type, ls_dtype dtype, ref_number a,
                             ref_number b) {
  if (type == LS_OP_GELU_GRAD) return ref_product(dtype, a, gelu_slope(b.real));
  if (ls_dtype_is_float(dtype))
    return ref_real_number(binary_real(type, a.real, b.real));
  return (ref_number){.whole = binary_whole(type, dtype, a.whole, b.whole)};
}

void ref_binary(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const ls_shape shape = out->type.shape;
  for (int64_t k = 0; k < out->count; ++k)
    out->at[k] = ref_binary_number(op->type, out->type.dtype,
                                   in[0].at[ref_aligned(&in[0], shape, k)],
                                   in[1].at[ref_aligned(&in[1], shape, k)]);
}

static bool holds(uint16_t type, int order) {
  switch (type) {
  case LS_OP_EQUAL:
    return order == 0;
  case LS_OP_NOT_EQUAL:
    return order != 0;
  case LS_OP_LESS:
    return order < 0;
  case LS_OP_LESS_EQUAL:
    return order <= 0;
  case LS_OP_GREATER:
    return order > 0;
  default:
    return order >= 0;
  }
}

void ref_compare(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const ls_shape shape = out->type.shape;
  const ls_dtype dtype = in[0].type.dtype;
  for (int64_t k = 0; k < out->count; ++k) {
    const ref_number a = in[0].at[ref_aligned(&in[0], shape, k)];
    const ref_number b = in[1].at[ref_aligned(&in[1], shape, k)];
    const bool ordered = !isnan(a.real) && !isnan(b.real);
    out->at[k].whole = ordered ? holds(op->type, ref_order(dtype, a, b))
                               : op->type == LS_OP_NOT_EQUAL;
  }
}
