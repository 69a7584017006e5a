// SPDX-License-Identifier: Apache-2.0
//
// Conformance cases: normalizations and attention.
#include "lockstep/ops.h"
#include "support/expect.h"
#include "support/op_case.h"

static const double epsilon = 0.1;

// ---- Normalization ---------------------------------------------------------
// Of what is one number a channel.
static ls_dtype wide(const trial *t) {
  const bool half = t->dtype == LS_DTYPE_F16 || t->dtype == LS_DTYPE_BF16;
  return half ? LS_DTYPE_F32 : t->dtype;
}

static ls_shape draw_channels(trial *t, int64_t extra) {
  ls_shape shape = trial_shape(t, 1, 3);
  for (int32_t i = 0; i < shape.rank; ++i)
    if (shape.dim[i] == 0) shape.dim[i] = 2;
  t->number[0] = trial_between(t, LS_ACTIVATION_NONE, LS_ACTIVATION_RELU);
  for (int64_t i = 0; i < extra; ++i)
    trial_add(t, shape);
  return LS_SHAPE(shape.dim[shape.rank - 1]);
}

// x, scale and offset; with dy before, for gradients.
static void draw_norm(trial *t) {
  const ls_shape channels = draw_channels(t, 1);
  trial_add_in(t, wide(t), channels, -2, 2);
  trial_add_in(t, wide(t), channels, -2, 2);
}

static void draw_norm_grad(trial *t) {
  const ls_shape channels = draw_channels(t, 2);
  trial_add_in(t, wide(t), channels, -2, 2);
  trial_add_in(t, wide(t), channels, -2, 2);
}

static void draw_inference(trial *t) {
  draw_norm(t);
  const ls_shape channels = ls_array_shape(t->operand[1]);
  trial_add_in(t, wide(t), channels, -2, 2);
  trial_add_in(t, wide(t), channels, 0.1, 2);
}

static ls_nest outputs_of(ls_op op, unsigned count) {
  ls_nest leaves[4];
  for (unsigned i = 0; i < count; ++i)
    leaves[i] = ls_leaf(ls_op_output(op, i));
  return ls_nest_sequence(LS_KIND_TUPLE, leaves, count);
}

static ls_nest make_batch_norm(const trial *t, const ls_tensor *xs) {
  return outputs_of(
      ls_batch_norm(xs[0], xs[1], xs[2], epsilon, (ls_activation)t->number[0]),
      3);
}

// Mean and variance must be those of x.
static ls_nest make_batch_norm_grad(const trial *t, const ls_tensor *xs) {
  const ls_activation activation = (ls_activation)t->number[0];
  const ls_op norm = ls_batch_norm(xs[1], xs[2], xs[3], epsilon, activation);
  return outputs_of(
      ls_batch_norm_grad(xs[0], xs[1], xs[2], xs[3], ls_op_output(norm, 1),
                         ls_op_output(norm, 2), epsilon, activation),
      3);
}

static ls_nest make_inference(const trial *t, const ls_tensor *xs) {
  // The variance is positive whatever is drawn for it.
  return ls_leaf(ls_batch_norm_inference(xs[0], xs[1], xs[2], xs[3],
                                         ls_square(xs[4]), epsilon,
                                         (ls_activation)t->number[0]));
}

static ls_nest make_layer_norm(const trial *t, const ls_tensor *xs) {
  (void)t;
  return ls_leaf(ls_layer_norm(xs[0], xs[1], xs[2], epsilon));
}

static ls_nest make_layer_norm_grad(const trial *t, const ls_tensor *xs) {
  (void)t;
  return outputs_of(ls_layer_norm_grad(xs[0], xs[1], xs[2], epsilon), 3);
}

static ls_nest make_rms_norm(const trial *t, const ls_tensor *xs) {
  (void)t;
  return ls_leaf(ls_rms_norm(xs[0], xs[1], epsilon));
}

static ls_nest make_rms_norm_grad(const trial *t, const ls_tensor *xs) {
  (void)t;
  return outputs_of(ls_rms_norm_grad(xs[0], xs[1], xs[2], epsilon), 2);
}

// ---- Attention -------------------------------------------------------------
static ls_attention_options options_of(const trial *t) {
  return (ls_attention_options){
      .num_heads = t->number[0],
      .causal = t->number[1] != 0,
      .scale = t->number[2] == 0 ? 0 : 0.7,
  };
}

// The result's gradient, and q, k and v alone or side by side.
static void draw_attention(trial *t) {
  const int64_t heads = trial_between(t, 1, 3), batch = trial_between(t, 0, 2);
  const int64_t depth = heads * trial_between(t, 1, 4);
  const bool causal = trial_between(t, 0, 1) == 1;
  const bool packed = trial_between(t, 0, 1) == 1;
  const int64_t tokens = trial_between(t, 1, 5);
  const int64_t keys = causal ? tokens : trial_between(t, 1, 5);
  const int64_t values = packed ? depth : heads * trial_between(t, 1, 4);
  t->number[0] = heads;
  t->number[1] = causal;
  t->number[2] = trial_between(t, 0, 1);
  trial_add(t, LS_SHAPE(batch, tokens, values));
  if (packed) {
    trial_add(t, LS_SHAPE(batch, tokens, 3 * depth));
    return;
  }
  trial_add(t, LS_SHAPE(batch, tokens, depth));
  trial_add(t, LS_SHAPE(batch, keys, depth));
  trial_add(t, LS_SHAPE(batch, keys, values));
}

static ls_nest make_attention(const trial *t, const ls_tensor *xs) {
  const ls_attention_options options = options_of(t);
  return ls_leaf(t->count == 2 ? ls_attention_packed(xs[1], &options)
                               : ls_attention(xs[1], xs[2], xs[3], &options));
}

static ls_nest make_attention_grad(const trial *t, const ls_tensor *xs) {
  const ls_attention_options options = options_of(t);
  const ls_tensor none = {0};
  if (t->count == 2)
    return outputs_of(ls_attention_grad(xs[0], xs[1], none, none, &options), 1);
  return outputs_of(ls_attention_grad(xs[0], xs[1], xs[2], xs[3], &options), 3);
}

#define CASE(id, maker, drawer, ...)                                           \
  {                                                                            \
    .op = LS_OP_##id, .dtypes = FLOATS, .make = maker, .draw = drawer,         \
    __VA_ARGS__                                                                \
  }

const op_case norm_cases[] = {
    CASE(BATCH_NORM, make_batch_norm, draw_norm, .slack = 4, .gradient = 2),
    CASE(BATCH_NORM_GRAD, make_batch_norm_grad, draw_norm_grad, .slack = 8,
         .gradient = 1),
    CASE(BATCH_NORM_INFERENCE, make_inference, draw_inference, .slack = 4,
         .gradient = 2),
    CASE(LAYER_NORM, make_layer_norm, draw_norm, .slack = 4, .gradient = 2),
    CASE(LAYER_NORM_GRAD, make_layer_norm_grad, draw_norm_grad, .slack = 8,
         .gradient = 1),
    CASE(RMS_NORM, make_rms_norm, draw_norm, .slack = 4, .gradient = 2),
    CASE(RMS_NORM_GRAD, make_rms_norm_grad, draw_norm_grad, .slack = 8,
         .gradient = 1),
    CASE(ATTENTION, make_attention, draw_attention, .slack = 4, .gradient = 2),
    CASE(ATTENTION_GRAD, make_attention_grad, draw_attention, .slack = 8,
         .gradient = 1),
    {0},
};
