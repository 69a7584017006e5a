// SPDX-License-Identifier: Apache-2.0
// A new kind of strategy is a table: nothing else knows of it.
#include "distribute/base/strategy.h"
#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/strategy_extended.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/spec.h"

// One device, and a count of what it was asked to do.
typedef struct counting {
  ls_strategy base;
  int runs, variables, reductions;
} counting;

static ls_status count_run(ls_strategy *strategy, ls_crossing *crossing,
                           const ls_run_request *request, ls_nest *results) {
  ++((counting *)strategy)->runs;
  return ls_mirrored_run(strategy, crossing, request, results);
}

static ls_status count_variable(ls_strategy *strategy, const ls_creator *next,
                                const ls_variable_options *options,
                                ls_variable **out_variable) {
  ++((counting *)strategy)->variables;
  return ls_mirrored_create_variable(strategy, next, options, out_variable);
}

static ls_status count_reduction(ls_strategy *strategy, ls_reduce_op op,
                                 ls_nest value,
                                 const ls_reduce_options *options,
                                 ls_nest *out_value) {
  ++((counting *)strategy)->reductions;
  return ls_mirrored_reduce(strategy, op, value, options, out_value);
}

static void make_counting(ls_strategy_class *kind, ls_strategy **out) {
  *kind = ls_mirrored_strategy_class;
  kind->name = "counting strategy";
  kind->size = sizeof(counting);
  kind->run = count_run;
  kind->create_variable = count_variable;
  kind->reduce = count_reduction;
  expect_ok(ls_strategy_make(kind, ls_runtime_current(), 1, out));
  expect_ok(ls_strategy_place(*out, 0, "/device:CPU:0"));
  expect_ok(ls_strategy_set_label(*out, "mine"));
  expect_ok(ls_strategy_set_cross_device(*out, NULL));
}

static ls_nest thrice(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_mul_scalar(ls_variable_read(user), 3));
}

static double number_of(ls_nest value) {
  LS_OWN(ls_array, array) = NULL;
  if (value.kind == LS_KIND_TENSOR)
    expect_ok(ls_tensor_value(value.as.tensor, &array));
  else
    array = ls_array_retain(ls_nest_as_array(value));
  return ls_array_f64(array, 0);
}

static double run_and_reduce(ls_strategy *strategy, ls_callable callable) {
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_nest, sum) = ls_none();
  expect_ok(ls_strategy_run(strategy, callable, ls_none(), &results));
  expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_SUM, results, &sum));
  return number_of(sum);
}

TEST(a_new_kind_of_strategy_is_a_table) {
  ls_strategy_class kind;
  LS_OWN(ls_strategy, strategy) = NULL;
  make_counting(&kind, &strategy);
  assert_string_equal(ls_strategy_label(strategy),
                      "counting strategy 'mine' (1 replica on CPU:0)");
  LS_OWN(ls_variable, w) = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.initial_value = ls_scalar(LS_DTYPE_F32, 2)},
        &w));
  }
  assert_true(ls_strategy_made(strategy, w));
  assert_int_equal(ls_variable_num_components(w), 1);

  LS_OWN(ls_function, function) = unnamed_function(thrice, w);
  assert_true(run_and_reduce(strategy, ls_plain(thrice, w)) == 6);
  assert_true(run_and_reduce(strategy, ls_traced(function)) == 6);

  const counting *counts = (const counting *)strategy;
  assert_int_equal(counts->variables, 1);
  assert_int_equal(counts->runs, 2);
  assert_int_equal(counts->reductions, 2);
}

TEST(a_new_kind_of_strategy_does_not_mix_with_others) {
  ls_strategy_class kind;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_strategy, other) = NULL;
  make_counting(&kind, &strategy);
  expect_ok(ls_one_device_strategy_create("/device:CPU:0", &other));
  {
    LS_STRATEGY_SCOPE(other);
    ls_nest results = ls_none();
    expect_status(
        ls_strategy_run(strategy, ls_plain(thrice, NULL), ls_none(), &results),
        LS_FAILED_PRECONDITION, "counting strategy 'mine'");
  }
  assert_int_equal(((const counting *)strategy)->runs, 0);
}
