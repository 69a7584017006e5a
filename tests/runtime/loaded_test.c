// SPDX-License-Identifier: Apache-2.0
//
// Functions from the text of their graphs.
#include <string.h>

#include "lockstep/function_plan.h"
#include "lockstep/ops.h"
#include "lockstep/regroup.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/spec.h"
#include "support/tpu_runs.h"
#include "support/tpu_strategies.h"

static ls_nest scale_and_sum(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0), y = ls_nest_tensor(args, 1);
  return ls_nest_dict(
      "", (const char *const[]){"scaled", "sum"},
      (const ls_nest[]){ls_leaf(ls_mul(x, f32_of(3))), ls_leaf(ls_add(x, y))},
      2);
}

static ls_nest number(double value) {
  return ls_nest_array(
      array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){value}));
}

// The text of the function's graph, as an export has it.
static char *text_of(ls_callback fn, void *user) {
  LS_OWN(ls_function, f) = function_of(fn, user);
  LS_OWN(ls_nest, args) = LS_TUPLE(number(0), number(0));
  LS_OWN(ls_nest, result) = call_results(f, args);
  return graph_text(ls_function_graph(f));
}

static ls_function *load(const char *text) {
  ls_function *f = NULL;
  expect_ok(ls_function_load(text, NULL, 0, &f));
  return f;
}

TEST(a_loaded_function_gives_what_its_original_gave) {
  LS_OWN(printed, text) = text_of(scale_and_sum, NULL);
  LS_OWN(ls_function, f) = load(text);
  LS_OWN(ls_nest, args) = LS_TUPLE(number(2), number(5));
  LS_OWN(ls_nest, result) = ls_none();
  for (int i = 0; i < 2; ++i) {
    expect_ok(ls_function_call(f, args, &result));
    assert_int_equal(result.kind, LS_KIND_LIST);
    assert_true(ls_nest_number(ls_nest_item(result, 0)) == 6);
    assert_true(ls_nest_number(ls_nest_item(result, 1)) == 7);
  }
  assert_int_equal(ls_function_num_traces(f), 1);
}

// Also on the replicas of a TPU strategy, in a graph too.
static void run_loaded(tpu_runs *runs) {
  LS_OWN(printed, text) = text_of(scale_and_sum, NULL);
  LS_OWN(ls_function, f) = load(text);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(tpu_runs_per_replica(runs, 1), ls_nest_f64(10));
  expect_ok(ls_strategy_run(runs->strategy, ls_traced(f), args, &runs->result));
  for (int r = 0; r < runs->replicas; ++r) {
    assert_true(tpu_runs_number(runs, 0, r) == 3 + 3 * r);
    assert_true(tpu_runs_number(runs, 1, r) == 11 + r);
  }
}

TEST(strategies_run_loaded_functions) {
  LS_SPEC("T57 T196");
  for (int replicas = 1; replicas <= 3; ++replicas) {
    tpu_runs runs = {.replicas = replicas,
                     .strategy = tpu_strategy_of(replicas)};
    run_loaded(&runs);
    ls_nest_release(runs.result);
    runs.result = ls_none();
    LS_OWN(printed, text) = text_of(scale_and_sum, NULL);
    LS_OWN(ls_function, f) = load(text);
    runs.in_graph = true;
    computation_open(&runs.computation);
    const ls_nest args =
        LS_TUPLE(tpu_runs_per_replica(&runs, 1), ls_nest_f64(10));
    expect_ok(ls_strategy_run(runs.strategy, ls_traced(f), args, &runs.result));
    for (int r = 0; r < replicas; ++r)
      assert_true(tpu_runs_number(&runs, 1, r) == 11 + r);
    ls_nest_release(runs.result);
    ls_nest_release(args);
    computation_close(&runs.computation);
    ls_strategy_release(runs.strategy);
  }
}

// ---- Refusals -------------------------------------------------------------
static ls_variable *variable;
static ls_nest use_variable(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_add(ls_nest_tensor(args, 0), ls_variable_read(variable)));
}

TEST(what_is_not_in_the_text_is_refused) {
  ls_function *f = NULL;
  variable = variable_of("w", LS_DTYPE_F32, LS_SCALAR, (const double[]){1});
  char *text = text_of(use_variable, NULL);
  expect_status(ls_function_load(text, NULL, 0, &f), LS_UNIMPLEMENTED,
                "variable 'w'");
  assert_null(f);
  ls_text_release(text);
  ls_variable_release(variable);
  // A graph of another kind, and no graph.
  computation c;
  computation_open(&c);
  f32_of(1);
  expect_ok(ls_graph_print(c.graph, &text));
  computation_close(&c);
  expect_status(ls_function_load(text, NULL, 0, &f), LS_INVALID_ARGUMENT,
                "is no function's");
  ls_text_release(text);
  expect_status(ls_function_load("nothing", NULL, 0, &f), LS_INVALID_ARGUMENT,
                "line 1");
}

TEST(arguments_are_those_of_the_text) {
  LS_OWN(printed, text) = text_of(scale_and_sum, NULL);
  LS_OWN(ls_function, f) = load(text);
  ls_nest result = ls_none();
  LS_OWN(ls_nest, one) = LS_TUPLE(number(1));
  expect_status(ls_function_call(f, one, &result), LS_INVALID_ARGUMENT,
                "takes 2 arguments, got 1");
  LS_OWN(ls_nest, vector) =
      LS_TUPLE(number(1), ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(2),
                                                 (const double[]){1, 2})));
  expect_status(ls_function_call(f, vector, &result), LS_INVALID_ARGUMENT,
                "takes f32[] as argument 1, got f32[2]");
}
