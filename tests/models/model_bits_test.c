// SPDX-License-Identifier: Apache-2.0
//
// The models that convolve, normalize and attend: the same bytes however many
// threads work, on one replica and on two.
#include "support/expect.h"

#include "support/sanitizer.h"
#include "support/training.h"

// Where a sanitizer makes it slow, a step says enough.
enum { STEPS = LS_SANITIZED ? 1 : 3, BATCH = LS_SANITIZED ? 2 : 4 };

static void expect_any_threads(const char *model) {
  for (int replicas = 1; replicas <= 2; ++replicas) {
    training_job job = {.model = model,
                        .batch = BATCH,
                        .steps = STEPS,
                        .replicas = replicas,
                        .threads = 1};
    training want, got;
    training_run(&job, &want);
    for (job.threads = 2; job.threads <= 3; ++job.threads) {
      training_run(&job, &got);
      expect_same_training(&want, &got);
      training_deinit(&got);
    }
    training_deinit(&want);
  }
}

static void threads_do_not_matter_to_cnn(void **state) {
  (void)state;
  expect_any_threads("cnn");
}

static void threads_do_not_matter_to_resnet20(void **state) {
  (void)state;
  expect_any_threads("resnet20");
}

static void threads_do_not_matter_to_gpt(void **state) {
  (void)state;
  expect_any_threads("gpt");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_do_not_matter_to_cnn),
      cmocka_unit_test(threads_do_not_matter_to_resnet20),
      cmocka_unit_test(threads_do_not_matter_to_gpt),
  };
  const int failures = cmocka_run_group_tests(tests, NULL, NULL);
  ls_status_free(ls_runtime_destroy(NULL));
  return failures;
}
