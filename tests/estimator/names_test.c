// SPDX-License-Identifier: Apache-2.0
//
// Names and numbers that are an estimator's own.
#include <string.h>

#include "estimator/config/config.h"
#include "estimator/loop/program.h"
#include "lockstep/cross_replica.h"
#include "lockstep/estimator_hooks.h"
#include "support/estimators.h"
#include "support/function.h"
#include "train/own.h"

// What a hook sees of the graph.
typedef struct seen {
  size_t enqueues, train_ops, iterations;
  bool has_sum;
} seen;

static bool has_sum(const ls_graph *graph) {
  LS_OWN(printed, text) = graph_text(graph);
  return strstr(text, "= cross_replica_sum(") != NULL;
}

static ls_status look(void *user, ls_run_context *context) {
  seen *s = user;
  const ls_graph *graph = ls_run_context_graph(context);
  s->enqueues = ls_graph_collection(graph, "_tpu_enqueue_ops", NULL, 0);
  s->train_ops = ls_graph_collection(graph, "_tpu_train_op", NULL, 0);
  s->iterations =
      ls_graph_collection(graph, "tpu_estimator_iterations_per_loop", NULL, 0);
  s->has_sum = has_sum(graph);
  return ls_ok();
}

TEST(constants_are_those_that_others_look_for) {
  LS_SPEC("E1");
  assert_true(LS_INITIAL_LOSS == 1e7);
  assert_true(LS_ZERO_LOSS == 0.0);
  assert_string_equal(LS_TPU_ESTIMATOR, "tpu_estimator");
  assert_string_equal(LS_ITERATIONS_PER_LOOP, "iterations_per_loop");
  assert_string_equal(LS_PARAM_BATCH_SIZE, "batch_size");
  assert_string_equal(LS_PARAM_CONTEXT, "context");
  assert_string_equal(LS_PARAM_USE_TPU, "use_tpu");
  assert_int_equal(LS_ONE_GIGABYTE, 1073741824);
  // What is in a graph that trains.
  seen s = {0};
  LS_OWN(ls_hook, hook) = NULL;
  expect_ok(ls_hook_create(&(ls_hook_options){.name = "look",
                                              .user = &s,
                                              .after_create_session = look},
                           &hook));
  LS_OWN(estimator_case, c) = {.way = ON_TPU, .replicas = 3, .repeats = true};
  estimator_case_begin(&c);
  ls_training_end end;
  expect_ok(
      ls_estimator_train(c.estimator,
                         &(ls_estimator_training){.input = estimator_input(&c),
                                                  .max_steps = LS_SOME(2),
                                                  .hooks = &hook,
                                                  .num_hooks = 1},
                         &end));
  assert_true(s.enqueues > 0);
  assert_int_equal(s.train_ops, 1);
  assert_int_equal(s.iterations, 1);
  assert_true(s.has_sum);
}

// An estimator with this parameter.
static ls_status create_with(const char *key) {
  LS_OWN(estimator_case, c) = {.way = ON_TPU, .replicas = 1};
  ls_estimator *estimator = NULL;
  estimator_case_begin(&c);
  const ls_nest value = ls_nest_i64(1);
  LS_OWN(ls_nest, params) = ls_nest_dict("", &key, &value, 1);
  const ls_status status = ls_estimator_create(
      &(ls_estimator_options){.model_fn = estimator_model(&c),
                              .config = c.made_config,
                              .train_batch_size = LS_SOME(24),
                              .params = params},
      &estimator);
  ls_estimator_destroy(estimator);
  return status;
}

// What is overwritten at each call is none: see calls_test.
TEST(two_parameters_are_reserved) {
  LS_SPEC("E2");
  static const char *const reserved[] = {"batch_size", "context"};
  static const char *const free_ones[] = {"use_tpu", "cache", "rate"};
  for (size_t i = 0; i < LS_COUNT_OF(reserved); ++i)
    expect_status(create_with(reserved[i]), LS_INVALID_ARGUMENT,
                  "batch_size and context");
  for (size_t i = 0; i < LS_COUNT_OF(free_ones); ++i)
    expect_ok(create_with(free_ones[i]));
}
