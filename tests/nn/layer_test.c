// SPDX-License-Identifier: Apache-2.0
// Layers, losses and metrics, in eager.
#include "support/fault.h"

#include <math.h>

#include "lockstep/eager.h"
#include "lockstep/nn.h"
#include "support/values.h"

TEST(a_dense_layer_is_a_product_a_bias_and_an_activation) {
  expect_ok(ls_frame_begin());
  ls_dense_layer *layer = NULL;
  expect_ok(ls_dense_layer_create(
      &(ls_dense_options){.name = "hidden",
                          .inputs = 2,
                          .units = 3,
                          .activation = LS_ACTIVATION_RELU},
      &layer));
  assert_string_equal(ls_variable_name(ls_dense_layer_kernel(layer)),
                      "hidden/kernel");
  assert_string_equal(ls_variable_name(ls_dense_layer_bias(layer)),
                      "hidden/bias");
  ls_variable *variables[2] = {NULL};
  assert_int_equal(ls_dense_layer_variables(layer, variables, 2), 2);
  assert_ptr_equal(variables[0], ls_dense_layer_kernel(layer));
  assert_ptr_equal(variables[1], ls_dense_layer_bias(layer));
  const double kernel[] = {1, 2, 3, 4, 5, 6}, bias[] = {0, -20, 1};
  set_variable(ls_dense_layer_kernel(layer), kernel);
  set_variable(ls_dense_layer_bias(layer), bias);
  const double x[] = {1, 1, 2, 0}, wanted[] = {5, 0, 10, 2, 0, 7};
  expect_tensor_of(
      ls_dense_layer_apply(layer, eager_of(LS_DTYPE_F32, LS_SHAPE(2, 2), x)),
      LS_SHAPE(2, 3), wanted, 1e-6);
  ls_dense_layer_destroy(layer);
  expect_ok(ls_frame_end(NULL));
}

TEST(a_layer_can_do_without_bias) {
  expect_ok(ls_frame_begin());
  ls_dense_layer *layer = NULL;
  expect_ok(ls_dense_layer_create(
      &(ls_dense_options){.inputs = 1, .units = 1, .no_bias = true}, &layer));
  assert_null(ls_dense_layer_bias(layer));
  const double two = 2, three = 3, six = 6;
  set_variable(ls_dense_layer_kernel(layer), &two);
  expect_tensor_of(ls_dense_layer_apply(
                       layer, eager_of(LS_DTYPE_F32, LS_SHAPE(1, 1), &three)),
                   LS_SHAPE(1, 1), &six, 1e-6);
  ls_dense_layer_destroy(layer);
  expect_ok(ls_frame_end(NULL));
}

TEST(a_layer_without_size_is_refused) {
  ls_dense_layer *layer = NULL;
  expect_status(ls_dense_layer_create(
                    &(ls_dense_options){.name = "out", .inputs = 3}, &layer),
                LS_INVALID_ARGUMENT,
                "dense layer 'out' needs at least one input and one unit, got "
                "3 and 0");
  assert_null(layer);
}

MEMORY_TEST(make_a_layer) {
  ls_dense_layer *layer = NULL;
  LS_RETURN_IF_ERROR(ls_frame_begin());
  ls_status status = ls_dense_layer_create(
      &(ls_dense_options){.inputs = 2, .units = 3}, &layer);
  ls_dense_layer_destroy(layer);
  ls_status_free(ls_frame_end(NULL));
  return status;
}

// Straight in the eager graph, which keeps what it needs for layers of any
// number: making more of them takes no more memory.
MEMORY_TEST(make_two_layers) {
  ls_dense_layer *a = NULL, *b = NULL;
  ls_status status = ls_dense_layer_create(
      &(ls_dense_options){.name = "a", .inputs = 3, .units = 4}, &a);
  if (ls_status_is_ok(status))
    status = ls_dense_layer_create(
        &(ls_dense_options){.name = "b", .inputs = 4, .units = 40}, &b);
  ls_dense_layer_destroy(a);
  ls_dense_layer_destroy(b);
  return status;
}

TEST(the_loss_is_the_mean_over_all_rows) {
  expect_ok(ls_frame_begin());
  const double logits[] = {1, 2, 3, 0, 0, 0}, labels[] = {2, 0};
  const ls_tensor x = eager_of(LS_DTYPE_F32, LS_SHAPE(2, 3), logits);
  const ls_tensor y = eager_of(LS_DTYPE_I32, LS_SHAPE(2), labels);
  const double first = log(exp(-2) + exp(-1) + 1), second = log(3);
  assert_float_equal(item_of(ls_mean_softmax_cross_entropy(x, y)),
                     (first + second) / 2, 1e-6);
  expect_ok(ls_frame_end(NULL));
}

TEST(accuracy_counts_the_rows_that_are_right) {
  expect_ok(ls_frame_begin());
  const double logits[] = {1, 2, 5, 4, 3, -1, 1, 0};
  const double labels[] = {1, 1, 0, 0};
  const ls_tensor x = eager_of(LS_DTYPE_F32, LS_SHAPE(4, 2), logits);
  const ls_tensor y = eager_of(LS_DTYPE_I32, LS_SHAPE(4), labels);
  assert_true(item_of(ls_accuracy(x, y)) == 0.75);
  assert_true(item_of(ls_count_correct(x, y)) == 3);
  expect_ok(ls_frame_end(NULL));
}
