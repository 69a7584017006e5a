// SPDX-License-Identifier: Apache-2.0
// Accumulation: four calls with a quarter of a batch make one step, as one call
// with the whole batch does.
#include <math.h>
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { ROWS = 32, COLUMNS = 3, PARTS = 4 };

typedef struct net {
  ls_dense_layer *layer;
  ls_optimizer *optimizer;
} net;

static ls_nest step(ls_nest args, void *user) {
  const net *n = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor y = ls_reduce_sum_keep(x, LS_AXES(1));
  ls_optimizer_minimize(n->optimizer,
                        ls_mean_squared_error(ls_dense_layer_apply(n->layer, x),
                                              y, LS_REDUCTION_MEAN));
  return ls_leaf(ls_reduce_sum(
      ls_variable_read(ls_dense_layer_kernel(n->layer)), LS_ALL_AXES));
}

// Makes a step in so many parts; returns the sum of the weights after it.
static ls_status descend(ls_bag *bag, int64_t parts, double *out_sum) {
  float x[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; ++i)
    x[i] = (float)(i * 7 % 11) / 11;
  net n = {.layer = ls_dense_layer_in(bag, .inputs = COLUMNS, .units = 1),
           .optimizer =
               ls_sgd_in(bag, .learning_rate = 0.5, .accumulate = parts)};
  ls_function *function = ls_function_in(bag, .call = step, .user = &n);
  ls_nest *sum = ls_nest_in(bag, ls_none());
  const int64_t rows = ROWS / parts;
  for (int64_t i = 0; i < parts; ++i) {
    ls_array *part = NULL;
    LS_RETURN_IF_ERROR(ls_array_create_copy(
        LS_DTYPE_F32, LS_SHAPE(rows, COLUMNS), x + i * rows * COLUMNS, &part));
    const ls_nest args = ls_bag_nest(bag, LS_TUPLE(ls_nest_array(part)));
    LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
    LS_RETURN_IF_ERROR(ls_function_call(function, args, sum));
  }
  *out_sum = ls_nest_number(*sum);
  return ls_ok();
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  LS_RETURN_IF_ERROR(descend(bag, 1, first));
  return descend(bag, PARTS, last);
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && fabs(first - last) < 1e-6;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
