// SPDX-License-Identifier: Apache-2.0
//
// Refused calls leave their results empty: none, NULL or zero.
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "lockstep/weights.h"
#include "support/refused.h"

TEST(refused_calls_of_layers_leave_nothing) {
  REFUSED(ls_attention_layer *, ls_attention_layer_create(NULL, &out));
  REFUSED(ls_batch_norm_layer *, ls_batch_norm_layer_create(NULL, &out));
  REFUSED(ls_conv_layer *, ls_conv_layer_create(NULL, &out));
  REFUSED(ls_dense_layer *, ls_dense_layer_create(NULL, &out));
  REFUSED(ls_embedding_layer *, ls_embedding_layer_create(NULL, &out));
  REFUSED(ls_norm_layer *, ls_norm_layer_create(NULL, &out));
  REFUSED(ls_recurrent_layer *, ls_recurrent_layer_create(NULL, &out));
}

TEST(refused_calls_of_losses_leave_nothing) {
  REFUSED_MEMORY(ls_running_mean *, ls_running_mean_create(NULL, &out));
  REFUSED(double, ls_running_mean_read(NULL, &out));
}

TEST(refused_calls_of_optimizers_leave_nothing) {
  REFUSED_MEMORY(ls_optimizer *, ls_adagrad_create(NULL, &out));
  REFUSED_MEMORY(ls_optimizer *, ls_adam_create(NULL, &out));
  REFUSED_MEMORY(ls_optimizer *, ls_adamw_create(NULL, &out));
  REFUSED(ls_average *, ls_average_create(NULL, &out));
  REFUSED(ls_optimizer *, ls_cross_shard_create(NULL, &out));
  REFUSED_MEMORY(ls_optimizer *, ls_lamb_create(NULL, &out));
  REFUSED_MEMORY(ls_optimizer *, ls_lion_create(NULL, &out));
  REFUSED(ls_op, ls_optimizer_apply_across(NULL, NULL, NULL, 0, NULL, &out));
  REFUSED(ls_optimizer *, ls_optimizer_create(NULL, NULL, &out));
  REFUSED(ls_optimizer *, ls_optimizer_create_own(NULL, NULL, NULL, &out));
  REFUSED(ls_variable *, ls_optimizer_kept_gradient(NULL, NULL, &out));
  REFUSED(ls_variable *, ls_optimizer_slot(NULL, NULL, NULL, &out));
  REFUSED_MEMORY(ls_optimizer *, ls_rmsprop_create(NULL, &out));
  REFUSED_MEMORY(ls_optimizer *, ls_sgd_create(NULL, &out));
}

TEST(refused_calls_of_weights_leave_nothing) {
  REFUSED_MEMORY(ls_variable *, ls_weight_create(NULL, &out));
}
