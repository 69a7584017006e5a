// SPDX-License-Identifier: Apache-2.0
//
// Rules of convolutions and of reductions over windows.
//
// A convolution y = c(x, w) is linear in both operands, so that the convolution
// and its two gradient ops are each other's gradients. The same holds for
// window sums, and for positions of window maxima. All these ops have the same
// attributes of windows.
#include "grad/rules.h"
#include "graph/make/make.h"

enum { MOST_ATTRS = 10 };  // Attributes that the ops share, and sizes.

// Makes an op of `type` on the same windows. If it has sizes, they are those of
// `like`, whose rank is `rank`.
static ls_tensor same_windows(ls_gradient *g, uint16_t type, ls_tensor x,
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
static ls_status rules_window_rank_of(ls_gradient *g, int32_t *out_rank) {
  *out_rank = LS_UNKNOWN_RANK;
  for (size_t i = 0; i < 2 && *out_rank == LS_UNKNOWN_RANK; ++i)
    *out_rank = ls_tensor_shape(ls_op_input(g->op, i)).rank;
  if (*out_rank != LS_UNKNOWN_RANK) return ls_ok();
  return ls_gradient_needs(g, "a rank");
}

// ---- Convolutions ----------------------------------------------------------
// Differentiates c(x, w); d is the gradient of the result.
static ls_status convolution_gradient(ls_gradient *g, ls_tensor d) {
  int32_t rank;
  LS_RETURN_IF_ERROR(rules_window_rank_of(g, &rank));
  const ls_tensor x = ls_gradient_input(g, 0), w = ls_gradient_input(g, 1);
  if (g->wanted[0])
    g->din[0] = same_windows(g, LS_OP_CONV_GRAD_INPUT, d, w, x, rank);
  if (g->wanted[1])
    g->din[1] = same_windows(g, LS_OP_CONV_GRAD_WEIGHTS, x, d, w, rank);
  return ls_ok();
}

ls_status gradient_convolution(ls_gradient *g) {
  return convolution_gradient(g, g->dout[0]);
}

// y = activation(c(x, w) + bias).
ls_status gradient_conv_bias_act(ls_gradient *g) {
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
ls_status gradient_conv_grad_input(ls_gradient *g) {
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
ls_status gradient_conv_grad_weights(ls_gradient *g) {
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
ls_status gradient_reduce_window(ls_gradient *g) {
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

ls_status gradient_window_sum_grad(ls_gradient *g) {
  const ls_tensor none = ls_failed_tensor();
  g->din[0] = same_windows(g, LS_OP_REDUCE_WINDOW, g->dout[0], none, none, 0);
  return ls_ok();
}

// The position of a maximum does not change with x, so that x gets no gradient.
ls_status gradient_window_max_grad(ls_gradient *g) {
  const ls_tensor x = ls_gradient_input(g, 0), none = ls_failed_tensor();
  if (g->wanted[1])
    g->din[1] = same_windows(g, LS_OP_WINDOW_MAX_PICK, x, g->dout[0], none, 0);
  return ls_ok();
}

ls_status gradient_window_max_pick(ls_gradient *g) {
  const ls_tensor x = ls_gradient_input(g, 0), none = ls_failed_tensor();
  if (g->wanted[1])
    g->din[1] = same_windows(g, LS_OP_WINDOW_MAX_GRAD, x, g->dout[0], none, 0);
  return ls_ok();
}
