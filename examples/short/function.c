// SPDX-License-Identifier: Apache-2.0
// A function: plain C calls on tensors, traced at the first call and run as a
// compiled program from then on. Here it is called with numbers of C.
#include <stdio.h>

#include "lockstep/lockstep.h"

static ls_nest hypotenuse(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0), y = ls_nest_tensor(args, 1);
  return ls_leaf(ls_sqrt(ls_add(ls_square(x), ls_square(y))));
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  static const float sides[2][3] = {{3, 5, 8}, {4, 12, 15}};
  ls_array *x = NULL, *y = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(3), sides[0], &x));
  const ls_nest leaf = ls_bag_nest(bag, ls_nest_array(x));
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(3), sides[1], &y));
  const ls_nest args =
      ls_bag_nest(bag, LS_TUPLE(ls_nest_retain(leaf), ls_nest_array(y)));
  ls_function *function = ls_function_in(bag, .call = hypotenuse);
  ls_nest *result = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  LS_RETURN_IF_ERROR(ls_function_call(function, args, result));
  *first = ls_array_f64(ls_nest_as_array(*result), 0);
  *last = ls_array_f64(ls_nest_as_array(*result), 2);
  return ls_ok();
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && first == 5 && last == 17;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
