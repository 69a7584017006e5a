// SPDX-License-Identifier: Apache-2.0
// Batches that do not divide evenly: whatever the split, a step is that of the
// whole batch.
#include <math.h>

#include "base/memory/allocator.h"
#include "lockstep/optimizers.h"
#include "nn/own.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/small_models.h"
#include "support/spec.h"
#include "support/training.h"

static const double tolerance = 2e-5;

static void expect_close(const training_job *job, const training *got,
                         const training *want) {
  for (int i = 0; i < want->steps; ++i)
    if (!(fabs(got->losses[i] - want->losses[i]) <=
          tolerance * (1 + fabs(want->losses[i]))))
      fail_msg("%s: %d examples on %d replicas: loss %d is %.9g, wanted %.9g",
               job->model, (int)job->batch, job->replicas, i, got->losses[i],
               want->losses[i]);
  for (size_t v = 0; v < want->num_values; ++v)
    for (int64_t i = 0; i < ls_array_num_elements(want->values[v]); ++i) {
      const double a = ls_array_f64(got->values[v], i);
      const double b = ls_array_f64(want->values[v], i);
      if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
        fail_msg("%s: %d examples on %d replicas: element %d of variable %zu "
                 "is %.9g, wanted %.9g",
                 job->model, (int)job->batch, job->replicas, (int)i, v, a, b);
    }
}

// By gradient descent, so that the variables show the gradients.
static void expect_step_of_whole(training_job job) {
  LS_OWN(training, whole) = {0};
  training parts;
  LS_OWN(ls_optimizer, optimizer) = NULL;
  expect_ok(ls_sgd_create(&(ls_sgd_options){.learning_rate = 1}, &optimizer));
  job.options.optimizer = optimizer;
  job.steps = 1;
  job.replicas = 1;
  training_run(&job, &whole);
  for (job.replicas = 2; job.replicas <= 8; ++job.replicas) {
    training_run(&job, &parts);
    expect_close(&job, &parts, &whole);
    training_deinit(&parts);
  }
}

TEST(any_remainder_gives_the_step_of_the_whole_batch) {
  LS_SPEC("M182");
  for (int batch = 1; batch <= 17; ++batch)
    expect_step_of_whole((training_job){.model = "tiny", .batch = batch});
}

TEST(so_it_is_with_convolutions) {
  expect_step_of_whole((training_job){.model = "cnn", .batch = 3});
}

TEST(so_it_is_with_attention_and_embeddings) {
  expect_step_of_whole((training_job){.model = "gpt", .batch = 3});
}

TEST(norms_over_parts_are_numbers) {
  LS_OWN(training, got) = {0};
  training_job job = {
      .model = "resnet20", .batch = 3, .steps = 2, .replicas = 5};
  training_run(&job, &got);
  for (int i = 0; i < got.steps; ++i)
    assert_true(isfinite(got.losses[i]));
  for (size_t v = 0; v < got.num_values; ++v)
    for (int64_t i = 0; i < ls_array_num_elements(got.values[v]); ++i)
      assert_true(isfinite(ls_array_f64(got.values[v], i)));
}

// Classes of replicas go side by side, each by itself: the bytes are those of
// replicas that are run one by one. With as many examples as replicas and
// fewer, some replicas have none.
static void expect_bytes_of_lanes(const ls_model_type *type, int64_t batch,
                                  int replicas) {
  training_job job = {.model = type->name,
                      .type = type,
                      .batch = batch,
                      .steps = 3,
                      .replicas = replicas,
                      .threads = 2};
  LS_OWN(training, want) = {0};
  training_run(&job, &want);
  job.lanes = "blocks";
  expect_same_outcome(&want, &job);
  job.lanes = "threads";
  job.threads = 3;
  expect_same_outcome(&want, &job);
}

TEST(uneven_classes_have_the_bytes_of_lanes) {
  const ls_model_type *const types[] = {&small_mlp, &small_cnn, &small_gpt};
  for (size_t i = 0; i < LS_COUNT_OF(types); ++i) {
    expect_bytes_of_lanes(types[i], 7, 3);
    expect_bytes_of_lanes(types[i], 3, 5);
    expect_bytes_of_lanes(types[i], 9, 2);
  }
  expect_bytes_of_lanes(&small_mlp, 11, 20);
  expect_bytes_of_lanes(&small_mlp, 50, 33);
}

// The peak of two steps of mlp, without its batch.
static uint64_t peak_of(int64_t batch, int replicas) {
  LS_OWN(counted, memory) = counted_begin(1);
  training_setup setup;
  training_setup_create(
      &(training_job){.model = "mlp", .batch = batch, .replicas = replicas},
      &setup);
  expect_ok(training_setup_step(&setup));
  expect_ok(training_setup_step(&setup));
  const uint64_t peak = counted_now(&memory).peak_bytes;
  training_setup_destroy(&setup);
  return peak;
}

// Where some have an example more than others, or none at all.
TEST(uneven_replicas_take_no_more_memory) {
  const uint64_t even = peak_of(256, 256);
  const uint64_t uneven = peak_of(250, 64), empty = peak_of(256, 1024);
  print_message("mlp: 256 examples on 256 replicas %.1f MB, 250 on 64 %.1f, "
                "256 on %d %.1f\n",
                (double)even * 1e-6, (double)uneven * 1e-6, 1024,
                (double)empty * 1e-6);
  assert_true(uneven <= even * 5 / 4);
  assert_true(empty <= even + (1024 - 256) * UINT64_C(16384));
}
