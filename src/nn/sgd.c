// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "nn/optimizer.h"

#include "base/require.h"

static void update_plain(const ls_update *update) {
  ls_update_rows rows;
  if (ls_update_find_rows(update->gradient, &rows))
    ls_update_move_rows(update, &rows, ls_update_rate(update, rows.gradient));
  else
    ls_update_move(update, ls_update_rate(update, update->gradient));
}

static void update_momentum(const ls_update *update) {
  const ls_optimizer *optimizer = update->optimizer;
  const double momentum = optimizer->momentum;
  const ls_tensor g = update->gradient;
  const ls_tensor v =
      ls_add(ls_mul_scalar(ls_update_read(update, 0), momentum), g);
  ls_update_slot(update, 0, v);
  const ls_tensor direction =
      optimizer->nesterov ? ls_add(ls_mul_scalar(v, momentum), g) : v;
  ls_update_move(update, ls_update_rate(update, direction));
}

static const ls_optimizer_rule plain_rule = {.name = "sgd",
                                             .update = update_plain};
static const ls_optimizer_rule momentum_rule = {.name = "momentum",
                                                .num_slots = 1,
                                                .slot_names = {"momentum"},
                                                .update = update_momentum};

ls_status ls_sgd_create(const ls_sgd_options *options,
                        ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer);
  const ls_sgd_options opts = options != NULL ? *options : (ls_sgd_options){0};
  LS_RETURN_IF_ERROR(
      ls_optimizer_check("sgd", "momentum", opts.momentum, INFINITY));
  if (opts.nesterov && opts.momentum == 0)
    return ls_invalid_argument("sgd: nesterov needs a momentum above 0");
  const ls_optimizer_rule *rule =
      opts.momentum > 0 ? &momentum_rule : &plain_rule;
  LS_RETURN_IF_ERROR(ls_optimizer_make(rule, &opts, 0.01, out_optimizer));
  (*out_optimizer)->momentum = opts.momentum;
  (*out_optimizer)->nesterov = opts.nesterov;
  return ls_ok();
}
