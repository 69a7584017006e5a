// SPDX-License-Identifier: Apache-2.0
// The reference models on replicas, which devices of a plug-in share: losses of
// the CPU engine, to 1e-5.
#include <math.h>

#include "support/expect.h"
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
  for (size_t r = 0; r < LS_COUNT_OF(replicas); ++r)
    for (size_t d = 0; d < LS_COUNT_OF(devices); ++d)
      for (int exact = 0; exact < 2; ++exact)
        expect_same_losses((training_job){.model = "tiny", .batch = 40},
                           (sharing){replicas[r], devices[d], exact != 0},
                           1e-5);
}

static const sharing few[] = {{2, 2, false}, {5, 1, false}, {8, 8, true}};

TEST(mlp_has_the_same_losses_on_replicas) {
  for (size_t i = 0; i < LS_COUNT_OF(few); ++i)
    expect_same_losses((training_job){.model = "mlp", .batch = 40}, few[i],
                       1e-5);
}

TEST(cnn_has_the_same_losses_on_replicas) {
  for (size_t i = 0; i < LS_COUNT_OF(few); ++i)
    expect_same_losses((training_job){.model = "cnn", .batch = 40}, few[i],
                       1e-5);
}

TEST(resnet20_has_the_same_losses_on_replicas) {
  for (size_t i = 0; i < LS_COUNT_OF(few); ++i)
    expect_same_losses((training_job){.model = "resnet20", .batch = 40}, few[i],
                       1e-3);
}

TEST(gpt_has_the_same_losses_on_replicas) {
  for (size_t i = 0; i < LS_COUNT_OF(few); ++i)
    expect_same_losses((training_job){.model = "gpt", .batch = few[i].replicas},
                       few[i], 1e-5);
}

TEST(each_replica_drops_what_it_drops_on_the_cpu_engine) {
  for (size_t i = 0; i < LS_COUNT_OF(few); ++i)
    expect_same_losses((training_job){.type = &small_cnn, .batch = 40}, few[i],
                       1e-5);
}
