// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <math.h>
#include <string.h>

#include "lockstep/eager.h"
#include "lockstep/models.h"
#include "lockstep/train.h"

enum { MOST_VARIABLES = 256 };

static void the_table_is_complete(void **state) {
  (void)state;
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  assert_true(count >= 2);
  for (size_t i = 0; i < count; ++i) {
    const ls_model_type *type = types[i];
    assert_ptr_equal(ls_model_find(type->name), type);
    assert_non_null(type->description);
    assert_true(type->batch_size > 0 && type->epochs > 0 &&
                type->num_classes > 1);
    assert_true(type->learning_rate > 0 && type->flops_per_example > 0);
  }
  assert_null(ls_model_find("none"));
  assert_null(ls_model_find(""));
}

static void steps_have_the_products_that_are_stated(void **state) {
  (void)state;
  const ls_model_type *mlp = ls_model_find("mlp");
  const double giga = mlp->flops_per_example * (double)mlp->batch_size * 1e-9;
  assert_true(giga > 0.815 && giga < 0.825);
  const ls_model_type *tiny = ls_model_find("tiny");
  assert_true(tiny->flops_per_example * (double)tiny->batch_size == 11264);
  const ls_model_type *cnn = ls_model_find("cnn");
  const double cnn_giga =
      cnn->flops_per_example * (double)cnn->batch_size * 1e-9;
  assert_true(cnn_giga > 12.4 && cnn_giga < 12.5);
  const ls_model_type *resnet20 = ls_model_find("resnet20");
  const double resnet20_giga =
      resnet20->flops_per_example * (double)resnet20->batch_size * 1e-9;
  assert_true(resnet20_giga > 15.6 && resnet20_giga < 15.8);
}

static void variables_have_names_of_their_own(void **state) {
  (void)state;
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  for (size_t i = 0; i < count; ++i) {
    ls_model model;
    ls_variable *variables[MOST_VARIABLES] = {NULL};
    expect_ok(ls_model_create(types[i], NULL, &model));
    const size_t n = types[i]->variables(model.self, variables, MOST_VARIABLES);
    assert_true(n > 0 && n <= MOST_VARIABLES);
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = 0; b < a; ++b)
        assert_string_not_equal(ls_variable_name(variables[a]),
                                ls_variable_name(variables[b]));
    }
    ls_model_destroy(&model);
  }
}

static double loss_of(ls_nest results) {
  return ls_array_f64(ls_nest_as_array(ls_nest_find(results, "loss")), 0);
}

static void training_makes_the_loss_smaller(void **state) {
  (void)state;
  const ls_model_type *type = ls_model_find("tiny");
  ls_model model;
  ls_nest batch, results = {0};
  ls_function *function = NULL;
  expect_ok(
      ls_model_create(type, &(ls_model_options){.metrics = true}, &model));
  expect_ok(ls_model_synthetic_batch(type, type->batch_size, &batch));
  expect_ok(ls_function_create(
      &(ls_function_options){.call = type->train_step, .user = model.self},
      &function));
  expect_ok(ls_function_call(function, batch, &results));
  const double first = loss_of(results);
  for (int i = 0; i < 300; ++i)
    expect_ok(ls_function_call(function, batch, &results));
  assert_true(loss_of(results) < first / 2);
  assert_true(ls_array_f64(ls_nest_as_array(ls_nest_find(results, "accuracy")),
                           0) > 0.9);
  ls_nest_release(results);
  ls_nest_release(batch);
  ls_function_release(function);
  ls_model_destroy(&model);
}

static void the_accuracy_is_there_if_asked_for(void **state) {
  (void)state;
  const ls_model_type *type = ls_model_find("tiny");
  ls_model model;
  ls_nest batch, results = {0};
  ls_function *function = NULL;
  expect_ok(ls_model_create(type, NULL, &model));
  expect_ok(ls_model_synthetic_batch(type, 4, &batch));
  expect_ok(ls_function_create(
      &(ls_function_options){.call = type->train_step, .user = model.self},
      &function));
  expect_ok(ls_function_call(function, batch, &results));
  assert_int_equal(ls_nest_count(results), 1);
  ls_nest_release(results);
  ls_nest_release(batch);
  ls_function_release(function);
  ls_model_destroy(&model);
}

static ls_nest logits(ls_nest args, void *user) {
  const ls_model *model = user;
  return model->type->logits(args, model->self);
}

static void logits_have_a_column_a_class(void **state) {
  (void)state;
  const ls_model_type *type = ls_model_find("tiny");
  ls_model model;
  ls_nest batch, results = {0};
  ls_function *function = NULL;
  expect_ok(ls_model_create(type, NULL, &model));
  expect_ok(ls_model_synthetic_batch(type, 5, &batch));
  expect_ok(ls_function_create(
      &(ls_function_options){.call = logits, .user = &model}, &function));
  expect_ok(ls_function_call(function, batch, &results));
  assert_true(ls_shape_equal(ls_array_shape(ls_nest_as_array(results)),
                             LS_SHAPE(5, 4)));
  ls_nest_release(results);
  ls_nest_release(batch);
  ls_function_release(function);
  ls_model_destroy(&model);
}

static void models_of_one_seed_start_alike(void **state) {
  (void)state;
  const ls_model_type *type = ls_model_find("tiny");
  ls_array *values[3] = {NULL};
  for (int i = 0; i < 3; ++i) {
    ls_model model;
    ls_variable *variable = NULL;
    expect_ok(ls_model_create(type, &(ls_model_options){.seed = i == 2 ? 1 : 0},
                              &model));
    type->variables(model.self, &variable, 1);
    expect_ok(ls_variable_value(variable, &values[i]));
    ls_model_destroy(&model);
  }
  assert_memory_equal(ls_array_data(values[0]), ls_array_data(values[1]),
                      ls_array_size(values[0]));
  assert_memory_not_equal(ls_array_data(values[0]), ls_array_data(values[2]),
                          ls_array_size(values[0]));
  for (int i = 0; i < 3; ++i)
    ls_array_release(values[i]);
}

// ---- Every model -----------------------------------------------------------
enum { MOST_STEPS = 5, BATCH = 8 };

typedef struct training {
  double losses[MOST_STEPS];
  ls_array *values[MOST_VARIABLES];  // Of the variables at the end.
  size_t num_values;
} training;

static training trained(const ls_model_type *type, int replicas, int steps) {
  training out = {.num_values = 0};
  ls_model model;
  ls_nest batch, args, results = {0};
  ls_function *function = NULL;
  ls_strategy *strategy = NULL;
  ls_variable *variables[MOST_VARIABLES];
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &strategy));
  expect_ok(
      ls_model_create(type, &(ls_model_options){.metrics = true}, &model));
  expect_ok(ls_model_synthetic_batch(type, BATCH, &batch));
  expect_ok(ls_train_split(strategy, batch, &args));
  expect_ok(ls_function_create(
      &(ls_function_options){.call = type->train_step, .user = model.self},
      &function));
  for (int i = 0; i < steps; ++i) {
    expect_ok(ls_strategy_run(strategy, ls_traced(function), args, &results));
    ls_nest loss = {0};
    expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_MEAN,
                                 ls_nest_find(results, "loss"), &loss));
    out.losses[i] = ls_array_f64(ls_nest_as_array(loss), 0);
    ls_nest_release(loss);
  }
  out.num_values = type->variables(model.self, variables, MOST_VARIABLES);
  for (size_t i = 0; i < out.num_values; ++i)
    expect_ok(ls_variable_value(variables[i], &out.values[i]));
  ls_nest_release(results);
  ls_nest_release(args);
  ls_nest_release(batch);
  ls_function_release(function);
  ls_model_destroy(&model);
  ls_strategy_release(strategy);
  return out;
}

static void forget(training *run) {
  for (size_t i = 0; i < run->num_values; ++i)
    ls_array_release(run->values[i]);
}

static void
every_model_learns_its_batch_with_the_same_bits_each_time(void **state) {
  (void)state;
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  for (size_t t = 0; t < count; ++t) {
    training a = trained(types[t], 1, MOST_STEPS);
    training b = trained(types[t], 1, MOST_STEPS);
    assert_true(isfinite(a.losses[0]) && a.losses[0] > 0);
    assert_true(a.losses[MOST_STEPS - 1] < a.losses[0]);
    assert_memory_equal(a.losses, b.losses, sizeof(a.losses));
    for (size_t i = 0; i < a.num_values; ++i)
      assert_memory_equal(ls_array_data(a.values[i]),
                          ls_array_data(b.values[i]),
                          ls_array_size(a.values[i]));
    forget(&a);
    forget(&b);
  }
}

// Losses only: Adam's first steps go by the sign of a gradient, so that
// rounding can turn a weight's whole step around where a gradient is near 0.
static void two_replicas_train_as_one_does(void **state) {
  (void)state;
  static const char *const names[] = {"tiny", "mlp", "cnn"};
  for (size_t t = 0; t < sizeof(names) / sizeof(names[0]); ++t) {
    training one = trained(ls_model_find(names[t]), 1, 3);
    training two = trained(ls_model_find(names[t]), 2, 3);
    for (int i = 0; i < 3; ++i)
      assert_true(fabs(one.losses[i] - two.losses[i]) <=
                  1e-4 * fabs(one.losses[i]));
    forget(&one);
    forget(&two);
  }
}

// Batch norm sees a replica's own part of the batch, so that two replicas are
// not as one; they are the same each time.
static void resnet20_learns_on_two_replicas(void **state) {
  (void)state;
  const ls_model_type *type = ls_model_find("resnet20");
  training a = trained(type, 2, MOST_STEPS);
  training b = trained(type, 2, MOST_STEPS);
  assert_true(isfinite(a.losses[0]) && a.losses[0] > 0);
  assert_true(a.losses[MOST_STEPS - 1] < a.losses[0]);
  assert_memory_equal(a.losses, b.losses, sizeof(a.losses));
  forget(&a);
  forget(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_table_is_complete),
      cmocka_unit_test(steps_have_the_products_that_are_stated),
      cmocka_unit_test(variables_have_names_of_their_own),
      cmocka_unit_test(training_makes_the_loss_smaller),
      cmocka_unit_test(the_accuracy_is_there_if_asked_for),
      cmocka_unit_test(logits_have_a_column_a_class),
      cmocka_unit_test(models_of_one_seed_start_alike),
      cmocka_unit_test(
          every_model_learns_its_batch_with_the_same_bits_each_time),
      cmocka_unit_test(two_replicas_train_as_one_does),
      cmocka_unit_test(resnet20_learns_on_two_replicas),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
