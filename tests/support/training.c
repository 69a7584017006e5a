// SPDX-License-Identifier: Apache-2.0
#include "support/training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/eager.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/train.h"
#include "lockstep/training_parts.h"
#include "support/expect.h"
#include "support/sanitizer.h"

// ---- One step after another ------------------------------------------------
// The model's own step, and the logits that it would give next.
static ls_nest step_and_logits(ls_nest args, void *user) {
  const ls_model *model = user;
  const ls_nest step = model->type->train_step(args, model->self);
  return LS_TUPLE(step, model->type->logits(args, model->self));
}

void training_setup_create(const training_job *job, training_setup *out) {
  const ls_model_type *type =
      job->type != NULL ? job->type : ls_model_find(job->model);
  assert_non_null(type);
  *out = (training_setup){.more_results = job->more_results};
  LS_OWN(ls_nest, batch) = ls_none();
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){
          .num_replicas = LS_SOME(job->replicas > 0 ? job->replicas : 1)},
      &out->strategy));
  expect_ok(ls_model_create(type, &job->options, &out->model));
  expect_ok(ls_model_synthetic_batch(type, job->batch, &batch));
  expect_ok(ls_train_split(out->strategy, batch, &out->args));
  const ls_function_options options = {
      .call = job->more_results ? step_and_logits : type->train_step,
      .user = job->more_results ? &out->model : out->model.self};
  expect_ok(ls_function_create(&options, &out->function));
}

ls_status training_setup_step(training_setup *self) {
  return ls_strategy_run(self->strategy, ls_traced(self->function), self->args,
                         &self->results);
}

double training_setup_loss(const training_setup *self) {
  const ls_nest step =
      self->more_results ? ls_nest_item(self->results, 0) : self->results;
  const ls_nest loss = ls_nest_find(step, "loss");
  double value = 0;
  expect_ok(ls_train_mean(self->args, loss, &value));
  return value;
}

void training_setup_destroy(training_setup *self) {
  ls_nest_release(self->results);
  ls_nest_release(self->args);
  ls_function_release(self->function);
  ls_model_destroy(&self->model);
  if (self->strategy != NULL) ls_strategy_release(self->strategy);
  *self = (training_setup){0};
}
LS_OWNED_STRUCT(training_setup, training_setup_destroy)

// ---- Jobs ------------------------------------------------------------------
training_job training_small_job(size_t index) {
  static const training_job jobs[TRAINING_MODELS] = {
      {.model = "tiny", .before = "mlp", .batch = 6},
      {.model = "mlp", .before = "tiny", .batch = LS_SANITIZED ? 8 : 40},
      {.model = "cnn", .before = "tiny", .batch = LS_SANITIZED ? 2 : 4},
      {.model = "resnet20", .before = "tiny", .batch = LS_SANITIZED ? 1 : 2},
      {.model = "unet", .before = "tiny", .batch = 1},
      {.model = "gpt", .before = "tiny", .batch = 1},
  };
  assert_in_range(index, 0, TRAINING_MODELS - 1);
  training_job job = jobs[index];
  job.steps = LS_SANITIZED ? 1 : 2;
  job.threads = 1;
  return job;
}

// ---- Running ---------------------------------------------------------------
static void train(const training_job *job, training *out) {
  LS_OWN(training_setup, beside) = {0};
  LS_OWN(training_setup, setup) = {0};
  if (job->before != NULL) {
    training_setup_create(&(training_job){.model = job->before, .batch = 2},
                          &beside);
    expect_ok(training_setup_step(&beside));
  }
  training_setup_create(job, &setup);
  for (out->steps = 0; out->steps < job->steps; ++out->steps) {
    expect_ok(training_setup_step(&setup));
    out->losses[out->steps] = training_setup_loss(&setup);
  }
  ls_variable *variables[TRAINING_MOST_VARIABLES];
  const ls_model *model = &setup.model;
  size_t count =
      model->type->variables(model->self, variables, TRAINING_MOST_VARIABLES);
  assert_in_range(count, 1, TRAINING_MOST_VARIABLES);
  count += ls_optimizer_variables(model->type->optimizer(model->self),
                                  variables + count,
                                  TRAINING_MOST_VARIABLES - count);
  assert_in_range(count, 1, TRAINING_MOST_VARIABLES);
  out->num_values = count;
  for (size_t i = 0; i < out->num_values; ++i)
    expect_ok(ls_variable_value(variables[i], &out->values[i]));
}

// Moves the values from the current runtime to `to`.
static void move_values(training *self, ls_runtime *to) {
  for (size_t i = 0; i < self->num_values; ++i) {
    LS_OWN(ls_array, value) = self->values[i];
    ls_runtime *from = ls_runtime_make_current(to);
    expect_ok(ls_array_create_copy(ls_array_dtype(value), ls_array_shape(value),
                                   ls_array_data(value), &self->values[i]));
    ls_runtime_make_current(from);
  }
}

// The environment of a job's runtime: LS_ISA and LS_LANES are its own.
static const char *environment_of(void *user, const char *name) {
  const training_job *job = user;
  if (job->isa != NULL && strcmp(name, "LS_ISA") == 0) return job->isa;
  if (job->lanes != NULL && strcmp(name, "LS_LANES") == 0) return job->lanes;
  return getenv(name);
}

void training_run(const training_job *job, training *out) {
  assert_in_range(job->steps, 1, TRAINING_MOST_STEPS);
  memset(out, 0, sizeof(*out));
  if (job->threads == 0) {
    train(job, out);
    return;
  }
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.threads = job->threads,
                            .math = job->math,
                            .environment = environment_of,
                            .environment_user = (void *)(uintptr_t)job},
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

void expect_same_outcome(const training *want, const training_job *job) {
  LS_OWN(training, got) = {0};
  training_run(job, &got);
  expect_same_training(want, &got);
}

void expect_any_threads(training_job job, const int *threads, size_t count) {
  LS_OWN(training, want) = {0};
  job.threads = 1;
  training_run(&job, &want);
  for (size_t i = 0; i < count; ++i) {
    job.threads = threads[i];
    expect_same_outcome(&want, &job);
  }
}
