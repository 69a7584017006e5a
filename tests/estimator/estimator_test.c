// SPDX-License-Identifier: Apache-2.0
// Training, evaluation and prediction, on every path.
#include <math.h>
#include <stdio.h>

#include "support/estimators.h"
#include "train/own.h"

TEST(a_model_is_trained_evaluated_and_used) {
  for (int way = 0; way < 3; ++way) {
    for (int replicas = 1; replicas <= 3; replicas += 2) {
      if (way == ON_CPU && replicas > 1) continue;
      char folder[40];
      snprintf(folder, sizeof(folder), "whole-%d-%d", way, replicas);
      LS_OWN(estimator_case, c) = {.way = (estimator_way)way,
                                   .replicas = replicas,
                                   .folder = folder,
                                   .repeats = true};
      estimator_case_begin(&c);
      const ls_training_end end = estimator_case_train(&c, 20);
      assert_int_equal(end.step, 20);
      assert_true(end.has_loss && end.loss < 1.2);
      LS_OWN(ls_nest, metrics) = ls_none();
      expect_ok(ls_estimator_evaluate(
          c.estimator,
          &(ls_estimator_evaluation){.input = estimator_input(&c),
                                     .steps = LS_SOME(4)},
          &metrics));
      assert_true(estimator_metric(metrics, "global_step") == 20);
      assert_true(estimator_metric(metrics, "accuracy") > 0.3);
      assert_true(fabs(estimator_metric(metrics, "loss") -
                       estimator_metric(metrics, "mean")) < 1e-5);
    }
  }
}

// ---- After a failure -------------------------------------------------------
static ls_status fail_after(void *user, ls_run_context *context,
                            ls_nest results) {
  (void)user, (void)context, (void)results;
  return LS_STATUS(LS_INTERNAL, "a hook of the test");
}

// The system of a call that failed is not in the way of the next one.
TEST(another_system_can_be_used_after_a_failure) {
  LS_OWN(ls_hook, hook) = NULL;
  estimator_case one = {.way = ON_TPU, .repeats = true, .folder = "one"};
  LS_OWN(estimator_case, three) = {
      .way = ON_TPU, .replicas = 3, .repeats = true, .folder = "three"};
  estimator_case_begin(&one);
  expect_ok(ls_hook_create(
      &(ls_hook_options){.name = "fails", .after_run = fail_after}, &hook));
  expect_status(ls_estimator_train(
                    one.estimator,
                    &(ls_estimator_training){.input = estimator_input(&one),
                                             .max_steps = LS_SOME(8),
                                             .hooks = &hook,
                                             .num_hooks = 1},
                    NULL),
                LS_INTERNAL, "a hook of the test");
  estimator_case_end(&one);
  estimator_case_begin(&three);
  assert_int_equal(estimator_case_train(&three, 8).step, 8);
}

// ---- What functions are given ----------------------------------------------
typedef struct given {
  estimator_case setup;
  int caches[2];  // Calls of a training's, an evaluation's.
  bool context, uses_tpu, has_cache;
  int64_t batch;  // Of the input.
} given;

static ls_nest no_cache(given *g, int which, int64_t batch_size) {
  ++g->caches[which];
  assert_int_equal(batch_size, g->setup.batch / g->setup.replicas);
  return ls_nest_sequence(LS_KIND_LIST, NULL, 0);
}
static ls_nest train_cache(void *user, int64_t batch_size) {
  return no_cache(user, 0, batch_size);
}
static ls_nest eval_cache(void *user, int64_t batch_size) {
  return no_cache(user, 1, batch_size);
}

static bool has(ls_nest params, const char *key) {
  return ls_nest_find(params, key).kind != LS_KIND_NONE;
}

static ls_nest given_input(void *user, ls_input_call *call) {
  given *g = user;
  const ls_input_function base = estimator_input(&g->setup);
  assert_int_equal(has(call->params, "context"), g->context);
  g->batch = ls_params_i64(call->params, "batch_size", 0);
  return base.call(base.user, call);
}

static ls_status given_model(void *user, ls_model_call *call,
                             ls_estimator_spec **out) {
  given *g = user;
  const ls_model_function base = estimator_model(&g->setup);
  assert_int_equal(has(call->params, "context"), g->context);
  assert_int_equal(has(call->params, "cache"), g->has_cache);
  assert_int_equal(ls_nest_number(ls_nest_find(call->params, "use_tpu")) == 1,
                   g->uses_tpu);
  return base.call(base.user, call, out);
}

// On a CPU there is no context, no cache and no share of a batch.
TEST(functions_are_given_what_their_path_has) {
  LS_SPEC("E126 E134 E175");
  for (int replicas = 0; replicas <= 3; ++replicas) {
    const bool cores = replicas > 0;
    given g = {.setup = {.way = cores ? ON_TPU : ON_CPU,
                         .replicas = cores ? replicas : 1,
                         .folder = "given"}};
    g.context = g.uses_tpu = g.has_cache = cores;
    g.setup.more =
        (ls_estimator_options){.model_fn = {.call = given_model, .user = &g},
                               .train_cache = {.call = train_cache, .user = &g},
                               .eval_cache = {.call = eval_cache, .user = &g}};
    estimator_case_begin(&g.setup);
    const ls_input_function from = {.call = given_input, .user = &g};
    ls_nest metrics = ls_none(), row = ls_none();
    ls_predictions *p = NULL;
    expect_ok(ls_estimator_train(
        g.setup.estimator,
        &(ls_estimator_training){.input = from, .max_steps = LS_SOME(2)},
        NULL));
    assert_int_equal(g.batch, 24);
    assert_true(g.caches[0] == cores && g.caches[1] == 0);
    expect_ok(ls_estimator_evaluate(
        g.setup.estimator,
        &(ls_estimator_evaluation){.input = from, .steps = LS_SOME(2)},
        &metrics));
    assert_true(g.caches[0] == cores && g.caches[1] == cores);
    g.has_cache = false;
    expect_ok(ls_estimator_predict(
        g.setup.estimator, &(ls_estimator_prediction){.input = from}, &p));
    expect_ok(ls_predictions_next(p, &row));
    assert_true(g.caches[0] == cores && g.caches[1] == cores);
    expect_ok(ls_predictions_close(p));
    ls_nest_release(row);
    ls_nest_release(metrics);
    estimator_case_end(&g.setup);
  }
}

TEST(no_hook_in_a_list_is_refused) {
  ls_hook *const none[] = {NULL};
  LS_OWN(estimator_case, c) = {.folder = "none"};
  ls_nest metrics = ls_none();
  ls_predictions *predictions = NULL;
  estimator_case_begin(&c);
  expect_status(
      ls_estimator_train(c.estimator,
                         &(ls_estimator_training){.input = estimator_input(&c),
                                                  .max_steps = LS_SOME(8),
                                                  .hooks = none,
                                                  .num_hooks = 1},
                         NULL),
      LS_INVALID_ARGUMENT, "hooks[0] is NULL");
  expect_status(ls_estimator_evaluate(
                    c.estimator,
                    &(ls_estimator_evaluation){.input = estimator_input(&c),
                                               .hooks = none,
                                               .num_hooks = 1},
                    &metrics),
                LS_INVALID_ARGUMENT, "hooks[0] is NULL");
  expect_status(ls_estimator_predict(
                    c.estimator,
                    &(ls_estimator_prediction){.input = estimator_input(&c),
                                               .hooks = none,
                                               .num_hooks = 1},
                    &predictions),
                LS_INVALID_ARGUMENT, "hooks[0] is NULL");
  assert_int_equal(c.model_calls, 0);
}
