// SPDX-License-Identifier: Apache-2.0
//
// Trainings of estimators on systems whose hosts go.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lockstep/early_stopping.h"
#include "lockstep/events.h"
#include "support/counted.h"
#include "support/estimators.h"
#include "train/own.h"

enum { LAST = 12, REPLICAS = 3 };
static const char mode_name[] = "TF_TPU_GRACEFUL_SHUTDOWN_MODE";

// Hosts are asked behind each run of two steps, counted from when the system
// was initialized: this one is lame behind the second.
#define LAME ",fault=lame@host1:step1"

static bool has_checkpoint(const char *folder, int step) {
  char path[80];
  snprintf(path, sizeof(path), "%s/model.ckpt-%d.json", folder, step);
  return access(path, F_OK) == 0;
}

static void begin_again(estimator_case *c, const char *folder,
                        const char *master, bool saves, bool goes_on) {
  *c = (estimator_case){
      .way = ON_TPU,
      .replicas = REPLICAS,
      .folder = folder,
      .goes_on = goes_on,
      .repeats = true,
      .save_steps = saves ? LS_SOME(100) : (ls_opt){0},
      .config = {.master = master,
                 .checkpoints = saves ? LS_FLAG_DEFAULT : LS_FLAG_OFF}};
  estimator_case_begin(c);
}

static void begin(estimator_case *c, const char *folder, const char *master,
                  bool saves) {
  begin_again(c, folder, master, saves, false);
}

static ls_status train(estimator_case *c, ls_training_end *end) {
  return ls_estimator_train(
      c->estimator,
      &(ls_estimator_training){.input = estimator_input(c),
                               .max_steps = LS_SOME(LAST)},
      end);
}

TEST(a_training_goes_on_without_a_host_that_goes) {
  LS_SPEC("E190 E191");
  ls_training_end end;
  unsetenv(mode_name);
  LS_OWN_BEGUN(estimator_case, whole, begin, "undisturbed",
               "virtual:3x1,cores=1,hosts=3", true);
  expect_ok(train(&whole, &end));
  LS_OWN_BEGUN(estimator_case, c, begin, "lame",
               "virtual:3x1,cores=1,hosts=3" LAME, true);
  expect_ok(train(&c, &end));
  assert_int_equal(end.step, LAST);
  assert_true(has_checkpoint("lame", 4));
  assert_false(has_checkpoint("undisturbed", 4));
  estimator_cases_expect_equal(&whole, &c, 0);
}

TEST(a_computation_that_is_shut_down_can_go_on_later) {
  LS_SPEC("E190 E191");
  ls_training_end end;
  unsetenv(mode_name);
  LS_OWN_BEGUN(estimator_case, whole, begin, "undisturbed",
               "virtual:3x1,cores=1,hosts=3", true);
  expect_ok(train(&whole, &end));
  setenv(mode_name, "shutdown_computation", 1);
  LS_OWN_BEGUN(estimator_case, c, begin, "all",
               "virtual:3x1,cores=1,hosts=3" LAME, true);
  expect_status(
      train(&c, &end), LS_ABORTED,
      "coordinator shutdown: hosts 1 of TPU system 'virtual:3x1,cores=1,");
  assert_true(has_checkpoint("all", 4));
  assert_false(has_checkpoint("all", 6));
  // The system was shut down: another one goes on.
  estimator_case_end(&c);
  begin_again(&c, "all", "virtual:3x1,cores=1,hosts=3", true, true);
  expect_ok(train(&c, &end));
  assert_int_equal(end.step, LAST);
  estimator_cases_expect_equal(&whole, &c, 0);
  unsetenv(mode_name);
}

TEST(without_savers_the_hook_saves_itself) {
  LS_SPEC("E191");
  ls_training_end end;
  setenv(mode_name, "shutdown_computation", 1);
  LS_OWN_BEGUN(estimator_case, c, begin, "alone",
               "virtual:3x1,cores=1,hosts=3" LAME, false);
  expect_status(train(&c, &end), LS_ABORTED, "coordinator shutdown");
  assert_true(has_checkpoint("alone", 4));
  unsetenv(mode_name);
}

TEST(a_users_saver_is_the_only_one) {
  LS_SPEC("E191");
  ls_training_end end;
  ls_hook *saver = NULL;
  setenv(mode_name, "shutdown_computation", 1);
  LS_OWN_BEGUN(estimator_case, c, begin, "users",
               "virtual:3x1,cores=1,hosts=3" LAME, true);
  (void)!system("rm -rf users-own");
  expect_ok(ls_saver_hook(&(ls_saver_hook_options){.folder = "users-own",
                                                   .every_steps = LS_SOME(100)},
                          &saver));
  expect_status(
      ls_estimator_train(c.estimator,
                         &(ls_estimator_training){.input = estimator_input(&c),
                                                  .max_steps = LS_SOME(LAST),
                                                  .hooks = &saver,
                                                  .num_hooks = 1},
                         &end),
      LS_ABORTED, "coordinator shutdown");
  assert_false(has_checkpoint("users", 4));
  ls_hook_release(saver);
  unsetenv(mode_name);
}

// Nor is it made to save when the training goes on.
TEST(a_users_saver_saves_when_it_likes) {
  LS_SPEC("E191");
  LS_OWN(estimator_case, c) = {0};
  ls_training_end end;
  LS_OWN(ls_hook, saver) = NULL;
  unsetenv(mode_name);
  begin(&c, "users", "virtual:3x1,cores=1,hosts=3" LAME, true);
  (void)!system("rm -rf users-own");
  expect_ok(ls_saver_hook(&(ls_saver_hook_options){.folder = "users-own",
                                                   .every_steps = LS_SOME(100)},
                          &saver));
  expect_ok(
      ls_estimator_train(c.estimator,
                         &(ls_estimator_training){.input = estimator_input(&c),
                                                  .max_steps = LS_SOME(LAST),
                                                  .hooks = &saver,
                                                  .num_hooks = 1},
                         &end));
  assert_false(has_checkpoint("users", 4) || has_checkpoint("users-own", 4));
  assert_true(has_checkpoint("users-own", LAST));
}

TEST(an_empty_mode_is_no_hook_and_another_is_refused) {
  LS_SPEC("E190");
  ls_training_end end;
  setenv(mode_name, "", 1);
  LS_OWN_BEGUN(estimator_case, c, begin, "none",
               "virtual:3x1,cores=1,hosts=3" LAME, true);
  expect_ok(train(&c, &end));
  assert_int_equal(end.step, LAST);
  assert_false(has_checkpoint("none", 4));
  estimator_case_end(&c);
  setenv(mode_name, "reset", 1);
  begin(&c, "bad", "virtual:3x1,cores=1,hosts=3" LAME, true);
  expect_status(train(&c, &end), LS_INVALID_ARGUMENT,
                "TF_TPU_GRACEFUL_SHUTDOWN_MODE is 'reset'");
  unsetenv(mode_name);
}

// ---- Early stopping --------------------------------------------------------
static void evaluate(estimator_case *c) {
  LS_OWN(ls_nest, metrics) = ls_none();
  expect_ok(ls_estimator_evaluate(
      c->estimator,
      &(ls_estimator_evaluation){.input = estimator_input(c),
                                 .steps = LS_SOME(4)},
      &metrics));
}

TEST(evaluations_end_a_training) {
  LS_SPEC("E205");
  for (int way = 0; way < 3; ++way) {
    LS_OWN(estimator_case, c) = {.way = (estimator_way)way,
                                 .folder = "early",
                                 .repeats = true,
                                 .save_steps = LS_SOME(100)};
    estimator_case_begin(&c);
    for (int step = 4; step <= 8; step += 4) {
      (void)estimator_case_train(&c, step);
      evaluate(&c);
    }
    // Both are there.
    ls_event_numbers *numbers = NULL;
    expect_ok(ls_events_read("early/eval", "loss", &numbers));
    assert_int_equal(numbers->count, 2);
    assert_int_equal(numbers->items[0].step, 4);
    assert_int_equal(numbers->items[1].step, 8);
    assert_true(numbers->items[1].value < numbers->items[0].value);
    const double reached = numbers->items[1].value;
    ls_event_numbers_destroy(numbers);
    for (int stops = 0; stops < 2; ++stops) {
      LS_OWN(ls_hook, hook) = NULL;
      ls_training_end end;
      expect_ok(ls_early_stopping_hook(
          &(ls_early_stopping_options){
              .config = ls_estimator_run_config(c.estimator),
              .rule = LS_STOP_IF_LOWER,
              .metric = "loss",
              .threshold = stops ? reached * 1.001 : reached,
              .folder = "early/eval"},
          &hook));
      expect_ok(ls_estimator_train(
          c.estimator,
          &(ls_estimator_training){.input = estimator_input(&c),
                                   .steps = LS_SOME(8),
                                   .hooks = &hook,
                                   .num_hooks = 1},
          &end));
      const int run = way == ON_TPU ? 2 : 1;
      assert_int_equal(end.step, stops ? 16 + run : 16);
    }
  }
}

// Systems are a runtime's: each test has its own.
static counted runtime;
static int enter(void **state) {
  (void)state;
  runtime = counted_begin(0);
  return 0;
}
static int leave(void **state) {
  (void)state;
  counted_end(&runtime);
  return 0;
}

TEST_FILE(.before_each = enter, .after_each = leave)
