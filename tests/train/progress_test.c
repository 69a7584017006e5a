// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <math.h>
#include <string.h>

#include "lockstep/train.h"
#include "lockstep/training_parts.h"
#include "support/comma.h"

LS_OWNED_POINTER(ls_progress, ls_progress_destroy)

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

static int width;  // Of the terminal, as it is now.

static int tell_width(void *user) {
  (void)user;
  return width;
}

static ls_progress *make(bool terminal, int first_width) {
  ls_progress *progress = NULL;
  width = first_width;
  expect_ok(ls_progress_create(&(ls_progress_options){.write = write_text,
                                                      .terminal = terminal,
                                                      .width = tell_width},
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

TEST(a_terminal_line_is_rewritten_and_fits) {
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

// The parts of the time, largest first, that there is room for.
TEST(the_end_of_an_epoch_says_where_the_time_went) {
  ls_train_report report = half_way();
  report.epoch_end = true;
  report.budget = (ls_train_budget){.whole = 10,
                                    .input = 1.2,
                                    .input_stage = "map",
                                    .compute = 7,
                                    .host = 0.04,
                                    .save = 1.7,
                                    .rest = 0.06};
  LS_OWN(ls_progress, progress) = make(false, 0);
  ls_progress_show(progress, &report);
  expect_contains(
      written, "eta 1:02:05, compute 70% save 17% input 12% (map) rest 1%\n");
  ls_progress_destroy(progress);
  progress = make(true, 90);
  memset(written, 0, sizeof(written));
  ls_progress_show(progress, &report);
  expect_contains(written, "eta 1:02:05, compute 70% save 17%\033[K\n");
}

static void expect_bar(int64_t done, int64_t all, const char *bar) {
  LS_OWN(ls_progress, progress) = make(true, 80);
  ls_train_report report = half_way();
  report.epoch_step = done;
  report.steps_per_epoch = all;
  memset(written, 0, sizeof(written));
  ls_progress_show(progress, &report);
  expect_contains(written, bar);
}

TEST(a_bar_is_full_after_the_last_step) {
  expect_bar(0, 1, "[>.................]");
  expect_bar(1, 1, "[==================]");
  expect_bar(1, 2, "[=========>........]");
  expect_bar(0, 0, "[>.................]");  // No steps: none are done.
}

TEST(a_narrow_terminal_has_no_bar) {
  LS_OWN(ls_progress, progress) = make(true, 40);
  const ls_train_report report = half_way();
  ls_progress_show(progress, &report);
  assert_null(strstr(written, "[="));
  expect_contains(written, "epoch 2/4 50/100 loss");
}

TEST(the_last_line_of_an_epoch_is_whole_in_a_narrow_terminal) {
  LS_OWN(ls_progress, progress) = make(true, 30);
  ls_train_report report = half_way();
  report.epoch_end = report.tested = true;
  report.test.accuracy = 0.5;
  ls_progress_show(progress, &report);
  expect_contains(written, "test acc 50.00%\033[K\n");
}

// No line is longer than the terminal is wide when it is shown.
TEST(a_line_fits_whatever_the_width_becomes) {
  static const int widths[] = {80, 200, 60, 33, 20, 2, 1, 79, 0};
  LS_OWN(ls_progress, progress) = make(true, 80);
  const ls_train_report report = half_way();
  for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); ++i) {
    memset(written, 0, sizeof(written));
    width = widths[i];
    ls_progress_show(progress, &report);
    const size_t shown = strlen(written) - strlen("\r\033[K");
    assert_true(shown < (size_t)(width > 0 ? width : 80));
    assert_true(shown >= (size_t)(width > 60 ? 60 : width) - (width > 0));
    now += 100000000;
  }
}

TEST(what_is_left_is_told_to_the_end) {
  LS_OWN(ls_progress, progress) = make(false, 0);
  ls_train_report report = half_way();
  report.epoch_end = true;  // Also where the run was stopped.
  ls_progress_show(progress, &report);
  expect_contains(written, "ex/s eta 1:02:05\n");
  report.step = report.num_steps;
  report.seconds_left = 0;
  ls_progress_show(progress, &report);
  expect_contains(written, "ex/s in 0:03\n");
}

TEST(numbers_have_a_point_in_every_language) {
  ls_progress *progress = make(false, 0);
  ls_train_report report = half_way();
  report.epoch_end = true;
  const bool comma = comma_begin();
  ls_progress_show(progress, &report);
  comma_end();
  ls_progress_destroy(progress);
  if (!comma) skip();
  expect_contains(written, "loss 0.5000 acc 75.0% 12346 ex/s");
}

TEST(elsewhere_a_line_comes_every_few_seconds) {
  LS_OWN(ls_progress, progress) = make(false, 0);
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
}

// A diverged loss has a short form.
TEST(a_training_without_epochs_tells_its_steps) {
  static const struct {
    double loss;
    int64_t all;
    const char *text;
  } rows[] = {{0.5, 9, "step 7/9 loss 0.5000 "},
              {0.5, 0, "step 7 loss 0.5000 "},
              {-1e300, 9, "step 7/9 loss -1e+300 "},
              {HUGE_VAL, 9, "step 7/9 loss inf "}};
  LS_OWN(ls_progress, progress) = make(false, 0);
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    now += INT64_C(6000000000);
    memset(written, 0, sizeof(written));
    ls_progress_show(progress,
                     &(ls_train_report){.step = 7,
                                        .num_steps = rows[i].all,
                                        .epoch_step = 7,
                                        .steps_per_epoch = rows[i].all,
                                        .loss = rows[i].loss});
    expect_contains(written, rows[i].text);
  }
}

TEST(the_end_of_an_epoch_is_always_shown) {
  LS_OWN(ls_progress, progress) = make(false, 0);
  ls_train_report report = half_way();
  report.epoch_end = true;
  report.tested = true;
  report.test = (ls_evaluation){.examples = 10, .loss = 1, .accuracy = 0.875};
  ls_progress_show(progress, &report);
  assert_string_equal(
      written, "epoch 2/4 50/100 loss 0.5000 acc 75.0% test acc 87.50%\n");
}

TEST_FILE(.before_each = begin, .after_each = end)
