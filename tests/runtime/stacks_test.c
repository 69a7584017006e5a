// SPDX-License-Identifier: Apache-2.0
//
// Stacks as a user's own functions have them: round loops, and refused where a
// value of one is used again.
#include "lockstep/function.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/values.h"

static void expect_refused(ls_callback callback, const char *says) {
  ls_nest made = ls_none();
  LS_OWN(ls_function, function) = unnamed_function(callback, NULL);
  expect_status(ls_function_call(function, ls_none(), &made),
                LS_INVALID_ARGUMENT, says);
}

// ---- Round a loop ----------------------------------------------------------
static ls_nest is_below_three(ls_nest state, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(state, 1), ls_scalar_i64(LS_DTYPE_I32, 3)));
}

static ls_nest push_the_trip(ls_nest state, void *user) {
  const ls_tensor stack = ls_nest_tensor(state, 0),
                  i = ls_nest_tensor(state, 1);
  (void)user;
  return LS_TUPLE(ls_leaf(ls_stack_push(stack, i)),
                  ls_leaf(ls_add(i, ls_scalar_i64(LS_DTYPE_I32, 1))));
}

// The tops of a stack that comes out of a loop.
static ls_nest pop_all(ls_nest args, void *user) {
  (void)args, (void)user;
  LS_OWN(ls_nest, out) =
      ls_while(is_below_three, push_the_trip, NULL,
               LS_TUPLE(ls_leaf(ls_stack_new(LS_DTYPE_NONE, LS_SCALAR)),
                        ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0))),
               0);
  ls_tensor stack = ls_nest_tensor(out, 0), tops[3];
  for (int i = 0; i < 3; ++i) {
    const ls_op pop = ls_stack_pop(stack, LS_DTYPE_I32, LS_SCALAR);
    stack = ls_op_output(pop, 0);
    tops[i] = ls_op_output(pop, 1);
  }
  return LS_TUPLE(ls_leaf(tops[0]), ls_leaf(tops[1]), ls_leaf(tops[2]));
}

TEST(a_stack_may_be_the_first_to_go_round) {
  LS_OWN(ls_nest, tops) = call_on(1, pop_all, NULL, ls_none(), 1);
  for (size_t i = 0; i < 3; ++i)
    assert_int_equal(ls_array_i64(ls_nest_as_array(ls_nest_item(tops, i)), 0),
                     2 - (int)i);
}

// ---- Taken as something else -----------------------------------------------
static ls_nest pop_as(ls_dtype dtype, ls_shape shape) {
  const ls_tensor stack = ls_stack_push(ls_stack_new(LS_DTYPE_NONE, LS_SCALAR),
                                        ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1));
  return LS_TUPLE(ls_leaf(ls_op_output(ls_stack_pop(stack, dtype, shape), 1)));
}

static ls_nest pop_integers(ls_nest args, void *user) {
  (void)args, (void)user;
  return pop_as(LS_DTYPE_I32, LS_SHAPE(2));
}

static ls_nest pop_three(ls_nest args, void *user) {
  (void)args, (void)user;
  return pop_as(LS_DTYPE_F32, LS_SHAPE(3));
}

static ls_nest pop_any(ls_nest args, void *user) {
  (void)args, (void)user;
  return pop_as(LS_DTYPE_F32, LS_SHAPE_UNKNOWN);
}

TEST(what_is_taken_is_what_was_pushed) {
  expect_refused(pop_integers,
                 "a value i32[2] is taken from a stack of f32[2]");
  expect_refused(pop_three, "a value f32[3] is taken from a stack of f32[2]");
  LS_OWN(ls_nest, tops) = call_on(1, pop_any, NULL, ls_none(), 1);
  assert_true(ls_array_f64(ls_nest_as_array(ls_nest_item(tops, 0)), 1) == 1);
}

// ---- Used again ------------------------------------------------------------
static ls_tensor top_of(ls_tensor stack) {
  return ls_op_output(ls_stack_pop(stack, LS_DTYPE_F32, LS_SCALAR), 1);
}

static ls_nest pop_twice(ls_nest args, void *user) {
  (void)args, (void)user;
  const ls_tensor stack = ls_stack_push(ls_stack_new(LS_DTYPE_NONE, LS_SCALAR),
                                        ls_scalar(LS_DTYPE_F32, 1));
  const ls_tensor first = top_of(stack);
  ls_tensor second = ls_failed_tensor();
  {
    LS_NAME_SCOPE("again");
    second = top_of(stack);
  }
  return LS_TUPLE(ls_leaf(first), ls_leaf(second));
}

static ls_nest double_the_stack(ls_nest state, void *user) {
  const ls_tensor i = ls_nest_tensor(state, 1);
  (void)user;
  return LS_TUPLE(ls_nest_item(state, 0),
                  ls_leaf(ls_add(i, ls_scalar_i64(LS_DTYPE_I32, 1))),
                  ls_nest_item(state, 0));
}

static ls_nest double_in_a_loop(ls_nest args, void *user) {
  (void)args, (void)user;
  LS_OWN(ls_nest, out) =
      ls_while(is_below_three, double_the_stack, NULL,
               LS_TUPLE(ls_leaf(ls_stack_new(LS_DTYPE_F32, LS_SCALAR)),
                        ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)),
                        ls_leaf(ls_stack_new(LS_DTYPE_F32, LS_SCALAR))),
               0);
  return LS_TUPLE(ls_leaf(top_of(ls_nest_tensor(out, 0))),
                  ls_leaf(top_of(ls_nest_tensor(out, 2))));
}

TEST(who_uses_a_stack_again_is_named) {
  expect_refused(pop_twice, "op 'again/stack_pop' (stack_pop)");
  expect_refused(double_in_a_loop,
                 "op parameter uses one that is used elsewhere");
}
