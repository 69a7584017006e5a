// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optimizers.h"

#include <math.h>

#include "nn/own.h"
#include "support/fault.h"
#include "support/values.h"

typedef struct problem {
  ls_variable *w;
  ls_optimizer *optimizer;
  ls_average *average;
} problem;

static void begin(problem *p) {
  const double values[] = {1, -2};
  p->w = variable_of("w", LS_DTYPE_F64, LS_SHAPE(2), values);
  expect_ok(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.25}, &p->optimizer));
  expect_ok(ls_average_create(
      &(ls_average_options){.variables = &p->w, .count = 1, .decay = 0.75},
      &p->average));
}

static void end(problem *p) {
  ls_average_destroy(p->average);
  ls_optimizer_release(p->optimizer);
  ls_variable_release(p->w);
}
LS_OWNED_STRUCT(problem, end)

// w falls to a half at each step.
static ls_nest train(ls_nest args, void *user) {
  (void)args;
  problem *p = user;
  ls_optimizer_minimize(
      p->optimizer,
      ls_reduce_sum(ls_square(ls_variable_read(p->w)), LS_ALL_AXES));
  ls_average_update(p->average);
  return ls_none();
}

static ls_variable *averaged(const problem *p) {
  ls_variable *variables[2] = {NULL};
  assert_int_equal(ls_average_variables(p->average, variables, 2), 2);
  assert_string_equal(ls_variable_name(variables[0]), "average/step");
  assert_string_equal(ls_variable_name(variables[1]), "w/average");
  return variables[1];
}

TEST(an_average_weighs_values_by_their_age) {
  for (int replicas = 1; replicas <= 2; ++replicas) {
    LS_OWN_BEGUN(problem, p, begin);
    ls_nest_release(call_on(replicas, train, &p, ls_none(), 4));
    double sum = 0, weights = 0;
    for (int k = 1; k <= 4; ++k) {
      const double weight = pow(0.75, 4 - k);
      sum += weight * pow(0.5, k);
      weights += weight;
    }
    const double wanted[] = {sum / weights, -2 * sum / weights};
    expect_variable(averaged(&p), wanted, 2, 1e-14);
  }
}

TEST(the_first_average_is_the_first_value) {
  LS_OWN_BEGUN(problem, p, begin);
  ls_nest_release(call_on(1, train, &p, ls_none(), 1));
  const double wanted[] = {0.5, -1};
  expect_variable(averaged(&p), wanted, 2, 0);
}

TEST(swapping_twice_changes_nothing) {
  LS_OWN_BEGUN(problem, p, begin);
  ls_nest_release(call_on(1, train, &p, ls_none(), 3));
  double w[2], mean[2];
  read_variable(p.w, w, 2);
  read_variable(averaged(&p), mean, 2);
  assert_true(w[0] != mean[0]);
  expect_ok(ls_frame_begin());
  expect_ok(ls_tensor_status(ls_op_output(ls_average_swap(p.average), 0)));
  expect_variable(p.w, mean, 2, 0);
  expect_variable(averaged(&p), w, 2, 0);
  expect_ok(ls_tensor_status(ls_op_output(ls_average_swap(p.average), 0)));
  expect_variable(p.w, w, 2, 0);
  expect_variable(averaged(&p), mean, 2, 0);
  expect_ok(ls_frame_end(NULL));
}

// Returns the average of 1 for 500 updates, then 2 for 1500.
static double average_of_two_levels(ls_dtype dtype) {
  const double one = 1;
  LS_OWN(ls_variable, w) = variable_of("w", dtype, LS_SCALAR, &one);
  LS_OWN(ls_average, average) = NULL;
  ls_variable *made[3];
  double mean = 0, swapped = 0, got = 0;
  expect_ok(ls_average_create(
      &(ls_average_options){.variables = &w, .count = 1}, &average));
  assert_int_equal(ls_average_variables(average, made, 3),
                   dtype == LS_DTYPE_F32 ? 2 : 3);
  for (int i = 0; i < 2000; ++i) {
    expect_ok(ls_frame_begin());
    ls_variable_assign(w, ls_scalar(dtype, i < 500 ? 1 : 2));
    ls_average_update(average);
    expect_ok(ls_frame_end(NULL));
  }
  read_variable(made[1], &mean, 1);
  expect_ok(ls_frame_begin());
  expect_ok(ls_tensor_status(ls_op_output(ls_average_swap(average), 0)));
  read_variable(w, &swapped, 1);
  assert_float_equal(swapped, mean, 0x1p-8);
  expect_ok(ls_tensor_status(ls_op_output(ls_average_swap(average), 0)));
  expect_ok(ls_frame_end(NULL));
  read_variable(made[1], &got, 1);
  assert_true(got == mean);
  const double two = 2;
  expect_variable(w, &two, 1, 0);
  return mean;
}

TEST(averages_of_16_bit_variables_are_those_of_f32) {
  const double want = average_of_two_levels(LS_DTYPE_F32);
  assert_float_equal(want, 1.89852, 1e-5);
  assert_true(average_of_two_levels(LS_DTYPE_F16) == want);
  assert_true(average_of_two_levels(LS_DTYPE_BF16) == want);
}

TEST(averages_that_cannot_be_are_refused) {
  ls_average *average = NULL;
  const double one = 1;
  LS_OWN(ls_variable, steps) =
      variable_of("steps", LS_DTYPE_I32, LS_SCALAR, &one);
  expect_status(
      ls_average_create(&(ls_average_options){.variables = &steps, .count = 1},
                        &average),
      LS_INVALID_ARGUMENT, "variable 'steps' is i32");
  expect_status(ls_average_create(&(ls_average_options){.decay = 1}, &average),
                LS_INVALID_ARGUMENT, "the decay must be 0 or more and below 1");
  expect_status(ls_average_create(&(ls_average_options){0}, &average),
                LS_INVALID_ARGUMENT, "at least one variable");
  assert_null(average);
}

MEMORY_TEST(make_an_average) {
  LS_OWN(ls_variable, w) = NULL;
  LS_OWN(ls_average, average) = NULL;
  LS_RETURN_IF_ERROR(ls_variable_create(
      &(ls_variable_options){.name = "w", .dtype = LS_DTYPE_F16}, &w));
  return ls_average_create(&(ls_average_options){.variables = &w, .count = 1},
                           &average);
}
