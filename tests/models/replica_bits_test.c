// SPDX-License-Identifier: Apache-2.0
//
// 20 steps on 1 to 64 replicas: the same bytes of all losses and variables, the
// optimizer's included, however many threads work and whatever else is fetched.
#include "support/expect.h"

#include "base/memory/allocator.h"
#include "support/small_models.h"
#include "support/training.h"

// One example for each of 64 replicas; for five of them the last has fewer.
enum { STEPS = 20, EXAMPLES = 64 };
static const int replicas[] = {1, 2, 5, 8, 64};
static const int threads[] = {1, 2, 3, 8};

static void expect_one_outcome(const ls_model_type *type, int count) {
  training_job job = {.model = type->name,
                      .type = type,
                      .batch = EXAMPLES,
                      .steps = STEPS,
                      .replicas = count,
                      .threads = 1};
  LS_OWN(training, want) = {0};
  training_run(&job, &want);
  expect_learnt(&want);
  for (size_t t = 0; t < LS_COUNT_OF(threads); ++t) {
    job.threads = threads[t];
    job.more_results = job.options.metrics = false;
    if (t > 0) expect_same_outcome(&want, &job);
    job.more_results = job.options.metrics = true;
    expect_same_outcome(&want, &job);
  }
}

static void expect_on_all_counts(const ls_model_type *type) {
  for (size_t i = 0; i < LS_COUNT_OF(replicas); ++i)
    expect_one_outcome(type, replicas[i]);
}

TEST(mlp_gives_the_same_bytes_in_all_ways) { expect_on_all_counts(&small_mlp); }

TEST(cnn_with_dropout_gives_the_same_bytes_in_all_ways) {
  expect_on_all_counts(&small_cnn);
}

TEST(gpt_gives_the_same_bytes_in_all_ways) { expect_on_all_counts(&small_gpt); }
