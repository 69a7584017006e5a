// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <string.h>

#include "lockstep/train.h"

// A clock that stands still until a test moves it, and what was written.
static int64_t now;
static char written[4096];

static int64_t read_clock(void *user) {
  (void)user;
  return now;
}

static void sleep_not(void *user, int64_t nanos) {
  (void)user;
  now += nanos;
}

static void write_text(void *user, const char *text) {
  (void)user;
  const size_t at = strlen(written);
  strncpy(written + at, text, sizeof(written) - at - 1);
}

static ls_runtime *runtime;

static int begin(void **state) {
  (void)state;
  now = 0;
  memset(written, 0, sizeof(written));
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.clock = &(ls_clock){.now = read_clock,
                                                 .wall = read_clock,
                                                 .sleep = sleep_not}},
      &runtime));
  ls_runtime_make_current(runtime);
  return 0;
}

static int end(void **state) {
  (void)state;
  ls_runtime_make_current(NULL);
  expect_ok(ls_runtime_destroy(runtime));
  return 0;
}

static ls_progress *make(bool terminal, int width) {
  ls_progress *progress = NULL;
  expect_ok(ls_progress_create(&(ls_progress_options){.write = write_text,
                                                      .terminal = terminal,
                                                      .width = width},
                               &progress));
  return progress;
}

static ls_train_report half_way(void) {
  return (ls_train_report){.epoch = 2,
                           .num_epochs = 4,
                           .epoch_step = 50,
                           .steps_per_epoch = 100,
                           .step = 150,
                           .num_steps = 400,
                           .loss = 0.5,
                           .accuracy = 0.75,
                           .examples_per_second = 12345.6,
                           .seconds = 3,
                           .seconds_left = 3725};
}

static void a_terminal_line_is_rewritten_and_fits(void **state) {
  (void)state;
  ls_progress *progress = make(true, 80);
  const ls_train_report report = half_way();
  ls_progress_show(progress, &report);
  assert_string_equal(written,
                      "\repoch 2/4 [=======>.......] 50/100 loss 0.5000 acc "
                      "75.0% 12346 ex/s eta 1:02:05\033[K");
  assert_int_equal(strlen(written) - strlen("\r\033[K"), 79);
  ls_progress_show(progress, &report);  // Too soon: nothing.
  assert_null(strstr(written + 1, "\r"));
  now += 100000000;
  ls_progress_show(progress, &report);
  assert_non_null(strstr(written + 1, "\r"));
  ls_progress_destroy(progress);
  assert_string_equal(written + strlen(written) - 4, "\033[K\n");
}

static void a_narrow_terminal_has_no_bar(void **state) {
  (void)state;
  ls_progress *progress = make(true, 40);
  const ls_train_report report = half_way();
  ls_progress_show(progress, &report);
  assert_null(strstr(written, "[="));
  expect_contains(written, "epoch 2/4 50/100 loss");
  ls_progress_destroy(progress);
}

static void elsewhere_a_line_comes_every_few_seconds(void **state) {
  (void)state;
  ls_progress *progress = make(false, 0);
  const ls_train_report report = half_way();
  ls_progress_show(progress, &report);
  assert_string_equal(written, "");
  now += 5000000000;
  ls_progress_show(progress, &report);
  assert_string_equal(written, "epoch 2/4 50/100 loss 0.5000 acc 75.0% 12346 "
                               "ex/s eta 1:02:05\n");
  now += 4000000000;
  ls_progress_show(progress, &report);
  assert_string_equal(strchr(written, '\n'), "\n");
  ls_progress_destroy(progress);
}

static void the_end_of_an_epoch_is_always_shown(void **state) {
  (void)state;
  ls_progress *progress = make(false, 0);
  ls_train_report report = half_way();
  report.epoch_end = true;
  report.tested = true;
  report.test = (ls_evaluation){.examples = 10, .loss = 1, .accuracy = 0.875};
  ls_progress_show(progress, &report);
  assert_string_equal(
      written, "epoch 2/4 50/100 loss 0.5000 acc 75.0% test acc 87.50%\n");
  ls_progress_destroy(progress);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_terminal_line_is_rewritten_and_fits,
                                      begin, end),
      cmocka_unit_test_setup_teardown(a_narrow_terminal_has_no_bar, begin, end),
      cmocka_unit_test_setup_teardown(elsewhere_a_line_comes_every_few_seconds,
                                      begin, end),
      cmocka_unit_test_setup_teardown(the_end_of_an_epoch_is_always_shown,
                                      begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
