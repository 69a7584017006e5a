// SPDX-License-Identifier: Apache-2.0
//
// Rules of normalizations.
//
// With i = 1 / sqrt(variance + epsilon) and r = (x - mean) i, the gradient of r
// is J g = i (g - mean(g) - r mean(g r)), without the second term if no mean is
// subtracted. The gradient ops compute J, which is symmetric. So a gradient
// op's own gradient, for gradients a of dx = J g, b of dscale = sum(d r) and c
// of doffset = sum(d), with g = d scale, is
//   of d:      scale J a + b r + c
//   of scale:  sum(d J a)
//   of x:      J (d b - i (a mean(g r) + g mean(a r))) - i r mean(a J g) where
//   the means are those of a row, or of a channel.
#include "grad/rules.h"

// The axes of x along which elements are normalized together.
typedef struct grouping {
  int together[LS_MAX_RANK];
  size_t num_together;
  ls_dtype wide;
} grouping;

// Finds the axes: with `by_channel` all axes but the last, else the last axis.
static grouping group_axes(ls_tensor x, bool by_channel) {
  grouping g = {.wide = ls_sum_dtype(x)};
  const int32_t rank = ls_tensor_shape(x).rank;
  for (int32_t i = 0; i < rank; ++i)
    if ((i + 1 == rank) != by_channel) g.together[g.num_together++] = i;
  return g;
}

static ls_axes normalized_axes(const grouping *g) {
  return (ls_axes){.items = g->together, .count = g->num_together};
}

// Counts the elements that are normalized together, as a scalar of the wide
// type.
static ls_tensor rules_norm_count_of(const grouping *g, ls_tensor x) {
  ls_tensor count = ls_scalar_i64(LS_DTYPE_I64, 1);
  for (size_t i = 0; i < g->num_together; ++i) {
    const ls_tensor size = ls_dim_size(x, g->together[i]);
    count = ls_mul(count, size);
  }
  return ls_convert(count, g->wide);
}

// Computes the mean of the elements normalized together, with their dimensions
// kept as size 1. x has the wide type.
static ls_tensor mean_of(const grouping *g, ls_tensor x) {
  const ls_tensor sum = ls_reduce_sum_keep(x, normalized_axes(g));
  return ls_div(sum, rules_norm_count_of(g, x));
}

// Sums over all axes but the last: one number per channel.
static ls_tensor sum_by_channel(ls_tensor x) {
  int axes[LS_MAX_RANK];
  const int32_t rank = ls_tensor_shape(x).rank;
  const size_t count = rank > 0 ? (size_t)rank - 1 : 0;
  for (size_t i = 0; i < count; ++i)
    axes[i] = (int)i;
  return ls_reduce_sum(x, (ls_axes){.items = axes, .count = count});
}

static double epsilon_of(const ls_backward *g) {
  return ls_node_attr(g->node, LS_ATTR_ID_EPSILON)->as.f;
}

static ls_activation activation_of(const ls_backward *g) {
  return ls_node_attr(g->node, LS_ATTR_ID_ACTIVATION) == NULL
             ? LS_ACTIVATION_NONE
             : LS_ACTIVATION_RELU;
}

static ls_status need_rank(const ls_backward *g, size_t x) {
  if (ls_tensor_shape(ls_op_input(g->op, x)).rank >= 0) return ls_ok();
  return ls_gradient_needs(g, "a rank");
}

// Sets the gradients of the first `count` operands to the results of an op.
static void rules_norm_take_results(ls_backward *g, ls_op op, unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    if (g->wanted[i]) g->din[i] = ls_op_output(op, i);
}

// ---- Gradients -------------------------------------------------------------
ls_status gradient_layer_norm(ls_backward *g) {
  const ls_tensor x = ls_gradient_input(g, 0), scale = ls_gradient_input(g, 1);
  rules_norm_take_results(
      g, ls_layer_norm_grad(g->dout[0], x, scale, epsilon_of(g)), 3);
  return ls_ok();
}

ls_status gradient_rms_norm(ls_backward *g) {
  const ls_tensor x = ls_gradient_input(g, 0), scale = ls_gradient_input(g, 1);
  rules_norm_take_results(
      g, ls_rms_norm_grad(g->dout[0], x, scale, epsilon_of(g)), 2);
  return ls_ok();
}

// Computes what the gradients of the mean and the variance add to the gradient
// of x.
static ls_tensor gradient_of_moments(ls_backward *g, ls_tensor dx) {
  const ls_tensor x = ls_gradient_input(g, 0);
  const grouping axes = group_axes(x, true);
  const ls_tensor wide = ls_convert(x, axes.wide);
  ls_tensor sum = ls_failed_tensor();
  if (g->dout[1].ref != 0) sum = ls_broadcast_like(g->dout[1], wide);
  if (g->dout[2].ref != 0) {
    const ls_tensor rest = ls_sub(wide, ls_gradient_output(g, 1));
    const ls_tensor term = ls_mul(ls_mul_scalar(rest, 2), g->dout[2]);
    sum = ls_gradient_plus(sum, term);
  }
  const ls_tensor mean = ls_div(sum, rules_norm_count_of(&axes, x));
  return ls_gradient_plus(dx, ls_convert(mean, ls_tensor_dtype(x)));
}

ls_status gradient_batch_norm(ls_backward *g) {
  LS_RETURN_IF_ERROR(need_rank(g, 0));
  if (g->dout[0].ref != 0) {
    const ls_tensor x = ls_gradient_input(g, 0);
    const ls_tensor scale = ls_gradient_input(g, 1);
    const ls_tensor offset = ls_gradient_input(g, 2);
    const ls_tensor mean = ls_gradient_output(g, 1);
    const ls_tensor variance = ls_gradient_output(g, 2);
    rules_norm_take_results(g,
                            ls_batch_norm_grad(g->dout[0], x, scale, offset,
                                               mean, variance, epsilon_of(g),
                                               activation_of(g)),
                            3);
  }
  if (g->wanted[0] && (g->dout[1].ref != 0 || g->dout[2].ref != 0))
    g->din[0] = gradient_of_moments(g, g->din[0]);
  return ls_ok();
}

// The result is y = (x - mean) i scale + offset, and all of these are operands.
ls_status gradient_batch_norm_inference(ls_backward *g) {
  LS_RETURN_IF_ERROR(need_rank(g, 0));
  const ls_tensor x = ls_gradient_input(g, 0), scale = ls_gradient_input(g, 1);
  const ls_tensor mean = ls_gradient_input(g, 3);
  const ls_tensor variance = ls_gradient_input(g, 4);
  const ls_dtype wide = ls_sum_dtype(x);
  ls_tensor d = g->dout[0];
  if (activation_of(g) == LS_ACTIVATION_RELU)
    d = ls_relu_grad(d, ls_gradient_output(g, 0));
  d = ls_convert(d, wide);
  const ls_tensor inverse = ls_rsqrt(ls_add_scalar(variance, epsilon_of(g)));
  const ls_tensor factor = ls_mul(scale, inverse);
  if (g->wanted[0]) {
    const ls_tensor dx = ls_mul(d, factor);
    g->din[0] = ls_convert(dx, ls_tensor_dtype(x));
  }
  const ls_tensor sum = sum_by_channel(d);
  const ls_tensor rest = ls_sub(ls_convert(x, wide), mean);
  const ls_tensor product = sum_by_channel(ls_mul(d, rest));
  if (g->wanted[1]) g->din[1] = ls_mul(product, inverse);
  if (g->wanted[2]) g->din[2] = sum;
  if (g->wanted[3]) g->din[3] = ls_neg(ls_mul(sum, factor));
  if (g->wanted[4]) {
    const ls_tensor square = ls_mul(inverse, inverse);
    const ls_tensor half = ls_mul_scalar(ls_mul(product, factor), -0.5);
    g->din[4] = ls_mul(half, square);
  }
  return ls_ok();
}

// ---- Gradients of gradients ------------------------------------------------
typedef struct second {
  ls_backward *g;
  grouping axes;
  bool by_channel, centred;
  ls_tensor x, ones;         // x in the wide type.
  ls_tensor mean, variance;  // For a batch norm, one number per channel.
  ls_tensor zeros;
} second;

// Computes J value: applies the op of x's gradient, with a scale of ones. The
// caller handles a relu by masking the gradients.
static ls_tensor rules_norm_project(const second *s, ls_tensor value) {
  const double epsilon = epsilon_of(s->g);
  ls_op op;
  if (s->by_channel)
    op = ls_batch_norm_grad(value, s->x, s->ones, s->zeros, s->mean,
                            s->variance, epsilon, LS_ACTIVATION_NONE);
  else if (s->centred)
    op = ls_layer_norm_grad(value, s->x, s->ones, epsilon);
  else
    op = ls_rms_norm_grad(value, s->x, s->ones, epsilon);
  return ls_op_output(op, 0);
}

// Computes the formulas at the top of this file, in the wide type; d is masked.
// Missing gradients are zeroed.
static void differentiate_again(second *s, ls_tensor d, ls_tensor scale,
                                ls_tensor *out_d, ls_tensor *out_scale,
                                ls_tensor *out_x) {
  const ls_backward *g = s->g;
  const ls_tensor b = g->dout[1];
  const ls_tensor c = g->num_outputs > 2 ? g->dout[2] : ls_failed_tensor();
  ls_tensor rest = s->x;
  if (s->centred) rest = ls_sub(rest, mean_of(&s->axes, rest));
  const ls_tensor variance = mean_of(&s->axes, ls_square(rest));
  const ls_tensor i = ls_rsqrt(ls_add_scalar(variance, epsilon_of(g)));
  const ls_tensor r = ls_mul(rest, i);
  ls_tensor of_d = ls_failed_tensor(), of_r = of_d, of_x = of_d;
  if (b.ref != 0) {
    of_d = ls_mul(r, b);
    of_r = ls_mul(d, b);
  }
  if (c.ref != 0) of_d = ls_gradient_plus(of_d, ls_broadcast_like(c, d));
  if (g->dout[0].ref != 0) {
    const ls_tensor a = ls_convert(g->dout[0], s->axes.wide);
    const ls_tensor projected = rules_norm_project(s, a);
    of_d = ls_gradient_plus(of_d, ls_mul(projected, scale));
    *out_scale = sum_by_channel(ls_mul(projected, d));
    const ls_tensor inner = ls_mul(d, scale);
    const ls_tensor mean_gr = mean_of(&s->axes, ls_mul(inner, r));
    const ls_tensor mean_ar = mean_of(&s->axes, ls_mul(a, r));
    const ls_tensor first = ls_mul(a, mean_gr);
    const ls_tensor both = ls_add(first, ls_mul(inner, mean_ar));
    of_r = ls_gradient_plus(of_r, ls_neg(ls_mul(both, i)));
    const ls_tensor along = mean_of(&s->axes, ls_mul(projected, inner));
    of_x = ls_neg(ls_mul(r, ls_mul(along, i)));
  }
  *out_d = of_d;
  *out_x = of_r.ref == 0 ? of_x
                         : ls_gradient_plus(of_x, rules_norm_project(s, of_r));
}

static ls_tensor ones_like(ls_tensor x) {
  return ls_broadcast_like(ls_gradient_number(x, 1), x);
}

// The operands of layer_norm_grad and rms_norm_grad are dy, x and scale.
ls_status gradient_layer_norm_grad(ls_backward *g) {
  LS_RETURN_IF_ERROR(need_rank(g, 1));
  const ls_tensor dy = ls_gradient_input(g, 0), x = ls_gradient_input(g, 1);
  const ls_tensor scale = ls_gradient_input(g, 2);
  second s = {.g = g,
              .axes = group_axes(x, false),
              .centred = g->node->type == LS_OP_LAYER_NORM_GRAD};
  s.x = ls_convert(x, s.axes.wide);
  s.ones = ones_like(scale);
  ls_tensor of_d, of_scale = ls_failed_tensor(), of_x;
  const ls_tensor d = ls_convert(dy, s.axes.wide);
  differentiate_again(&s, d, scale, &of_d, &of_scale, &of_x);
  ls_gradient_give(g, 0, of_d);
  ls_gradient_give(g, 1, of_x);
  ls_gradient_give(g, 2, of_scale);
  return ls_ok();
}

// The operands are dy, x, scale, offset, mean and variance. Mean and variance
// are functions of x, so that their gradients are part of x's; the offset only
// selects.
ls_status gradient_batch_norm_grad(ls_backward *g) {
  LS_RETURN_IF_ERROR(need_rank(g, 1));
  const ls_tensor dy = ls_gradient_input(g, 0), x = ls_gradient_input(g, 1);
  const ls_tensor scale = ls_gradient_input(g, 2);
  const ls_tensor offset = ls_gradient_input(g, 3);
  second s = {
      .g = g, .axes = group_axes(x, true), .by_channel = true, .centred = true};
  s.mean = ls_gradient_input(g, 4);
  s.variance = ls_gradient_input(g, 5);
  s.x = ls_convert(x, s.axes.wide);
  s.ones = ones_like(scale);
  s.zeros = ls_mul_scalar(s.ones, 0);
  ls_tensor d = ls_convert(dy, s.axes.wide), z = ls_failed_tensor();
  const bool relu = activation_of(g) == LS_ACTIVATION_RELU;
  if (relu) {
    z = ls_batch_norm_inference(s.x, scale, offset, s.mean, s.variance,
                                epsilon_of(g), LS_ACTIVATION_NONE);
    d = ls_relu_grad(d, z);
  }
  ls_tensor of_d, of_scale = ls_failed_tensor(), of_x;
  differentiate_again(&s, d, scale, &of_d, &of_scale, &of_x);
  ls_gradient_give(g, 0, relu ? ls_relu_grad(of_d, z) : of_d);
  ls_gradient_give(g, 1, of_x);
  ls_gradient_give(g, 2, of_scale);
  return ls_ok();
}
