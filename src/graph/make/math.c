// SPDX-License-Identifier: Apache-2.0
//
// Op makers: mathematical functions, activations, bits, random integers.
#include "graph/make/make.h"

LS_MAKE_UNARY(ls_expm1, EXPM1)
LS_MAKE_UNARY(ls_log1p, LOG1P)
LS_MAKE_UNARY(ls_ceil, CEIL)
LS_MAKE_UNARY(ls_floor, FLOOR)
LS_MAKE_UNARY(ls_round, ROUND)
LS_MAKE_UNARY(ls_round_away, ROUND_AWAY)
LS_MAKE_UNARY(ls_cos, COS)
LS_MAKE_UNARY(ls_sin, SIN)
LS_MAKE_UNARY(ls_tan, TAN)
LS_MAKE_UNARY(ls_cbrt, CBRT)
LS_MAKE_UNARY(ls_erfc, ERFC)
LS_MAKE_UNARY(ls_is_finite, IS_FINITE)
LS_MAKE_UNARY(ls_softplus, SOFTPLUS)
LS_MAKE_UNARY(ls_gelu, GELU)
LS_MAKE_UNARY(ls_popcount, POPCOUNT)
LS_MAKE_UNARY(ls_count_leading_zeros, COUNT_LEADING_ZEROS)

LS_MAKE_BINARY(ls_atan2, ATAN2)
LS_MAKE_BINARY(ls_remainder, REMAINDER)
LS_MAKE_BINARY(ls_gelu_grad, GELU_GRAD)
LS_MAKE_BINARY(ls_xor, XOR)
LS_MAKE_BINARY(ls_shift_left, SHIFT_LEFT)
LS_MAKE_BINARY(ls_shift_right_arithmetic, SHIFT_RIGHT_ARITHMETIC)
LS_MAKE_BINARY(ls_shift_right_logical, SHIFT_RIGHT_LOGICAL)

ls_tensor ls_bitcast(ls_tensor x, ls_dtype dtype) {
  if (ls_tensor_dtype(x) == dtype) return x;
  const ls_attr attr = LS_OWN_T(DTYPE, dtype);
  return ls_make(LS_OP_BITCAST, &x, 1, &attr, 1);
}

// ---- Activations -----------------------------------------------------------
ls_tensor ls_silu(ls_tensor x) { return ls_mul(x, ls_sigmoid(x)); }

// Takes the exponential of min(x, 0), because an infinity in the branch that is
// not used would make the gradient NaN.
ls_tensor ls_elu(ls_tensor x, double alpha) {
  const ls_tensor zero = ls_scalar(ls_tensor_dtype(x), 0);
  const ls_tensor positive = ls_greater(x, zero);
  const ls_tensor below = ls_expm1(ls_minimum(x, zero));
  return ls_select(positive, x,
                   alpha == 1 ? below : ls_mul_scalar(below, alpha));
}

ls_tensor ls_leaky_relu(ls_tensor x, double slope) {
  const ls_tensor positive = ls_greater(x, ls_scalar(ls_tensor_dtype(x), 0));
  return ls_select(positive, x, ls_mul_scalar(x, slope));
}

// ---- Reductions ------------------------------------------------------------
LS_MAKE_REDUCE(ls_reduce_product, PRODUCT, false)
LS_MAKE_REDUCE(ls_reduce_product_keep, PRODUCT, true)
LS_MAKE_REDUCE(ls_reduce_and, AND, false)
LS_MAKE_REDUCE(ls_reduce_or, OR, false)

// ---- Random ----------------------------------------------------------------
ls_tensor ls_random_truncated_normal(ls_dtype dtype, ls_shape shape,
                                     double mean, double deviation,
                                     const ls_random_options *options) {
  const ls_attr own[] = {LS_OWN_F(MEAN, mean), LS_OWN_F(DEVIATION, deviation)};
  return ls_make_random(LS_OP_RANDOM_TRUNCATED_NORMAL, dtype, shape, own, 2,
                        options);
}

ls_tensor ls_random_unsigned(ls_dtype dtype, ls_shape shape,
                             const ls_random_options *options) {
  return ls_make_random(LS_OP_RANDOM_BITS, dtype, shape, NULL, 0, options);
}

ls_tensor ls_random_permutation(ls_dtype dtype, int64_t count,
                                const ls_random_options *options) {
  if (count < 0)
    return ls_make_failed(
        "random_permutation",
        ls_invalid_argument("a permutation of %lld", (long long)count));
  return ls_make_random(LS_OP_RANDOM_PERMUTATION, dtype, LS_SHAPE(count), NULL,
                        0, options);
}
