// SPDX-License-Identifier: Apache-2.0
//
// Calls of functions inside of each other, and clearing one that runs.
#include "distribute/own.h"
#include "lockstep/function_plan.h"
#include "lockstep/host.h"
#include "support/function.h"
#include "support/values.h"

static int traced;

// ---- Functions in functions ------------------------------------------------
static ls_nest call_itself(ls_nest args, void *user) {
  ls_function **self = user;
  ls_nest result = {0};
  ++traced;
  const ls_status status = ls_function_call(*self, args, &result);
  return ls_status_is_ok(status) ? result : ls_fail(status);
}

TEST(a_function_that_calls_itself_is_refused_by_name) {
  LS_OWN(ls_function, f) = NULL;
  f = function_of(call_itself, &f);
  ls_nest result = {0};
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (float[]){1, 2}));
  for (int way = 0; way < 3; ++way) {
    ls_tape *tape = NULL;
    ls_scope scope = {0};
    traced = 0;
    LS_OWN(ls_graph, graph) = graph_named("g");
    if (way == 1) ls_graph_begin(&scope, graph);
    if (way == 2) expect_ok(ls_tape_begin(&tape));
    expect_status(ls_function_call(f, args, &result), LS_FAILED_PRECONDITION,
                  "function 'f' is called 64 callbacks deep");
    assert_int_equal(traced, LS_MAX_NESTED_CALLS);
    ls_tape_release(tape);
    ls_scope_end(&scope);
  }
  assert_int_equal(result.kind, LS_KIND_NONE);
}

// On the stack of a replica, too.
TEST(a_function_that_calls_itself_in_a_replica_is_refused) {
  for (int replicas = 1; replicas <= 3; ++replicas) {
    LS_OWN(ls_strategy, strategy) = NULL;
    LS_OWN(ls_function, f) = NULL;
    ls_nest result = {0};
    f = function_of(call_itself, &f);
    expect_ok(ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &strategy));
    expect_status(ls_strategy_run(strategy, ls_traced(f), ls_none(), &result),
                  LS_FAILED_PRECONDITION, "function 'f' is called 64");
    expect_status(ls_strategy_run(strategy, ls_plain(call_itself, &f),
                                  ls_none(), &result),
                  LS_FAILED_PRECONDITION, "function 'f' is called 64");
  }
}

// Traces itself anew in the eager graph, each time inside of the last trace.
static ls_nest trace_itself(ls_nest args, void *user) {
  ls_nest result = {0};
  ls_status status = ls_ok();
  {
    LS_INIT_SCOPE;
    status = ls_function_call(*(ls_function **)user, args, &result);
  }
  return ls_status_is_ok(status) ? result : ls_fail(status);
}

TEST(a_function_that_traces_itself_is_refused_by_name) {
  LS_OWN(ls_function, f) = NULL;
  f = function_of(trace_itself, &f);
  ls_nest result = {0};
  expect_status(ls_function_call(f, ls_none(), &result), LS_FAILED_PRECONDITION,
                "function 'f' is called 64 callbacks deep");
}

static ls_nest call_with_less(ls_nest args, void *user) {
  const double left = ls_nest_number(ls_nest_item(args, 0));
  if (left == 0) return ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
  LS_OWN(ls_nest, less) = LS_TUPLE(ls_nest_f64(left - 1));
  ls_nest result = {0};
  const ls_status status =
      ls_function_call(*(ls_function **)user, less, &result);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return ls_leaf(ls_mul_scalar(ls_nest_tensor(result, 0), left));
}

TEST(a_function_may_call_itself_with_something_that_ends_it) {
  LS_OWN(ls_function, f) = NULL;
  f = function_of(call_with_less, &f);
  LS_OWN(ls_nest, five) = LS_TUPLE(ls_nest_f64(5));
  LS_OWN(ls_nest, result) = call_results(f, five);
  assert_true(nest_element(result, 0) == 120);
}

// ---- Clearing --------------------------------------------------------------
static ls_status start_clear(ls_host_call *call) {
  ls_function_clear(*(ls_function **)(uintptr_t)call->inputs[0]);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel clears = {.name = "clears", .start = start_clear};

static ls_nest clear_itself(ls_nest args, void *user) {
  (void)user;
  ++traced;
  const ls_tensor where = ls_nest_tensor(args, 0);
  const ls_tensor x = ls_nest_tensor(args, 1);
  ls_op cleared = ls_host_call_add(&clears, NULL, &where, 1);
  {
    LS_CONTROL_SCOPE(&cleared, 1);
    return ls_leaf(ls_mul_scalar(x, 3));
  }
  return ls_none();
}

TEST(a_call_that_runs_keeps_its_trace_when_it_is_cleared) {
  LS_OWN(ls_function, f) = function_of(clear_itself, NULL);
  ls_array *where = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_I64, LS_SCALAR, &(ls_function *[]){f},
                                 &where));
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_array(where), vector_nest(2, (float[]){1, 2}));
  LS_OWN(ls_nest, result) = {0};
  traced = 0;
  for (int i = 1; i <= 3; ++i) {
    expect_ok(ls_function_call(f, args, &result));
    assert_true(nest_element(result, 1) == 6);
    assert_int_equal(traced, i);
    assert_null(ls_function_graph(f));
  }
}
