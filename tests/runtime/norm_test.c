// SPDX-License-Identifier: Apache-2.0
//
// The makers of normalizations and attention, by value and by what they refuse.
#include <math.h>

#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/values.h"

static ls_tensor f32(ls_shape shape, const float *data) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, shape, data, &array));
  return ls_tensor_from_array(array);
}

#define VALUES(tensor, shape, ...)                                             \
  expect_tensor_of(tensor, shape, (const double[]){__VA_ARGS__}, 1e-5)

static void expect_refusal(ls_tensor tensor, ls_code code, const char *part) {
  double value = 0;
  expect_status(ls_tensor_item(tensor, &value), code, part);
}

static ls_tensor constants(int64_t count, double value) {
  return ls_fill(LS_DTYPE_F32, LS_SHAPE(count), value);
}

// ---- Normalization ---------------------------------------------------------
TEST(norms_give_what_they_say) {
  const ls_tensor x = f32(LS_SHAPE(2, 2), (const float[]){1, 10, 3, 20});
  const ls_tensor ones = constants(2, 1), twos = constants(2, 2);
  const ls_op batch = ls_batch_norm(x, twos, ones, 0, LS_ACTIVATION_NONE);
  VALUES(ls_op_output(batch, 0), LS_SHAPE(2, 2), -1, -1, 3, 3);
  VALUES(ls_op_output(batch, 1), LS_SHAPE(2), 2, 15);
  VALUES(ls_op_output(batch, 2), LS_SHAPE(2), 1, 25);
  const ls_op relu = ls_batch_norm(x, twos, ones, 0, LS_ACTIVATION_RELU);
  VALUES(ls_op_output(relu, 0), LS_SHAPE(2, 2), 0, 0, 3, 3);
  VALUES(ls_batch_norm_inference(x, twos, ones, ones, constants(2, 3), 1,
                                 LS_ACTIVATION_NONE),
         LS_SHAPE(2, 2), 1, 10, 3, 20);
  VALUES(ls_layer_norm(x, twos, ones, 0), LS_SHAPE(2, 2), -1, 3, -1, 3);
  VALUES(ls_rms_norm(f32(LS_SHAPE(2), (const float[]){3, 4}), ones, 0),
         LS_SHAPE(2), 3 / sqrt(12.5), 4 / sqrt(12.5));
}

TEST(group_norm_takes_positions_and_channels_of_a_group) {
  // Two examples, two positions, two groups of two channels.
  const float data[] = {1, 3, 10, 30, 3, 1, 30, 10, 0, 0, 2, 2, 8, 8, 6, 6};
  const ls_tensor x = f32(LS_SHAPE(2, 2, 4), data);
  const ls_tensor y = ls_group_norm(x, constants(4, 2), constants(4, 1), 2, 0);
  VALUES(y, LS_SHAPE(2, 2, 4), -1, 3, -1, 3, 3, -1, 3, -1, -1, -1, -1, -1, 3, 3,
         3, 3);
}

TEST(statistics_of_16_bit_floats_are_f32) {
  const ls_tensor x =
      ls_convert(f32(LS_SHAPE(3, 2), (const float[]){256, 1, 257, 2, 258, 3}),
                 LS_DTYPE_F16);
  const ls_tensor ones = constants(2, 1);
  const ls_op op = ls_batch_norm(x, ones, ones, 0, LS_ACTIVATION_NONE);
  assert_int_equal(ls_tensor_dtype(ls_op_output(op, 0)), LS_DTYPE_F16);
  assert_int_equal(ls_tensor_dtype(ls_op_output(op, 1)), LS_DTYPE_F32);
  VALUES(ls_op_output(op, 2), LS_SHAPE(2), 2.0 / 3, 2.0 / 3);
  const ls_tensor y = ls_group_norm(x, ones, ones, 1, 0.5);
  assert_int_equal(ls_tensor_dtype(y), LS_DTYPE_F16);
}

// ---- Attention -------------------------------------------------------------
TEST(attention_averages_values) {
  // Equal scores: the mean of the values, causally of those up to the query.
  const ls_tensor zeros = ls_fill(LS_DTYPE_F32, LS_SHAPE(1, 2, 2), 0);
  const ls_tensor v = f32(LS_SHAPE(1, 2, 2), (const float[]){1, 2, 3, 6});
  const ls_attention_options causal = {.num_heads = 2, .causal = true};
  VALUES(ls_attention(zeros, zeros, v, NULL), LS_SHAPE(1, 2, 2), 2, 4, 2, 4);
  VALUES(ls_attention(zeros, zeros, v, &causal), LS_SHAPE(1, 2, 2), 1, 2, 2, 4);
  const ls_tensor parts[] = {zeros, zeros, v};
  const ls_tensor packed = ls_concatenate(parts, 3, 2);
  VALUES(ls_attention_packed(packed, &causal), LS_SHAPE(1, 2, 2), 1, 2, 2, 4);
  // Scores of 0 and log(3): weights 1/4 and 3/4.
  const ls_tensor q = f32(LS_SHAPE(1, 1, 1), (const float[]){logf(3) / 0.5F});
  const ls_tensor k = f32(LS_SHAPE(1, 2, 1), (const float[]){0, 1});
  const ls_attention_options half = {.scale = 0.5};
  VALUES(ls_attention(q, k, v, &half), LS_SHAPE(1, 1, 2), 2.5, 5);
}

TEST(a_tape_goes_through_norms_and_attention_twice) {
  const ls_tensor x = f32(LS_SHAPE(1, 2, 2), (const float[]){1, 2, 3, 5});
  LS_OWN(ls_tape, outer) = NULL;
  LS_OWN(ls_tape, inner) = NULL;
  expect_ok(ls_tape_begin(&outer));
  expect_ok(ls_tape_watch(outer, x));
  expect_ok(ls_tape_begin(&inner));
  expect_ok(ls_tape_watch(inner, x));
  const ls_tensor ones = constants(2, 1);
  const ls_tensor normal = ls_layer_norm(x, ones, ones, 0.5);
  const ls_op batch =
      ls_batch_norm(normal, ones, ones, 0.5, LS_ACTIVATION_RELU);
  const ls_tensor y = ls_op_output(batch, 0);
  const ls_tensor z = ls_square(ls_attention(y, y, x, NULL));
  expect_ok(ls_tape_end(inner));
  const ls_nest xs[] = {ls_leaf(x)};
  ls_nest grads[1], again[1];
  expect_ok(ls_tape_gradients(inner, ls_leaf(z), xs, 1, grads));
  expect_ok(ls_tape_end(outer));
  expect_ok(ls_tape_gradients(outer, grads[0], xs, 1, again));
  double sum = 0;
  expect_ok(ls_tensor_item(
      ls_reduce_sum(ls_square(ls_nest_tensor(again[0], 0)), LS_ALL_AXES),
      &sum));
  assert_true(isfinite(sum) && sum > 0.1);
}

// ---- Refusals --------------------------------------------------------------
TEST(makers_refuse_what_does_not_fit) {
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 3, 4), 1);
  const ls_tensor four = constants(4, 1), three = constants(3, 1);
  expect_refusal(ls_layer_norm(x, three, four, 0.1), LS_INVALID_ARGUMENT,
                 "operand 1 must be f32[4]");
  expect_refusal(ls_rms_norm(x, four, -1), LS_INVALID_ARGUMENT, "epsilon");
  expect_refusal(ls_rms_norm(x, four, (double)NAN), LS_INVALID_ARGUMENT,
                 "epsilon");
  expect_refusal(ls_batch_norm_inference(x, four, four, four, four, 0.1,
                                         (ls_activation)77),
                 LS_INVALID_ARGUMENT, "none of relu");
  expect_refusal(ls_group_norm(x, four, four, 3, 0.1), LS_INVALID_ARGUMENT,
                 "groups must divide the channels");
  expect_refusal(ls_group_norm(x, four, four, 0, 0.1), LS_INVALID_ARGUMENT,
                 "in 0 groups");
  const ls_attention_options options = {.num_heads = 3};
  expect_refusal(ls_attention(x, x, x, &options), LS_INVALID_ARGUMENT,
                 "heads must divide the widths");
  expect_refusal(ls_attention_packed(x, NULL), LS_INVALID_ARGUMENT,
                 "attention by 1 heads of f32[2,3,4]");
  const ls_attention_options negative = {.num_heads = -1};
  expect_refusal(ls_attention(x, x, x, &negative), LS_INVALID_ARGUMENT,
                 "'num_heads' is -1, must be at least 1");
}

TEST(a_group_norm_of_no_examples_is_empty) {
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(0, 5, 4), 1);
  const ls_tensor y =
      ls_group_norm(x, constants(4, 1), constants(4, 0), 2, 1e-3);
  VALUES(y, LS_SHAPE(0, 5, 4), 0);
}
