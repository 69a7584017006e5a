// SPDX-License-Identifier: Apache-2.0
//
// Figures of a program's instructions: names, work and working memory.
#include "distribute/own.h"
#include "lockstep/function_plan.h"
#include "support/function.h"
#include "support/values.h"

enum { ROWS = 4, INNER = 3, MOST = 64 };

// tanh(x w) reduced, after a value that is read twice.
static ls_nest work(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor w = ls_nest_tensor(args, 1);
  ls_tensor y = {0};
  {
    LS_NAME_SCOPE("layer");
    y = ls_matmul(x, w);
  }
  const ls_tensor z = ls_matmul(y, w);
  return ls_leaf(ls_reduce_sum(ls_add(ls_matmul(z, w), y), LS_ALL_AXES));
}

static ls_nest matrix_nest(int64_t rows) {
  return ls_nest_array(
      array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows, INNER), 1));
}

TEST(instructions_have_names_and_the_work_of_their_program) {
  LS_OWN(ls_function, f) = function_of(work, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(matrix_nest(ROWS), matrix_nest(INNER));
  LS_OWN(ls_nest, result) = {0};
  ls_instruction_figures list[MOST] = {{0}};
  ls_program_figures all = {0};
  size_t count = 0;
  expect_status(ls_function_list_instructions(f, list, MOST, &count),
                LS_FAILED_PRECONDITION, "has no program yet; call it first");
  expect_ok(ls_function_call(f, args, &result));
  expect_ok(ls_function_list_instructions(f, NULL, 0, &count));
  assert_in_range(count, 4, MOST);
  expect_ok(ls_function_list_instructions(f, list, 1, &count));
  assert_null(list[1].name);
  expect_ok(ls_function_list_instructions(f, list, MOST, &count));
  expect_ok(ls_function_describe_program(f, &all));
  double flops = 0, bytes = 0;
  size_t layer = MOST;
  for (size_t i = 0; i < count; ++i) {
    flops += list[i].flops;
    bytes += list[i].bytes_accessed;
    assert_in_range(list[i].last_reader, i, count - 1);
    if (strcmp(list[i].name, "layer/matmul") == 0) layer = i;
  }
  assert_true(flops == 3 * 2.0 * ROWS * INNER * INNER && flops == all.flops);
  assert_true(bytes == all.bytes_accessed);
  // The last reader of the first product is the addition, after two others.
  assert_in_range(layer, 0, count - 1);
  assert_int_equal(list[layer].value_bytes, sizeof(float) * ROWS * INNER);
  assert_true(list[layer].last_reader >= layer + 3);
  expect_contains(list[list[layer].last_reader].name, "add");
}

TEST(instructions_of_replicas_count_the_work_of_all) {
  enum { REPLICAS = 3 };
  LS_OWN(ls_function, f) = function_of(work, NULL);
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_nest, rows) =
      split_of(REPLICAS, array_of_numbers(LS_DTYPE_F32,
                                          LS_SHAPE(REPLICAS * ROWS, INNER), 1));
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_retain(rows), matrix_nest(INNER));
  LS_OWN(ls_nest, result) = {0};
  ls_instruction_figures list[MOST] = {{0}};
  size_t count = 0;
  double flops = 0;
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(REPLICAS)}, &strategy));
  expect_ok(ls_strategy_run(strategy, ls_traced(f), args, &result));
  expect_ok(ls_function_list_instructions(f, list, MOST, &count));
  for (size_t i = 0; i < count; ++i)
    flops += list[i].flops;
  assert_true(flops == REPLICAS * 3 * 2.0 * ROWS * INNER * INNER);
}

static ls_nest add_one(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_variable_assign_add(user, ls_scalar(LS_DTYPE_F32, 1)));
}

TEST(a_function_that_only_compiles_changes_nothing) {
  LS_OWN(ls_variable, variable) = f32_variable("v", 5);
  LS_OWN(ls_function, f) = function_of(add_one, variable);
  LS_OWN(ls_nest, result) = {0};
  ls_program_figures figures = {0};
  ls_function_set_compiles_only(f, true);
  for (int i = 0; i < 2; ++i)
    expect_ok(ls_function_call(f, ls_none(), &result));
  assert_int_equal(result.kind, LS_KIND_NONE);
  assert_int_equal(ls_function_steps(f), 0);
  assert_int_equal(ls_function_num_traces(f), 1);
  expect_ok(ls_function_describe_program(f, &figures));
  assert_int_equal(figures.argument_bytes, sizeof(float));
  expect_variable(variable, (double[]){5}, 1, 0);
  ls_function_set_compiles_only(f, false);
  expect_ok(ls_function_call(f, ls_none(), &result));
  expect_variable(variable, (double[]){6}, 1, 0);
  assert_int_equal(ls_function_num_traces(f), 1);
}

// The replicas of a strategy, too.
TEST(a_step_of_replicas_that_only_compiles_changes_nothing) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_function, f) = function_of(work, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(matrix_nest(ROWS), matrix_nest(INNER));
  LS_OWN(ls_nest, result) = {0};
  ls_program_figures figures = {0};
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(3)}, &strategy));
  ls_function_set_compiles_only(f, true);
  expect_ok(ls_strategy_run(strategy, ls_traced(f), args, &result));
  assert_int_equal(result.kind, LS_KIND_NONE);
  expect_ok(ls_function_describe_program(f, &figures));
  assert_true(figures.flops > 0);
}
