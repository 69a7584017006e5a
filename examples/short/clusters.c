// SPDX-License-Identifier: Apache-2.0
// Clusters: k-means without gradients. Each round moves the centers, a
// variable, to the means of the points that are nearest to them.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { POINTS = 300, CENTERS = 3, STEPS = 20 };

static ls_tensor make_points(void) {
  // Three heaps, around (0, 0), (4, 0) and (0, 4); the same at each call.
  const ls_tensor heap =
      ls_remainder(ls_iota(LS_DTYPE_I32, LS_SHAPE(POINTS), 0),
                   ls_scalar_i64(LS_DTYPE_I32, 3));
  const ls_tensor one_hot = ls_one_hot(heap, 3, LS_DTYPE_F32);
  const ls_tensor noise =
      ls_random_normal(LS_DTYPE_F32, LS_SHAPE(POINTS, 2), 0, 0.5,
                       &(ls_random_options){.fixed = true});
  return ls_add(ls_mul_scalar(ls_slice_axis(one_hot, 1, 1, 3), 4), noise);
}

static ls_nest step(ls_nest args, void *user) {
  ls_variable *centers = user;
  (void)args;
  const ls_tensor x = make_points();
  const ls_tensor c = ls_variable_read(centers);
  const ls_tensor distances =
      ls_reduce_sum(ls_square(ls_sub(ls_reshape(x, LS_SHAPE(POINTS, 1, 2)),
                                     ls_reshape(c, LS_SHAPE(1, CENTERS, 2)))),
                    LS_AXES(2));
  const ls_tensor nearest =
      ls_one_hot(ls_argmin(distances, 1), CENTERS, LS_DTYPE_F32);
  const ls_tensor sums = ls_matmul_transposed(nearest, true, x, false);
  const ls_tensor counts = ls_reduce_sum(nearest, LS_AXES(0));
  const ls_tensor one = ls_scalar(LS_DTYPE_F32, 1);
  ls_variable_assign(centers, ls_div(sums, ls_reshape(ls_maximum(counts, one),
                                                      LS_SHAPE(CENTERS, 1))));
  return ls_leaf(
      ls_reduce_mean(ls_reduce_min(distances, LS_AXES(1)), LS_ALL_AXES));
}

static void drop_variable(void *variable) { ls_variable_release(variable); }

static ls_status run(ls_bag *bag, double *first, double *last) {
  ls_variable *made = NULL;
  const ls_status status = ls_weight_create(
      &(ls_weight_options){.name = "centers",
                           .shape = LS_SHAPE(CENTERS, 2),
                           .initializer = ls_init_normal(1, 1)},
      &made);
  ls_variable *centers = ls_bag_keep(bag, status, made, drop_variable);
  ls_function *function = ls_function_in(bag, .call = step, .user = centers);
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
  const bool ok = ls_status_is_ok(status) && last < 0.6;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
