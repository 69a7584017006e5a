// SPDX-License-Identifier: Apache-2.0
//
// Cancels: in functions, sessions, eager, on replicas; where a run begins, in
// loops, at a store's gate.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "lockstep/cancel.h"
#include "lockstep/flow.h"
#include "lockstep/host.h"
#include "lockstep/session.h"
#include "distribute/own.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

static ls_cancel *new_cancel(void) {
  ls_cancel *cancel = NULL;
  expect_ok(ls_cancel_create(ls_runtime_current(), &cancel));
  assert_false(ls_cancel_is_requested(cancel));
  return cancel;
}

static void *request_soon(void *cancel) {
  usleep(1000);
  ls_cancel_request(cancel);
  return NULL;
}

static ls_nest count_on(ls_nest values, void *user) {
  if (user != NULL)
    (void)ls_variable_assign_add(user, ls_scalar(LS_DTYPE_F32, 1));
  return ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1));
}

// A loop without an end, which counts in a variable if there is one.
static ls_nest count(ls_nest args, void *user) {
  (void)args;
  return ls_while(always_true, count_on, user,
                  ls_leaf(ls_scalar(LS_DTYPE_F32, 0)), 0);
}

static ls_status call_cancelled(ls_callback call, void *user, int replicas) {
  ls_cancel *cancel = new_cancel();
  ls_nest results = ls_none();
  pthread_t thread;
  ls_strategy *strategy = mirrored_of(replicas);
  ls_function *function = unnamed_function(call, user);
  assert_null(ls_cancel_make_current(cancel));
  assert_int_equal(pthread_create(&thread, NULL, request_soon, cancel), 0);
  const ls_status status =
      ls_strategy_run(strategy, ls_traced(function), ls_none(), &results);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_ptr_equal(ls_cancel_make_current(NULL), cancel);
  ls_nest_release(results);
  ls_function_release(function);
  ls_strategy_release(strategy);
  ls_cancel_destroy(cancel);
  return status;
}

TEST(a_loop_without_an_end_is_cancelled) {
  for (int replicas = 1; replicas <= 2; ++replicas)
    expect_status(call_cancelled(count, NULL, replicas), LS_CANCELLED,
                  "cancelled");
}

TEST(a_loop_over_variables_keeps_its_trips) {
  const double zero = 0;
  LS_OWN(ls_variable, v) = variable_of("v", LS_DTYPE_F32, LS_SCALAR, &zero);
  expect_status(call_cancelled(count, v, 1), LS_CANCELLED, "cancelled");
  double value = 0;
  read_variable(v, &value, 1);
  assert_true(value == (double)(int64_t)value);
}

TEST(nothing_begins_that_is_cancelled) {
  ls_cancel *cancel = new_cancel();
  ls_cancel_request(cancel);
  assert_true(ls_cancel_is_requested(cancel));
  assert_null(ls_cancel_make_current(cancel));
  const double one = 1;
  expect_ok(ls_frame_begin());
  expect_status(
      ls_tensor_status(ls_neg(eager_of(LS_DTYPE_F32, LS_SCALAR, &one))),
      LS_CANCELLED, "cancelled");
  ls_cancel_reset(cancel);
  expect_tensor(ls_neg(eager_of(LS_DTYPE_F32, LS_SCALAR, &one)), (double[]){-1},
                1, 0);
  expect_ok(ls_frame_end(NULL));
  assert_ptr_equal(ls_cancel_make_current(NULL), cancel);
  ls_cancel_destroy(cancel);
}

static int host_calls;
static ls_status cancel_on_host(ls_nest values, void *cancel) {
  (void)values;
  ++host_calls;
  ls_cancel_request(cancel);
  return ls_ok();
}

static ls_nest call_host(ls_nest args, void *cancel) {
  (void)args;
  (void)ls_host_function_op(cancel_on_host, cancel, ls_none());
  return ls_none();
}

TEST(replicas_that_run_op_by_op_are_cancelled) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_nest, results) = ls_none();
  ls_cancel *cancel = new_cancel();
  host_calls = 0;
  assert_null(ls_cancel_make_current(cancel));
  expect_status(ls_strategy_run(strategy, ls_plain(call_host, cancel),
                                ls_none(), &results),
                LS_CANCELLED, "cancelled");
  assert_int_equal(host_calls, 1);
  assert_ptr_equal(ls_cancel_make_current(NULL), cancel);
  ls_cancel_destroy(cancel);
}

// A draw that waits until somebody looks at it.
TEST(what_was_made_before_keeps_its_value) {
  ls_cancel *cancel = new_cancel();
  expect_ok(ls_frame_begin());
  const ls_tensor drawn =
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(3), 0, 1, NULL);
  ls_cancel_request(cancel);
  assert_null(ls_cancel_make_current(cancel));
  expect_ok(ls_tensor_status(drawn));
  ls_array *array = tensor_array(drawn);
  ls_array_release(array);
  assert_ptr_equal(ls_cancel_make_current(NULL), cancel);
  expect_ok(ls_frame_end(NULL));
  ls_cancel_destroy(cancel);
}

// ---- At a store's gate -----------------------------------------------------
static bool is_in, may_go;  // Atomic.

static ls_status wait_for_word(ls_host_call *call) {
  __atomic_store_n(&is_in, true, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&may_go, __ATOMIC_ACQUIRE))
    sched_yield();
  ls_host_done(call, ls_ok());
  return ls_ok();
}
static const ls_host_kernel waiter = {.name = "waiter", .start = wait_for_word};

static ls_nest write_slowly(ls_nest args, void *user) {
  (void)args;
  const ls_tensor x = ls_variable_read(user);
  (void)ls_host_call_add(&waiter, NULL, &x, 1);
  return ls_leaf(ls_variable_assign_add(user, ls_scalar(LS_DTYPE_F32, 1)));
}

static ls_nest write_now(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_variable_assign_add(user, ls_scalar(LS_DTYPE_F32, 10)));
}

static void *call_slowly(void *function) {
  LS_OWN(ls_nest, results) = call_results(function, ls_none());
  return NULL;
}

TEST(who_waits_for_others_is_cancelled) {
  const double zero = 0;
  LS_OWN(ls_variable, v) = variable_of("v", LS_DTYPE_F32, LS_SCALAR, &zero);
  pthread_t thread;
  is_in = may_go = false;
  LS_OWN(ls_function, slow) = unnamed_function(write_slowly, v);
  assert_int_equal(pthread_create(&thread, NULL, call_slowly, slow), 0);
  while (!__atomic_load_n(&is_in, __ATOMIC_ACQUIRE))
    sched_yield();
  expect_status(call_cancelled(write_now, v, 1), LS_CANCELLED, "cancelled");
  __atomic_store_n(&may_go, true, __ATOMIC_RELEASE);
  assert_int_equal(pthread_join(thread, NULL), 0);
  expect_variable(v, (double[]){1}, 1, 0);
}
