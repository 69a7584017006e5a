// SPDX-License-Identifier: Apache-2.0
// A loop in a program: Newton's method for a square root, until it has
// converged. The number of trips depends on the value.
#include <math.h>
#include <stdio.h>

#include "lockstep/lockstep.h"

static ls_nest has_to_go_on(ls_nest values, void *user) {
  const ls_tensor root = ls_nest_tensor(values, 0);
  const ls_tensor x = ls_nest_tensor(values, 1);
  (void)user;
  return ls_leaf(
      ls_greater(ls_abs(ls_sub(ls_square(root), x)), ls_mul_scalar(x, 1e-12)));
}

static ls_nest improve(ls_nest values, void *user) {
  const ls_tensor root = ls_nest_tensor(values, 0);
  const ls_tensor x = ls_nest_tensor(values, 1);
  (void)user;
  const ls_tensor next = ls_mul_scalar(ls_add(root, ls_div(x, root)), 0.5);
  return LS_LIST(ls_leaf(next), ls_leaf(x));
}

static ls_nest root(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  (void)user;
  const ls_nest found = ls_while(has_to_go_on, improve, NULL,
                                 LS_LIST(ls_leaf(x), ls_leaf(x)), 100);
  const ls_tensor y = ls_nest_tensor(found, 0);
  ls_nest_release(found);
  return ls_leaf(y);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  ls_function *function = ls_function_in(bag, .call = root);
  ls_nest *result = ls_nest_in(bag, ls_none());
  for (int i = 0; i < 2; ++i) {
    const double value = i == 0 ? 2 : 1e6;
    ls_array *x = NULL;
    LS_RETURN_IF_ERROR(
        ls_array_create_copy(LS_DTYPE_F64, LS_SCALAR, &value, &x));
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
  const bool ok = ls_status_is_ok(status) && fabs(first - sqrt(2)) < 1e-9 &&
                  fabs(last - 1000) < 1e-6;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
