// SPDX-License-Identifier: Apache-2.0
//
// Gradients of normalizations and attention against finite differences, and
// their own gradients too.
#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "support/expect.h"
#include "support/gradient_check.h"

static const double epsilon = 0.1;

#define CHANNELS(rows) {rows, LS_SHAPE(3), LS_SHAPE(3)}, .count = 3
#define TABLE LS_SHAPE(5, 3)
#define BOX LS_SHAPE(2, 3, 3)

// ---- Normalization ---------------------------------------------------------
static ls_op batch_norm(const ls_tensor *xs, ls_activation activation) {
  return ls_batch_norm(xs[0], xs[1], xs[2], epsilon, activation);
}

CODE(batch_norm, const ls_op op = batch_norm(xs, LS_ACTIVATION_NONE);
     return ls_square(ls_op_output(op, 0));)
CODE(batch_norm_relu, const ls_op op = batch_norm(xs, LS_ACTIVATION_RELU);
     return ls_square(ls_op_output(op, 0));)
CODE(batch_moments, const ls_op op = batch_norm(xs, LS_ACTIVATION_NONE);
     const ls_tensor mean = ls_square(ls_op_output(op, 1));
     return ls_mul(mean, ls_op_output(op, 2));)
CODE(batch_all, const ls_op op = batch_norm(xs, LS_ACTIVATION_NONE);
     const ls_tensor y = ls_square(ls_op_output(op, 0));
     return ls_mul(ls_mul(y, ls_op_output(op, 1)), ls_op_output(op, 2));)
CODE(layer_norm, return ls_square(ls_layer_norm(xs[0], xs[1], xs[2], epsilon));)
CODE(rms_norm, return ls_square(ls_rms_norm(xs[0], xs[1], epsilon));)
CODE(group_norm,
     return ls_square(ls_group_norm(xs[0], xs[1], xs[2], 2, epsilon));)

// scale, offset, mean and variance from two operands.
static ls_tensor inference(const ls_tensor *xs, ls_activation activation) {
  const ls_tensor variance = ls_add_scalar(ls_square(xs[2]), 0.5);
  return ls_square(ls_batch_norm_inference(xs[0], xs[1], xs[2], xs[3], variance,
                                           epsilon, activation));
}
CODE(inference, return inference(xs, LS_ACTIVATION_NONE);)
CODE(inference_relu, return inference(xs, LS_ACTIVATION_RELU);)

TEST(norm_rules_agree_with_differences) {
  static const gradient_case rows[] = {
      {"batch_norm", make_batch_norm, .shapes = CHANNELS(TABLE)},
      {"batch_norm with relu", make_batch_norm_relu, .shapes = CHANNELS(TABLE)},
      {"batch_norm of rank 3", make_batch_norm, .shapes = CHANNELS(BOX)},
      {"batch_norm's moments", make_batch_moments, .shapes = CHANNELS(TABLE)},
      {"batch_norm's results", make_batch_all, .shapes = CHANNELS(BOX)},
      {"layer_norm", make_layer_norm, .shapes = CHANNELS(TABLE)},
      {"layer_norm of rank 1", make_layer_norm,
       .shapes = CHANNELS(LS_SHAPE(3))},
      {"layer_norm of rank 3", make_layer_norm, .shapes = CHANNELS(BOX)},
      {"rms_norm", make_rms_norm, .shapes = {TABLE, LS_SHAPE(3)}, .count = 2},
      {"group_norm", make_group_norm,
       .shapes = {LS_SHAPE(2, 3, 4), LS_SHAPE(4), LS_SHAPE(4)}, .count = 3},
      {"inference", make_inference,
       .shapes = {BOX, LS_SHAPE(3), LS_SHAPE(3), LS_SHAPE(3)}, .count = 4},
      {"inference with relu", make_inference_relu,
       .shapes = {TABLE, LS_SHAPE(3), LS_SHAPE(3), LS_SHAPE(3)}, .count = 4},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

// The gradient of one operand alone closes over gradients too.
CODE(scale_alone, const ls_tensor y = ls_layer_norm(xs[0], xs[1], xs[2], 0.1);
     const ls_nest ys[] = {ls_leaf(ls_square(y))}, x[] = {ls_leaf(xs[1])};
     ls_nest grads[1]; expect_ok(ls_gradients(ys, 1, x, 1, NULL, grads));
     return ls_square(ls_nest_tensor(grads[0], 0));)
CODE(third, const ls_tensor y = ls_rms_norm(xs[0], xs[1], 0.1);
     const ls_nest ys[] = {ls_leaf(ls_square(y))}, x[] = {ls_leaf(xs[0])};
     ls_nest grads[1]; expect_ok(ls_gradients(ys, 1, x, 1, NULL, grads));
     return ls_square(ls_nest_tensor(grads[0], 0));)

TEST(gradients_of_gradients_close) {
  static const gradient_case rows[] = {
      {"scale's gradient", make_scale_alone, .shapes = CHANNELS(TABLE)},
      {"third order", make_third, .shapes = {TABLE, LS_SHAPE(3)}, .count = 2},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

// ---- Attention -------------------------------------------------------------
static ls_tensor make_attention(const ls_tensor *xs, size_t count,
                                const void *user) {
  const ls_attention_options *options = user;
  return ls_square(count == 1 ? ls_attention_packed(xs[0], options)
                              : ls_attention(xs[0], xs[1], xs[2], options));
}

TEST(attention_rules_agree_with_differences) {
  static const ls_attention_options plain = {.num_heads = 2};
  static const ls_attention_options causal = {
      .num_heads = 2, .causal = true, .scale = 0.4};
#define WIDE LS_SHAPE(2, 3, 4)
  static const gradient_case rows[] = {
      {"attention", make_attention, .user = &plain,
       .shapes = {WIDE, LS_SHAPE(2, 5, 4), LS_SHAPE(2, 5, 2)}, .count = 3},
      {"causal attention", make_attention, .user = &causal,
       .shapes = {WIDE, WIDE, WIDE}, .count = 3},
      {"packed attention", make_attention, .user = &plain,
       .shapes = {LS_SHAPE(2, 3, 12)}, .count = 1},
      {"packed causal attention", make_attention, .user = &causal,
       .shapes = {LS_SHAPE(1, 4, 12)}, .count = 1},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

CODE(soft, const ls_tensor p = ls_softmax(xs[1]);
     return ls_square(ls_softmax_cross_entropy_soft(xs[0], p));)

TEST(soft_labels_agree_with_differences) {
  static const gradient_case row = {"softmax_cross_entropy_soft", make_soft,
                                    .shapes = {LS_SHAPE(2, 3), LS_SHAPE(2, 3)},
                                    .count = 2};
  expect_gradients(&row, 2);
}
