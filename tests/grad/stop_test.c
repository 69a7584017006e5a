// SPDX-License-Identifier: Apache-2.0
//
// What no gradient passes through is as if it were not there.
#include "base/memory/own.h"
#include "lockstep/gradients.h"
#include "support/values.h"

enum { COUNT = 999 };

static ls_tensor sum_of(ls_tensor x) { return ls_reduce_sum(x, LS_ALL_AXES); }

// The gradient of a loss whose three terms meet at u: two come from its square
// and one from a function of it, which `user` ops use too, behind a stop.
static ls_nest with_stopped_ops(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor u = ls_exp(x), v = ls_tanh(u);
  ls_tensor stopped = ls_stop_gradient(v);
  for (int i = 0; i < *(const int *)user; ++i)
    stopped = ls_tanh(stopped);
  const ls_tensor far = ls_tanh(ls_tanh(ls_tanh(ls_square(u))));
  const ls_nest loss =
      ls_leaf(ls_add(ls_add(sum_of(ls_sin(v)), sum_of(far)), sum_of(stopped)));
  const ls_nest of = ls_leaf(x);
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&loss, 1, &of, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? gradient : ls_fail(status);
}

static ls_nest args_of(void) {
  return LS_LIST(
      ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(COUNT), 3)));
}

TEST(what_is_stopped_does_not_change_the_order_of_sums) {
  LS_OWN(ls_nest, args) = args_of();
  int count = 0;
  LS_OWN(ls_nest, want) = call_on(1, with_stopped_ops, &count, args, 1);
  for (count = 1; count < 9; ++count) {
    LS_OWN(ls_nest, got) = call_on(1, with_stopped_ops, &count, args, 1);
    assert_memory_equal(ls_nest_data(got, 0), ls_nest_data(want, 0),
                        COUNT * sizeof(float));
  }
}

// A maximum by indices has no gradient, and here none comes to x through it.
static ls_nest behind_a_stop(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0), stopped = ls_stop_gradient(x);
  const ls_tensor at = ls_fill(LS_DTYPE_I32, LS_SHAPE(COUNT), 7);
  (void)user;
  const ls_tensor most = ls_scatter(LS_SCATTER_MAX, stopped, at, stopped);
  const ls_nest loss = ls_leaf(sum_of(ls_mul(x, most))), of = ls_leaf(x);
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&loss, 1, &of, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? LS_LIST(gradient, ls_leaf(most))
                                 : ls_fail(status);
}

TEST(ops_behind_a_stop_need_no_gradient) {
  LS_OWN(ls_nest, args) = args_of();
  LS_OWN(ls_nest, got) = call_on(1, behind_a_stop, NULL, args, 1);
  assert_memory_equal(ls_nest_data(got, 0), ls_nest_data(got, 1),
                      COUNT * sizeof(float));
}
