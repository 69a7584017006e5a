// SPDX-License-Identifier: Apache-2.0
// Reinforcement: a policy learns which of ten arms pays best, from the rewards
// of the arms that it draws, by the gradient of their log probabilities.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { ARMS = 10, DRAWS = 64, STEPS = 200 };

typedef struct policy {
  ls_variable *logits;
  ls_optimizer *optimizer;
} policy;

static ls_nest step(ls_nest args, void *user) {
  const policy *p = user;
  (void)args;
  const ls_tensor logits =
      ls_broadcast(ls_variable_read(p->logits), LS_SHAPE(DRAWS, ARMS));
  // The largest of logits with Gumbel's noise is a draw by their softmax.
  const ls_tensor uniform = ls_random_uniform(
      LS_DTYPE_F32, LS_SHAPE(DRAWS, ARMS), 1e-6, 1 - 1e-6, NULL);
  const ls_tensor gumbel = ls_neg(ls_log(ls_neg(ls_log(uniform))));
  const ls_tensor arms = ls_argmax(ls_stop_gradient(ls_add(logits, gumbel)), 1);
  // Arm k pays k / 10, with noise.
  const ls_tensor rewards =
      ls_add(ls_mul_scalar(ls_convert(arms, LS_DTYPE_F32), 0.1),
             ls_random_normal(LS_DTYPE_F32, LS_SHAPE(DRAWS), 0, 0.1, NULL));
  const ls_tensor mean = ls_reduce_mean(rewards, LS_ALL_AXES);
  const ls_tensor advantages = ls_sub(rewards, mean);
  const ls_tensor losses = ls_softmax_cross_entropy(logits, arms);
  ls_optimizer_minimize(
      p->optimizer, ls_reduce_mean(ls_mul(losses, advantages), LS_ALL_AXES));
  return ls_leaf(mean);
}

static void drop_variable(void *variable) { ls_variable_release(variable); }

static ls_status run(ls_bag *bag, double *first, double *last) {
  ls_variable *logits = NULL;
  const ls_status status =
      ls_weight_create(&(ls_weight_options){.name = "logits",
                                            .shape = LS_SHAPE(1, ARMS),
                                            .initializer = ls_init_zeros()},
                       &logits);
  policy p = {.logits = ls_bag_keep(bag, status, logits, drop_variable),
              .optimizer = ls_adam_in(bag, .learning_rate = 0.1)};
  ls_function *function = ls_function_in(bag, .call = step, .user = &p);
  ls_nest *args = ls_nest_in(bag, ls_none()),
          *loss = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  for (int i = 0; i < STEPS; ++i) {
    LS_RETURN_IF_ERROR(ls_function_call(function, *args, loss));
    *(i == 0 ? first : last) = ls_nest_number(*loss);
  }
  return ls_ok();
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && first < 0.6 && last > 0.85;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
