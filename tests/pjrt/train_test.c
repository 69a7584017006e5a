// SPDX-License-Identifier: Apache-2.0
// Reference models trained on the devices of a plug-in, beside the CPU engine.
#include <math.h>

#include "data/own.h"
#include "distribute/own.h"
#include "lockstep/train.h"
#include "support/expect.h"
#include "support/plugin.h"
#include "support/replicas.h"
#include "support/scratch.h"
#include "support/training.h"

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave);

// Trains with a job on the CPU engine and on devices, and compares losses.
static void expect_same_losses(training_job job, int num_devices,
                               double tolerance) {
  (void)plugin_device();  // Skips the test before there is anything to free.
  LS_OWN(training, want) = {0};
  LS_OWN(training, got) = {0};
  job.threads = 1;
  training_run(&job, &want);
  job.threads = 0;
  LS_OWN(open_place, here) = plugin_runtime(num_devices);
  training_run(&job, &got);
  assert_int_equal(got.steps, want.steps);
  for (int i = 0; i < want.steps; ++i)
    if (!(fabs(got.losses[i] - want.losses[i]) <= tolerance * want.losses[i]))
      fail_msg("step %d: loss %.9g, on the CPU engine %.9g", i, got.losses[i],
               want.losses[i]);
}

TEST(tiny_is_trained_on_a_device) {
  expect_same_losses((training_job){.model = "tiny", .batch = 8, .steps = 10},
                     1, 1e-6);
}

TEST(mlp_is_trained_on_a_device) {
  expect_same_losses((training_job){.model = "mlp", .batch = 16, .steps = 10},
                     1, 1e-6);
}

TEST(cnn_is_trained_on_a_device) {
  expect_same_losses((training_job){.model = "cnn", .batch = 4, .steps = 4}, 1,
                     1e-5);
}

TEST(replicas_of_mlp_are_trained_on_any_number_of_devices) {
  const training_job job = {
      .model = "mlp", .batch = 16, .steps = 5, .replicas = 4};
  for (int devices = 1; devices <= 4; devices *= 2)
    expect_same_losses(job, devices, 1e-6);
}

// The CPU engine computes what replicas cannot share evenly.
TEST(replicas_may_have_batches_of_different_sizes) {
  expect_same_losses(
      (training_job){.model = "mlp", .batch = 14, .steps = 4, .replicas = 4}, 2,
      1e-6);
}

// Losses are near those of f32.
TEST(products_are_computed_in_bf16_where_that_is_asked_for) {
  LS_OWN(training, want) = {0};
  LS_OWN(training, got) = {0};
  const training_job job = {.model = "cnn", .batch = 4, .steps = 3};
  const char *device = plugin_device();
  LS_OWN(open_place, here) = runtime_begin((ls_runtime_options){
      .device = device, .num_devices = 1, .math = LS_MATH_BF16});
  training_run(&job, &got);
  LS_OWN(open_place, there) = plugin_runtime(1);
  training_run(&job, &want);
  for (int i = 0; i < want.steps; ++i)
    assert_true(fabs(got.losses[i] - want.losses[i]) <= 0.05 * want.losses[i]);
}

// Finding the op with --find-nan needs the CPU engine.
TEST(a_nan_on_a_device_names_the_replay_alone) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_dataset, data) = ls_dataset_synthetic(
      &(ls_synthetic_options){.shape = LS_SHAPE(16), .num_classes = 4});
  LS_OWN(ls_strategy, strategy) = mirrored_of(1);
  LS_OWN(ls_model, model) = {0};
  expect_ok(ls_model_create(
      ls_model_find("tiny"),
      &(ls_model_options){.metrics = true, .learning_rate = 1e38}, &model));
  ls_train_result result;
  const ls_train_options options = {.model = &model,
                                    .strategy = strategy,
                                    .train = data,
                                    .steps = 9,
                                    .run_folder = "run"};
  expect_status(ls_train(&options, &result), LS_OUT_OF_RANGE,
                "the first NaN, run 'lockstep replay run --find-nan'");
}
