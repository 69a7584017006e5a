// SPDX-License-Identifier: Apache-2.0
//
// Emits convolutions, windows, norms and attention.
#include <math.h>

#include "emit/emit.h"

static ls_emitted scalar_like(ls_emitter *e, ls_emitted like, double value) {
  return ls_emit_scalar(e, ls_dtype_at(e, like), value);
}

// ---- Windows ---------------------------------------------------------------
// Reads the windows of the current op over x, with these taps.
static bool compose_nn_read_window(ls_emitter *e, ls_emitted x,
                                   const ls_dim *taps, ls_window *out) {
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  const ls_node *node = e->node;
  const ls_status status = ls_window_read(ls_node_info(node)->name, node->attrs,
                                          node->num_attrs, dims.rank - 2, out);
  if (!ls_status_is_ok(status)) {
    ls_emit_fail(e, status);
    return false;
  }
  for (int32_t i = 0; i < out->rank; ++i) {
    int64_t size = 0;
    if (taps != NULL) out->taps[i] = ls_emit_size(e, taps[i]);
    ls_emit_fail(
        e, ls_window_slide(out, i, ls_emit_size(e, dims.dim[i + 1]), &size));
  }
  return ls_status_is_ok(e->status);
}

static ls_emitted convolution(ls_emitter *e) {
  const ls_emitted x = ls_operand(e, 0), w = ls_operand(e, 1);
  const ls_batch_dims weights = ls_batch_dims_at(e, w);
  ls_window window;
  if (!compose_nn_read_window(e, x, weights.dim, &window)) return 0;
  return ls_emit_convolve(e, x, w, &window,
                          ls_node_int(e->node, LS_ATTR_ID_CHANNEL_GROUPS),
                          ls_result_dims(e));
}

// Counts the elements of each window: [1, spatial..., 1].
static ls_emitted count_windows(ls_emitter *e, ls_emitted x,
                                const ls_window *window) {
  ls_batch_dims dims = ls_batch_dims_at(e, x), result = ls_result_dims(e);
  dims.dim[0] = dims.dim[dims.rank - 1] = ls_dim_of(1);
  result.dim[0] = result.dim[dims.rank - 1] = ls_dim_of(1);
  const ls_emitted ones = ls_emit_broadcast(e, scalar_like(e, x, 1), dims);
  return ls_emit_slide(e, LS_OP_REDUCE_SUM, ones, window, result);
}

// Returns 1 / count, rounded like the type of the computation.
static double reciprocal_of(const ls_emitter *e, ls_emitted like,
                            double count) {
  return ls_dtype_at(e, like) == LS_DTYPE_F64 ? 1 / count
                                              : (double)(1.0F / (float)count);
}

static ls_emitted reduce_window(ls_emitter *e) {
  const ls_emitted given = ls_operand(e, 0);
  const char *reduce =
      ls_node_attr(e->node, LS_ATTR_ID_WINDOW_REDUCE)->as.string;
  const ls_emitted x = ls_emit_wide(e, given);
  ls_window window;
  if (!compose_nn_read_window(e, x, NULL, &window)) return 0;
  const bool is_max = strcmp(reduce, "max") == 0;
  ls_emitted y = ls_emit_slide(e, is_max ? LS_OP_REDUCE_MAX : LS_OP_REDUCE_SUM,
                               x, &window, ls_result_dims(e));
  if (strcmp(reduce, "mean") == 0) {
    double taps = 1;
    for (int32_t i = 0; i < window.rank; ++i)
      taps *= (double)window.taps[i];
    const bool all = ls_node_int(e->node, LS_ATTR_ID_COUNT_PADDING) != 0;
    y = ls_emit_2(e, LS_OP_MUL, y,
                  all ? scalar_like(e, y, reciprocal_of(e, y, taps))
                      : ls_emit_reciprocal(e, count_windows(e, x, &window)));
  }
  return ls_emit_convert(e, y, ls_dtype_at(e, given));
}

// ---- Norms -----------------------------------------------------------------
static ls_emitted mean_of_last(ls_emitter *e, ls_emitted x) {
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  const int64_t axis = dims.rank - 1;
  const int64_t size = ls_emit_size(e, dims.dim[axis]);
  const ls_emitted sum = ls_emit_reduce(e, LS_OP_REDUCE_SUM, x, &axis, 1, true);
  return ls_emit_2(e, LS_OP_DIV, sum, scalar_like(e, x, (double)size));
}

// Computes x times 1 / sqrt(square + epsilon).
static ls_emitted normalized(ls_emitter *e, ls_emitted x, ls_emitted square) {
  const double epsilon = ls_node_real(e->node, LS_ATTR_ID_EPSILON);
  const ls_emitted sum =
      ls_emit_2(e, LS_OP_ADD, square, scalar_like(e, square, epsilon));
  return ls_emit_2(e, LS_OP_MUL, x,
                   ls_emit_reciprocal(e, ls_emit_1(e, LS_OP_SQRT, sum)));
}

static ls_emitted wide_operand(ls_emitter *e, uint32_t i) {
  return ls_emit_wide(e, ls_operand(e, i));
}

static ls_emitted scaled(ls_emitter *e, ls_emitted x, bool shifted) {
  const ls_emitted y = ls_emit_2(e, LS_OP_MUL, x, wide_operand(e, 1));
  return shifted ? ls_emit_2(e, LS_OP_ADD, y, wide_operand(e, 2)) : y;
}

static ls_emitted norm(ls_emitter *e) {
  const uint16_t op = e->node->type;
  ls_emitted x = wide_operand(e, 0), square = 0;
  if (op == LS_OP_BATCH_NORM_INFERENCE) {
    x = ls_emit_2(e, LS_OP_SUB, x, wide_operand(e, 3));
    square = wide_operand(e, 4);
  } else {
    if (op == LS_OP_LAYER_NORM)
      x = ls_emit_2(e, LS_OP_SUB, x, mean_of_last(e, x));
    square = mean_of_last(e, ls_emit_2(e, LS_OP_MUL, x, x));
  }
  const ls_emitted y =
      scaled(e, normalized(e, x, square), op != LS_OP_RMS_NORM);
  return ls_emit_convert(e, ls_emit_activation(e, y),
                         e->node->outputs[0].dtype);
}

// ---- Attention -------------------------------------------------------------
// Slices q, k or v out of the last dimension, where they are concatenated.
static ls_emitted third(ls_emitter *e, ls_emitted x, int64_t part) {
  ls_batch_dims dims = ls_batch_dims_at(e, x);
  const int64_t width = ls_emit_size(e, dims.dim[2]) / 3;
  const int64_t starts[] = {0, 0, part * width}, strides[] = {1, 1, 1};
  dims.dim[2] = ls_dim_of(width);
  return ls_emit_slice(e, x, starts, strides, dims);
}

// Reshapes [batch, tokens, heads * depth] to [batch, heads, tokens, depth], or
// with the last two swapped.
static ls_emitted split_heads(ls_emitter *e, ls_emitted x, int64_t heads,
                              bool swap) {
  static const int64_t plain[] = {0, 2, 1, 3}, swapped[] = {0, 2, 3, 1};
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  const ls_batch_dims split = {
      .rank = 4,
      .dim = {dims.dim[0], dims.dim[1], ls_dim_of(heads),
              ls_dim_of(ls_emit_size(e, dims.dim[2]) / heads)}};
  return ls_emit_transpose(e, ls_emit_reshape(e, x, split),
                           swap ? swapped : plain);
}

// Masks scores: token i attends to tokens up to i.
static ls_emitted hide_later(ls_emitter *e, ls_emitted scores) {
  const ls_batch_dims dims = ls_batch_dims_at(e, scores);
  const ls_batch_dims column = {.rank = 2, .dim = {dims.dim[2], ls_dim_of(1)}};
  const ls_batch_dims row = {.rank = 2, .dim = {ls_dim_of(1), dims.dim[3]}};
  const ls_emitted seen = ls_emit_2(e, LS_OP_GREATER_EQUAL,
                                    ls_emit_iota(e, LS_DTYPE_I64, column, 0),
                                    ls_emit_iota(e, LS_DTYPE_I64, row, 1));
  const ls_emitted parts[] = {seen, scores, scalar_like(e, scores, -INFINITY)};
  return ls_emit_element(e, LS_OP_SELECT, parts, 3);
}

static ls_emitted attention(ls_emitter *e) {
  static const int64_t back[] = {0, 2, 1, 3};
  const ls_node *node = e->node;
  ls_emitted parts[3];
  for (uint32_t i = 0; i < 3; ++i)
    parts[i] = node->num_inputs == 3 ? ls_operand(e, i)
                                     : third(e, ls_operand(e, 0), i);
  const int64_t heads = ls_node_int(node, LS_ATTR_ID_NUM_HEADS);
  const ls_batch_dims dims = ls_batch_dims_at(e, parts[0]);
  const double depth = (double)ls_emit_size(e, dims.dim[2]) / (double)heads;
  const ls_attr *given = ls_node_attr(node, LS_ATTR_ID_SCALE);
  const double scale = given != NULL ? given->as.f : 1 / sqrt(depth);
  const ls_emitted q = split_heads(e, ls_emit_wide(e, parts[0]), heads, false);
  const ls_emitted k = split_heads(e, ls_emit_wide(e, parts[1]), heads, true);
  const ls_emitted v = split_heads(e, ls_emit_wide(e, parts[2]), heads, false);
  const ls_emitted products = ls_emit_dot(e, q, k);
  ls_emitted scores =
      ls_emit_2(e, LS_OP_MUL, products, scalar_like(e, products, scale));
  if (ls_node_int(node, LS_ATTR_ID_CAUSAL)) scores = hide_later(e, scores);
  const ls_emitted y = ls_emit_dot(e, ls_emit_softmax(e, scores, false), v);
  return ls_emit_convert(
      e, ls_emit_reshape(e, ls_emit_transpose(e, y, back), ls_result_dims(e)),
      ls_dtype_at(e, parts[0]));
}

bool ls_compose_nn(ls_emitter *e) {
  switch (e->node->type) {
  case LS_OP_CONVOLUTION:
    ls_compose_give(e, convolution(e));
    return true;
  case LS_OP_CONV_BIAS_ACT: {
    const ls_emitted y = convolution(e);
    ls_compose_give(
        e, ls_emit_activation(e, ls_emit_2(e, LS_OP_ADD, y, ls_operand(e, 2))));
    return true;
  }
  case LS_OP_REDUCE_WINDOW:
    ls_compose_give(e, reduce_window(e));
    return true;
  case LS_OP_BATCH_NORM_INFERENCE:
  case LS_OP_LAYER_NORM:
  case LS_OP_RMS_NORM:
    ls_compose_give(e, norm(e));
    return true;
  case LS_OP_ATTENTION:
    ls_compose_give(e, attention(e));
    return true;
  default:
    return false;
  }
}
