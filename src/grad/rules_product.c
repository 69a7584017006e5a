// SPDX-License-Identifier: Apache-2.0
//
// Rules of matrix products, dense layers, softmax and cross entropy.
#include "grad/rules.h"
#include "graph/make/make.h"

// ---- Matrix products -------------------------------------------------------
// The rules compute the gradient of the right operand, usually the weights,
// first. The left operand, which is large, is then no longer needed, and its
// gradient can take its memory.

// Computes op(a)^T d, for a matrix b that all leading dimensions of a share:
// all rows of a count as rows of one matrix.
static ls_tensor shared_matrix(ls_tensor a, ls_tensor d, bool transposed) {
  const ls_tensor rows = ls_gradient_as_matrix(a);
  const ls_tensor down = ls_gradient_as_matrix(d);
  return transposed ? ls_matmul_transposed(down, true, rows, false)
                    : ls_matmul_transposed(rows, true, down, false);
}

// c = op(a) op(b): the gradient of op(a) is d op(b)^T, that of op(b) op(a)^T d.
ls_status gradient_matmul(ls_backward *g) {
  const bool ta = ls_node_int(g->node, LS_ATTR_ID_TRANSPOSE_A) != 0;
  const bool tb = ls_node_int(g->node, LS_ATTR_ID_TRANSPOSE_B) != 0;
  const ls_tensor d = g->dout[0];
  const int32_t rank_a = ls_tensor_shape(ls_op_input(g->op, 0)).rank;
  const int32_t rank_b = ls_tensor_shape(ls_op_input(g->op, 1)).rank;
  if (rank_a < 0 || rank_b < 0) return ls_gradient_needs(g, "ranks");
  if (g->wanted[1]) {
    const ls_tensor a = ls_gradient_input(g, 0);
    g->din[1] = rank_b == 2 && rank_a > 2 ? shared_matrix(a, d, tb)
                : tb                      ? ls_matmul_transposed(d, true, a, ta)
                     : ls_matmul_transposed(a, !ta, d, false);
  }
  if (g->wanted[0]) {
    const ls_tensor b = ls_gradient_input(g, 1);
    g->din[0] = ta ? ls_matmul_transposed(b, tb, d, true)
                   : ls_matmul_transposed(d, false, b, !tb);
  }
  return ls_ok();
}

// y = activation(x w + bias).
ls_status gradient_dense(ls_backward *g) {
  const bool relu = ls_node_attr(g->node, LS_ATTR_ID_ACTIVATION) != NULL;
  const int32_t rank = ls_tensor_shape(ls_op_input(g->op, 0)).rank;
  if (rank < 0) return ls_gradient_needs(g, "a rank");
  const ls_tensor d =
      relu ? ls_relu_grad(g->dout[0], ls_gradient_output(g, 0)) : g->dout[0];
  const ls_tensor rows =
      rank == 1 || g->wanted[1] || (g->num_inputs > 2 && g->wanted[2])
          ? ls_gradient_as_matrix(d)
          : d;
  if (g->wanted[1])
    g->din[1] = ls_matmul_transposed(
        ls_gradient_as_matrix(ls_gradient_input(g, 0)), true, rows, false);
  if (g->wanted[0]) {
    const ls_tensor w = ls_gradient_input(g, 1);
    g->din[0] = ls_matmul_transposed(rank == 1 ? rows : d, false, w, true);
    if (rank == 1)
      g->din[0] = ls_reshape_like(g->din[0], ls_gradient_input(g, 0));
  }
  if (g->num_inputs > 2 && g->wanted[2])
    g->din[2] = ls_reduce_sum(rows, LS_AXES(0));
  return ls_ok();
}

// ---- Softmax ---------------------------------------------------------------
// (d - sum(d y)) y.
static ls_tensor softmax_gradient(ls_tensor d, ls_tensor y) {
  const ls_tensor sum = ls_reduce_sum_keep(ls_mul(d, y), LS_AXES(-1));
  return ls_mul(ls_sub(d, sum), y);
}

ls_status gradient_softmax(ls_backward *g) {
  g->din[0] = softmax_gradient(g->dout[0], ls_gradient_output(g, 0));
  return ls_ok();
}

// d - sum(d) e^y.
ls_status gradient_log_softmax(ls_backward *g) {
  const ls_tensor sum = ls_reduce_sum_keep(g->dout[0], LS_AXES(-1));
  g->din[0] = ls_sub(g->dout[0], ls_mul(sum, ls_exp(ls_gradient_output(g, 0))));
  return ls_ok();
}

ls_status gradient_cross_entropy(ls_backward *g) {
  const ls_tensor x = ls_gradient_input(g, 0), labels = ls_gradient_input(g, 1);
  g->din[0] = ls_softmax_cross_entropy_grad(x, labels, g->dout[0]);
  return ls_ok();
}

// y = (softmax(x) - one_hot(label)) r, where r is the gradient of each row.
ls_status gradient_cross_entropy_grad(ls_backward *g) {
  const ls_tensor x = ls_gradient_input(g, 0), r = ls_gradient_input(g, 2);
  if (g->wanted[0]) {
    const ls_tensor unscaled = softmax_gradient(g->dout[0], ls_softmax(x));
    g->din[0] = ls_mul(unscaled, ls_gradient_with_last(r));
  }
  if (g->wanted[2]) {
    const ls_tensor labels = ls_gradient_input(g, 1);
    const ls_tensor ones = ls_broadcast_like(ls_gradient_number(r, 1), r);
    const ls_tensor unscaled = ls_softmax_cross_entropy_grad(x, labels, ones);
    g->din[2] = ls_reduce_sum(ls_mul(g->dout[0], unscaled), LS_AXES(-1));
  }
  return ls_ok();
}

// ---- Windows ----------------------------------------------------------------
// Rules of convolutions and of reductions over windows.
//
// A convolution y = c(x, w) is linear in both operands, so that the convolution
// and its two gradient ops are each other's gradients. The same holds for
// window sums, and for positions of window maxima. All these ops have the same
// attributes of windows.

enum { MOST_ATTRS = 10 };  // Attributes that the ops share, and sizes.

// Makes an op of `type` on the same windows. If it has sizes, they are those of
// `like`, whose rank is `rank`.
static ls_tensor same_windows(ls_backward *g, uint16_t type, ls_tensor x,
                              ls_tensor y, ls_tensor like, int32_t rank) {
  ls_attr attrs[MOST_ATTRS];
  ls_size sizes[LS_MAX_RANK];
  ls_tensor inputs[3] = {x};
  size_t num_attrs = 0, num_inputs = 1;
  for (uint32_t i = 0; i < g->node->num_attrs; ++i) {
    const ls_attr *attr = &g->node->attrs[i];
    if (attr->id != LS_ATTR_ID_SIZES && ls_op_owns(type, attr->id))
      attrs[num_attrs++] = *attr;
  }
  if (y.graph != NULL) inputs[num_inputs++] = y;
  if (rank != 0) {
    for (int32_t i = 0; i < rank; ++i)
      sizes[i] = (ls_size){(int32_t)num_inputs, i};
    attrs[num_attrs++] = LS_OWN_SZ(SIZES, sizes, (size_t)rank);
    inputs[num_inputs++] = like;
  }
  return ls_make(type, inputs, num_inputs, attrs, num_attrs);
}

// Finds the rank of values and weights, which is the same, from the one that is
// known.
static ls_status rules_window_rank_of(ls_backward *g, int32_t *out_rank) {
  *out_rank = LS_UNKNOWN_RANK;
  for (size_t i = 0; i < 2 && *out_rank == LS_UNKNOWN_RANK; ++i)
    *out_rank = ls_tensor_shape(ls_op_input(g->op, i)).rank;
  if (*out_rank != LS_UNKNOWN_RANK) return ls_ok();
  return ls_gradient_needs(g, "a rank");
}

// ---- Convolutions ----------------------------------------------------------
// Differentiates c(x, w); d is the gradient of the result.
static ls_status convolution_gradient(ls_backward *g, ls_tensor d) {
  int32_t rank;
  LS_RETURN_IF_ERROR(rules_window_rank_of(g, &rank));
  const ls_tensor x = ls_gradient_input(g, 0), w = ls_gradient_input(g, 1);
  if (g->wanted[0])
    g->din[0] = same_windows(g, LS_OP_CONV_GRAD_INPUT, d, w, x, rank);
  if (g->wanted[1])
    g->din[1] = same_windows(g, LS_OP_CONV_GRAD_WEIGHTS, x, d, w, rank);
  return ls_ok();
}

ls_status gradient_convolution(ls_backward *g) {
  return convolution_gradient(g, g->dout[0]);
}

// y = activation(c(x, w) + bias).
ls_status gradient_conv_bias_act(ls_backward *g) {
  const bool relu = ls_node_attr(g->node, LS_ATTR_ID_ACTIVATION) != NULL;
  const ls_tensor d =
      relu ? ls_relu_grad(g->dout[0], ls_gradient_output(g, 0)) : g->dout[0];
  if (g->wanted[2])
    g->din[2] = ls_reduce_sum(ls_gradient_as_matrix(d), LS_AXES(0));
  if (!g->wanted[0] && !g->wanted[1]) return ls_ok();
  return convolution_gradient(g, d);
}

// The forward op computes x, the input's gradient for (dy, w); d has the shape
// of x.
ls_status gradient_conv_grad_input(ls_backward *g) {
  int32_t rank;
  LS_RETURN_IF_ERROR(rules_window_rank_of(g, &rank));
  const ls_tensor d = g->dout[0];
  const ls_tensor dy = ls_gradient_input(g, 0), w = ls_gradient_input(g, 1);
  if (g->wanted[0])
    g->din[0] = same_windows(g, LS_OP_CONVOLUTION, d, w, ls_failed_tensor(), 0);
  if (g->wanted[1])
    g->din[1] = same_windows(g, LS_OP_CONV_GRAD_WEIGHTS, d, dy, w, rank);
  return ls_ok();
}

// The forward op computes w, the weights' gradient for (x, dy); d has the shape
// of w.
ls_status gradient_conv_grad_weights(ls_backward *g) {
  int32_t rank;
  LS_RETURN_IF_ERROR(rules_window_rank_of(g, &rank));
  const ls_tensor d = g->dout[0];
  const ls_tensor x = ls_gradient_input(g, 0), dy = ls_gradient_input(g, 1);
  if (g->wanted[0])
    g->din[0] = same_windows(g, LS_OP_CONV_GRAD_INPUT, dy, d, x, rank);
  if (g->wanted[1])
    g->din[1] = same_windows(g, LS_OP_CONVOLUTION, x, d, ls_failed_tensor(), 0);
  return ls_ok();
}

// ---- Windows ---------------------------------------------------------------
ls_status gradient_reduce_window(ls_backward *g) {
  const ls_attr *reduce = ls_node_attr(g->node, LS_ATTR_ID_WINDOW_REDUCE);
  const ls_attr *window = ls_node_attr(g->node, LS_ATTR_ID_WINDOW);
  const ls_tensor x = ls_gradient_input(g, 0), none = ls_failed_tensor();
  const int32_t rank = (int32_t)window->as.ints.count + 2;
  g->din[0] =
      strcmp(reduce->as.string, "max") == 0
          ? same_windows(g, LS_OP_WINDOW_MAX_GRAD, x, g->dout[0], none, 0)
          : same_windows(g, LS_OP_WINDOW_SUM_GRAD, g->dout[0], none, x, rank);
  return ls_ok();
}

ls_status gradient_window_sum_grad(ls_backward *g) {
  const ls_tensor none = ls_failed_tensor();
  g->din[0] = same_windows(g, LS_OP_REDUCE_WINDOW, g->dout[0], none, none, 0);
  return ls_ok();
}

// The position of a maximum does not change with x, so that x gets no gradient.
ls_status gradient_window_max_grad(ls_backward *g) {
  const ls_tensor x = ls_gradient_input(g, 0), none = ls_failed_tensor();
  if (g->wanted[1])
    g->din[1] = same_windows(g, LS_OP_WINDOW_MAX_PICK, x, g->dout[0], none, 0);
  return ls_ok();
}

ls_status gradient_window_max_pick(ls_backward *g) {
  const ls_tensor x = ls_gradient_input(g, 0), none = ls_failed_tensor();
  if (g->wanted[1])
    g->din[1] = same_windows(g, LS_OP_WINDOW_MAX_GRAD, x, g->dout[0], none, 0);
  return ls_ok();
}
