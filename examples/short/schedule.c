// SPDX-License-Identifier: Apache-2.0
// A schedule: the learning rate rises for ten steps and then falls along a
// cosine. The function returns the rate of the step that it makes.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { STEPS = 100 };

typedef struct bowl {
  ls_dense_layer *layer;
  ls_optimizer *optimizer;
} bowl;

static ls_nest step(ls_nest args, void *user) {
  const bowl *b = user;
  (void)args;
  const ls_tensor rate = ls_optimizer_rate(b->optimizer);
  const ls_tensor w = ls_variable_read(ls_dense_layer_kernel(b->layer));
  ls_optimizer_minimize(b->optimizer, ls_reduce_sum(ls_square(w), LS_ALL_AXES));
  return ls_leaf(rate);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  bowl b = {
      .layer = ls_dense_layer_in(bag, .inputs = 4, .units = 4, .no_bias = true),
      .optimizer = ls_sgd_in(bag, .learning_rate = 0.5,
                             .schedule = {.kind = LS_SCHEDULE_COSINE,
                                          .steps = STEPS - 10,
                                          .end = 0.1,
                                          .warmup = 10})};
  ls_function *function = ls_function_in(bag, .call = step, .user = &b);
  ls_nest *rate = ls_nest_in(bag, ls_none());
  double highest = 0;
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  for (int i = 0; i <= STEPS; ++i) {
    LS_RETURN_IF_ERROR(ls_function_call(function, ls_none(), rate));
    *(i == 0 ? first : last) = ls_nest_number(*rate);
    if (*last > highest) highest = *last;
  }
  printf("highest %.4f\n", highest);
  return highest == 0.5 ? ls_ok() : ls_internal("the rate never was 0.5");
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok =
      ls_status_is_ok(status) && first < 0.06 && last < 0.06 && last > 0.04;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
