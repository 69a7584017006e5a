// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "lockstep/bag.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/optimizers.h"
#include "lockstep/weights.h"
#include "support/expect.h"

// Something that is not NULL; nobody looks at it before all are there.
static _Alignas(16) char place[512];
static void *const some = place;

static void expect_null(ls_status status, const char *text) {
  expect_status(status, LS_INVALID_ARGUMENT, text);
}

TEST(calls_of_layers_refuse_null) {
  expect_null(ls_dense_layer_create(some, NULL),
              "ls_dense_layer_create: out_layer is NULL");
  expect_null(ls_conv_layer_create(some, NULL),
              "ls_conv_layer_create: out_layer is NULL");
  expect_null(ls_batch_norm_layer_create(some, NULL),
              "ls_batch_norm_layer_create: out_layer is NULL");
  expect_null(ls_norm_layer_create(some, NULL),
              "ls_norm_layer_create: out_layer is NULL");
  expect_null(ls_embedding_layer_create(some, NULL),
              "ls_embedding_layer_create: out_layer is NULL");
  expect_null(ls_attention_layer_create(some, NULL),
              "ls_attention_layer_create: out_layer is NULL");
  expect_null(ls_recurrent_layer_create(some, NULL),
              "ls_recurrent_layer_create: out_layer is NULL");
}

TEST(calls_of_losses_refuse_null) {
  expect_null(ls_running_mean_create(some, NULL),
              "ls_running_mean_create: out_mean is NULL");
}

TEST(calls_of_optimizers_refuse_null) {
  expect_null(ls_sgd_create(some, NULL),
              "ls_sgd_create: out_optimizer is NULL");
  expect_null(ls_adam_create(some, NULL),
              "ls_adam_create: out_optimizer is NULL");
  expect_null(ls_adamw_create(some, NULL),
              "ls_adamw_create: out_optimizer is NULL");
  expect_null(ls_lamb_create(some, NULL),
              "ls_lamb_create: out_optimizer is NULL");
  expect_null(ls_adagrad_create(some, NULL),
              "ls_adagrad_create: out_optimizer is NULL");
  expect_null(ls_rmsprop_create(some, NULL),
              "ls_rmsprop_create: out_optimizer is NULL");
  expect_null(ls_lion_create(some, NULL),
              "ls_lion_create: out_optimizer is NULL");
  expect_null(ls_optimizer_create(NULL, some, some),
              "ls_optimizer_create: kind is NULL");
  expect_null(ls_optimizer_create(some, some, NULL),
              "ls_optimizer_create: out_optimizer is NULL");
  expect_null(ls_optimizer_minimize_tape(NULL, some, (ls_tensor){0}),
              "ls_optimizer_minimize_tape: optimizer is NULL");
  expect_null(ls_optimizer_minimize_tape(some, NULL, (ls_tensor){0}),
              "ls_optimizer_minimize_tape: tape is NULL");
  expect_null(ls_optimizer_apply_across(NULL, some, some, 1, some, some),
              "ls_optimizer_apply_across: optimizer is NULL");
  expect_null(ls_optimizer_apply_across(some, some, some, 1, some, NULL),
              "ls_optimizer_apply_across: out_op is NULL");
  expect_null(ls_optimizer_apply_across(some, NULL, some, 1, some, some),
              "ls_optimizer_apply_across: variables is NULL");
  expect_null(ls_optimizer_apply_across(some, some, NULL, 1, some, some),
              "ls_optimizer_apply_across: gradients is NULL");
  expect_null(ls_optimizer_prepare(NULL, some, 1),
              "ls_optimizer_prepare: optimizer is NULL");
  expect_null(ls_optimizer_prepare(some, NULL, 1),
              "ls_optimizer_prepare: variables is NULL");
  expect_null(ls_optimizer_slot(NULL, some, some, some),
              "ls_optimizer_slot: optimizer is NULL");
  expect_null(ls_optimizer_slot(some, NULL, some, some),
              "ls_optimizer_slot: variable is NULL");
  expect_null(ls_optimizer_slot(some, some, NULL, some),
              "ls_optimizer_slot: name is NULL");
  expect_null(ls_optimizer_slot(some, some, some, NULL),
              "ls_optimizer_slot: out_slot is NULL");
  expect_null(ls_average_create(some, NULL),
              "ls_average_create: out_average is NULL");
}

TEST(other_calls_of_nn_refuse_null) {
  expect_null(ls_bag_take_error(NULL), "ls_bag_take_error: bag is NULL");
  expect_null(ls_weight_create(some, NULL),
              "ls_weight_create: out_variable is NULL");
}
