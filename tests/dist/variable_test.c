// SPDX-License-Identifier: Apache-2.0
//
// What distributed variables have in common.
#include "lockstep/variable.h"

#include "support/variables.h"

// ---- Common properties -----------------------------------------------------
static void the_enums_have_their_numbers(void **state) {
  (void)state;
  LS_SPEC("V34");
  assert_int_equal(LS_SYNCHRONIZATION_AUTO, 0);
  assert_int_equal(LS_SYNCHRONIZATION_NONE, 1);
  assert_int_equal(LS_SYNCHRONIZATION_ON_WRITE, 2);
  assert_int_equal(LS_SYNCHRONIZATION_ON_READ, 3);
  assert_int_equal(LS_AGGREGATION_NONE, 0);
  assert_int_equal(LS_AGGREGATION_SUM, 1);
  assert_int_equal(LS_AGGREGATION_MEAN, 2);
  assert_int_equal(LS_AGGREGATION_ONLY_FIRST_REPLICA, 3);
  // Zeroed options mean AUTO and NONE.
  ls_variable *v = NULL;
  expect_ok(
      ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32}, &v));
  assert_int_equal(ls_variable_synchronization_of(v), LS_SYNCHRONIZATION_AUTO);
  assert_int_equal(ls_variable_aggregation_of(v), LS_AGGREGATION_NONE);
  ls_variable_release(v);
}

// Refused in the scope, in a build graph, and nothing is left there.

static void a_strategy_knows_what_it_made(void **state) {
  (void)state;
  LS_SPEC("V33");
  ls_strategy *a = mirrored_of(2), *b = mirrored_of(2), *usual = NULL;
  ls_variable *v = variable_in(a, (variable_kind){0}), *plain = NULL;
  expect_ok(ls_strategy_default(&usual));
  expect_ok(ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32},
                               &plain));
  assert_true(ls_strategy_made(a, v));
  assert_true(ls_strategy_made(a, ls_variable_component(v, 1)));
  assert_false(ls_strategy_made(b, v));
  assert_false(ls_strategy_made(usual, v));
  assert_false(ls_strategy_made(a, plain));
  assert_true(ls_strategy_made(usual, plain));
  ls_variable_release(v);
  ls_variable_release(plain);
  ls_strategy_release(a);
  ls_strategy_release(b);
}

static void some_aggregations_are_reduce_ops(void **state) {
  (void)state;
  LS_SPEC("V41");
  ls_reduce_op op = LS_REDUCE_MAX;
  expect_ok(ls_aggregation_reduce_op(SUM, &op));
  assert_int_equal(op, LS_REDUCE_SUM);
  expect_ok(ls_aggregation_reduce_op(MEAN, &op));
  assert_int_equal(op, LS_REDUCE_MEAN);
  expect_status(ls_aggregation_reduce_op(NONE, &op), LS_INVALID_ARGUMENT,
                "NONE");
  expect_status(ls_aggregation_reduce_op(FIRST, &op), LS_INVALID_ARGUMENT,
                "ONLY_FIRST_REPLICA");
}

// ---- Beside others ---------------------------------------------------------
static void only_what_the_strategy_made_is_a_place(void **state) {
  (void)state;
  LS_SPEC("V30 V31");
  ls_strategy *a = mirrored_of(2), *b = mirrored_of(2);
  ls_variable *v = variable_in(a, (variable_kind){.name = "mine"});
  ls_variable *plain = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "plain", .dtype = LS_DTYPE_F32}, &plain));
  const ls_nest whole = ls_nest_variable(v), alone = ls_nest_variable(plain);
  const ls_nest part = ls_nest_variable(ls_variable_component(v, 1));
  expect_ok(ls_validate_colocate_distributed_variable(whole, a));
  expect_ok(ls_validate_colocate(whole, a));
  expect_ok(ls_validate_colocate(part, a));
  const struct {
    ls_status status;
    const char *names[2];
  } refused[] = {
      {ls_validate_colocate_distributed_variable(part, a),
       {"colocate_vars_with", "'mine/replica_1'"}},
      {ls_validate_colocate_distributed_variable(alone, a),
       {"colocate_vars_with", "'plain'"}},
      {ls_validate_colocate_distributed_variable(ls_nest_f64(4), a),
       {"colocate_vars_with", "4.0"}},
      {ls_validate_colocate_distributed_variable(whole, b),
       {"colocate_vars_with", "'mine' was made in mirrored strategy"}},
      {ls_validate_colocate(part, b),
       {"colocate_vars_with", "was made in mirrored strategy"}},
      {ls_validate_colocate(alone, a), {"colocate_vars_with", "'plain'"}},
      {ls_validate_colocate(ls_none(), a), {"colocate_vars_with", "none"}},
  };
  for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); ++i) {
    expect_contains(ls_status_message(refused[i].status), refused[i].names[0]);
    expect_status(refused[i].status, LS_INVALID_ARGUMENT, refused[i].names[1]);
  }
  ls_nest_release(whole);
  ls_nest_release(part);
  ls_nest_release(alone);
  ls_variable_release(v);
  ls_variable_release(plain);
  ls_strategy_release(a);
  ls_strategy_release(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_enums_have_their_numbers),
      cmocka_unit_test(a_strategy_knows_what_it_made),
      cmocka_unit_test(some_aggregations_are_reduce_ops),
      cmocka_unit_test(only_what_the_strategy_made_is_a_place),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  expect_ok(ls_runtime_destroy(NULL));
  return failed;
}
