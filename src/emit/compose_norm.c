// SPDX-License-Identifier: Apache-2.0
//
// Emits normalizations and their gradients. 16-bit floats are computed in f32
// and rounded once.
#include "emit/emit.h"

static ls_emitted wide_operand(ls_emitter *e, uint32_t i) {
  return ls_emit_wide(e, ls_operand(e, i));
}

static ls_emitted square_of(ls_emitter *e, ls_emitted x) {
  return ls_emit_mul(e, x, x);
}

// Gives the current op's results, in their types.
static ls_emitted give_results(ls_emitter *e, const ls_emitted *results) {
  for (uint32_t i = 0; i < e->node->num_outputs; ++i)
    ls_emit_bind(e, ls_ref(e->node->id, i),
                 ls_emit_convert(e, results[i], e->node->outputs[i].dtype));
  return 0;
}

static ls_emitted mean_of_last(ls_emitter *e, ls_emitted x) {
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  const int64_t axis = dims.rank - 1;
  const int64_t size = ls_emit_size(e, dims.dim[axis]);
  const ls_emitted sum = ls_emit_reduce(e, LS_OP_REDUCE_SUM, x, &axis, 1, true);
  return ls_emit_2(e, LS_OP_DIV, sum, ls_emit_number(e, x, (double)size));
}

// Sums each channel, [channels].
static ls_emitted sum_of_channels(ls_emitter *e, ls_emitted x) {
  static const int64_t axes[LS_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  const size_t count = (size_t)ls_batch_dims_at(e, x).rank - 1;
  return ls_emit_reduce(e, LS_OP_REDUCE_SUM, x, axes, count, false);
}

// Divides sums over the channels of `like` by the number of rows.
static ls_emitted mean_over_rows(ls_emitter *e, ls_emitted sums,
                                 ls_emitted like) {
  const ls_batch_dims dims = ls_batch_dims_at(e, like);
  int64_t rows = 1;
  for (int32_t i = 0; i + 1 < dims.rank; ++i)
    rows *= ls_emit_size(e, dims.dim[i]);
  return ls_emit_2(e, LS_OP_DIV, sums,
                   ls_emit_number(e, sums, rows == 0 ? 1 : (double)rows));
}

// Computes 1 / sqrt(square + epsilon).
static ls_emitted inverse_of(ls_emitter *e, ls_emitted square) {
  const double epsilon = ls_node_real(e->node, LS_ATTR_ID_EPSILON);
  const ls_emitted sum =
      ls_emit_add(e, square, ls_emit_number(e, square, epsilon));
  return ls_emit_reciprocal(e, ls_emit_1(e, LS_OP_SQRT, sum));
}

static ls_emitted scaled(ls_emitter *e, ls_emitted x, bool shifted) {
  const ls_emitted y = ls_emit_mul(e, x, wide_operand(e, 1));
  return shifted ? ls_emit_add(e, y, wide_operand(e, 2)) : y;
}

static ls_emitted norm(ls_emitter *e) {
  const uint16_t op = e->node->type;
  ls_emitted x = wide_operand(e, 0), square = 0;
  if (op == LS_OP_BATCH_NORM_INFERENCE) {
    x = ls_emit_sub(e, x, wide_operand(e, 3));
    square = wide_operand(e, 4);
  } else {
    if (op == LS_OP_LAYER_NORM) x = ls_emit_sub(e, x, mean_of_last(e, x));
    square = mean_of_last(e, square_of(e, x));
  }
  x = ls_emit_mul(e, x, inverse_of(e, square));
  const ls_emitted y = scaled(e, x, op != LS_OP_RMS_NORM);
  return ls_emit_activation(e, y);
}

static ls_emitted batch_norm(ls_emitter *e) {
  const ls_emitted x = wide_operand(e, 0);
  const ls_emitted mean = mean_over_rows(e, sum_of_channels(e, x), x);
  const ls_emitted rest = ls_emit_sub(e, x, mean);
  const ls_emitted variance =
      mean_over_rows(e, sum_of_channels(e, square_of(e, rest)), x);
  const ls_emitted factor =
      ls_emit_mul(e, wide_operand(e, 1), inverse_of(e, variance));
  const ls_emitted y =
      ls_emit_add(e, ls_emit_mul(e, rest, factor), wide_operand(e, 2));
  return give_results(
      e, (const ls_emitted[]){ls_emit_activation(e, y), mean, variance});
}

// Operands: dy, x, scale, offset, mean, variance. With n rows, d the gradient
// before the activation, and r = x - mean: dscale = inverse sum(d r), doffset =
// sum(d), dx = scale inverse (d - doffset / n - r inverse dscale / n).
static ls_emitted batch_norm_grad(ls_emitter *e) {
  const ls_emitted x = wide_operand(e, 1), scale = wide_operand(e, 2);
  const ls_emitted rest = ls_emit_sub(e, x, wide_operand(e, 4));
  const ls_emitted inverse = inverse_of(e, wide_operand(e, 5));
  const ls_emitted factor = ls_emit_mul(e, scale, inverse);
  ls_emitted d = wide_operand(e, 0);
  if (ls_node_attr(e->node, LS_ATTR_ID_ACTIVATION) != NULL) {
    const ls_emitted y =
        ls_emit_add(e, ls_emit_mul(e, rest, factor), wide_operand(e, 3));
    const ls_emitted zero = ls_emit_number(e, d, 0);
    d = ls_emit_select(e, ls_emit_2(e, LS_OP_GREATER, y, zero), d, zero);
  }
  const ls_emitted doffset = sum_of_channels(e, d);
  const ls_emitted dscale =
      ls_emit_mul(e, sum_of_channels(e, ls_emit_mul(e, d, rest)), inverse);
  const ls_emitted slope =
      ls_emit_mul(e, inverse, mean_over_rows(e, dscale, x));
  ls_emitted dx = ls_emit_sub(e, d, mean_over_rows(e, doffset, x));
  dx = ls_emit_sub(e, dx, ls_emit_mul(e, rest, slope));
  return give_results(
      e, (const ls_emitted[]){ls_emit_mul(e, factor, dx), dscale, doffset});
}

// Operands: dy, x, scale. With r the normalized x and g = dy scale, dx is (g -
// mean(g) - r mean(g r)) inverse, without mean(g) if rows are not centred.
static ls_emitted row_norm_grad(ls_emitter *e) {
  const bool is_centred = e->node->type == LS_OP_LAYER_NORM_GRAD;
  const ls_emitted dy = wide_operand(e, 0);
  ls_emitted r = wide_operand(e, 1);
  if (is_centred) r = ls_emit_sub(e, r, mean_of_last(e, r));
  const ls_emitted inverse = inverse_of(e, mean_of_last(e, square_of(e, r)));
  r = ls_emit_mul(e, r, inverse);
  const ls_emitted g = ls_emit_mul(e, dy, wide_operand(e, 2));
  const ls_emitted slope = mean_of_last(e, ls_emit_mul(e, g, r));
  ls_emitted dx = ls_emit_sub(e, g, ls_emit_mul(e, r, slope));
  if (is_centred) dx = ls_emit_sub(e, dx, mean_of_last(e, g));
  const ls_emitted dscale = sum_of_channels(e, ls_emit_mul(e, dy, r));
  const ls_emitted doffset = is_centred ? sum_of_channels(e, dy) : 0;
  return give_results(
      e, (const ls_emitted[]){ls_emit_mul(e, dx, inverse), dscale, doffset});
}

static const ls_emit_rule rules[] = {
    {LS_OP_BATCH_NORM_INFERENCE, norm, true},
    {LS_OP_LAYER_NORM, norm, true},
    {LS_OP_RMS_NORM, norm, true},
    {LS_OP_BATCH_NORM, batch_norm, true},
    {LS_OP_BATCH_NORM_GRAD, batch_norm_grad, true},
    {LS_OP_LAYER_NORM_GRAD, row_norm_grad, true},
    {LS_OP_RMS_NORM_GRAD, row_norm_grad, true}};
const ls_emit_rules ls_emit_norm_rules = {rules, LS_COUNT_OF(rules)};
