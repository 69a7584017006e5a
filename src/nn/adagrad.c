// SPDX-License-Identifier: Apache-2.0
// Adagrad and RMSProp: divide steps by the root of a sum or average of squares.
#include <math.h>

#include "nn/optimizer.h"

#include "base/require.h"

// ---- Adagrad ---------------------------------------------------------------
static ls_tensor adagrad_move(const ls_update *update, ls_tensor g,
                              ls_tensor sum) {
  const ls_tensor root =
      ls_sqrt(ls_add_scalar(sum, update->optimizer->epsilon));
  return ls_update_rate(update, ls_div(g, root));
}

static void update_adagrad(const ls_update *update) {
  ls_update_rows rows;
  if (ls_update_find_rows(update->gradient, &rows)) {
    const ls_tensor sum =
        ls_add(ls_update_read_rows(update, 0, &rows), ls_square(rows.gradient));
    ls_update_slot_rows(update, 0, &rows, sum);
    ls_update_move_rows(update, &rows,
                        adagrad_move(update, rows.gradient, sum));
    return;
  }
  const ls_tensor g = update->gradient;
  const ls_tensor sum = ls_add(ls_update_read(update, 0), ls_square(g));
  ls_update_slot(update, 0, sum);
  ls_update_move(update, adagrad_move(update, g, sum));
}

static const ls_optimizer_rule adagrad_rule = {.name = "adagrad",
                                               .num_slots = 1,
                                               .slot_names = {"sum"},
                                               .update = update_adagrad};

ls_status ls_adagrad_create(const ls_adagrad_options *options,
                            ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer);
  ls_adagrad_options opts =
      options != NULL ? *options : (ls_adagrad_options){0};
  if (opts.initial == 0) opts.initial = 0.1;
  if (opts.epsilon == 0) opts.epsilon = 1e-7;
  LS_RETURN_IF_ERROR(
      ls_optimizer_check("adagrad", "initial sum", opts.initial, INFINITY));
  LS_RETURN_IF_ERROR(
      ls_optimizer_check("adagrad", "epsilon", opts.epsilon, INFINITY));
  LS_RETURN_IF_ERROR(
      ls_optimizer_make(&adagrad_rule, &opts, 0.01, out_optimizer));
  (*out_optimizer)->initial = opts.initial;
  (*out_optimizer)->epsilon = opts.epsilon;
  return ls_ok();
}

// ---- RMSProp ---------------------------------------------------------------
static void update_rmsprop(const ls_update *update) {
  const ls_optimizer *optimizer = update->optimizer;
  const double decay = optimizer->beta2;
  const ls_tensor g = update->gradient;
  size_t slot = 0;
  ls_tensor variance =
      ls_update_mix(decay, ls_update_read(update, slot), ls_square(g));
  ls_update_slot(update, slot++, variance);
  if (optimizer->centered) {
    const ls_tensor mean =
        ls_update_mix(decay, ls_update_read(update, slot), g);
    ls_update_slot(update, slot++, mean);
    variance = ls_sub(variance, ls_square(mean));
  }
  const ls_tensor root = ls_sqrt(ls_add_scalar(variance, optimizer->epsilon));
  ls_tensor delta = ls_update_rate(update, ls_div(g, root));
  if (optimizer->momentum > 0) {
    delta =
        ls_add(ls_mul_scalar(ls_update_read(update, slot), optimizer->momentum),
               delta);
    ls_update_slot(update, slot, delta);
  }
  ls_update_move(update, delta);
}

ls_status ls_rmsprop_create(const ls_rmsprop_options *options,
                            ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer);
  ls_rmsprop_options opts =
      options != NULL ? *options : (ls_rmsprop_options){0};
  if (opts.decay == 0) opts.decay = 0.9;
  if (opts.epsilon == 0) opts.epsilon = 1e-8;
  LS_RETURN_IF_ERROR(ls_optimizer_check("rmsprop", "decay", opts.decay, 1));
  LS_RETURN_IF_ERROR(
      ls_optimizer_check("rmsprop", "momentum", opts.momentum, INFINITY));
  LS_RETURN_IF_ERROR(
      ls_optimizer_check("rmsprop", "epsilon", opts.epsilon, INFINITY));
  ls_optimizer_rule rule = {.name = "rmsprop",
                            .num_slots = 1,
                            .slot_names = {"square"},
                            .update = update_rmsprop};
  if (opts.centered) rule.slot_names[rule.num_slots++] = "mean";
  if (opts.momentum > 0) rule.slot_names[rule.num_slots++] = "momentum";
  LS_RETURN_IF_ERROR(ls_optimizer_make(&rule, &opts, 0.001, out_optimizer));
  ls_optimizer *optimizer = *out_optimizer;
  optimizer->beta2 = opts.decay;
  optimizer->momentum = opts.momentum;
  optimizer->epsilon = opts.epsilon;
  optimizer->centered = opts.centered;
  return ls_ok();
}
