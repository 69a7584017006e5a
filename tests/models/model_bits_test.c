// SPDX-License-Identifier: Apache-2.0
//
// Every reference model on one replica: the same bytes of all losses and
// variables however many threads work, and whatever else is computed or was
// before.
#include "support/expect.h"

#include "support/sanitizer.h"
#include "support/training.h"

TEST(threads_do_not_matter) {
  static const int threads[] = {2, 3, 8};
  for (size_t i = 0; i < TRAINING_MODELS; ++i) {
    training_job job = training_small_job(i);
    job.before = NULL;
    expect_any_threads(job, threads, LS_SANITIZED ? 1 : 3);
  }
}

TEST(what_else_is_computed_does_not_matter) {
  for (size_t i = 0; i < TRAINING_MODELS; ++i) {
    LS_OWN(training, want) = {0};
    training_job job = training_small_job(i);
    const char *before = job.before;
    job.before = NULL;
    training_run(&job, &want);
    job.more_results = true;
    if (!LS_SANITIZED) expect_same_outcome(&want, &job);
    job.more_results = LS_SANITIZED;
    job.options.metrics = true;
    job.threads = 2;
    if (!LS_SANITIZED) expect_same_outcome(&want, &job);
    job.before = before;
    expect_same_outcome(&want, &job);
  }
}
