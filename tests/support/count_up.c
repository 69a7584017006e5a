// SPDX-License-Identifier: Apache-2.0
#include "support/count_up.h"

#include "base/memory/own.h"
#include "lockstep/ops.h"

typedef struct counting {
  const counted *shape;
  ls_tensor w;
} counting;

static ls_nest is_below(ls_nest values, void *user) {
  const counting *c = user;
  const ls_tensor end = ls_scalar_i64(LS_DTYPE_I32, c->shape->trips);
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), end));
}

static ls_nest next_trip(ls_nest values, void *user) {
  const counting *c = user;
  const ls_tensor trip = ls_nest_tensor(values, 0);
  const ls_tensor one = ls_scalar_i64(LS_DTYPE_I32, 1);
  const ls_tensor y = c->shape->step(ls_nest_tensor(values, 1), trip, c->w);
  return LS_LIST(ls_leaf(ls_add(trip, one)), ls_leaf(y));
}

ls_tensor count_up(const counted *shape, ls_tensor initial, ls_tensor w) {
  counting c = {shape, w};
  const ls_tensor zero = ls_scalar_i64(LS_DTYPE_I32, 0);
  LS_OWN(ls_nest, made) =
      ls_while(is_below, next_trip, &c,
               LS_LIST(ls_leaf(zero), ls_leaf(initial)), shape->max_trips);
  return ls_nest_tensor(made, 1);
}

ls_tensor make_counted(const ls_tensor *xs, size_t count, const void *user) {
  return count_up(user, xs[0], xs[count - 1]);
}
