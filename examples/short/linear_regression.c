// SPDX-License-Identifier: Apache-2.0
// Linear regression: a dense layer without an activation finds the weights of a
// noisy plane.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { POINTS = 64, STEPS = 200 };

typedef struct plane {
  ls_dense_layer *layer;
  ls_optimizer *optimizer;
} plane;

static ls_nest step(ls_nest args, void *user) {
  const plane *p = user;
  (void)args;
  const ls_tensor x =
      ls_random_normal(LS_DTYPE_F32, LS_SHAPE(POINTS, 2), 0, 1, NULL);
  const ls_tensor noise =
      ls_random_normal(LS_DTYPE_F32, LS_SHAPE(POINTS, 1), 0, 0.1, NULL);
  const ls_tensor y = ls_add(ls_sub(ls_mul_scalar(ls_slice_axis(x, 1, 0, 1), 2),
                                    ls_slice_axis(x, 1, 1, 2)),
                             ls_add_scalar(noise, 3));  // 2 a - b + 3
  const ls_tensor loss = ls_mean_squared_error(
      ls_dense_layer_apply(p->layer, x), y, LS_REDUCTION_MEAN);
  ls_optimizer_minimize(p->optimizer, loss);
  return ls_leaf(loss);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  plane p = {.layer = ls_dense_layer_in(bag, .inputs = 2, .units = 1),
             .optimizer = ls_sgd_in(bag, .learning_rate = 0.05)};
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
  const bool ok = ls_status_is_ok(status) && last < 0.02;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
