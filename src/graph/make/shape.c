// SPDX-License-Identifier: Apache-2.0
//
// Op makers: shapes, reductions, products.
#include "graph/make/make.h"
#include "lockstep/shape_rules.h"

// ---- Reshaping -------------------------------------------------------------
static ls_tensor make_sized(uint16_t type, ls_tensor x, ls_shape shape) {
  ls_size sizes[LS_MAX_RANK];
  if (shape.rank < 0 || shape.rank > LS_MAX_RANK)
    return ls_make_failed(ls_op_table[type].name,
                          ls_invalid_argument("the rank must be 0 to %d, is %d",
                                              LS_MAX_RANK, shape.rank));
  const ls_attr attr = ls_make_sizes(shape, LS_SIZE_CONSTANT, sizes);
  return ls_make(type, &x, 1, &attr, 1);
}

// Gives x the shape of `like`: by constants where sizes are known, else by the
// dimensions of `like`.
static ls_tensor sized_like(uint16_t type, ls_tensor x, ls_tensor like) {
  const ls_shape shape = ls_tensor_shape(like);
  if (ls_tensor_is_failed(like) || shape.rank == LS_UNKNOWN_RANK)
    return ls_make_unknown_rank(ls_op_table[type].name, like);
  if (ls_shape_is_known(shape)) return make_sized(type, x, shape);
  ls_size sizes[LS_MAX_RANK];
  const ls_attr attr = ls_make_sizes(shape, 1, sizes);
  return ls_make(type, (const ls_tensor[]){x, like}, 2, &attr, 1);
}

ls_tensor ls_reshape(ls_tensor x, ls_shape shape) {
  return make_sized(LS_OP_RESHAPE, x, shape);
}

ls_tensor ls_reshape_like(ls_tensor x, ls_tensor like) {
  return sized_like(LS_OP_RESHAPE, x, like);
}

ls_tensor ls_broadcast(ls_tensor x, ls_shape shape) {
  return make_sized(LS_OP_BROADCAST, x, shape);
}

ls_tensor ls_broadcast_like(ls_tensor x, ls_tensor like) {
  return sized_like(LS_OP_BROADCAST, x, like);
}

ls_tensor ls_sum_to_like(ls_tensor x, ls_tensor like) {
  const ls_shape have = ls_tensor_shape(x), want = ls_tensor_shape(like);
  if (ls_shape_is_known(have) && ls_shape_equal(have, want)) return x;
  return sized_like(LS_OP_SUM_TO, x, like);
}

ls_tensor ls_transpose(ls_tensor x, const int *permutation) {
  const int32_t rank = ls_tensor_shape(x).rank;
  if (ls_tensor_is_failed(x) || rank == LS_UNKNOWN_RANK)
    return ls_make_unknown_rank("transpose", x);
  int64_t items[LS_MAX_RANK];
  for (int i = 0; i < rank; ++i)
    items[i] = permutation != NULL ? permutation[i] : rank - 1 - i;
  const ls_attr attr = LS_OWN_IS(PERMUTATION, items, (size_t)rank);
  return ls_make(LS_OP_TRANSPOSE, &x, 1, &attr, 1);
}

// ---- Reductions ------------------------------------------------------------
ls_tensor ls_make_reduce(uint16_t type, ls_tensor x, ls_axes axes, bool keep) {
  const int32_t rank = ls_tensor_shape(x).rank;
  int64_t items[LS_MAX_RANK];
  size_t count = axes.all ? (size_t)(rank < 0 ? 0 : rank) : axes.count;
  if (ls_tensor_is_failed(x) || rank == LS_UNKNOWN_RANK)
    return ls_make_unknown_rank(ls_op_table[type].name, x);
  if (count > LS_MAX_RANK)
    return ls_make_failed(
        ls_op_table[type].name,
        ls_invalid_argument("%zu axes, the value has rank %d", count, rank));
  for (size_t i = 0; i < count; ++i) {
    items[i] = axes.all ? (int64_t)i : ls_make_axis(x, axes.items[i]);
    if (items[i] < 0)
      return ls_make_failed(
          ls_op_table[type].name,
          ls_invalid_argument(
              "axis %d is out of range for %s", axes.items[i],
              LS_SHAPE_TEXT(ls_tensor_dtype(x), ls_tensor_shape(x))));
  }
  const ls_attr attrs[] = {LS_OWN_IS(AXES, items, count),
                           LS_OWN_B(KEEP_DIMS, keep)};
  return ls_make(type, &x, 1, attrs, 2);
}

LS_MAKE_REDUCE(ls_reduce_sum, SUM, false)
LS_MAKE_REDUCE(ls_reduce_mean, MEAN, false)
LS_MAKE_REDUCE(ls_reduce_max, MAX, false)
LS_MAKE_REDUCE(ls_reduce_min, MIN, false)
LS_MAKE_REDUCE(ls_reduce_sum_keep, SUM, true)
LS_MAKE_REDUCE(ls_reduce_max_keep, MAX, true)

ls_tensor ls_argmax(ls_tensor x, int axis) {
  const ls_attr attr = LS_OWN_I(AXIS, ls_make_axis(x, axis));
  return ls_make(LS_OP_ARGMAX, &x, 1, &attr, 1);
}

ls_tensor ls_add_n(const ls_tensor *items, size_t count) {
  if (count == 1 && items != NULL) return items[0];
  return ls_make(LS_OP_ADD_N, items, count, NULL, 0);
}

// ---- Products --------------------------------------------------------------
ls_tensor ls_matmul(ls_tensor x, ls_tensor y) {
  return ls_matmul_transposed(x, false, y, false);
}

ls_tensor ls_matmul_transposed(ls_tensor x, bool transpose_x, ls_tensor y,
                               bool transpose_y) {
  const ls_attr attrs[] = {LS_OWN_B(TRANSPOSE_A, transpose_x),
                           LS_OWN_B(TRANSPOSE_B, transpose_y)};
  return ls_make(LS_OP_MATMUL, (const ls_tensor[]){x, y}, 2, attrs, 2);
}

ls_tensor ls_dense(ls_tensor x, ls_tensor w, ls_tensor bias,
                   ls_activation activation) {
  const bool has_bias = bias.ref != 0 || bias.graph != NULL;
  const ls_attr attr = LS_OWN_S(ACTIVATION, "relu");
  return ls_make(LS_OP_DENSE, (const ls_tensor[]){x, w, bias}, has_bias ? 3 : 2,
                 &attr, activation == LS_ACTIVATION_RELU ? 1 : 0);
}

ls_tensor ls_softmax_cross_entropy(ls_tensor logits, ls_tensor labels) {
  return ls_make(LS_OP_CROSS_ENTROPY, (const ls_tensor[]){logits, labels}, 2,
                 NULL, 0);
}

ls_tensor ls_make_shaped_as(const char *op_name, ls_tensor x, ls_tensor y) {
  const ls_shape wanted = ls_tensor_shape(x), found = ls_tensor_shape(y);
  if (ls_shape_compatible(wanted, found)) return y;
  return ls_make_failed(
      op_name, ls_invalid_argument("%s of %s and %s: they need the same shape",
                                   op_name,
                                   LS_SHAPE_TEXT(ls_tensor_dtype(x), wanted),
                                   LS_SHAPE_TEXT(ls_tensor_dtype(y), found)));
}

ls_tensor ls_softmax_cross_entropy_soft(ls_tensor logits,
                                        ls_tensor probabilities) {
  probabilities =
      ls_make_shaped_as("soft cross entropy", logits, probabilities);
  const ls_tensor terms = ls_mul(ls_log_softmax(logits), probabilities);
  return ls_neg(ls_reduce_sum(terms, LS_AXES(-1)));
}

ls_tensor ls_softmax_cross_entropy_grad(ls_tensor logits, ls_tensor labels,
                                        ls_tensor row_gradients) {
  return ls_make(LS_OP_CROSS_ENTROPY_GRAD,
                 (const ls_tensor[]){logits, labels, row_gradients}, 3, NULL,
                 0);
}

ls_tensor ls_one_hot(ls_tensor indices, int64_t depth, ls_dtype dtype) {
  const ls_attr attrs[] = {LS_OWN_I(DEPTH, depth), LS_OWN_T(DTYPE, dtype)};
  return ls_make(LS_OP_ONE_HOT, &indices, 1, attrs, 2);
}
