// SPDX-License-Identifier: Apache-2.0
#include "support/training.h"

#include <math.h>
#include <string.h>

#include "lockstep/eager.h"
#include "lockstep/train.h"
#include "support/expect.h"

// ---- Running ---------------------------------------------------------------
static double mean_loss(ls_strategy *strategy, ls_nest results) {
  ls_nest loss = {0};
  expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_MEAN,
                               ls_nest_find(results, "loss"), &loss));
  const double value = ls_array_f64(ls_nest_as_array(loss), 0);
  ls_nest_release(loss);
  return value;
}

static void train(const training_job *job, training *out) {
  const ls_model_type *type = ls_model_find(job->model);
  assert_non_null(type);
  ls_model model;
  ls_nest batch, args, results = {0};
  ls_function *function = NULL;
  ls_strategy *strategy = NULL;
  ls_variable *variables[TRAINING_MOST_VARIABLES];
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){
          .num_replicas = LS_SOME(job->replicas > 0 ? job->replicas : 1)},
      &strategy));
  expect_ok(ls_model_create(type, &job->options, &model));
  expect_ok(ls_model_synthetic_batch(type, job->batch, &batch));
  expect_ok(ls_train_split(strategy, batch, &args));
  expect_ok(ls_function_create(
      &(ls_function_options){.call = type->train_step, .user = model.self},
      &function));
  for (out->steps = 0; out->steps < job->steps; ++out->steps) {
    expect_ok(ls_strategy_run(strategy, ls_traced(function), args, &results));
    out->losses[out->steps] = mean_loss(strategy, results);
  }
  out->num_values =
      type->variables(model.self, variables, TRAINING_MOST_VARIABLES);
  assert_in_range(out->num_values, 1, TRAINING_MOST_VARIABLES);
  for (size_t i = 0; i < out->num_values; ++i)
    expect_ok(ls_variable_value(variables[i], &out->values[i]));
  ls_nest_release(results);
  ls_nest_release(args);
  ls_nest_release(batch);
  ls_function_release(function);
  ls_model_destroy(&model);
  ls_strategy_release(strategy);
}

// Moves the values from the current runtime to `to`.
static void move_values(training *self, ls_runtime *to) {
  for (size_t i = 0; i < self->num_values; ++i) {
    ls_array *value = self->values[i];
    ls_runtime *from = ls_runtime_make_current(to);
    expect_ok(ls_array_create_copy(ls_array_dtype(value), ls_array_shape(value),
                                   ls_array_data(value), &self->values[i]));
    ls_runtime_make_current(from);
    ls_array_release(value);
  }
}

void training_run(const training_job *job, training *out) {
  assert_in_range(job->steps, 1, TRAINING_MOST_STEPS);
  memset(out, 0, sizeof(*out));
  if (job->threads == 0) {
    train(job, out);
    return;
  }
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(&(ls_runtime_options){.threads = job->threads},
                              &runtime));
  ls_runtime *before = ls_runtime_make_current(runtime);
  train(job, out);
  move_values(out, before);
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
}

void training_deinit(training *self) {
  for (size_t i = 0; i < self->num_values; ++i)
    ls_array_release(self->values[i]);
  memset(self, 0, sizeof(*self));
}

// ---- Comparing -------------------------------------------------------------
void expect_learnt(const training *self) {
  for (int i = 0; i < self->steps; ++i)
    assert_true(isfinite(self->losses[i]) && self->losses[i] > 0);
  const double first = self->losses[0], last = self->losses[self->steps - 1];
  if (!(last < first)) fail_msg("the loss went from %g to %g", first, last);
}

void expect_same_training(const training *a, const training *b) {
  assert_int_equal(a->steps, b->steps);
  for (int i = 0; i < a->steps; ++i)
    if (memcmp(&a->losses[i], &b->losses[i], sizeof(double)) != 0)
      fail_msg("loss %d: %a and %a", i, a->losses[i], b->losses[i]);
  assert_int_equal(a->num_values, b->num_values);
  for (size_t i = 0; i < a->num_values; ++i) {
    const size_t size = ls_array_size(a->values[i]);
    assert_int_equal(size, ls_array_size(b->values[i]));
    if (memcmp(ls_array_data(a->values[i]), ls_array_data(b->values[i]),
               size) != 0)
      fail_msg("variable %zu differs", i);
  }
}
