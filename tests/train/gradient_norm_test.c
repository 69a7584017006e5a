// SPDX-License-Identifier: Apache-2.0
//
// The norm of gradients in lines of metrics: SGD moves weights by the rate
// times the gradient, so that the way of a step is the norm times the rate.
#include "support/expect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/train.h"
#include "support/training.h"
#include "support/values.h"
#include "train/own.h"

enum { VARIABLES = 4, STEPS = 3 };

// Values of the model's variables, before or after a step.
typedef struct weights {
  ls_array *values[VARIABLES];
} weights;

static void weights_end(weights *w) {
  for (int i = 0; i < VARIABLES; ++i)
    ls_array_release(w->values[i]);
}

static weights copy_weights(const ls_model *model) {
  weights w = {0};
  ls_variable *variables[VARIABLES] = {NULL};
  assert_int_equal(model->type->variables(model->self, variables, VARIABLES),
                   VARIABLES);
  for (int i = 0; i < VARIABLES; ++i) {
    LS_OWN(ls_array, value) = variable_array(variables[i]);
    expect_ok(ls_array_create_copy(ls_array_dtype(value), ls_array_shape(value),
                                   ls_array_data(value), &w.values[i]));
  }
  return w;
}

static double find_way(const weights *a, const weights *b) {
  double sum = 0;
  for (int i = 0; i < VARIABLES; ++i) {
    for (int64_t k = 0; k < ls_array_num_elements(a->values[i]); ++k) {
      const double way =
          ls_array_f64(a->values[i], k) - ls_array_f64(b->values[i], k);
      sum += way * way;
    }
  }
  return sqrt(sum);
}

// A run of tiny, with the norms that its lines have.
typedef struct norms {
  const ls_model *model;
  weights before;
  double rate;
  int count;
  double values[STEPS];
} norms;

static void take_line(void *user, const char *text) {
  norms *self = user;
  const char *at = strstr(text, "\"gradient_norm\":");
  if (at == NULL) return;
  self->values[self->count] = strtod(at + strlen("\"gradient_norm\":"), NULL);
  weights after = copy_weights(self->model);
  const double norm = find_way(&self->before, &after) / self->rate;
  assert_true(fabs(norm - self->values[self->count]) < 1e-4);
  weights_end(&self->before);
  self->before = after;
  ++self->count;
}

static void train_tiny(int64_t replicas, double clip, bool wanted,
                       int64_t iterations, norms *out) {
  const ls_model_type *type = ls_model_find("tiny");
  LS_OWN(ls_dataset, data) = ls_dataset_synthetic(&(ls_synthetic_options){
      .size = 40, .shape = type->example_shape, .num_classes = 4});
  LS_OWN(ls_model, model) = {0};
  LS_OWN(ls_optimizer, optimizer) = NULL;
  ls_strategy *strategy = NULL;
  ls_train_result result;
  *out = (norms){.model = &model, .rate = 0.5};
  expect_ok(ls_optimizer_create(
      "sgd",
      &(ls_optimizer_options){.learning_rate = out->rate,
                              .clip = {.global_norm = clip}},
      &optimizer));
  expect_ok(ls_model_create(
      type, &(ls_model_options){.metrics = true, .optimizer = optimizer},
      &model));
  out->before = copy_weights(&model);
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &strategy));
  expect_ok(
      ls_train(&(ls_train_options){.model = &model,
                                   .strategy = strategy,
                                   .train = data,
                                   .batch_size = 9,
                                   .steps = STEPS,
                                   .log_every = 1,
                                   .iterations_per_loop = iterations,
                                   .gradient_norm = wanted,
                                   .log = {.line = take_line, .user = out}},
               &result));
  weights_end(&out->before);
  ls_strategy_release(strategy);
}

TEST(lines_have_the_norm_by_which_the_weights_moved) {
  for (int64_t replicas = 1; replicas <= 3; ++replicas) {
    norms seen;
    train_tiny(replicas, 0, true, replicas, &seen);
    assert_int_equal(seen.count, STEPS);
  }
}

TEST(a_clipped_norm_is_the_limit) {
  norms seen;
  train_tiny(2, 0.01, true, 1, &seen);
  for (int i = 0; i < STEPS; ++i)
    assert_true(fabs(seen.values[i] - 0.01) < 1e-6);
}

TEST(lines_have_no_norm_unless_it_is_wanted) {
  norms seen;
  train_tiny(2, 0, false, 1, &seen);
  assert_int_equal(seen.count, 0);
}
