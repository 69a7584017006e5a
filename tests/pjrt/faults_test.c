// SPDX-License-Identifier: Apache-2.0
// A plug-in that fails at one call: one clear error, and the process goes on;
// no variable has a wrong value afterwards, and nothing leaks.
#include "engine/backend.h"
#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/shim.h"
#include "support/values.h"

static ls_nest add_to_variable(ls_nest args, void *user) {
  ls_variable *variable = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_variable_assign_add(variable, x);
  return ls_leaf(ls_variable_read(variable));
}

// Calls a function with [10, 20] that adds it to a variable.
static ls_status call_once(ls_function *function, ls_nest *results) {
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (const float[]){10, 20}));
  LS_RETURN_IF_ERROR(ls_function_call(function, args, results));
  return ls_array_wait(ls_nest_as_array(*results));
}

static ls_variable *make_variable(void) {
  return variable_of("v", LS_DTYPE_F32, LS_SHAPE(2), (const double[]){1, 2});
}

// ---- Plug-ins and clients --------------------------------------------------
TEST(a_table_or_client_that_is_wrong_is_one_error) {
  const struct {
    shim_fault fault;
    ls_code code;
    const char *part;
  } cases[] = {
      {SHIM_NO_TABLE, LS_FAILED_PRECONDITION, "gives no table"},
      {SHIM_SHORT_TABLE, LS_FAILED_PRECONDITION, "is too old"},
      {SHIM_OTHER_MAJOR, LS_FAILED_PRECONDITION, "version 1."},
      {SHIM_NO_EXECUTE, LS_FAILED_PRECONDITION,
       "has no PJRT_LoadedExecutable_Execute"},
      {SHIM_INITIALIZE, LS_RESOURCE_EXHAUSTED, "Plugin_Initialize: the shim"},
      {SHIM_CREATE, LS_RESOURCE_EXHAUSTED, "PJRT_Client_Create: the shim"},
      {SHIM_NO_DEVICES, LS_UNAVAILABLE, "has no devices"},
      {SHIM_DESCRIBE, LS_RESOURCE_EXHAUSTED, "PlatformVersion: the shim"},
  };
  shim_state *shim = shim_begin();
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    LS_OWN(open_place, here) = shim_runtime(0);
    ls_backend *backend = NULL;
    shim->fault = cases[i].fault;
    expect_status(ls_runtime_backend(here.runtime, &backend), cases[i].code,
                  cases[i].part);
    assert_int_equal(shim->fault, SHIM_NONE);
  }
  // It can still be used.
  LS_OWN(open_place, here) = shim_runtime(2);
  LS_OWN(ls_variable, variable) = make_variable();
  expect_variable(variable, (const double[]){1, 2}, 2, 0);
}

// ---- Programs --------------------------------------------------------------
TEST(a_program_that_is_not_compiled_is_one_error) {
  const struct {
    shim_fault fault;
    ls_code code;
    const char *part;
  } cases[] = {
      {SHIM_COMPILE, LS_RESOURCE_EXHAUSTED, "PJRT_Client_Compile: the shim"},
      {SHIM_OTHER_DEVICES, LS_INTERNAL, "for 2 others"},
      {SHIM_OTHER_RESULTS, LS_INTERNAL, "of 3 results"},
      {SHIM_MEMORY_STATS, LS_OK, ""},
  };
  shim_state *shim = shim_begin();
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    LS_OWN(open_place, here) = shim_runtime(1);
    LS_OWN(ls_variable, variable) = make_variable();
    LS_OWN(ls_function, function) = function_of(add_to_variable, variable);
    LS_OWN(ls_nest, results) = {0};
    shim->fault = cases[i].fault;
    expect_status(call_once(function, &results), cases[i].code, cases[i].part);
    assert_int_equal(shim->fault, SHIM_NONE);
    if (cases[i].code == LS_OK) continue;
    expect_variable(variable, (const double[]){1, 2}, 2, 0);
    expect_ok(call_once(function, &results));
    expect_variable(variable, (const double[]){11, 22}, 2, 0);
  }
  assert_int_equal(shim->live_executables, 0);
}

// ---- Runs ------------------------------------------------------------------
// Fails a call of a run, the first or the third one. Either the variable has
// its old value afterwards, or it is lost and not read.
static void check_run(shim_state *shim, shim_fault fault, int skip, int calls,
                      const char *part, bool loses) {
  LS_OWN(open_place, here) = shim_runtime(1);
  LS_OWN(ls_variable, variable) = make_variable();
  LS_OWN(ls_function, function) = function_of(add_to_variable, variable);
  LS_OWN(ls_nest, results) = {0};
  for (int i = 0; i < calls; ++i)
    expect_ok(call_once(function, &results));
  shim->fault = fault;
  shim->skip = skip;
  expect_status(call_once(function, &results), LS_RESOURCE_EXHAUSTED, part);
  assert_int_equal(shim->fault, SHIM_NONE);
  LS_OWN(ls_array, value) = NULL;
  if (loses) {
    LS_OWN(ls_status, status) = ls_variable_value(variable, &value);
    assert_int_equal(ls_status_code(status), LS_FAILED_PRECONDITION);
  } else {
    expect_ok(ls_variable_value(variable, &value));
    assert_true(ls_array_f64(value, 0) == 1 + 10 * calls);
  }
  set_variable(variable, (const double[]){5, 6});
  expect_ok(call_once(function, &results));
  expect_variable(variable, (const double[]){15, 26}, 2, 0);
  assert_int_equal(shim->misuses, 0);
}

TEST(a_run_that_fails_leaves_old_values_or_none) {
  const struct {
    shim_fault fault;
    int skip, calls;
    const char *part;
    bool loses;
  } cases[] = {
      // The first upload is the batch, the second one the variable.
      {SHIM_UPLOAD, 0, 0, "BufferFromHostBuffer: the shim", false},
      {SHIM_UPLOAD, 1, 0, "BufferFromHostBuffer: the shim", false},
      {SHIM_UPLOAD_EVENT, 1, 0, "the shim", false},
      {SHIM_UPLOAD, 0, 2, "BufferFromHostBuffer: the shim", false},
      {SHIM_EXECUTE, 0, 0, "LoadedExecutable_Execute: the shim", false},
      {SHIM_EXECUTE, 0, 2, "LoadedExecutable_Execute: the shim", false},
      // The host has the value that was set, unless a launch has replaced it.
      {SHIM_EXECUTE_LATE, 0, 0, "the shim", false},
      {SHIM_EXECUTE_LATE, 0, 2, "are lost", true},
  };
  shim_state *shim = shim_begin();
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i)
    check_run(shim, cases[i].fault, cases[i].skip, cases[i].calls,
              cases[i].part, cases[i].loses);
  assert_int_equal(shim->live_buffers, 0);
  assert_int_equal(shim->live_events, 0);
}

TEST(a_result_that_does_not_arrive_is_an_error) {
  shim_state *shim = shim_begin();
  const shim_fault faults[] = {SHIM_DOWNLOAD, SHIM_DOWNLOAD_EVENT};
  for (size_t i = 0; i < LS_COUNT_OF(faults); ++i) {
    LS_OWN(open_place, here) = shim_runtime(1);
    LS_OWN(ls_variable, variable) = make_variable();
    LS_OWN(ls_function, function) = function_of(add_to_variable, variable);
    LS_OWN(ls_nest, results) = {0};
    shim->fault = faults[i];
    expect_status(call_once(function, &results), LS_RESOURCE_EXHAUSTED,
                  "the shim");
    // The step was made.
    expect_variable(variable, (const double[]){11, 22}, 2, 0);
    expect_ok(call_once(function, &results));
    expect_variable(variable, (const double[]){21, 42}, 2, 0);
  }
  assert_int_equal(shim->live_buffers, 0);
  assert_int_equal(shim->live_events, 0);
}

TEST(a_launch_that_fails_late_is_reported_by_the_next_run) {
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(1);
  LS_OWN(ls_variable, variable) = make_variable();
  LS_OWN(ls_function, function) = function_of(add_to_variable, variable);
  LS_OWN(ls_nest, results) = {0};
  shim->fault = SHIM_EXECUTE_EVENT;
  expect_ok(call_once(function, &results));
  expect_status(call_once(function, &results), LS_RESOURCE_EXHAUSTED,
                "the shim");
  expect_ok(call_once(function, &results));
}

TEST(a_variable_that_cannot_be_read_is_an_error) {
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(1);
  LS_OWN(ls_variable, variable) = make_variable();
  LS_OWN(ls_function, function) = function_of(add_to_variable, variable);
  LS_OWN(ls_nest, results) = {0};
  LS_OWN(ls_array, value) = NULL;
  expect_ok(call_once(function, &results));
  shim->fault = SHIM_DOWNLOAD_EVENT;
  expect_status(ls_variable_value(variable, &value), LS_RESOURCE_EXHAUSTED,
                "the shim");
  assert_null(value);
  expect_variable(variable, (const double[]){11, 22}, 2, 0);
}

// ---- Layouts ---------------------------------------------------------------
static ls_nest number_elements(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  return ls_leaf(ls_reshape(ls_concatenate((const ls_tensor[]){x, x, x}, 3, 0),
                            LS_SHAPE(2, 3)));
}

TEST(the_host_gets_rows_of_a_device_with_columns) {
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(1);
  LS_OWN(ls_function, function) = function_of(number_elements, NULL);
  LS_OWN(ls_nest, results) = {0};
  shim->has_columns = true;
  expect_ok(call_once(function, &results));
  for (int64_t i = 0; i < 6; ++i)
    assert_true(nest_element(results, i) == (i % 2 == 0 ? 10 : 20));
}

// ---- Steady state ----------------------------------------------------------
TEST(a_step_moves_its_batch_and_its_results_alone) {
  enum { STEPS = 10 };
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(1);
  LS_OWN(ls_variable, variable) = make_variable();
  LS_OWN(ls_function, function) = function_of(add_to_variable, variable);
  LS_OWN(ls_nest, results) = {0};
  expect_ok(call_once(function, &results));
  *shim = (shim_state){0};
  for (int i = 0; i < STEPS; ++i)
    expect_ok(call_once(function, &results));
  assert_int_equal(shim->compiles, 0);
  assert_int_equal(shim->executes, STEPS);
  assert_int_equal(shim->uploads, STEPS);
  assert_int_equal(shim->upload_bytes, STEPS * 8);
  assert_int_equal(shim->downloads, STEPS);
  assert_int_equal(shim->download_bytes, STEPS * 8);
  assert_int_equal(shim->live_buffers, 0);
  assert_int_equal(shim->live_events, 0);
  assert_int_equal(shim->misuses, 0);
  expect_variable(variable, (const double[]){111, 222}, 2, 0);
}
