// SPDX-License-Identifier: Apache-2.0
// The largest eigenvalue of a matrix, by power iteration: forty products in one
// program, in a loop.
#include <math.h>
#include <stdio.h>

#include "lockstep/lockstep.h"

typedef struct problem {
  ls_tensor matrix;
} problem;

static ls_nest is_left(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar_i64(LS_DTYPE_I32, 40)));
}

static ls_nest multiply(ls_nest values, void *user) {
  const problem *p = user;
  const ls_tensor trip = ls_nest_tensor(values, 0);
  const ls_tensor y = ls_matmul(p->matrix, ls_nest_tensor(values, 1));
  const ls_tensor length = ls_sqrt(ls_reduce_sum(ls_square(y), LS_ALL_AXES));
  return LS_LIST(ls_leaf(ls_add(trip, ls_scalar_i64(LS_DTYPE_I32, 1))),
                 ls_leaf(ls_div(y, length)));
}

static ls_nest eigenvalue(ls_nest args, void *user) {
  problem p = {.matrix = ls_nest_tensor(args, 0)};
  (void)user;
  const ls_nest found =
      ls_while(is_left, multiply, &p,
               LS_LIST(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)),
                       ls_leaf(ls_fill(LS_DTYPE_F64, LS_SHAPE(3, 1), 1))),
               40);
  const ls_tensor x = ls_nest_tensor(found, 1);
  ls_nest_release(found);
  return ls_leaf(ls_reduce_sum(ls_mul(x, ls_matmul(p.matrix, x)), LS_ALL_AXES));
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  static const double matrix[] = {2, -1, 0, -1, 2, -1, 0, -1, 2};
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_F64, LS_SHAPE(3, 3), matrix, &array));
  const ls_nest args = ls_bag_nest(bag, LS_TUPLE(ls_nest_array(array)));
  ls_function *function = ls_function_in(bag, .call = eigenvalue);
  ls_nest *result = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  LS_RETURN_IF_ERROR(ls_function_call(function, args, result));
  *first = 2 + sqrt(2);
  *last = ls_nest_number(*result);
  return ls_ok();
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && fabs(first - last) < 1e-9;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
