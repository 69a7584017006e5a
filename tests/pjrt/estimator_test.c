// SPDX-License-Identifier: Apache-2.0
//
// An estimator on eight cores, whose programs the devices of a plug-in compute,
// beside the CPU engine.
#include <math.h>

#include "estimator/own.h"
#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/estimators.h"
#include "support/plugin.h"

enum { CORES = 8, STEPS = 12, EXAMPLES = 55 };

// What trainings, evaluations and predictions gave.
typedef struct outcome {
  double loss, accuracy, mean;
  float probabilities[EXAMPLES * ESTIMATOR_CLASSES];
} outcome;

static void predict(estimator_case *c, float *out) {
  ls_nest row = ls_none();
  ls_predictions *p = estimator_predict(c, (ls_estimator_prediction){0});
  ls_status status = ls_predictions_next(p, &row);
  size_t at = 0;
  for (; ls_status_is_ok(status); status = ls_predictions_next(p, &row)) {
    const ls_array *found =
        ls_nest_as_array(ls_nest_find(row, "probabilities"));
    assert_true(at < EXAMPLES);
    memcpy(out + at++ * ESTIMATOR_CLASSES, ls_array_data(found),
           sizeof(float) * ESTIMATOR_CLASSES);
  }
  expect_status(status, LS_OUT_OF_RANGE, "");
  assert_int_equal(at, EXAMPLES);
  ls_nest_release(row);
  expect_ok(ls_predictions_close(p));
}

static void use_estimator(const char *folder, outcome *out) {
  LS_OWN(estimator_case, c) = {.way = ON_TPU,
                               .replicas = CORES,
                               .folder = folder,
                               .iterations = "4",
                               .repeats = true};
  estimator_case_begin(&c);
  const ls_training_end end = estimator_case_train(&c, STEPS);
  assert_int_equal(end.step, STEPS);
  out->loss = end.loss;
  LS_OWN(ls_nest, metrics) = estimator_evaluate(&c, (ls_opt)LS_SOME(4));
  assert_true(estimator_metric(metrics, "global_step") == STEPS);
  out->accuracy = estimator_metric(metrics, "accuracy");
  out->mean = estimator_metric(metrics, "mean");
  c.repeats = false;
  c.examples = EXAMPLES;
  predict(&c, out->probabilities);
}

TEST(an_estimator_trains_evaluates_and_predicts_on_devices) {
  (void)plugin_device();  // Skips the test before it begins.
  outcome want = {0}, got = {0};
  use_estimator("on-cpu", &want);
  LS_OWN(open_place, here) = plugin_runtime(CORES);
  use_estimator("on-devices", &got);
  assert_true(fabs(want.loss - got.loss) < 1e-5);
  assert_true(fabs(want.accuracy - got.accuracy) < 1e-6);
  assert_true(fabs(want.mean - got.mean) < 1e-5);
  for (size_t i = 0; i < LS_COUNT_OF(want.probabilities); ++i)
    assert_true(fabsf(want.probabilities[i] - got.probabilities[i]) < 1e-5F);
}
