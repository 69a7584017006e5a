// SPDX-License-Identifier: Apache-2.0
// An optimizer of one's own: a rule with a slot. It moves by the sign of a
// momentum, as Lion does, on any number of replicas.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { SIZE = 16, STEPS = 200 };

static void update_by_sign(ls_update *update, void *user) {
  (void)user;
  const ls_tensor m = ls_add(ls_mul_scalar(ls_update_read(update, 0), 0.9),
                             ls_mul_scalar(ls_update_gradient(update), 0.1));
  ls_update_slot(update, 0, m);
  ls_update_move(update, ls_update_rate(update, ls_sign(m)));
}

static const ls_optimizer_rule sign_rule = {.name = "sign",
                                            .learning_rate = 0.01,
                                            .slots = {{.name = "momentum"}},
                                            .update = update_by_sign};

typedef struct bowl {
  ls_variable *weight;
  ls_optimizer *optimizer;
} bowl;

static ls_nest step(ls_nest args, void *user) {
  const bowl *b = user;
  (void)args;
  const ls_tensor w = ls_variable_read(b->weight);
  const ls_tensor loss = ls_reduce_sum(ls_square(w), LS_ALL_AXES);
  ls_optimizer_minimize(b->optimizer, loss);
  return ls_leaf(loss);
}

static void drop_variable(void *variable) { ls_variable_release(variable); }
static void drop_optimizer(void *made) { ls_optimizer_release(made); }

static ls_variable *make_weight(ls_bag *bag) {
  ls_variable *made = NULL;
  const ls_status status = ls_weight_create(
      &(ls_weight_options){.name = "weight",
                           .shape = LS_SHAPE(SIZE),
                           .initializer = ls_init_normal(0, 1)},
      &made);
  return ls_bag_keep(bag, status, made, drop_variable);
}

static ls_optimizer *make_optimizer(ls_bag *bag) {
  ls_optimizer *made = NULL;
  const ls_status status =
      ls_optimizer_create_own(&sign_rule, NULL, NULL, &made);
  return ls_bag_keep(bag, status, made, drop_optimizer);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  bowl b = {.weight = make_weight(bag), .optimizer = make_optimizer(bag)};
  ls_function *function = ls_function_in(bag, .call = step, .user = &b);
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
  const bool ok = ls_status_is_ok(status) && last < first / 100;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
