// SPDX-License-Identifier: Apache-2.0
//
// Replicas of the reference models: the same bytes of all losses and variables
// whether they go side by side, each thread takes some, all threads share the
// blocks of their instructions, or there is one thread.
#include "support/expect.h"

#include "base/memory/own.h"
#include "lockstep/layers.h"
#include "support/training.h"

static const int counts[] = {1, 2, 5, 8, 64};
enum { COUNTS = 5 };

// All ways to share a job's work; which parts of the replicas a thread takes is
// another thing for each number of threads.
static void expect_all_ways(training_job job) {
  static const struct {
    const char *lanes;
    int threads;
  } ways[] = {
      {NULL, 3}, {"blocks", 3}, {"threads", 3}, {"threads", 2}, {"threads", 8}};
  LS_OWN(training, want) = {0};
  job.threads = 1;
  job.lanes = "blocks";
  training_run(&job, &want);
  for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); ++i) {
    job.lanes = ways[i].lanes;
    job.threads = ways[i].threads;
    expect_same_outcome(&want, &job);
  }
}

static void expect_all_counts(const char *model, const ls_model_type *type,
                              int most) {
  for (size_t i = 0; i < COUNTS && counts[i] <= most; ++i)
    expect_all_ways((training_job){.model = model,
                                   .type = type,
                                   .batch = counts[i],
                                   .replicas = counts[i],
                                   .steps = counts[i] < 64 ? 2 : 1});
}

TEST(mlp_gives_the_same_bytes_in_all_ways) {
  expect_all_counts("mlp", NULL, 64);
}

// cnn behind a dropout.
static ls_nest step_with_dropout(ls_nest args, void *self) {
  const ls_tensor kept = ls_dropout(ls_nest_tensor(args, 0), 0.25, true, NULL);
  LS_OWN(ls_nest, batch) = LS_TUPLE(ls_leaf(kept), ls_nest_item(args, 1));
  return ls_model_find("cnn")->train_step(batch, self);
}

TEST(cnn_with_dropout_gives_the_same_bytes_in_all_ways) {
  ls_model_type type = *ls_model_find("cnn");
  type.train_step = step_with_dropout;
  expect_all_counts("cnn", &type, 64);
}

TEST(gpt_gives_the_same_bytes_in_all_ways) {
  // A step of two examples and one of five: they take a while.
  expect_all_counts("gpt", NULL, 5);
}

// With a batch norm, whose statistics are a replica's own.
TEST(resnet20_gives_the_same_bytes_in_all_ways) {
  expect_all_counts("resnet20", NULL, 2);
}
