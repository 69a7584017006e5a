// SPDX-License-Identifier: Apache-2.0
// A recurrent net adds two numbers that are marked in a sequence.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { LENGTH = 8, UNITS = 16, BATCH = 64, STEPS = 200 };

typedef struct adder {
  ls_recurrent_layer *gru;
  ls_dense_layer *output;
  ls_optimizer *optimizer;
} adder;

static ls_nest step(ls_nest args, void *user) {
  const adder *a = user;
  (void)args;
  const ls_tensor numbers =
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(BATCH, LENGTH, 1), 0, 1, NULL);
  // Marks the two places with the smallest of random numbers.
  const ls_tensor ranks = ls_argsort(
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(BATCH, LENGTH, 1), 0, 1, NULL),
      1, false);
  const ls_tensor marks =
      ls_convert(ls_less(ranks, ls_scalar_i64(LS_DTYPE_I64, 2)), LS_DTYPE_F32);
  const ls_tensor both[] = {numbers, marks};
  const ls_tensor states =
      ls_recurrent_layer_apply(a->gru, ls_concatenate(both, 2, 2), NULL, NULL);
  const ls_tensor end = ls_reshape(ls_slice_axis(states, 1, LENGTH - 1, LENGTH),
                                   LS_SHAPE(BATCH, UNITS));
  const ls_tensor sum = ls_reduce_sum(ls_mul(numbers, marks), LS_AXES(1));
  const ls_tensor loss = ls_mean_squared_error(
      ls_dense_layer_apply(a->output, end), sum, LS_REDUCTION_MEAN);
  ls_optimizer_minimize(a->optimizer, loss);
  return ls_leaf(loss);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  adder a = {.gru = ls_recurrent_layer_in(bag, .kind = LS_RECURRENT_GRU,
                                          .inputs = 2, .units = UNITS),
             .output = ls_dense_layer_in(bag, .inputs = UNITS, .units = 1),
             .optimizer = ls_adam_in(bag, .learning_rate = 0.02)};
  ls_function *function = ls_function_in(bag, .call = step, .user = &a);
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
