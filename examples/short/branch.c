// SPDX-License-Identifier: Apache-2.0
// A branch in a program: which side runs is decided by a value at each call.
// Here it clips a step only if it is too long.
#include <stdio.h>

#include "lockstep/lockstep.h"

typedef struct vector {
  ls_tensor v, length;
} vector;

static ls_nest shorten(ls_nest none, void *user) {
  const vector *x = user;
  (void)none;
  return ls_leaf(ls_div(x->v, x->length));
}

static ls_nest keep(ls_nest none, void *user) {
  const vector *x = user;
  (void)none;
  return ls_leaf(ls_identity(x->v));
}

static ls_nest clip(ls_nest args, void *user) {
  vector x = {.v = ls_nest_tensor(args, 0)};
  (void)user;
  x.length = ls_sqrt(ls_reduce_sum(ls_square(x.v), LS_ALL_AXES));
  const ls_tensor is_long = ls_greater(x.length, ls_scalar(LS_DTYPE_F32, 1));
  const ls_nest side = ls_cond(is_long, shorten, keep, &x);
  const ls_tensor y = ls_nest_tensor(side, 0);
  ls_nest_release(side);
  return ls_leaf(ls_reduce_sum(ls_square(y), LS_ALL_AXES));
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  static const float vectors[2][2] = {{3, 4}, {0.5f, 0}};
  ls_function *function = ls_function_in(bag, .call = clip);
  ls_nest *result = ls_nest_in(bag, ls_none());
  for (int i = 0; i < 2; ++i) {
    ls_array *x = NULL;
    LS_RETURN_IF_ERROR(
        ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(2), vectors[i], &x));
    const ls_nest args = ls_bag_nest(bag, LS_TUPLE(ls_nest_array(x)));
    LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
    LS_RETURN_IF_ERROR(ls_function_call(function, args, result));
    *(i == 0 ? first : last) = ls_nest_number(*result);
  }
  return ls_ok();
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok =
      ls_status_is_ok(status) && first > 0.999 && first < 1.001 && last == 0.25;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
