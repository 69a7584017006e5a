// SPDX-License-Identifier: Apache-2.0
// A layer of one's own: a struct of weights, a function that creates them, and
// one that applies them. It multiplies units by gates.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { POINTS = 64, INPUTS = 8, STEPS = 300 };

typedef struct gated_layer {
  ls_variable *value, *gate;
} gated_layer;

static void drop_variable(void *variable) { ls_variable_release(variable); }

static ls_variable *make_weight(ls_bag *bag, const char *name) {
  ls_variable *made = NULL;
  const ls_status status = ls_weight_create(
      &(ls_weight_options){.name = name, .shape = LS_SHAPE(INPUTS, 1)}, &made);
  return ls_bag_keep(bag, status, made, drop_variable);
}

static gated_layer gated_layer_in(ls_bag *bag) {
  return (gated_layer){.value = make_weight(bag, "gated/value"),
                       .gate = make_weight(bag, "gated/gate")};
}

static ls_tensor gated_layer_apply(const gated_layer *layer, ls_tensor x) {
  return ls_mul(ls_matmul(x, ls_variable_read(layer->value)),
                ls_sigmoid(ls_matmul(x, ls_variable_read(layer->gate))));
}

typedef struct net {
  gated_layer layer;
  ls_optimizer *optimizer;
} net;

// The sum of the inputs, but 0 where the first is negative.
static ls_nest step(ls_nest args, void *user) {
  const net *n = user;
  (void)args;
  const ls_tensor x =
      ls_random_normal(LS_DTYPE_F32, LS_SHAPE(POINTS, INPUTS), 0, 1, NULL);
  const ls_tensor sum = ls_reduce_sum_keep(x, LS_AXES(1));
  const ls_tensor is_open =
      ls_greater(ls_slice_axis(x, 1, 0, 1), ls_scalar(LS_DTYPE_F32, 0));
  const ls_tensor y = ls_mul(sum, ls_convert(is_open, LS_DTYPE_F32));
  const ls_tensor loss = ls_mean_squared_error(gated_layer_apply(&n->layer, x),
                                               y, LS_REDUCTION_MEAN);
  ls_optimizer_minimize(n->optimizer, loss);
  return ls_leaf(loss);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  net n = {.layer = gated_layer_in(bag),
           .optimizer = ls_adam_in(bag, .learning_rate = 0.05)};
  ls_function *function = ls_function_in(bag, .call = step, .user = &n);
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
