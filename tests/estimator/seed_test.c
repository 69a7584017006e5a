// SPDX-License-Identifier: Apache-2.0
// What an estimator draws is a function of its configuration's seed: initial
// weights and random ops of all graphs that it builds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/estimator_export.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "nn/own.h"
#include "support/estimator_ways.h"
#include "support/estimators.h"

// ---- A model that draws ----------------------------------------------------
typedef struct noisy {
  estimator_case setup;
  int64_t own;  // The seed of the weight and of the noise.
} noisy;

static ls_status train_op(ls_tensor loss, ls_op *out) {
  ls_optimizer *inner = NULL;
  LS_OWN(ls_optimizer, outer) = NULL;
  LS_RETURN_IF_ERROR(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.1}, &inner));
  const ls_status status = ls_cross_shard_create(
      &(ls_cross_shard_options){.optimizer = inner}, &outer);
  ls_optimizer_release(inner);
  LS_RETURN_IF_ERROR(status);
  *out = ls_train_op(outer, loss);
  return ls_ok();
}

// Every second weight is dropped, in each mode.
static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  const noisy *n = user;
  const ls_random_options random = {.seed = n->own};
  ls_variable *w = NULL;
  LS_RETURN_IF_ERROR(ls_weight_create(
      &(ls_weight_options){.name = "w",
                           .shape =
                               LS_SHAPE(ESTIMATOR_WIDTH, ESTIMATOR_CLASSES),
                           .seed = n->own},
      &w));
  const ls_tensor x = ls_dropout(call->features.as.tensor, 0.5, true, &random);
  const ls_tensor logits = ls_matmul(x, ls_variable_read(w));
  ls_variable_release(w);
  ls_estimator_spec_options o = {.mode = call->mode};
  LS_OWN(ls_nest, made) = ls_none();
  if (call->mode == LS_MODE_PREDICT) {
    made = ls_nest_dict("", (const char *const[]){"logits"},
                        (ls_nest[]){ls_leaf(logits)}, 1);
    o.predictions = made;
  } else {
    o.loss = ls_cross_entropy_loss(logits, call->labels.as.tensor, 0,
                                   LS_REDUCTION_MEAN);
    if (call->mode == LS_MODE_TRAIN)
      LS_RETURN_IF_ERROR(train_op(o.loss, &o.train_op));
  }
  return ls_tpu_estimator_spec_create(&o, out);
}

// ---- What comes of a seed --------------------------------------------------
enum { WEIGHTS = ESTIMATOR_WIDTH * ESTIMATOR_CLASSES, ROWS = 24 };
enum { MOST_TEXT = 1 << 16 };

typedef struct drawn {
  float first[WEIGHTS], trained[WEIGHTS];
  double loss, eval_loss;
  float logits[ROWS * ESTIMATOR_CLASSES];
  char export[MOST_TEXT];  // Its graphs' texts.
} drawn;

static void take_weights(const estimator_case *c, float *out) {
  LS_OWN(ls_array, w) = NULL;
  expect_ok(ls_estimator_variable_value(c->estimator, "w", &w));
  assert_int_equal(ls_array_size(w), sizeof(float) * WEIGHTS);
  memcpy(out, ls_array_data(w), ls_array_size(w));
}

static void train(noisy *n, drawn *out) {
  estimator_case *c = &n->setup;
  ls_train_stop asked = {.requested = 1};
  ls_training_end end;
  ls_estimator_training t = {
      .input = estimator_input(c), .max_steps = LS_SOME(4), .stop = &asked};
  expect_ok(ls_estimator_train(c->estimator, &t, &end));
  assert_int_equal(end.step, 0);
  take_weights(c, out->first);
  t.stop = NULL;
  expect_ok(ls_estimator_train(c->estimator, &t, &end));
  take_weights(c, out->trained);
  out->loss = end.loss;
}

static void evaluate_and_predict(noisy *n, drawn *out) {
  estimator_case *c = &n->setup;
  ls_nest metrics = ls_none();
  LS_OWN(ls_nest, batch) = ls_none();
  ls_predictions *p = NULL;
  expect_ok(ls_estimator_evaluate(c->estimator,
                                  &(ls_estimator_evaluation){
                                      .input = estimator_input(c),
                                      .steps = LS_SOME(2),
                                  },
                                  &metrics));
  out->eval_loss = estimator_metric(metrics, "loss");
  ls_nest_release(metrics);
  expect_ok(ls_estimator_predict(
      c->estimator,
      &(ls_estimator_prediction){.input = estimator_input(c), .batches = true},
      &p));
  expect_ok(ls_predictions_next(p, &batch));
  const ls_array *logits = ls_nest_as_array(ls_nest_find(batch, "logits"));
  assert_int_equal(ls_array_size(logits), sizeof(out->logits));
  memcpy(out->logits, ls_array_data(logits), sizeof(out->logits));
  expect_ok(ls_predictions_close(p));
}

static void add_file(const char *folder, const char *name, char *out) {
  char path[300];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) return;
  const size_t length = strlen(out);
  const size_t read = fread(out + length, 1, MOST_TEXT - 1 - length, file);
  assert_true(length + read < MOST_TEXT - 1);
  out[length + read] = '\0';
  fclose(file);
}

static void export_it(noisy *n, drawn *out) {
  LS_OWN(printed, path) = NULL;
  expect_ok(ls_estimator_export(
      n->setup.estimator,
      &(ls_estimator_exporting){.base = "seed-exports",
                                .receiver = {.call = estimator_receive}},
      &path));
  add_file(path, "serve.ls", out->export);
  assert_non_null(strstr(out->export, "random_uniform"));
  if (n->setup.way == ON_TPU) {
    const size_t length = strlen(out->export);
    add_file(path, "serve+tpu.ls", out->export);
    assert_non_null(strstr(out->export + length, "random_uniform"));
  }
  assert_int_equal(system("rm -rf seed-exports"), 0);
}

static drawn *draw(int way, ls_opt seed, int64_t own) {
  noisy n = {.setup = estimator_case_of(way), .own = own};
  drawn *out = calloc(1, sizeof(*out));
  assert_non_null(out);
  n.setup.folder = "seed";
  n.setup.repeats = true;
  n.setup.save_steps = LS_SOME(100);
  n.setup.config.random_seed = seed;
  n.setup.more.model_fn = (ls_model_function){.call = model, .user = &n};
  estimator_case_begin(&n.setup);
  train(&n, out);
  evaluate_and_predict(&n, out);
  export_it(&n, out);
  estimator_case_end(&n.setup);
  return out;
}

static void expect_same(drawn *a, drawn *b) {
  assert_memory_equal(a->first, b->first, sizeof(a->first));
  assert_memory_equal(a->trained, b->trained, sizeof(a->trained));
  assert_memory_equal(a->logits, b->logits, sizeof(a->logits));
  assert_true(a->loss == b->loss);
  assert_true(a->eval_loss == b->eval_loss);
  assert_string_equal(a->export, b->export);
  free(b);
}

static void expect_other(const drawn *a, drawn *b) {
  for (int i = 0; i < WEIGHTS; ++i)
    assert_true(a->first[i] != b->first[i]);
  assert_memory_not_equal(a->trained, b->trained, sizeof(a->trained));
  assert_memory_not_equal(a->logits, b->logits, sizeof(a->logits));
  assert_true(a->loss != b->loss);
  assert_true(a->eval_loss != b->eval_loss);
  assert_string_not_equal(a->export, b->export);
  free(b);
}

TEST(a_seed_is_that_of_all_that_is_drawn) {
  LS_SPEC("E163");
  float first[WEIGHTS];
  for (int way = 0; way < ESTIMATOR_WAYS; ++way) {
    HEAP(drawn, none) = draw(way, (ls_opt){0}, 0);
    drawn *seven = draw(way, LS_SOME(7), 0);
    expect_same(none, draw(way, LS_SOME(0), 0));
    expect_same(seven, draw(way, LS_SOME(7), 0));
    expect_other(seven, draw(way, LS_SOME(8), 0));
    expect_other(seven, draw(way, LS_SOME(-7), 0));
    // It stands beside seeds of their own.
    drawn *both = draw(way, LS_SOME(7), 5);
    expect_same(both, draw(way, LS_SOME(7), 5));
    expect_other(both, draw(way, LS_SOME(8), 5));
    expect_other(seven, both);
    // Initial weights are the same wherever it runs.
    if (way == 0) memcpy(first, seven->first, sizeof(first));
    assert_memory_equal(first, seven->first, sizeof(first));
    expect_other(none, seven);
  }
}

// What a graph without one says is what its ops do.
TEST(without_a_seed_numbers_are_those_of_the_ops) {
  LS_SPEC("E163");
  for (int way = 0; way < ESTIMATOR_WAYS; ++way) {
    HEAP(drawn, none) = draw(way, (ls_opt){0}, 5);
    assert_non_null(strstr(none->export, "seed = 5"));
    HEAP(drawn, seven) = draw(way, LS_SOME(7), 5);
    assert_null(strstr(seven->export, "seed = 5"));
  }
}
