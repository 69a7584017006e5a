// SPDX-License-Identifier: Apache-2.0
//
// Metrics that a model makes itself, in a plain spec: on a CPU, and in each
// replica of a strategy.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/metrics.h"
#include "support/estimators.h"
#include "support/replicas.h"

enum { NUM_METRICS = 8 };
static const char *const names[NUM_METRICS] = {"accuracy",  "auc",     "mean",
                                               "precision", "recall",  "rmse",
                                               "sum",       "weighted"};

// Batches' means of the first feature, added up, and how many of them: what a
// user makes without ls_metric_...
static ls_nest by_hand(ls_tensor x, ls_status *status) {
  static const char *const local[] = {LS_COLLECTION_LOCAL_VARIABLES};
  ls_variable *sum = NULL;
  *status = ls_variable_create(
      &(ls_variable_options){.name = "by_hand",
                             .dtype = LS_DTYPE_F32,
                             .shape = LS_SCALAR,
                             .trainable = LS_FLAG_OFF,
                             .synchronization = LS_SYNCHRONIZATION_ON_READ,
                             .aggregation = LS_AGGREGATION_SUM,
                             .collections = local,
                             .num_collections = 1},
      &sum);
  if (!ls_status_is_ok(*status)) return ls_none();
  const ls_tensor update = ls_variable_assign_add(
      sum, ls_add_scalar(ls_mul_scalar(ls_reduce_sum(x, LS_ALL_AXES), 0), 1));
  const ls_nest pair =
      LS_TUPLE(ls_leaf(ls_variable_read(sum)), ls_leaf(update));
  ls_variable_release(sum);
  return pair;
}

static ls_nest metrics_of(ls_tensor x, ls_tensor labels, ls_tensor weights,
                          ls_status *status) {
  const ls_tensor first = ls_reshape(ls_slice_axis(x, 1, 0, 1), LS_SHAPE(-1));
  const ls_tensor second = ls_reshape(ls_slice_axis(x, 1, 1, 2), LS_SHAPE(-1));
  const ls_tensor is_one = ls_equal(labels, ls_scalar(LS_DTYPE_I32, 1));
  const ls_tensor seems = ls_greater(second, first);
  const ls_tensor none = ls_no_weights();
  const ls_nest all[NUM_METRICS] = {
      ls_metric_accuracy(is_one, seems, none, NULL),
      ls_metric_auc(is_one, second, none, (ls_opt){0}, NULL),
      ls_metric_mean(first, none, NULL),
      ls_metric_precision(is_one, seems, none, NULL),
      ls_metric_recall(is_one, seems, none, NULL),
      ls_metric_rmse(first, second, none, NULL),
      ls_metric_sum(ls_add_scalar(ls_mul_scalar(first, 0), 1), none, NULL),
      ls_metric_mean(first, weights, "weighted"),
  };
  const char *keys[NUM_METRICS + 1] = {NULL};
  ls_nest items[NUM_METRICS + 1];
  for (int i = 0; i < NUM_METRICS; ++i) {
    keys[i] = names[i];
    items[i] = all[i];
  }
  keys[NUM_METRICS] = "by_hand";
  items[NUM_METRICS] = by_hand(x, status);
  return ls_nest_dict("", keys, items, NUM_METRICS + 1);
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  estimator_case *c = user;
  ls_status status = ls_ok();
  ++c->model_calls;
  const ls_tensor x = ls_nest_tensor(call->features, 0);
  const ls_tensor labels = call->labels.as.tensor;
  const ls_tensor weights = ls_convert(labels, LS_DTYPE_F32);
  LS_OWN(ls_nest, metrics) = metrics_of(x, labels, weights, &status);
  const ls_estimator_spec_options o = {
      .mode = call->mode,
      .loss = ls_reduce_mean(ls_slice_axis(x, 1, 0, 1), LS_ALL_AXES),
      .eval_metric_ops = metrics};
  if (ls_status_is_ok(status)) status = ls_nest_status(metrics);
  if (ls_status_is_ok(status)) status = ls_estimator_spec_create(&o, out);
  return status;
}

static estimator_case case_of(estimator_way way, int replicas, int64_t batch,
                              int64_t examples) {
  return (estimator_case){.way = way,
                          .replicas = replicas,
                          .batch = batch,
                          .examples = examples,
                          .config.random_seed = LS_SOME(1)};
}

static void begin(estimator_case *c) {
  c->folder = "plain-metrics";
  c->more.model_fn = (ls_model_function){.call = model, .user = c};
  c->more.eval_on_tpu = LS_FLAG_OFF;
  estimator_case_begin(c);
}

static void expect_same(ls_nest got, ls_nest wanted, const char *name,
                        double most) {
  const double a = estimator_metric(got, name);
  const double b = estimator_metric(wanted, name);
  if (!(fabs(a - b) <= most))
    print_error("%s: %.9g, wanted %.9g\n", name, a, b);
  assert_true(fabs(a - b) <= most);
}

TEST(metrics_of_replicas_are_of_all_examples) {
  LS_SPEC("E174");
  static const int counts[] = {1, 3, 8};
  // Even batches; a last short one; parts without examples.
  static const struct {
    int64_t batch, examples, batches;
  } sizes[] = {{24, 96, 4}, {64, 1007, 16}, {24, 50, 3}, {5, 11, 3}};
  for (size_t s = 0; s < LS_COUNT_OF(sizes); ++s) {
    LS_OWN(estimator_case, cpu) =
        case_of(ON_CPU, 1, sizes[s].batch, sizes[s].examples);
    begin(&cpu);
    LS_OWN(ls_nest, wanted) = estimator_evaluate(&cpu, (ls_opt){0});
    assert_true(estimator_metric(wanted, "sum") == (double)sizes[s].examples);
    for (size_t r = 0; r < LS_COUNT_OF(counts); ++r) {
      LS_OWN(estimator_case, c) =
          case_of(IN_STRATEGY, counts[r], sizes[s].batch, sizes[s].examples);
      begin(&c);
      LS_OWN(ls_nest, got) = estimator_evaluate(&c, (ls_opt){0});
      assert_int_equal(c.model_calls, counts[r]);
      // Sums are in f64, and what is told in f32: to its last bit.
      for (int i = 0; i < NUM_METRICS; ++i)
        expect_same(got, wanted, names[i],
                    fabs(estimator_metric(wanted, names[i])) * 1.2e-7);
      expect_same(got, wanted, "loss", 1e-6);
      // Replica 0's own.
      assert_true(estimator_metric(got, "by_hand") == (double)sizes[s].batches);
      // Anew each time.
      LS_OWN(ls_nest, again) = estimator_evaluate(&c, LS_SOME(1));
      assert_true(estimator_metric(again, "sum") ==
                  (double)(sizes[s].batch < sizes[s].examples
                               ? sizes[s].batch
                               : sizes[s].examples));
    }
  }
}

// ---- Strategies ------------------------------------------------------------
typedef struct counting {
  estimator_case setup;
  int replicas[LS_NUM_MODES];  // That the model was called in.
} counting;

static ls_status counting_model(void *user, ls_model_call *call,
                                ls_estimator_spec **out) {
  counting *c = user;
  const ls_model_function base = estimator_model(&c->setup);
  c->replicas[call->mode] = ls_has_strategy() ? ls_num_replicas() : 1;
  return base.call(base.user, call, out);
}

// Each call has its own strategy, and a prediction none.
TEST(calls_have_the_strategies_of_their_own) {
  LS_SPEC("E210");
  for (int which = 1; which < 4; ++which) {
    counting c = {.setup = {.way = ON_CPU, .folder = "own-strategies"}};
    ls_nest metrics = ls_none(), row = ls_none();
    ls_predictions *p = NULL;
    LS_OWN(ls_strategy, strategy) = mirrored_of(3);
    if (which & 1) c.setup.config.train_distribute = strategy;
    if (which & 2) c.setup.config.eval_distribute = strategy;
    c.setup.more.model_fn =
        (ls_model_function){.call = counting_model, .user = &c};
    estimator_case_begin(&c.setup);
    (void)estimator_case_train(&c.setup, 2);
    expect_ok(ls_estimator_evaluate(
        c.setup.estimator,
        &(ls_estimator_evaluation){.input = estimator_input(&c.setup),
                                   .steps = LS_SOME(1)},
        &metrics));
    expect_ok(ls_estimator_predict(
        c.setup.estimator,
        &(ls_estimator_prediction){.input = estimator_input(&c.setup)}, &p));
    expect_ok(ls_predictions_next(p, &row));
    assert_int_equal(c.replicas[LS_MODE_TRAIN], which & 1 ? 3 : 1);
    assert_int_equal(c.replicas[LS_MODE_EVAL], which & 2 ? 3 : 1);
    assert_int_equal(c.replicas[LS_MODE_PREDICT], 1);
    expect_ok(ls_predictions_close(p));
    ls_nest_release(row);
    ls_nest_release(metrics);
    estimator_case_end(&c.setup);
  }
}
