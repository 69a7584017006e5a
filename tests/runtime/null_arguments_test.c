// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "lockstep/function_plan.h"
#include "lockstep/gradients.h"
#include "lockstep/runs.h"
#include "lockstep/session.h"
#include "lockstep/variable.h"
#include "lockstep/variable_parts.h"
#include "support/expect.h"

// Something that is not NULL; nobody looks at it before all are there.
static _Alignas(16) char place[512];
static void *const some = place;

TEST(calls_of_eager_refuse_null) {
  expect_null_argument(out_array, ls_tensor_value, (ls_tensor){0}, NULL);
  expect_null_argument(out_item, ls_tensor_item, (ls_tensor){0}, NULL);
  expect_null_argument(variable, ls_variable_value, NULL, some);
  expect_null_argument(out_array, ls_variable_value, some, NULL);
  expect_null_argument(variable, ls_variable_set_value, NULL, some);
  expect_null_argument(array, ls_variable_set_value, some, NULL);
  expect_null_argument(out_tape, ls_tape_begin, NULL);
  expect_null_argument(tape, ls_tape_watch, NULL, (ls_tensor){0});
  expect_null_argument(tape, ls_tape_end, NULL);
  expect_null_argument(tape, ls_tape_gradients, NULL, (ls_nest){0}, some, 1,
                       some);
  expect_null_argument(grads, ls_tape_gradients, some, (ls_nest){0}, some, 1,
                       NULL);
  expect_null_argument(xs, ls_tape_gradients, some, (ls_nest){0}, NULL, 1,
                       some);
}

TEST(calls_of_function_refuse_null) {
  expect_null_argument(options, ls_function_create, NULL, some);
  expect_null_argument(out_function, ls_function_create, some, NULL);
  expect_null_argument(function, ls_function_call, NULL, (ls_nest){0}, some);
  expect_null_argument(results, ls_function_call, some, (ls_nest){0}, NULL);
  expect_null_argument(function, ls_function_print_lowered, NULL, some);
  expect_null_argument(out_text, ls_function_print_lowered, some, NULL);
  expect_null_argument(function, ls_function_print_plan, NULL, some);
  expect_null_argument(out_text, ls_function_print_plan, some, NULL);
  expect_null_argument(function, ls_function_print_cost, NULL, some);
  expect_null_argument(out_text, ls_function_print_cost, some, NULL);
  expect_null_argument(function, ls_function_measure, NULL, true);
}

TEST(calls_of_gradients_refuse_null) {
  expect_null_argument(grads, ls_gradients, some, 1, some, 1, some, NULL);
  expect_null_argument(ys, ls_gradients, NULL, 1, some, 1, some, some);
  expect_null_argument(xs, ls_gradients, some, 1, NULL, 1, some, some);
}

TEST(calls_of_runs_refuse_null) {
  expect_null_argument(runtime, ls_runs_print, NULL, some);
  expect_null_argument(out_text, ls_runs_print, some, NULL);
}

TEST(calls_of_session_refuse_null) {
  expect_null_argument(graph, ls_session_create, NULL, some);
  expect_null_argument(out_session, ls_session_create, some, NULL);
  expect_null_argument(graph, ls_session_create_with, NULL, NULL, some);
  expect_null_argument(out_session, ls_session_create_with, some, NULL, NULL);
  expect_null_argument(out_copy, ls_session_config_copy, NULL, NULL);
  expect_null_argument(session, ls_session_run, NULL, (ls_nest){0}, some, 1,
                       some);
  expect_null_argument(results, ls_session_run, some, (ls_nest){0}, some, 1,
                       NULL);
  expect_null_argument(feeds, ls_session_run, some, (ls_nest){0}, NULL, 1,
                       some);
  expect_null_argument(session, ls_session_variable_value, NULL, some, some);
  expect_null_argument(variable, ls_session_variable_value, some, NULL, some);
  expect_null_argument(out_array, ls_session_variable_value, some, some, NULL);
  expect_null_argument(session, ls_session_set_variable_value, NULL, some,
                       some);
  expect_null_argument(variable, ls_session_set_variable_value, some, NULL,
                       some);
  expect_null_argument(array, ls_session_set_variable_value, some, some, NULL);
}

TEST(calls_of_variable_refuse_null) {
  expect_null_argument(out_variable, ls_variable_create, some, NULL);
  expect_null_argument(creator, ls_creator_create, NULL, some, some);
  expect_null_argument(out_variable, ls_creator_create, some, some, NULL);
  expect_null_argument(variable, ls_variable_set_initializer, NULL, (ls_op){0});
  expect_null_argument(variable, ls_variable_set_slice, NULL, some);
  expect_null_argument(slice, ls_variable_set_slice, some, NULL);
}
