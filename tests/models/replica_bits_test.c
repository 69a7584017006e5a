// SPDX-License-Identifier: Apache-2.0
//
// Models on several replicas: the same bytes however many threads work.
#include "support/expect.h"

#include "support/sanitizer.h"
#include "support/training.h"

static void expect_any_threads_on(const char *model, int replicas, int steps) {
  static const int threads[] = {2, 3};
  const training_job job = {.model = model,
                            .batch = LS_SANITIZED ? replicas : 8,
                            .steps = LS_SANITIZED ? 1 : steps,
                            .replicas = replicas};
  expect_any_threads(job, threads, LS_SANITIZED ? 1 : 2);
}

static void threads_do_not_matter_to_cnn(void **state) {
  (void)state;
  expect_any_threads_on("cnn", 2, 2);
  expect_any_threads_on("cnn", 8, 2);
}

static void threads_do_not_matter_to_resnet20(void **state) {
  (void)state;
  expect_any_threads_on("resnet20", 2, 2);
}

static void threads_do_not_matter_to_gpt_on_two(void **state) {
  (void)state;
  expect_any_threads_on("gpt", 2, 1);
}

static void threads_do_not_matter_to_gpt_on_eight(void **state) {
  (void)state;
  expect_any_threads_on("gpt", LS_SANITIZED ? 3 : 8, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_do_not_matter_to_cnn),
      cmocka_unit_test(threads_do_not_matter_to_resnet20),
      cmocka_unit_test(threads_do_not_matter_to_gpt_on_two),
      cmocka_unit_test(threads_do_not_matter_to_gpt_on_eight),
  };
  const int failures = cmocka_run_group_tests(tests, NULL, NULL);
  ls_status_free(ls_runtime_destroy(NULL));
  return failures;
}
