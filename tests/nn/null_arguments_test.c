// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "graph/own.h"
#include "lockstep/bag.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "lockstep/table.h"
#include "lockstep/variable_parts.h"
#include "lockstep/weights.h"
#include "support/expect.h"
#include "support/function.h"

// Something that is not NULL; nobody looks at it before all are there.
static _Alignas(16) char place[512];
static void *const some = place;

TEST(calls_of_layers_refuse_null) {
  expect_null_argument(out_layer, ls_dense_layer_create, some, NULL);
  expect_null_argument(out_layer, ls_conv_layer_create, some, NULL);
  expect_null_argument(out_layer, ls_batch_norm_layer_create, some, NULL);
  expect_null_argument(out_layer, ls_norm_layer_create, some, NULL);
  expect_null_argument(out_layer, ls_embedding_layer_create, some, NULL);
  expect_null_argument(out_layer, ls_attention_layer_create, some, NULL);
  expect_null_argument(out_layer, ls_recurrent_layer_create, some, NULL);
}

TEST(calls_of_losses_refuse_null) {
  expect_null_argument(out_mean, ls_running_mean_create, some, NULL);
  expect_null_argument(mean, ls_running_mean_read, NULL, some);
  expect_null_argument(out_mean, ls_running_mean_read, some, NULL);
}

TEST(calls_of_optimizers_refuse_null) {
  expect_null_argument(out_optimizer, ls_sgd_create, some, NULL);
  expect_null_argument(out_optimizer, ls_adam_create, some, NULL);
  expect_null_argument(out_optimizer, ls_adamw_create, some, NULL);
  expect_null_argument(out_optimizer, ls_lamb_create, some, NULL);
  expect_null_argument(out_optimizer, ls_adagrad_create, some, NULL);
  expect_null_argument(out_optimizer, ls_rmsprop_create, some, NULL);
  expect_null_argument(out_optimizer, ls_lion_create, some, NULL);
  expect_null_argument(kind, ls_optimizer_create, NULL, some, some);
  expect_null_argument(out_optimizer, ls_optimizer_create, some, some, NULL);
  expect_null_argument(rule, ls_optimizer_create_own, NULL, some, some, some);
  expect_null_argument(out_optimizer, ls_optimizer_create_own, some, some, some,
                       NULL);
  expect_null_argument(optimizer, ls_optimizer_minimize_tape, NULL, some,
                       (ls_tensor){0});
  expect_null_argument(tape, ls_optimizer_minimize_tape, some, NULL,
                       (ls_tensor){0});
  expect_null_argument(optimizer, ls_optimizer_apply_across, NULL, some, some,
                       1, some, some);
  expect_null_argument(out_op, ls_optimizer_apply_across, some, some, some, 1,
                       some, NULL);
  expect_null_argument(variables, ls_optimizer_apply_across, some, NULL, some,
                       1, some, some);
  expect_null_argument(gradients, ls_optimizer_apply_across, some, some, NULL,
                       1, some, some);
  expect_null_argument(optimizer, ls_optimizer_prepare, NULL, some, 1);
  expect_null_argument(variables, ls_optimizer_prepare, some, NULL, 1);
  expect_null_argument(optimizer, ls_optimizer_keep_gradients, NULL, some, 1);
  expect_null_argument(variables, ls_optimizer_keep_gradients, some, NULL, 1);
  expect_null_argument(optimizer, ls_optimizer_kept_gradient, NULL, some, some);
  expect_null_argument(variable, ls_optimizer_kept_gradient, some, NULL, some);
  expect_null_argument(out_gradient, ls_optimizer_kept_gradient, some, some,
                       NULL);
  expect_null_argument(optimizer, ls_optimizer_slot, NULL, some, some, some);
  expect_null_argument(variable, ls_optimizer_slot, some, NULL, some, some);
  expect_null_argument(name, ls_optimizer_slot, some, some, NULL, some);
  expect_null_argument(out_slot, ls_optimizer_slot, some, some, some, NULL);
  expect_null_argument(out_average, ls_average_create, some, NULL);
}

TEST(other_calls_of_nn_refuse_null) {
  expect_null_argument(bag, ls_bag_take_error, NULL);
  expect_null_argument(out_variable, ls_weight_create, some, NULL);
}

// ---- Makers ----------------------------------------------------------------
static void expect_failed(ls_tensor made, const char *text) {
  assert_true(ls_tensor_is_failed(made));
  expect_status(ls_graph_take_error(ls_graph_current()), LS_INVALID_ARGUMENT,
                text);
}

static void expect_failed_op(ls_op made, const char *text) {
  assert_true(ls_op_is_failed(made));
  expect_status(ls_graph_take_error(ls_graph_current()), LS_INVALID_ARGUMENT,
                text);
}

static void layers_of_nothing_fail(ls_tensor x) {
  ls_recurrent_state last;
  expect_failed(ls_dense_layer_apply(NULL, x),
                "ls_dense_layer_apply: layer is NULL");
  expect_failed(ls_conv_layer_apply(NULL, x),
                "ls_conv_layer_apply: layer is NULL");
  expect_failed(ls_batch_norm_layer_apply(NULL, x, true),
                "ls_batch_norm_layer_apply: layer is NULL");
  expect_failed(ls_norm_layer_apply(NULL, x),
                "ls_norm_layer_apply: layer is NULL");
  expect_failed(ls_embedding_layer_apply(NULL, x),
                "ls_embedding_layer_apply: layer is NULL");
  expect_failed(ls_embedding_layer_logits(NULL, x),
                "ls_embedding_layer_logits: layer is NULL");
  expect_failed(ls_attention_layer_apply(NULL, x),
                "ls_attention_layer_apply: layer is NULL");
  expect_failed(ls_attention_layer_apply_to(NULL, x, x),
                "ls_attention_layer_apply_to: layer is NULL");
  expect_failed(ls_recurrent_layer_apply(NULL, x, NULL, &last),
                "ls_recurrent_layer_apply: layer is NULL");
}

static void ops_of_no_object_fail(ls_tensor x) {
  expect_failed(ls_running_mean_value(NULL),
                "ls_running_mean_value: mean is NULL");
  expect_failed_op(ls_running_mean_update(NULL, x),
                   "ls_running_mean_update: mean is NULL");
  expect_failed_op(ls_running_mean_reset(NULL),
                   "ls_running_mean_reset: mean is NULL");
  expect_failed_op(ls_average_update(NULL),
                   "ls_average_update: average is NULL");
  expect_failed_op(ls_average_swap(NULL), "ls_average_swap: average is NULL");
  expect_failed(ls_schedule_factor(NULL, x),
                "ls_schedule_factor: schedule is NULL");
  expect_failed(ls_optimizer_rate(NULL),
                "ls_optimizer_rate: optimizer is NULL");
  expect_failed(ls_optimizer_step(NULL),
                "ls_optimizer_step: optimizer is NULL");
  expect_failed_op(ls_optimizer_minimize(NULL, x),
                   "ls_optimizer_minimize: optimizer is NULL");
  ls_variable *const missing = NULL;
  expect_failed_op(ls_optimizer_minimize_only(NULL, x, &missing, 1),
                   "ls_optimizer_minimize_only: optimizer is NULL");
  expect_failed_op(ls_optimizer_minimize_only(some, x, NULL, 1),
                   "ls_optimizer_minimize_only: variables is NULL");
  expect_failed_op(ls_optimizer_minimize_only(some, x, &missing, 1),
                   "ls_optimizer_minimize_only: variables[i] is NULL");
  expect_failed_op(ls_optimizer_apply(NULL, NULL, NULL, 0),
                   "ls_optimizer_apply: optimizer is NULL");
  expect_failed_op(ls_variable_initializer(NULL),
                   "ls_variable_initializer: variable is NULL");
  expect_failed(ls_variable_initial_value(NULL),
                "ls_variable_initial_value: variable is NULL");
  expect_failed(ls_variable_constrain(NULL, x),
                "ls_variable_constrain: variable is NULL");
  expect_failed(ls_table_lookup(NULL, x), "ls_table_lookup: table is NULL");
  expect_failed(ls_table_size(NULL), "ls_table_size: table is NULL");
}

TEST(makers_of_ops_fail_without_their_object) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = ls_scalar(LS_DTYPE_F32, 1);
    layers_of_nothing_fail(x);
    ops_of_no_object_fail(x);
  }
}
