// SPDX-License-Identifier: Apache-2.0
// Gradients, compared with finite differences, in f64.
#include <math.h>
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { SIZE = 5 };

static ls_tensor f(ls_tensor x) {
  return ls_reduce_sum(ls_mul(ls_sin(x), ls_exp(ls_neg(ls_square(x)))),
                       LS_ALL_AXES);
}

static ls_status value_at(const double *x, double *out_y) {
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_F64, LS_SHAPE(SIZE), x, &array));
  const ls_status status =
      ls_tensor_item(f(ls_tensor_from_array(array)), out_y);
  ls_array_release(array);
  return status;
}

static ls_nest gradient(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  (void)user;
  return ls_leaf(ls_gradient(f(x), x));
}

static ls_status compare(ls_bag *bag, double *first, double *last) {
  double x[SIZE] = {-1, -0.3, 0.1, 0.7, 1.2};
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_F64, LS_SHAPE(SIZE), x, &array));
  const ls_nest args = ls_bag_nest(bag, LS_TUPLE(ls_nest_array(array)));
  ls_function *function = ls_function_in(bag, .call = gradient);
  ls_nest *dx = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  LS_RETURN_IF_ERROR(ls_function_call(function, args, dx));
  for (int i = 0; i < SIZE; ++i) {
    const double at = x[i], h = 1e-5;
    double above = 0, below = 0;
    x[i] = at + h;
    LS_RETURN_IF_ERROR(value_at(x, &above));
    x[i] = at - h;
    LS_RETURN_IF_ERROR(value_at(x, &below));
    x[i] = at;
    const double error = fabs((above - below) / (2 * h) -
                              ls_array_f64(ls_nest_as_array(*dx), i));
    if (error > *last) *last = error;
  }
  *first = ls_array_f64(ls_nest_as_array(*dx), 0);
  return ls_ok();
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  LS_RETURN_IF_ERROR(ls_frame_begin());  // Frees the values of single ops.
  const ls_status status = compare(bag, first, last);
  return ls_status_join(status, ls_frame_end(NULL));
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && first != 0 && last < 1e-8;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
