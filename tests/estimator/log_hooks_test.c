// SPDX-License-Identifier: Apache-2.0
//
// What the log and event files hear of a training.
#include "estimator/hooks/progress_hooks.h"

#include <stdio.h>
#include <string.h>

#include "lockstep/ops.h"
#include "support/monitored_runs.h"

// ---- Losses ----------------------------------------------------------------
// Lines of 12 runs.
static int loss_lines(int64_t iterations, int64_t seconds, int64_t log_steps) {
  ls_hook *hook = NULL;
  int lines = 0;
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  expect_ok(ls_loss_log_hook(
      f.loss, (ls_loop_length){.steps = iterations, .seconds = seconds},
      LS_SOME(log_steps), &hook));
  monitored_runs_open(&f, &hook, 1, NULL);
  (void)monitored_runs_log();
  for (int run = 0; run < 12; ++run) {
    monitored_runs_pass(1);
    expect_ok(monitored_runs_try(&f));
    const char *log = monitored_runs_log();
    const bool told = strstr(log, "loss = ") != NULL;
    char step[32];
    // The one that the run has come to.
    snprintf(step, sizeof(step), "step = %d", run + 1);
    if (told) expect_contains(log, step);
    lines += told;
  }
  monitored_runs_close(&f);
  return lines;
}

TEST(losses_are_logged_by_runs) {
  LS_SPEC("E158");
  assert_int_equal(loss_lines(1, 0, 1), 12);
  assert_int_equal(loss_lines(1, 0, 4), 3);
  assert_int_equal(loss_lines(4, 0, 8), 6);
  assert_int_equal(loss_lines(4, 0, 9), 4);  // Each 3 runs.
  assert_int_equal(loss_lines(100, 0, 10), 12);
  ls_hook *hook = NULL;
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  expect_ok(ls_loss_log_hook(f.loss, (ls_loop_length){.steps = 4}, (ls_opt){0},
                             &hook));
  assert_null(hook);
  expect_ok(ls_examples_hook((ls_opt){0}, 1, 2, NULL, &hook));
  assert_null(hook);
}

// Runs of a second each, as long as four of them: their steps are not known.
TEST(runs_of_a_time_are_logged_by_time) {
  LS_SPEC("E158");
  assert_int_equal(loss_lines(0, 4, 100), 3);
}

// ---- Speed -----------------------------------------------------------------
// What the folder has of a tag: 2 numbers, at these steps.
static void expect_numbers(const char *folder, const char *tag, int64_t first,
                           int64_t second, double value) {
  ls_event_numbers *numbers = NULL;
  expect_ok(ls_events_read(folder, tag, &numbers));
  assert_int_equal(numbers->count, 2);
  assert_int_equal(numbers->items[0].step, first);
  assert_int_equal(numbers->items[1].step, second);
  for (int i = 0; i < 2; ++i)
    assert_true(numbers->items[i].value == value);
  ls_event_numbers_destroy(numbers);
}

// Runs of `each` steps and half a second, told each 8 steps.
static void count_examples(int64_t each, const char *folder) {
  ls_hook *hook = NULL;
  ls_event_writer *events = NULL;
  ls_op train;
  char line[80];
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  expect_ok(ls_event_writer_open(&(ls_event_writer_options){.folder = folder},
                                 &events));
  expect_ok(ls_examples_hook(LS_SOME(8), each, 16, events, &hook));
  {
    LS_GRAPH_SCOPE(f.graph);
    train = ls_tensor_op(
        ls_variable_assign_add(f.step, ls_scalar(LS_DTYPE_I64, (double)each)));
  }
  monitored_runs_open(&f, &hook, 1, NULL);
  (void)monitored_runs_log();
  for (int64_t step = 0; step < 24; step += each) {
    monitored_runs_pass(0.5);
    expect_ok(ls_monitored_session_run(f.session, ls_nest_op(train), NULL, 0,
                                       &f.results));
  }
  const double speed = (double)each / 0.5;
  snprintf(line, sizeof(line), "global_step/sec: %g\nexamples/sec: %g\n", speed,
           16 * speed);
  expect_contains(monitored_runs_log(), line);
  monitored_runs_close(&f);
  expect_ok(ls_event_writer_close(events));
  const int64_t first = each + 8;
  expect_numbers(folder, "global_step/sec", first, first + 8, speed);
  expect_numbers(folder, "examples/sec", first, first + 8, 16 * speed);
}

// Also where the step is read before a run's op adds to it.
TEST(late_steps_are_told_at_the_end_of_their_run) {
  LS_SPEC("E159");
  ls_hook *hooks[2] = {NULL};
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  expect_ok(ls_examples_hook(LS_SOME(4), 4, 16, NULL, &hooks[0]));
  hooks[1] = monitored_runs_late(&f, 4);
  monitored_runs_open(&f, hooks, 2, NULL);
  for (int run = 0; run < 2; ++run) {
    monitored_runs_pass(2);
    expect_ok(monitored_runs_try_late(&f));
  }
  expect_contains(monitored_runs_log(), "examples/sec: 32\n");
}

TEST(steps_and_examples_a_second_are_told) {
  LS_SPEC("E159");
  count_examples(1, "log_hooks_1");
  count_examples(4, "log_hooks_4");
}
