// SPDX-License-Identifier: Apache-2.0
// Reference models trained on the devices of a plug-in, beside the CPU engine.
#include <math.h>

#include "support/expect.h"
#include "support/plugin.h"
#include "support/training.h"

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
