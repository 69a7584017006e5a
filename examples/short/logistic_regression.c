// SPDX-License-Identifier: Apache-2.0
// Logistic regression: two classes, a sigmoid, and the cross entropy of bits.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { POINTS = 64, STEPS = 200 };

typedef struct border {
  ls_dense_layer *layer;
  ls_optimizer *optimizer;
} border;

static ls_nest step(ls_nest args, void *user) {
  const border *b = user;
  (void)args;
  const ls_tensor x =
      ls_random_normal(LS_DTYPE_F32, LS_SHAPE(POINTS, 2), 0, 1, NULL);
  const ls_tensor sum = ls_reduce_sum_keep(x, LS_AXES(1));
  const ls_tensor is_above =
      ls_convert(ls_greater(sum, ls_scalar(LS_DTYPE_F32, 0.5)), LS_DTYPE_F32);
  const ls_tensor loss = ls_sigmoid_cross_entropy_loss(
      ls_dense_layer_apply(b->layer, x), is_above, LS_REDUCTION_MEAN);
  ls_optimizer_minimize(b->optimizer, loss);
  return ls_leaf(loss);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  border b = {.layer = ls_dense_layer_in(bag, .inputs = 2, .units = 1),
              .optimizer = ls_adam_in(bag, .learning_rate = 0.1)};
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
  const bool ok = ls_status_is_ok(status) && last < first / 4;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
