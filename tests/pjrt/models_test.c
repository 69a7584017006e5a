// SPDX-License-Identifier: Apache-2.0
// The reference models on replicas, which devices of a plug-in share: losses of
// the CPU engine, to 1e-5.
#include <math.h>

#include "support/expect.h"
#include "support/loop_case.h"
#include "support/plugin.h"
#include "support/small_models.h"
#include "support/training.h"

typedef struct sharing {
  int replicas, devices;
  bool exact;
} sharing;

// Trains on the CPU engine and on devices, and compares losses.
static void expect_same_losses(training_job job, sharing how,
                               double tolerance) {
  (void)plugin_device();  // Skips the test before there is anything to free.
  LS_OWN(training, want) = {0};
  LS_OWN(training, got) = {0};
  job.replicas = how.replicas;
  job.steps = 3;
  job.threads = 1;
  training_run(&job, &want);
  job.threads = 0;
  LS_OWN(open_place, here) =
      runtime_begin((ls_runtime_options){.device = plugin_device(),
                                         .num_devices = how.devices,
                                         .exact_bits = how.exact,
                                         .threads = 1});
  training_run(&job, &got);
  for (int i = 0; i < want.steps; ++i)
    if (!(fabs(got.losses[i] - want.losses[i]) <= tolerance * want.losses[i]))
      fail_msg("%s, %d replicas on %d devices, step %d: loss %.9g, on the CPU "
               "engine %.9g",
               job.model != NULL ? job.model : "small", how.replicas,
               how.devices, i, got.losses[i], want.losses[i]);
}

TEST(tiny_has_the_same_losses_however_devices_share_it) {
  static const int replicas[] = {1, 2, 5, 8}, devices[] = {1, 2, 8};
  loop_random random = {loop_random_seed()};
  for (size_t r = 0; r < LS_COUNT_OF(replicas); ++r)
    for (size_t d = 0; d < LS_COUNT_OF(devices); ++d)
      for (int exact = 0; exact < 2; ++exact)
        if (plugin_tests_all() || loop_random_between(&random, 0, 5) == 0)
          expect_same_losses((training_job){.model = "tiny", .batch = 40},
                             (sharing){replicas[r], devices[d], exact != 0},
                             1e-5);
}

// Tries three ways to share a job, or one of them, which a number and
// LS_TEST_SEED choose.
static void expect_shared(training_job job, uint64_t number, double tolerance) {
  static const sharing few[] = {{2, 2, false}, {5, 1, false}, {8, 8, true}};
  for (size_t i = 0; i < LS_COUNT_OF(few); ++i) {
    if (!plugin_tests_all() &&
        (loop_random_seed() + number) % LS_COUNT_OF(few) != i)
      continue;
    training_job shared = job;
    if (shared.batch == 0) shared.batch = few[i].replicas;
    expect_same_losses(shared, few[i], tolerance);
  }
}

TEST(mlp_has_the_same_losses_on_replicas) {
  expect_shared((training_job){.model = "mlp", .batch = 40}, 0, 1e-5);
}

TEST(cnn_has_the_same_losses_on_replicas) {
  expect_shared((training_job){.model = "cnn", .batch = 40}, 1, 1e-5);
}

TEST(resnet20_has_the_same_losses_on_replicas) {
  expect_shared((training_job){.model = "resnet20", .batch = 40}, 2, 1e-3);
}

TEST(unet_has_the_same_losses_on_replicas) {
  expect_shared((training_job){.model = "unet"}, 5, 1e-5);
}

TEST(gpt_has_the_same_losses_on_replicas) {
  expect_shared((training_job){.model = "gpt"}, 3, 1e-5);
}

TEST(each_replica_drops_what_it_drops_on_the_cpu_engine) {
  expect_shared((training_job){.type = &small_cnn, .batch = 40}, 4, 1e-5);
}
