// SPDX-License-Identifier: Apache-2.0
//
// A training step of an estimator as a function: the losses of its training, on
// one replica and on several, its variables, and what is refused.
#include "lockstep/estimator_table.h"

#include <math.h>
#include <string.h>

#include "distribute/own.h"
#include "lockstep/function_plan.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/metrics.h"
#include "lockstep/optimizers.h"
#include "lockstep/training_parts.h"
#include "nn/own.h"
#include "support/counted.h"
#include "support/estimators.h"

// Adam, whose step is one variable of all replicas, on weights that begin alike
// in a graph and in eager.
static ls_status train_op_of(ls_tensor loss, ls_op *out) {
  LS_OWN(ls_optimizer, adam) = NULL;
  LS_OWN(ls_optimizer, outer) = NULL;
  LS_RETURN_IF_ERROR(
      ls_adam_create(&(ls_adam_options){.learning_rate = 0.05}, &adam));
  LS_RETURN_IF_ERROR(ls_cross_shard_create(
      &(ls_cross_shard_options){.optimizer = adam}, &outer));
  *out = ls_train_op(outer, loss);
  return ls_ok();
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  const ls_weight_options weights = {
      .name = "w",
      .shape = LS_SHAPE(ESTIMATOR_WIDTH, ESTIMATOR_CLASSES),
      .initializer = ls_init_constant(0.25)};
  LS_OWN(ls_variable, w) = NULL;
  (void)user;
  LS_RETURN_IF_ERROR(ls_weight_create(&weights, &w));
  const ls_tensor logits =
      ls_matmul(call->features.as.tensor, ls_variable_read(w));
  ls_estimator_spec_options o = {
      .mode = call->mode,
      .loss = ls_cross_entropy_loss(logits, call->labels.as.tensor, 0,
                                    LS_REDUCTION_MEAN)};
  LS_RETURN_IF_ERROR(train_op_of(o.loss, &o.train_op));
  return ls_tpu_estimator_spec_create(&o, out);
}

// Makes a metric in a training, too, which its spec has no use for.
static ls_status model_with_metric(void *user, ls_model_call *call,
                                   ls_estimator_spec **out) {
  LS_OWN(ls_nest, metric) = ls_metric_mean(
      ls_convert(call->labels.as.tensor, LS_DTYPE_F32), ls_no_weights(), NULL);
  LS_RETURN_IF_ERROR(ls_nest_status(metric));
  return model(user, call, out);
}

// The same batch in every step.
static estimator_case case_of(int replicas) {
  return (estimator_case){.way = replicas > 1 ? IN_STRATEGY : ON_CPU,
                          .replicas = replicas,
                          .batch = 24,
                          .examples = 24,
                          .repeats = true,
                          .folder = "step",
                          .more.model_fn.call = model};
}

typedef struct step {
  ls_strategy *strategy;
  ls_function *function;
  ls_nest batch, args;
} step;

static void step_end(step *s) {
  ls_nest_release(s->args);
  ls_nest_release(s->batch);
  ls_function_release(s->function);
  ls_strategy_release(s->strategy);
}
LS_OWNED_STRUCT(step, step_end)

static step step_of(estimator_case *c) {
  step s = {0};
  const ls_input_function input = estimator_input(c);
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(c->replicas)},
      &s.strategy));
  expect_ok(ls_estimator_first_batch(c->estimator, &input, &s.batch));
  expect_ok(ls_train_split(s.strategy, s.batch, &s.args));
  expect_ok(ls_function_create(
      &(ls_function_options){.call = ls_estimator_step, .user = c->estimator},
      &s.function));
  return s;
}

static double run_step(const step *s) {
  double loss = 0;
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(
      ls_strategy_run(s->strategy, ls_traced(s->function), s->args, &results));
  expect_ok(ls_train_mean(s->args, ls_nest_find(results, "loss"), &loss));
  return loss;
}

TEST(a_step_alone_has_the_losses_of_a_training) {
  static const int counts[] = {1, 3};
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    for (int64_t steps = 1; steps <= 3; ++steps) {
      LS_OWN(estimator_case, c) = case_of(counts[i]);
      estimator_case_begin(&c);
      const double wanted = estimator_case_train(&c, steps).loss;
      LS_OWN(step, s) = step_of(&c);
      for (int64_t k = 1; k < steps; ++k)
        (void)run_step(&s);
      assert_true(fabs(run_step(&s) - wanted) < 1e-6);
    }
  }
}

TEST(a_step_lists_its_variables) {
  static const char *const names[] = {"w", "adam/step", "w/m", "w/v",
                                      "global_step"};
  for (int replicas = 1; replicas <= 2; ++replicas) {
    LS_OWN(estimator_case, c) = case_of(replicas);
    estimator_case_begin(&c);
    LS_OWN(step, s) = step_of(&c);
    (void)run_step(&s);
    (void)run_step(&s);
    assert_int_equal(ls_function_num_traces(s.function), 1);
    ls_nest found[LS_COUNT_OF(names) + 1];
    assert_int_equal(ls_graph_collection(ls_function_graph(s.function),
                                         LS_COLLECTION_GLOBAL_VARIABLES, found,
                                         LS_COUNT_OF(found)),
                     LS_COUNT_OF(names));
    for (size_t i = 0; i < LS_COUNT_OF(names); ++i) {
      bool is_there = false;
      for (size_t k = 0; k < LS_COUNT_OF(names); ++k)
        is_there |= strcmp(ls_variable_name(ls_nest_as_variable(found[k])),
                           names[i]) == 0;
      if (!is_there) print_error("no variable '%s'\n", names[i]);
      assert_true(is_there);
    }
  }
}

// All memory of a step is given back: counted_end checks it.
TEST(a_step_keeps_no_memory) {
  counted memory = counted_begin(1);
  {
    LS_OWN(estimator_case, c) = case_of(2);
    estimator_case_begin(&c);
    LS_OWN(step, s) = step_of(&c);
    (void)run_step(&s);
  }
  counted_end(&memory);
}

TEST(a_step_may_make_metrics) {
  for (int replicas = 1; replicas <= 2; ++replicas) {
    LS_OWN(estimator_case, c) = case_of(replicas);
    c.more.model_fn.call = model_with_metric;
    estimator_case_begin(&c);
    LS_OWN(step, s) = step_of(&c);
    const double first = run_step(&s);
    assert_true(run_step(&s) < first);
    assert_int_equal(ls_function_num_traces(s.function), 1);
  }
}

static ls_nest input_of_tensors(void *user, ls_input_call *call) {
  (void)user, (void)call;
  return LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_F32, 1)), ls_none());
}

TEST(a_step_alone_is_refused) {
  ls_nest batch = ls_none();
  static const ls_input_function tensors = {.call = input_of_tensors};
  static const int64_t axis = 1;
  {
    LS_OWN(estimator_case, c) = case_of(1);
    estimator_case_begin(&c);
    expect_status(ls_estimator_first_batch(c.estimator, &tensors, &batch),
                  LS_UNIMPLEMENTED, "no Dataset");
  }
  {
    LS_OWN(estimator_case, c) = case_of(1);
    c.more.batch_axis = &axis;
    c.more.num_batch_axes = 1;
    estimator_case_begin(&c);
    const ls_input_function input = estimator_input(&c);
    expect_status(ls_estimator_first_batch(c.estimator, &input, &batch),
                  LS_UNIMPLEMENTED, "along axis 1");
  }
  LS_OWN(estimator_case, c) = case_of(1);
  c.way = ON_TPU;
  estimator_case_begin(&c);
  const ls_input_function input = estimator_input(&c);
  expect_status(ls_estimator_first_batch(c.estimator, &input, &batch),
                LS_UNIMPLEMENTED, "TPU system");
  assert_int_equal(batch.kind, LS_KIND_NONE);
}
