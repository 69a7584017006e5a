// SPDX-License-Identifier: Apache-2.0
// A function in C that is called in a step, with values of it, on a thread of
// the library's: here it keeps the largest loss.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { STEPS = 50 };

typedef struct watched {
  ls_dense_layer *layer;
  ls_optimizer *optimizer;
  double largest;
  int calls;
} watched;

static ls_status note_loss(ls_nest values, void *user) {
  watched *w = user;
  const double loss = ls_nest_number(values);
  ++w->calls;
  if (loss > w->largest) w->largest = loss;
  return ls_ok();  // A failure would be that of the step.
}

static ls_nest step(ls_nest args, void *user) {
  watched *w = user;
  (void)args;
  const ls_tensor x =
      ls_random_normal(LS_DTYPE_F32, LS_SHAPE(32, 4), 0, 1, NULL);
  const ls_tensor loss = ls_mean_squared_error(
      ls_dense_layer_apply(w->layer, x), ls_reduce_sum_keep(x, LS_AXES(1)),
      LS_REDUCTION_MEAN);
  ls_host_function_op(note_loss, w, ls_leaf(loss));
  ls_optimizer_minimize(w->optimizer, loss);
  return ls_leaf(loss);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  watched w = {.layer = ls_dense_layer_in(bag, .inputs = 4, .units = 1),
               .optimizer = ls_sgd_in(bag, .learning_rate = 0.1)};
  ls_function *function = ls_function_in(bag, .call = step, .user = &w);
  ls_nest *loss = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  for (int i = 0; i < STEPS; ++i) {
    LS_RETURN_IF_ERROR(ls_function_call(function, ls_none(), loss));
    *last = ls_nest_number(*loss);
  }
  *first = w.largest;
  return w.calls == STEPS ? ls_ok() : ls_internal("%d calls", w.calls);
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
