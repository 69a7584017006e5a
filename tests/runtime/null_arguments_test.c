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
  expect_null(ls_tensor_value((ls_tensor){0}, NULL),
              "ls_tensor_value: out_array is NULL");
  expect_null(ls_tensor_item((ls_tensor){0}, NULL),
              "ls_tensor_item: out_item is NULL");
  expect_null(ls_variable_value(NULL, some),
              "ls_variable_value: variable is NULL");
  expect_null(ls_variable_value(some, NULL),
              "ls_variable_value: out_array is NULL");
  expect_null(ls_variable_set_value(NULL, some),
              "ls_variable_set_value: variable is NULL");
  expect_null(ls_variable_set_value(some, NULL),
              "ls_variable_set_value: array is NULL");
  expect_null(ls_tape_begin(NULL), "ls_tape_begin: out_tape is NULL");
  expect_null(ls_tape_watch(NULL, (ls_tensor){0}),
              "ls_tape_watch: tape is NULL");
  expect_null(ls_tape_end(NULL), "ls_tape_end: tape is NULL");
  expect_null(ls_tape_gradients(NULL, (ls_nest){0}, some, 1, some),
              "ls_tape_gradients: tape is NULL");
  expect_null(ls_tape_gradients(some, (ls_nest){0}, some, 1, NULL),
              "ls_tape_gradients: grads is NULL");
  expect_null(ls_tape_gradients(some, (ls_nest){0}, NULL, 1, some),
              "ls_tape_gradients: xs is NULL");
}

TEST(calls_of_function_refuse_null) {
  expect_null(ls_function_create(NULL, some),
              "ls_function_create: options is NULL");
  expect_null(ls_function_create(some, NULL),
              "ls_function_create: out_function is NULL");
  expect_null(ls_function_call(NULL, (ls_nest){0}, some),
              "ls_function_call: function is NULL");
  expect_null(ls_function_call(some, (ls_nest){0}, NULL),
              "ls_function_call: results is NULL");
  expect_null(ls_function_print_lowered(NULL, some),
              "ls_function_print_lowered: function is NULL");
  expect_null(ls_function_print_lowered(some, NULL),
              "ls_function_print_lowered: out_text is NULL");
  expect_null(ls_function_print_plan(NULL, some),
              "ls_function_print_plan: function is NULL");
  expect_null(ls_function_print_plan(some, NULL),
              "ls_function_print_plan: out_text is NULL");
  expect_null(ls_function_print_cost(NULL, some),
              "ls_function_print_cost: function is NULL");
  expect_null(ls_function_print_cost(some, NULL),
              "ls_function_print_cost: out_text is NULL");
  expect_null(ls_function_measure(NULL, true),
              "ls_function_measure: function is NULL");
}

TEST(calls_of_gradients_refuse_null) {
  expect_null(ls_gradients(some, 1, some, 1, some, NULL),
              "ls_gradients: grads is NULL");
  expect_null(ls_gradients(NULL, 1, some, 1, some, some),
              "ls_gradients: ys is NULL");
  expect_null(ls_gradients(some, 1, NULL, 1, some, some),
              "ls_gradients: xs is NULL");
}

TEST(calls_of_runs_refuse_null) {
  expect_null(ls_runs_print(NULL, some), "ls_runs_print: runtime is NULL");
  expect_null(ls_runs_print(some, NULL), "ls_runs_print: out_text is NULL");
}

TEST(calls_of_session_refuse_null) {
  expect_null(ls_session_create(NULL, some),
              "ls_session_create: graph is NULL");
  expect_null(ls_session_create(some, NULL),
              "ls_session_create: out_session is NULL");
  expect_null(ls_session_create_with(NULL, NULL, some),
              "ls_session_create_with: graph is NULL");
  expect_null(ls_session_create_with(some, NULL, NULL),
              "ls_session_create_with: out_session is NULL");
  expect_null(ls_session_config_copy(NULL, NULL),
              "ls_session_config_copy: out_copy is NULL");
  expect_null(ls_session_run(NULL, (ls_nest){0}, some, 1, some),
              "ls_session_run: session is NULL");
  expect_null(ls_session_run(some, (ls_nest){0}, some, 1, NULL),
              "ls_session_run: results is NULL");
  expect_null(ls_session_run(some, (ls_nest){0}, NULL, 1, some),
              "ls_session_run: feeds is NULL");
  expect_null(ls_session_variable_value(NULL, some, some),
              "ls_session_variable_value: session is NULL");
  expect_null(ls_session_variable_value(some, NULL, some),
              "ls_session_variable_value: variable is NULL");
  expect_null(ls_session_variable_value(some, some, NULL),
              "ls_session_variable_value: out_array is NULL");
  expect_null(ls_session_set_variable_value(NULL, some, some),
              "ls_session_set_variable_value: session is NULL");
  expect_null(ls_session_set_variable_value(some, NULL, some),
              "ls_session_set_variable_value: variable is NULL");
  expect_null(ls_session_set_variable_value(some, some, NULL),
              "ls_session_set_variable_value: array is NULL");
}

TEST(calls_of_variable_refuse_null) {
  expect_null(ls_variable_create(some, NULL),
              "ls_variable_create: out_variable is NULL");
  expect_null(ls_creator_create(NULL, some, some),
              "ls_creator_create: creator is NULL");
  expect_null(ls_creator_create(some, some, NULL),
              "ls_creator_create: out_variable is NULL");
  expect_null(ls_variable_set_initializer(NULL, (ls_op){0}),
              "ls_variable_set_initializer: variable is NULL");
  expect_null(ls_variable_set_slice(NULL, some),
              "ls_variable_set_slice: variable is NULL");
  expect_null(ls_variable_set_slice(some, NULL),
              "ls_variable_set_slice: slice is NULL");
}
