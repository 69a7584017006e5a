// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizer.h"

#include "base/require.h"

static void update_lion(const ls_update *update) {
  const ls_optimizer *optimizer = update->optimizer;
  const ls_tensor g = update->gradient, m = ls_update_read(update, 0);
  ls_tensor u = ls_sign(ls_update_mix(optimizer->beta1, m, g));
  ls_update_slot(update, 0, ls_update_mix(optimizer->beta2, m, g));
  if (ls_update_decays(update)) u = ls_add(u, ls_update_decay(update));
  ls_update_move(update, ls_update_rate(update, u));
}

static const ls_optimizer_rule lion_rule = {.name = "lion",
                                            .own_decay = true,
                                            .num_slots = 1,
                                            .slot_names = {"m"},
                                            .update = update_lion};

ls_status ls_lion_create(const ls_lion_options *options,
                         ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer);
  ls_lion_options opts = options != NULL ? *options : (ls_lion_options){0};
  if (opts.beta1 == 0) opts.beta1 = 0.9;
  if (opts.beta2 == 0) opts.beta2 = 0.99;
  LS_RETURN_IF_ERROR(ls_optimizer_check("lion", "beta1", opts.beta1, 1));
  LS_RETURN_IF_ERROR(ls_optimizer_check("lion", "beta2", opts.beta2, 1));
  LS_RETURN_IF_ERROR(
      ls_optimizer_make(&lion_rule, &opts, 0.0001, out_optimizer));
  (*out_optimizer)->beta1 = opts.beta1;
  (*out_optimizer)->beta2 = opts.beta2;
  return ls_ok();
}
