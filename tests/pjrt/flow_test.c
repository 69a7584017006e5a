// SPDX-License-Identifier: Apache-2.0
// Loops, branches and stacks on a device of a plug-in, beside the CPU engine.
#include <math.h>

#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/lowered.h"
#include "support/plugin.h"
#include "support/values.h"

enum { TRIPS = 5 };

static ls_nest is_left(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar_i64(LS_DTYPE_I64, TRIPS)));
}

static ls_nest halve(ls_nest none, void *user) {
  (void)none;
  const ls_tensor *x = user;
  return ls_leaf(ls_mul_scalar(*x, 0.5));
}
static ls_nest square(ls_nest none, void *user) {
  (void)none;
  const ls_tensor *x = user;
  return ls_leaf(ls_mul(*x, *x));
}

// Halves the values where their sum is above 1, else squares them.
static ls_nest next_values(ls_nest values, void *user) {
  (void)user;
  ls_tensor x = ls_nest_tensor(values, 1);
  const ls_tensor is_large =
      ls_greater(ls_reduce_sum(x, LS_ALL_AXES), ls_scalar(LS_DTYPE_F32, 1));
  LS_OWN(ls_nest, chosen) = ls_cond(is_large, halve, square, &x);
  return LS_LIST(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                 ls_leaf(ls_nest_tensor(chosen, 0)));
}

// Returns the last values, and the gradient of their sum.
static ls_nest loop_and_gradient(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  LS_OWN(ls_nest, last) =
      ls_while(is_left, next_values, NULL,
               LS_LIST(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)), ls_leaf(x)),
               *(const int64_t *)user);
  const ls_nest ys = ls_leaf(ls_nest_tensor(last, 1)), xs = ls_leaf(x);
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&ys, 1, &xs, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? LS_TUPLE(ys, gradient) : ls_fail(status);
}

// Its trips are bounded by `most`, if that is not 0, and counted.
static void call_loop(int64_t most, float *results) {
  LS_OWN(ls_function, function) = function_of(loop_and_gradient, &most);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(vector_nest(3, (const float[]){1.5F, -0.25F, 0.75F}));
  LS_OWN(ls_nest, values) = call_results(function, args);
  for (int i = 0; i < 3; ++i) {
    results[i] = (float)nest_element(ls_nest_item(values, 0), i);
    results[3 + i] = (float)nest_element(ls_nest_item(values, 1), i);
  }
}

TEST(a_loop_has_a_gradient_on_a_device) {
  float want[6], got[6];
  call_loop(0, want);
  LS_OWN(open_place, here) = plugin_runtime(1);
  for (int64_t most = 0; most <= TRIPS; most += TRIPS) {
    call_loop(most, got);
    for (int i = 0; i < 6; ++i)
      assert_true(fabsf(want[i] - got[i]) <= 1e-6F);
  }
}

static ls_tensor looped(ls_tensor x, int64_t most) {
  LS_OWN(ls_nest, last) = ls_while(
      is_left, next_values, NULL,
      LS_LIST(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)), ls_leaf(x)), most);
  return ls_nest_tensor(last, 1);
}
static ls_nest few_trips(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(looped(*(const ls_tensor *)user, 2));
}
static ls_nest all_trips(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(looped(*(const ls_tensor *)user, 0));
}

// Returns the gradient of the sum of a loop, which a branch chooses.
static ls_nest gradient_of_branches(ls_nest args, void *user) {
  (void)user;
  ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor is_large =
      ls_greater(ls_reduce_sum(x, LS_ALL_AXES), ls_scalar(LS_DTYPE_F32, 1));
  LS_OWN(ls_nest, chosen) = ls_cond(is_large, few_trips, all_trips, &x);
  return ls_leaf(ls_gradient(ls_nest_tensor(chosen, 0), x));
}

TEST(loops_in_branches_have_gradients_on_a_device) {
  static const float starts[2][3] = {{1.5F, -0.25F, 0.75F},
                                     {0.5F, -0.25F, 0.25F}};
  double want[2][3];
  for (int on_device = 0; on_device < 2; ++on_device) {
    LS_OWN(open_place, here) = {0};
    if (on_device) here = plugin_runtime(1);
    LS_OWN(ls_function, function) = function_of(gradient_of_branches, NULL);
    for (int k = 0; k < 2; ++k) {
      LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(3, starts[k]));
      LS_OWN(ls_nest, got) = call_results(function, args);
      for (int i = 0; i < 3; ++i) {
        const double value = nest_element(got, i);
        if (!on_device) want[k][i] = value;
        assert_true(fabs(want[k][i] - value) <= 1e-6);
      }
    }
  }
}

static ls_nest loop_inside(ls_nest values, void *user) {
  (void)user;
  return LS_LIST(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                 ls_leaf(looped(ls_nest_tensor(values, 1), 2)));
}

static ls_nest gradient_of_nested(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  LS_OWN(ls_nest, last) =
      ls_while(is_left, loop_inside, NULL,
               LS_LIST(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)), ls_leaf(x)), 2);
  return ls_leaf(ls_gradient(ls_nest_tensor(last, 1), x));
}

TEST(a_loop_in_a_loop_has_no_gradient_on_a_device) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_function, function) = function_of(gradient_of_nested, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(1, (const float[]){1}));
  LS_OWN(ls_nest, results) = ls_none();
  expect_status(ls_function_call(function, args, &results), LS_UNIMPLEMENTED,
                "a stack of stacks");
}

// Returns the second gradient of a loop that counts to a constant.
static ls_nest second_gradient(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor slope = ls_gradient(looped(x, 0), x);
  return ls_leaf(ls_gradient(ls_square(slope), x));
}

TEST(a_counted_loop_has_a_second_gradient_on_a_device) {
  double want = 0;
  for (int on_device = 0; on_device < 2; ++on_device) {
    LS_OWN(open_place, here) = {0};
    if (on_device) here = plugin_runtime(1);
    LS_OWN(ls_function, function) = function_of(second_gradient, NULL);
    LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(1, (const float[]){0.75F}));
    LS_OWN(ls_nest, got) = call_results(function, args);
    if (!on_device) want = nest_element(got, 0);
    assert_true(fabs(want - nest_element(got, 0)) <= 1e-6);
  }
}

// ---- Pushes around branches ------------------------------------------------
enum { AFTER = 1, BEFORE = 2, MOST_PUSHES = 3 * TRIPS };

typedef struct push {
  ls_tensor stack, item;
} push;

static ls_nest push_item(ls_nest none, void *user) {
  (void)none;
  const push *p = user;
  return ls_leaf(ls_stack_push(p->stack, p->item));
}
static ls_nest push_nothing(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(((const push *)user)->stack);
}

// Pushes a positive item in a branch, and others before and after it.
static ls_nest push_around(ls_nest values, void *user) {
  const int where = *(const int *)user;
  const ls_tensor trip = ls_nest_tensor(values, 0);
  const ls_tensor x = ls_add_scalar(ls_convert(trip, LS_DTYPE_F32), 1);
  push p = {ls_nest_tensor(values, 1), x};
  if (where & BEFORE) p.stack = ls_stack_push(p.stack, ls_mul_scalar(x, 100));
  const ls_tensor is_positive = ls_greater(x, ls_scalar(LS_DTYPE_F32, 0));
  LS_OWN(ls_nest, given) = ls_cond(is_positive, push_item, push_nothing, &p);
  ls_tensor stack = ls_nest_tensor(given, 0);
  if (where & AFTER) stack = ls_stack_push(stack, ls_mul_scalar(x, 10));
  return LS_LIST(ls_leaf(ls_add_scalar(trip, 1)), ls_leaf(stack));
}

// Returns all items that a loop has pushed, the last one first.
static ls_nest pushed_items(ls_nest args, void *user) {
  const int where = *(const int *)user;
  const size_t count =
      TRIPS * (size_t)(1 + ((where & AFTER) != 0) + ((where & BEFORE) != 0));
  (void)args;
  LS_OWN(ls_nest, last) =
      ls_while(is_left, push_around, user,
               LS_LIST(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)),
                       ls_leaf(ls_stack_new(LS_DTYPE_F32, LS_SCALAR))),
               0);
  ls_tensor stack = ls_nest_tensor(last, 1), items[MOST_PUSHES];
  for (size_t i = 0; i < count; ++i) {
    const ls_op pop = ls_stack_pop(stack, LS_DTYPE_F32, LS_SCALAR);
    stack = ls_op_output(pop, 0);
    items[i] = ls_reshape(ls_op_output(pop, 1), LS_SHAPE(1));
  }
  return ls_leaf(ls_concatenate(items, count, 0));
}

TEST(a_body_pushes_before_and_after_a_branch) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  for (int where = 0; where <= (AFTER | BEFORE); ++where) {
    LS_OWN(ls_function, function) = function_of(pushed_items, &where);
    LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(1, (const float[]){0}));
    LS_OWN(ls_nest, items) = call_results(function, args);
    int at = 0;
    for (int trip = TRIPS; trip > 0; --trip) {
      if (where & AFTER) assert_true(nest_element(items, at++) == 10 * trip);
      assert_true(nest_element(items, at++) == trip);
      if (where & BEFORE) assert_true(nest_element(items, at++) == 100 * trip);
    }
  }
}

// Of two values that are pushed only the second one is popped and squared.
static ls_nest pop_one(ls_nest args, void *user) {
  (void)user;
  const ls_tensor a = ls_nest_tensor(args, 0), b = ls_nest_tensor(args, 1);
  ls_tensor stack = ls_stack_new(LS_DTYPE_F32, LS_SHAPE(2));
  stack = ls_stack_push(ls_stack_push(stack, a), b);
  const ls_op pop = ls_stack_pop(stack, LS_DTYPE_F32, LS_SHAPE(2));
  const ls_nest ys = ls_leaf(ls_square(ls_op_output(pop, 1)));
  const ls_nest xs[] = {ls_leaf(a), ls_leaf(b)};
  ls_nest gradients[2] = {ls_none()};
  const ls_status status = ls_gradients(&ys, 1, xs, 2, NULL, gradients);
  return ls_status_is_ok(status) ? LS_TUPLE(gradients[0], gradients[1])
                                 : ls_fail(status);
}

TEST(what_is_left_on_a_stack_has_no_gradient) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_function, function) = function_of(pop_one, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (const float[]){1, 2}),
                                   vector_nest(2, (const float[]){3, 4}));
  LS_OWN(ls_nest, values) = call_results(function, args);
  for (int i = 0; i < 2; ++i) {
    assert_true(nest_element(ls_nest_item(values, 0), i) == 0);
    assert_true(nest_element(ls_nest_item(values, 1), i) == 2 * (3 + i));
  }
}

TEST(trips_of_a_loop_are_counted_as_steps) {
  static const char text[] =
      "graph lowered \"t\" {\n"
      "%1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]\n"
      "%2:1 = while(%1) {num_carried = 1, max_trips = 9, counts_steps = true} "
      "(graph lowered \"c\" {\n"
      "%1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]\n"
      "%2 = constant() {value = i32[] [7]} : i32[]\n"
      "%3 = less(%1, %2) : bool[]\n"
      "return %3\n"
      "}, graph lowered \"b\" {\n"
      "%1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]\n"
      "%2 = constant() {value = i32[] [1]} : i32[]\n"
      "%3 = add(%1, %2) : i32[]\n"
      "return %3\n"
      "}) : i32[]\n"
      "return %2:0\n"
      "}\n";
  static const int32_t starts[] = {3, 7, -9};
  static const uint64_t wanted[] = {4, 1, 9};
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(lowered, program) = {0};
  lowered_make(&program, &(lowered_options){.text = text});
  for (size_t i = 0; i < LS_COUNT_OF(starts); ++i) {
    int32_t end = 0;
    uint64_t steps = 0;
    expect_ok(ls_backend_run(
        program.backend, program.instance,
        &(ls_run_args){.inputs = (const void *const[]){&starts[i]},
                       .outputs = (void *const[]){&end},
                       .steps = &steps}));
    assert_int_equal(end, i == 2 ? 0 : 7);
    assert_int_equal(steps, wanted[i]);
  }
}
