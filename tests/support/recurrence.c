// SPDX-License-Identifier: Apache-2.0
#include "support/recurrence.h"

#include <math.h>

#include "base/memory/own.h"
#include "support/expect.h"

ls_array *steps_array(ls_shape shape, double first, double step) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F64, shape, &array));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_f64(array, i, first + step * (double)i);
  return array;
}

ls_array *scalar_array(ls_dtype dtype, double value) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(dtype, LS_SCALAR, &array));
  ls_array_set_f64(array, 0, value);
  return array;
}

void expect_near(double have, double want) {
  if (!(fabs(have - want) <= 1e-9 * fmax(1, fabs(want))))
    fail_msg("%.17g, wanted %.17g", have, want);
}

ls_nest is_below(ls_nest values, void *user) {
  const recurrence *r = user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), r->trips));
}

static ls_nest advance(ls_nest values, void *user) {
  const recurrence *r = user;
  const ls_tensor one = ls_scalar_i64(LS_DTYPE_I32, 1);
  const ls_tensor i = ls_add(ls_nest_tensor(values, 0), one);
  const ls_tensor sum =
      ls_add(ls_matmul(ls_nest_tensor(values, 1), r->w), r->b);
  return LS_LIST(ls_leaf(i), ls_leaf(ls_tanh(sum)));
}

ls_tensor recur(ls_tensor h, recurrence r) {
  const ls_tensor zero = ls_scalar_i64(LS_DTYPE_I32, 0);
  LS_OWN(ls_nest, made) =
      ls_while(is_below, advance, &r, LS_LIST(ls_leaf(zero), ls_leaf(h)), 0);
  return ls_nest_tensor(made, 1);
}

ls_tensor unrolled(ls_tensor h, recurrence r, int trips) {
  for (int i = 0; i < trips; ++i)
    h = ls_tanh(ls_add(ls_matmul(h, r.w), r.b));
  return h;
}

ls_tensor loss_of(ls_tensor h) {
  return ls_reduce_sum(ls_square(h), LS_ALL_AXES);
}

ls_nest gradients_of_recurrence(ls_nest args, void *user) {
  const int *trips = user;  // Not NULL: unrolled.
  const recurrence r = {ls_nest_tensor(args, 1), ls_nest_tensor(args, 2),
                        ls_nest_tensor(args, 3)};
  const ls_tensor h = ls_nest_tensor(args, 0);
  const ls_nest ys[] = {
      ls_leaf(loss_of(trips == NULL ? recur(h, r) : unrolled(h, r, *trips)))};
  const ls_nest xs[] = {ls_leaf(h), ls_leaf(r.w), ls_leaf(r.b)};
  ls_nest grads[3];
  const ls_status status = ls_gradients(
      ys, 1, xs, 3, &(ls_gradient_options){.unconnected_zero = true}, grads);
  return ls_status_is_ok(status) ? ls_nest_sequence(LS_KIND_LIST, grads, 3)
                                 : ls_fail(status);
}

ls_nest recurrence_args(int64_t rows, int trips) {
  return LS_LIST(ls_nest_array(steps_array(LS_SHAPE(rows, 3), -0.4, 0.11)),
                 ls_nest_array(steps_array(LS_SHAPE(3, 3), 0.3, -0.07)),
                 ls_nest_array(steps_array(LS_SHAPE(3), -0.1, 0.2)),
                 ls_nest_array(scalar_array(LS_DTYPE_I32, trips)));
}
