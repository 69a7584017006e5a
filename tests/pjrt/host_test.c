// SPDX-License-Identifier: Apache-2.0
//
// Calls of the host from programs on the devices of a plug-in.
#include <string.h>

#include "base/runtime_internal.h"
#include "distribute/own.h"
#include "lockstep/full.h"
#include "lockstep/host.h"
#include "lockstep/runtime_settings.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/plugin.h"
#include "support/values.h"

enum { MOST_REPLICAS = 8 };

// What the kernels saw.
static struct {
  int calls;
  int by_replica[MOST_REPLICAS];
  float last;
  int fails_at;  // The call that fails; 0: none.
} seen;

static ls_status infer_same(const ls_object *state, const ls_type *in,
                            size_t num_in, ls_type *out, size_t *num_out) {
  (void)state, (void)num_in;
  out[0] = in[0];
  *num_out = 1;
  return ls_ok();
}

// Doubles x and adds the replica's number.
static ls_status start_double(ls_host_call *call) {
  const int number = __atomic_add_fetch(&seen.calls, 1, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&seen.by_replica[call->replica], 1, __ATOMIC_SEQ_CST);
  if (number == seen.fails_at) return ls_out_of_range("it was told to");
  const float *x = call->inputs[0];
  const size_t count =
      (size_t)ls_shape_num_elements(call->input_types[0].shape);
  for (size_t i = 0; i < count; ++i)
    ((float *)call->outputs[0])[i] = 2 * x[i] + (float)call->replica;
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel kernel = {
    .name = "double", .infer = infer_same, .start = start_double};
static const ls_host_kernel inline_kernel = {.name = "double_inline",
                                             .infer = infer_same,
                                             .start = start_double,
                                             .flags = LS_HOST_INLINE};

static ls_tensor doubled(const ls_host_kernel *by, ls_tensor x) {
  return ls_op_output(ls_host_call_add(by, NULL, &x, 1), 0);
}

static ls_nest double_twice(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  (void)user;
  return ls_leaf(doubled(&inline_kernel, ls_relu(doubled(&kernel, x))));
}

TEST(a_program_on_a_device_calls_the_host) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_function, function) = function_of(double_twice, NULL);
  memset(&seen, 0, sizeof(seen));
  for (int i = 1; i <= 3; ++i) {
    LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (const float[]){10, 20}));
    LS_OWN(ls_nest, results) = call_results(function, args);
    assert_true(nest_element(results, 0) == 40);
    assert_true(nest_element(results, 1) == 80);
    assert_int_equal(seen.calls, 2 * i);
  }
}

// ---- Replicas ---------------------------------------------------------------
static ls_nest double_and_sum(ls_nest args, void *user) {
  const ls_tensor x = doubled(user, ls_nest_tensor(args, 0));
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, x));
}

static void double_on(int devices, int replicas, const ls_host_kernel *by) {
  LS_OWN(open_place, here) = plugin_runtime(devices);
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &strategy));
  LS_OWN(ls_function, function) =
      function_of(double_and_sum, (void *)(uintptr_t)by);
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (const float[]){1, 3}));
  memset(&seen, 0, sizeof(seen));
  expect_ok(ls_strategy_run(strategy, ls_traced(function), args, &results));
  const float own = (float)(replicas * (replicas - 1)) / 2;
  const float *sums = ls_array_data(
      replicas == 1 ? ls_nest_as_array(results)
                    : ls_nest_as_array(ls_distributed_component(results, 0)));
  assert_true(sums[0] == 2 * (float)replicas + own);
  assert_true(sums[1] == 6 * (float)replicas + own);
  for (int i = 0; i < replicas; ++i)
    assert_int_equal(seen.by_replica[i], 1);
}

TEST(each_replica_calls_the_host) {
  for (int devices = 1; devices <= 4; devices *= 2)
    for (int replicas = devices; replicas <= MOST_REPLICAS; replicas *= 2) {
      double_on(devices, replicas, &kernel);
      double_on(devices, replicas, &inline_kernel);
    }
}

// ---- Loops and branches ----------------------------------------------------
enum { TRIPS = 6 };

static ls_nest is_left(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar_i64(LS_DTYPE_I64, TRIPS)));
}

static ls_nest call(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(doubled(&kernel, *(const ls_tensor *)user));
}
static ls_nest keep(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(*(const ls_tensor *)user);
}

// Doubles x in the first three trips.
static ls_nest next_trip(ls_nest values, void *user) {
  const ls_tensor trip = ls_nest_tensor(values, 0);
  ls_tensor x = ls_nest_tensor(values, 1);
  (void)user;
  LS_OWN(ls_nest, chosen) =
      ls_cond(ls_less(trip, ls_scalar_i64(LS_DTYPE_I64, 3)), call, keep, &x);
  return LS_LIST(ls_leaf(ls_add_scalar(trip, 1)),
                 ls_leaf(ls_nest_tensor(chosen, 0)));
}

static ls_nest loop(ls_nest args, void *user) {
  (void)user;
  return ls_while(is_left, next_trip, NULL,
                  LS_LIST(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)),
                          ls_leaf(ls_nest_tensor(args, 0))),
                  TRIPS);
}

TEST(loops_and_branches_call_the_host) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_function, function) = function_of(loop, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (const float[]){1, 3}));
  memset(&seen, 0, sizeof(seen));
  LS_OWN(ls_nest, results) = call_results(function, args);
  assert_true(nest_element(ls_nest_item(results, 1), 0) == 8);
  assert_true(nest_element(ls_nest_item(results, 1), 1) == 24);
  assert_int_equal(seen.calls, 3);
}

// ---- Failures --------------------------------------------------------------
static ls_nest double_and_store(ls_nest args, void *user) {
  ls_variable *variable = user;
  const ls_tensor x = doubled(&kernel, ls_nest_tensor(args, 0));
  const ls_tensor sum = ls_all_reduce(LS_REDUCE_SUM, x);
  ls_variable_assign_add(variable, sum);
  return ls_leaf(sum);
}

// Fails the first call on so many devices; the next run succeeds.
static void fail_on(int devices) {
  LS_OWN(open_place, here) = plugin_runtime(devices);
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(devices)}, &strategy));
  LS_OWN(ls_variable, variable) =
      variable_of("v", LS_DTYPE_F32, LS_SHAPE(2), (const double[]){1, 2});
  LS_OWN(ls_function, function) = function_of(double_and_store, variable);
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (const float[]){1, 3}));
  memset(&seen, 0, sizeof(seen));
  seen.fails_at = 1;
  ls_status status =
      ls_strategy_run(strategy, ls_traced(function), args, &results);
  expect_status(status, LS_OUT_OF_RANGE, "it was told to");
  expect_variable(variable, (const double[]){1, 2}, 2, 0);
  expect_ok(ls_strategy_run(strategy, ls_traced(function), args, &results));
}

TEST(a_failed_call_is_the_failure_of_the_run) {
  fail_on(1);
  fail_on(2);
  fail_on(4);
}

static ls_nest lose_and_double(ls_nest args, void *user) {
  const ls_tensor logits = doubled(&kernel, ls_nest_tensor(args, 0));
  (void)user;
  return ls_leaf(ls_softmax_cross_entropy(logits, ls_nest_tensor(args, 1)));
}

TEST(a_run_that_is_refused_before_its_calls_makes_none) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_function, function) = function_of(lose_and_double, NULL);
  memset(&seen, 0, sizeof(seen));
  for (int label = 3; label >= 2; --label) {
    const ls_nest logits = vector_nest(3, (const float[]){0, 0, 0});
    const ls_nest chosen =
        ls_nest_array(array_of(LS_DTYPE_I32, LS_SCALAR, (const double[]){label}));
    LS_OWN(ls_nest, args) = LS_TUPLE(logits, chosen);
    LS_OWN(ls_nest, results) = ls_none();
    const ls_status status = ls_function_call(function, args, &results);
    if (label == 2)
      expect_ok(status);
    else
      expect_status(status, LS_INVALID_ARGUMENT,
                    "label 3 is none of the 3 classes");
  }
  assert_int_equal(seen.calls, 1);
}

static ls_nest count_and_call(ls_nest values, void *user) {
  const ls_tensor trip = ls_nest_tensor(values, 0);
  ls_variable_assign_add(user, ls_scalar(LS_DTYPE_F32, 1));
  return LS_LIST(ls_leaf(ls_add_scalar(trip, 1)),
                 ls_leaf(doubled(&kernel, ls_nest_tensor(values, 1))));
}

static ls_nest count_trips(ls_nest args, void *user) {
  return ls_while(is_left, count_and_call, user,
                  LS_LIST(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)),
                          ls_leaf(ls_nest_tensor(args, 0))),
                  TRIPS);
}

TEST(whole_trips_before_a_failed_call_stay) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_variable, variable) =
      variable_of("v", LS_DTYPE_F32, LS_SCALAR, (const double[]){10});
  LS_OWN(ls_function, function) = function_of(count_trips, variable);
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (const float[]){1, 3}));
  LS_OWN(ls_nest, results) = ls_none();
  memset(&seen, 0, sizeof(seen));
  seen.fails_at = 4;
  expect_status(ls_function_call(function, args, &results), LS_OUT_OF_RANGE,
                "it was told to");
  assert_int_equal(seen.calls, 4);
  expect_variable(variable, (const double[]){13}, 1, 0);
}

static ls_status start_waiting(ls_host_call *call) {
  (void)call;
  return ls_ok();
}
static void cancel_waiting(ls_host_call *call) {
  ls_host_done(call, LS_STATUS(LS_CANCELLED, "it was told to end"));
}
static const ls_host_kernel waits = {.name = "waits",
                                     .infer = infer_same,
                                     .start = start_waiting,
                                     .cancel = cancel_waiting,
                                     .flags = LS_HOST_WAITS | LS_HOST_ON_CORES};

static ls_nest wait_for_ever(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_relu(doubled(&waits, ls_nest_tensor(args, 0))));
}

TEST(a_call_that_never_ends_is_named) {
  const char *device = plugin_device();
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.device = device, .num_devices = 1, .stall_ms = 50},
      &runtime));
  ls_runtime_make_current(runtime);
  {
    LS_OWN(ls_function, function) = function_of(wait_for_ever, NULL);
    LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (const float[]){1, 3}));
    LS_OWN(ls_nest, results) = ls_none();
    expect_status(ls_function_call(function, args, &results),
                  LS_DEADLINE_EXCEEDED,
                  "a host call has not ended, op 'waits'");
  }
  ls_runtime_make_current(NULL);
  expect_ok(ls_runtime_destroy(runtime));
}

static struct {
  bool hangs;  // Atomic: until it is false, a call waits.
  int ended;   // Atomic.
} late;

static ls_status start_late(ls_host_call *call) {
  while (__atomic_load_n(&late.hangs, __ATOMIC_ACQUIRE))
    ls_clock_system()->sleep(NULL, 1000000);
  return finish_at_once(call);
}
static ls_status take_late(ls_host_call *call) {
  return call->outputs == NULL ? ls_ok() : ls_out_of_range("it was told to");
}
static void end_late(ls_host_call *call) {
  (void)call;
  __atomic_add_fetch(&late.ended, 1, __ATOMIC_SEQ_CST);
}
static const ls_host_kernel fails_late = {.name = "fails_late",
                                          .infer = infer_same,
                                          .start = start_late,
                                          .take = take_late,
                                          .end = end_late};

static ls_nest fail_late(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_relu(doubled(&fails_late, ls_nest_tensor(args, 0))));
}

static void call_late(ls_code code, const char *part) {
  LS_OWN(ls_function, function) = function_of(fail_late, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (const float[]){1, 3}));
  LS_OWN(ls_nest, results) = ls_none();
  expect_status(ls_function_call(function, args, &results), code, part);
}

TEST(a_call_whose_results_are_not_taken_ends_too) {
  const char *device = plugin_device();
  memset(&late, 0, sizeof(late));
  {
    LS_OWN(open_place, here) = plugin_runtime(1);
    call_late(LS_OUT_OF_RANGE, "it was told to");
    assert_int_equal(late.ended, 1);
  }
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.device = device, .num_devices = 1, .stall_ms = 50},
      &runtime));
  ls_runtime_make_current(runtime);
  __atomic_store_n(&late.hangs, true, __ATOMIC_RELEASE);
  call_late(LS_DEADLINE_EXCEEDED, "has not ended");
  assert_int_equal(ls_runtime_abandoned_calls(runtime), 1);
  __atomic_store_n(&late.hangs, false, __ATOMIC_RELEASE);
  while (ls_runtime_abandoned_calls(runtime) > 0)
    ls_clock_system()->sleep(NULL, 1000000);
  assert_int_equal(late.ended, 2);
  ls_runtime_make_current(NULL);
  expect_ok(ls_runtime_destroy(runtime));
}
