// SPDX-License-Identifier: Apache-2.0
#include "support/merges.h"

#include "lockstep/strategy_extended.h"
#include "support/values.h"

ls_nest rows_of(const ways *self, int step, int r) {
  (void)self;
  const double x[] = {1 + r + 0.3 * step, 0.5 - r, 2.25 * r - 1};
  return LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(3), x)),
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){2 * r + 1})));
}

ls_tensor argument(ls_nest args, size_t i) {
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, i), &x));
  return x;
}

ls_tensor part_of(ls_nest leaf, size_t r) {
  return leaf.kind == LS_KIND_DISTRIBUTED
             ? ls_distributed_component(leaf, r).as.tensor
             : leaf.as.tensor;
}

ls_nest add_up(ls_strategy *strategy, ls_nest args, void *user) {
  (void)user;
  ls_nest sum = ls_none();
  const ls_status status =
      ls_strategy_reduce(strategy, LS_REDUCE_SUM, ls_nest_item(args, 0), &sum);
  return ls_status_is_ok(status) ? sum : ls_fail(status);
}

ls_nest give_back(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy;
  (void)user;
  return ls_nest_retain(ls_nest_item(args, 0));
}

ls_nest number_of_replica(const ways *self, int step, int r) {
  (void)self, (void)step;
  return LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){r + 1})));
}

ls_nest taken(ls_status status, const ls_nest *value) {
  if (ls_status_is_ok(status)) return *value;
  ls_nest_release(*value);
  return ls_fail(status);
}
