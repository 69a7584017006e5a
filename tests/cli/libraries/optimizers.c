// SPDX-License-Identifier: Apache-2.0
// Optimizers of a user's, with public headers only: the library's momentum, and
// a step by the sign of a gradient.
#include "lockstep/full.h"

static void update_momentum(ls_update *update, void *user) {
  (void)user;
  const ls_tensor v = ls_add(ls_mul_scalar(ls_update_read(update, 0), 0.9),
                             ls_update_gradient(update));
  ls_update_slot(update, 0, v);
  ls_update_move(update, ls_update_rate(update, v));
}

static const ls_optimizer_rule heavy = {.name = "heavy",
                                        .learning_rate = 0.01,
                                        .slots = {{.name = "momentum"}},
                                        .update = update_momentum};

static void update_sign(ls_update *update, void *user) {
  (void)user;
  ls_update_move(update,
                 ls_update_rate(update, ls_sign(ls_update_gradient(update))));
}

static const ls_optimizer_rule steady = {
    .name = "steady", .learning_rate = 0.001, .update = update_sign};
LS_EXPORT_OPTIMIZERS(&heavy, &steady);
