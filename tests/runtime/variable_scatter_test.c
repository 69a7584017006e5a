// SPDX-License-Identifier: Apache-2.0
// Writes of a variable's rows: what they leave, and what they touch.
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "lockstep/function_plan.h"
#include "lockstep/strategy.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

static ls_variable *table_of(ls_shape shape, double value) {
  ls_variable *variable = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "table",
                             .initial_value =
                                 ls_fill(LS_DTYPE_F32, shape, value)},
      &variable));
  return variable;
}

static ls_tensor list(ls_dtype dtype, ls_shape shape, const double *items) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(dtype, shape, &array));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_f64(array, i, items[i]);
  return ls_constant(array);
}
#define INDICES(...)                                                           \
  list(LS_DTYPE_I32, LS_SHAPE(COUNT(__VA_ARGS__)), (double[]){__VA_ARGS__})
#define VALUES(...)                                                            \
  list(LS_DTYPE_F32, LS_SHAPE(COUNT(__VA_ARGS__)), (double[]){__VA_ARGS__})
#define COUNT(...) (sizeof((double[]){__VA_ARGS__}) / sizeof(double))

static void expect_table(ls_variable *variable, const double *want) {
  LS_OWN(ls_array, value) = variable_array(variable);
  for (int64_t i = 0; i < ls_array_num_elements(value); ++i)
    if (ls_array_f64(value, i) != want[i])
      fail_msg("element %d is %g, not %g", (int)i, ls_array_f64(value, i),
               want[i]);
}
#define expect_values(variable, ...)                                           \
  expect_table((variable), (const double[]){__VA_ARGS__})

static const struct {
  ls_scatter_op op;
  double want[4];  // Of 8 8 8 8 by 2, 4 and 3 at the indices 1, 3, 1.
} operations[] = {
    {LS_SCATTER_UPDATE, {8, 3, 8, 4}},     {LS_SCATTER_ADD, {8, 13, 8, 12}},
    {LS_SCATTER_SUB, {8, 3, 8, 4}},        {LS_SCATTER_MUL, {8, 48, 8, 32}},
    {LS_SCATTER_DIV, {8, 4.0F / 3, 8, 2}}, {LS_SCATTER_MIN, {8, 2, 8, 4}},
    {LS_SCATTER_MAX, {8, 8, 8, 8}},
};

typedef struct scattering {
  ls_variable *variable;
  ls_scatter_op op;
} scattering;

static ls_nest scatter(ls_nest args, void *user) {
  (void)args;
  const scattering *s = user;
  const ls_tensor updates =
      list(LS_DTYPE_F32, LS_SHAPE(4), (double[]){2, 4, 3, 9});
  return ls_leaf(
      ls_variable_scatter(s->variable, s->op, INDICES(1, 3, 1, -1), updates));
}

// Traced, and eager.
TEST(rows_are_combined_in_the_order_of_the_indices) {
  for (size_t i = 0; i < LS_COUNT_OF(operations); ++i) {
    for (int traced = 0; traced < 2; ++traced) {
      scattering s = {table_of(LS_SHAPE(4), 8), operations[i].op};
      LS_OWN(ls_function, function) = NULL;
      LS_OWN(ls_nest, result) = ls_none();
      LS_OWN(ls_nest, args) = LS_TUPLE(ls_none());
      if (traced) {
        expect_ok(ls_function_create(
            &(ls_function_options){.call = scatter, .user = &s}, &function));
        expect_ok(ls_function_call(function, args, &result));
        assert_true(ls_array_f64(ls_nest_as_array(result), 3) ==
                    operations[i].want[3]);
      } else {
        expect_ok(ls_frame_begin());
        expect_ok(ls_tensor_status(scatter(ls_none(), &s).as.tensor));
        expect_ok(ls_frame_end(NULL));
      }
      expect_table(s.variable, operations[i].want);
      ls_variable_release(s.variable);
    }
  }
}

// ---- What is touched -------------------------------------------------------
enum { ROWS = 100000, WIDTH = 8 };

static ls_nest look_up_and_add(ls_nest args, void *user) {
  const ls_tensor indices = ls_nest_tensor(args, 0);
  const ls_tensor rows = ls_gather(ls_variable_read(user), indices, 0);
  ls_variable_scatter_add(user, indices, rows);
  return ls_leaf(ls_reduce_sum(rows, LS_ALL_AXES));
}

static size_t arena_bytes(const char *plan) {
  const char *at = strstr(plan, "bytes: shared ");
  assert_non_null(at);
  return strtoul(at + strlen("bytes: shared "), NULL, 10);
}

TEST(a_step_on_some_rows_keeps_no_other_table) {
  LS_OWN(ls_variable, variable) = table_of(LS_SHAPE(ROWS, WIDTH), 1);
  LS_OWN(ls_function, function) = unnamed_function(look_up_and_add, variable);
  ls_array *indices = NULL;
  expect_ok(ls_array_create(LS_DTYPE_I64, LS_SHAPE(3), &indices));
  ls_array_set_i64(indices, 0, ROWS - 1);
  ls_array_set_i64(indices, 1, 7);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(indices));
  LS_OWN(ls_nest, sum) = ls_none();
  for (int i = 0; i < 3; ++i)
    expect_ok(ls_function_call(function, args, &sum));
  assert_true(ls_nest_number(sum) == 3 * 4 * WIDTH);
  LS_OWN(ls_array, value) = variable_array(variable);
  assert_true(ls_array_f64(value, 7 * WIDTH) == 8);
  assert_true(ls_array_f64(value, 8 * WIDTH) == 1);
  LS_OWN(printed, plan) = NULL;
  expect_ok(ls_function_print_plan(function, &plan));
  if (arena_bytes(plan) > 4096 || strstr(plan, "copy") != NULL)
    fail_msg("the table is copied:\n%s", plan);
}

TEST(a_value_that_was_read_before_stays) {
  LS_OWN(ls_variable, variable) = table_of(LS_SHAPE(3), 1);
  expect_ok(ls_frame_begin());
  const ls_tensor before = ls_variable_read(variable);
  const ls_tensor after = ls_variable_scatter_update(
      variable, INDICES(2, 5), VALUES(7, 9));  // There is no row 5.
  double item = 0;
  expect_ok(ls_tensor_item(ls_reduce_sum(before, LS_ALL_AXES), &item));
  assert_true(item == 3);
  expect_ok(ls_tensor_item(ls_reduce_sum(after, LS_ALL_AXES), &item));
  assert_true(item == 9);
  expect_ok(ls_frame_end(NULL));
  expect_values(variable, 1, 1, 7);
}

// ---- Replicas --------------------------------------------------------------
static ls_nest add_on_replicas(ls_nest args, void *user) {
  (void)args;
  const scattering *s = user;
  ls_tensor updates =
      ls_add(VALUES(1, 2), ls_convert(ls_replica_id(), LS_DTYPE_F32));
  if (s->op == LS_SCATTER_ADD) updates = ls_all_reduce(LS_REDUCE_SUM, updates);
  return ls_leaf(
      ls_variable_scatter(s->variable, LS_SCATTER_ADD, INDICES(0, 2), updates));
}

TEST(replicas_write_what_is_the_same_on_all) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  scattering s = {table_of(LS_SHAPE(3), 1), LS_SCATTER_UPDATE};
  for (int merged = 0; merged < 2; ++merged) {
    if (merged) s.op = LS_SCATTER_ADD;
    LS_OWN(ls_function, function) = unnamed_function(add_on_replicas, &s);
    LS_OWN(ls_nest, result) = ls_none();
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_none());
    const ls_status status =
        ls_strategy_run(strategy, ls_traced(function), args, &result);
    if (merged)
      expect_ok(status);
    else
      expect_status(status, LS_UNIMPLEMENTED, "variable 'table'");
  }
  expect_values(s.variable, 1 + 3 + 3, 1, 1 + 6 + 3);
  ls_variable_release(s.variable);
}

// ---- Refusals --------------------------------------------------------------
static ls_nest through_a_write(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_nest y = ls_leaf(ls_variable_scatter_add(user, INDICES(0, 1, 2), x));
  const ls_nest xs = ls_leaf(x);
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&y, 1, &xs, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? gradient : ls_fail(status);
}

TEST(what_does_not_fit_is_refused) {
  LS_OWN(ls_variable, variable) = table_of(LS_SHAPE(3), 1);
  expect_ok(ls_frame_begin());
  expect_status(ls_tensor_status(ls_variable_scatter_add(
                    variable, INDICES(0, 1), VALUES(1, 2, 3))),
                LS_INVALID_ARGUMENT, "into variable 'table'");
  expect_status(ls_tensor_status(ls_variable_scatter_add(variable, VALUES(0, 1),
                                                         VALUES(1, 2))),
                LS_INVALID_ARGUMENT, "f32[2]");
  expect_status(ls_tensor_status(ls_variable_scatter(
                    variable, (ls_scatter_op)70, INDICES(0), VALUES(1))),
                LS_INVALID_ARGUMENT, "scatter op 70");
  expect_status(
      ls_tensor_status(ls_variable_scatter_add(NULL, INDICES(0), VALUES(1))),
      LS_INVALID_ARGUMENT, "NULL");
  expect_ok(ls_frame_end(NULL));
  expect_values(variable, 1, 1, 1);
  LS_OWN(ls_function, function) = unnamed_function(through_a_write, variable);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(3)));
  ls_nest result = ls_none();
  expect_status(ls_function_call(function, args, &result), LS_NOT_FOUND,
                "assign_scatter");
}
