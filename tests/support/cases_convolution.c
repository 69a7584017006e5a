// SPDX-License-Identifier: Apache-2.0
//
// Conformance cases: convolutions.
#include <math.h>

#include "lockstep/ops.h"
#include "support/geometry.h"

// Of input, weights and result the one that is computed.
typedef enum role { INPUT, WEIGHTS, RESULT } role;

// The three values by role: two are operands, one is the output.
typedef struct roles {
  const ref_tensor *of[3];
  role computed;
  ref_tensor *out;
} roles;

static roles roles_of(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  if (op->type == LS_OP_CONV_GRAD_INPUT)  // Of dy and w.
    return (roles){{out, &in[1], &in[0]}, INPUT, out};
  if (op->type == LS_OP_CONV_GRAD_WEIGHTS)  // Of x and dy.
    return (roles){{&in[0], out, &in[1]}, WEIGHTS, out};
  return (roles){{&in[0], &in[1], out}, RESULT, out};
}

static void add_products(const roles *r, const geometry *g, int64_t groups,
                         int64_t image, int64_t o, int64_t k) {
  const int64_t place = seen(g, o, k);
  if (place < 0) return;
  const ls_shape x = r->of[INPUT]->type.shape, w = r->of[WEIGHTS]->type.shape;
  const int64_t channels = x.dim[x.rank - 1], some = w.dim[w.rank - 2];
  const int64_t outs = w.dim[w.rank - 1];
  const int64_t places = ls_shape_num_elements(g->places);
  const int64_t outputs = ls_shape_num_elements(g->outputs);
  for (int64_t to = 0; to < outs; ++to)
    for (int64_t c = 0; c < some; ++c) {
      const int64_t channel = to / (outs / groups) * some + c;
      const int64_t at[] = {
          (image * places + place) * channels + channel,
          (k * some + c) * outs + to,
          (image * outputs + o) * outs + to,
      };
      const role a = r->computed == INPUT ? WEIGHTS : INPUT;
      const role b = r->computed == RESULT ? WEIGHTS : RESULT;
      const ls_dtype dtype = r->out->type.dtype;
      ref_number *sum = &r->out->at[at[r->computed]];
      *sum =
          ref_sum(dtype, *sum,
                  ref_product(dtype, r->of[a]->at[at[a]], r->of[b]->at[at[b]]));
    }
}

static void compute_convolution(const ref_op *op, const ref_tensor *in,
                                ref_tensor *out) {
  const roles r = roles_of(op, in, out);
  const ls_shape x = r.of[INPUT]->type.shape;
  const geometry g = geometry_of(op, x, r.of[RESULT]->type.shape,
                                 spatial(r.of[WEIGHTS]->type.shape, 0));
  for (int64_t image = 0; image < x.dim[0]; ++image)
    for (int64_t o = 0; o < ls_shape_num_elements(g.outputs); ++o)
      for (int64_t k = 0; k < ls_shape_num_elements(g.taps); ++k)
        add_products(&r, &g, ref_int(op, "groups", 1), image, o, k);
  if (op->type != LS_OP_CONV_BIAS_ACT) return;
  for (int64_t k = 0; k < out->count; ++k) {
    out->at[k] =
        ref_sum(out->type.dtype, out->at[k], in[2].at[k % in[2].count]);
    if (ref_is(op, "activation", "relu"))
      out->at[k].real = fmax(out->at[k].real, 0);
  }
}

// Input, weights, result and bias. The case takes some of them.
typedef struct conv_shapes {
  ls_shape x, w, y, bias;
} conv_shapes;

static conv_shapes draw_shapes(trial *t) {
  ls_shape outputs;
  const ls_shape places = draw_geometry(t, SPREAD, &outputs);
  const int64_t groups = trial_between(t, 1, 2),
                images = trial_between(t, 1, 2);
  const int64_t some = trial_between(t, 1, 3);
  const int64_t outs = groups * trial_between(t, 1, 3);
  t->number[0] = groups;
  conv_shapes s = {
      .x = around(images, places, groups * some),
      .w = t->list[TAPS],
      .y = around(images, outputs, outs),
      .bias = LS_SHAPE(outs),
  };
  s.w.dim[s.w.rank++] = some;
  s.w.dim[s.w.rank++] = outs;
  return s;
}

static ls_convolution_options options_of(const trial *t) {
  const bool same = t->number[1] != 0;
  return (ls_convolution_options){
      .strides = t->list[STRIDES],
      .dilations = t->list[DILATIONS],
      .input_dilations = t->list[SPREADS],
      .padding = same ? LS_PADDING_SAME : LS_PADDING_VALID,
      .low = same ? LS_SCALAR : t->list[LOW],
      .high = same ? LS_SCALAR : t->list[HIGH],
      .groups = t->number[0],
  };
}

static void draw_convolution(trial *t) {
  const conv_shapes s = draw_shapes(t);
  trial_add(t, s.x);
  trial_add(t, s.w);
  trial_add(t, s.bias);
  t->number[2] = trial_between(t, LS_ACTIVATION_NONE, LS_ACTIVATION_RELU);
}

static void draw_grad_input(trial *t) {
  const conv_shapes s = draw_shapes(t);
  trial_add(t, s.y);
  trial_add(t, s.w);
  trial_add(t, s.x);
}

static void draw_grad_weights(trial *t) {
  const conv_shapes s = draw_shapes(t);
  trial_add(t, s.x);
  trial_add(t, s.y);
  trial_add(t, s.w);
}

static ls_nest make_convolution(const trial *t, const ls_tensor *xs) {
  const ls_convolution_options options = options_of(t);
  return ls_leaf(ls_convolution(xs[0], xs[1], &options));
}

static ls_nest make_conv_bias_act(const trial *t, const ls_tensor *xs) {
  const ls_convolution_options options = options_of(t);
  return ls_leaf(ls_conv_bias_act(xs[0], xs[1], xs[2],
                                  (ls_activation)t->number[2], &options));
}

static ls_nest make_grad_input(const trial *t, const ls_tensor *xs) {
  const ls_convolution_options options = options_of(t);
  return ls_leaf(ls_conv_grad_input(xs[0], xs[1], xs[2], &options));
}

static ls_nest make_grad_weights(const trial *t, const ls_tensor *xs) {
  const ls_convolution_options options = options_of(t);
  return ls_leaf(ls_conv_grad_weights(xs[0], xs[1], xs[2], &options));
}

#define CASE(id, computed, types, maker, drawer, ...)                          \
  {                                                                            \
    .op = LS_OP_##id, .compute = (computed), .dtypes = (types), .make = maker, \
    .draw = drawer, __VA_ARGS__                                                \
  }

const op_case convolution_cases[] = {
    CASE(CONVOLUTION, compute_convolution, FLOATS, make_convolution,
         draw_convolution, .gradient = 2),
    CASE(CONV_BIAS_ACT, compute_convolution, FLOATS, make_conv_bias_act,
         draw_convolution, .gradient = 2),
    CASE(CONV_GRAD_INPUT, compute_convolution, FLOATS, make_grad_input,
         draw_grad_input, .gradient = 2),
    CASE(CONV_GRAD_WEIGHTS, compute_convolution, FLOATS, make_grad_weights,
         draw_grad_weights, .gradient = 2),
    {0},
};
