// SPDX-License-Identifier: Apache-2.0
// An optimizer of one's own: gradients, a slot that is a variable, and updates.
// It is the sign of a momentum, as Lion's.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { SIZE = 16, STEPS = 200 };

typedef struct bowl {
  ls_variable *weight, *momentum;
} bowl;

static ls_status descend(const bowl *b, ls_tensor loss, double rate) {
  const ls_nest y = ls_leaf(loss), x = ls_nest_variable(b->weight);
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&y, 1, &x, 1, NULL, &gradient);
  ls_nest_release(x);
  LS_RETURN_IF_ERROR(status);
  // The mean over the replicas, if there are any.
  const ls_tensor g =
      ls_all_reduce(LS_REDUCE_MEAN, ls_nest_tensor(gradient, 0));
  const ls_tensor moved = ls_variable_assign(
      b->momentum, ls_add(ls_mul_scalar(ls_variable_read(b->momentum), 0.9),
                          ls_mul_scalar(g, 0.1)));
  ls_variable_assign_sub(b->weight, ls_mul_scalar(ls_sign(moved), rate));
  return ls_ok();
}

static ls_nest step(ls_nest args, void *user) {
  const bowl *b = user;
  (void)args;
  const ls_tensor w = ls_variable_read(b->weight);
  const ls_tensor loss = ls_reduce_sum(ls_square(w), LS_ALL_AXES);
  const ls_status status = descend(b, loss, 0.01);
  return ls_status_is_ok(status) ? ls_leaf(loss) : ls_fail(status);
}

static void drop_variable(void *variable) { ls_variable_release(variable); }

static ls_variable *make_variable(ls_bag *bag, const char *name,
                                  ls_initializer initializer) {
  ls_variable *made = NULL;
  const ls_status status = ls_weight_create(
      &(ls_weight_options){
          .name = name, .shape = LS_SHAPE(SIZE), .initializer = initializer},
      &made);
  return ls_bag_keep(bag, status, made, drop_variable);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  bowl b = {.weight = make_variable(bag, "weight", ls_init_normal(0, 1)),
            .momentum = make_variable(bag, "momentum", ls_init_zeros())};
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
