// SPDX-License-Identifier: Apache-2.0
//
// What an estimator's hosts hear and write while cores train.
#define _GNU_SOURCE
#include <stdlib.h>

#include "base/memory/own.h"
#include "lockstep/events.h"
#include "support/estimators.h"
#include "train/own.h"

// ---- Event files -----------------------------------------------------------
static size_t count_numbers(const char *folder, const char *tag) {
  ls_event_numbers *numbers = NULL;
  expect_ok(ls_events_read(folder, tag, &numbers));
  const size_t count = numbers->count;
  ls_event_numbers_destroy(numbers);
  return count;
}

static void evaluate(estimator_case *c) {
  LS_OWN(ls_nest, metrics) = ls_none();
  expect_ok(ls_estimator_evaluate(
      c->estimator,
      &(ls_estimator_evaluation){.input = estimator_input(c),
                                 .steps = LS_SOME(2)},
      &metrics));
}

// Loops of 2 steps record at the step after each.
TEST(later_events_stand_behind_former_ones) {
  LS_OWN(estimator_case, c) = {.way = ON_TPU,
                               .folder = "host_loop_events",
                               .repeats = true,
                               .save_steps = LS_SOME(2),
                               .config = {.save_summary_steps = LS_SOME(1)}};
  estimator_case_begin(&c);
  for (int64_t step = 4; step <= 8; step += 4) {
    estimator_case_train(&c, step);
    evaluate(&c);
  }
  LS_OWN(ls_event_numbers, losses) = NULL;
  expect_ok(ls_events_read("host_loop_events", "loss", &losses));
  assert_int_equal(losses->count, 4);
  for (size_t i = 0; i < losses->count; ++i)
    assert_int_equal(losses->items[i].step, 2 * i + 2);
  assert_int_equal(count_numbers("host_loop_events/eval", "loss"), 2);
}

// ---- Compiling -------------------------------------------------------------
TEST(what_does_not_compile_is_told) {
  LS_SPEC("E82");
  LS_OWN(estimator_case,
         c) = {.way = ON_TPU,
               .folder = "host_loop_compile",
               .more = {.eval_on_tpu = LS_FLAG_OFF},
               .config = {.master = "virtual:1x1,cores=1,fault=compile@host0"}};
  estimator_case_begin(&c);
  assert_null(ls_estimator_last_compile_error(c.estimator));
  setenv("TPU_SPLIT_COMPILE_AND_EXECUTE", "1", 1);
  const ls_training_end end = estimator_case_train(&c, 4);
  unsetenv("TPU_SPLIT_COMPILE_AND_EXECUTE");
  assert_false(end.has_loss);
  assert_int_equal(end.step, 0);
  assert_non_null(ls_estimator_last_compile_error(c.estimator));
  expect_contains(ls_estimator_last_compile_error(c.estimator), "planned");
  // What is on a CPU, or on none, has no compiler of its own.
  evaluate(&c);
  expect_status(
      ls_estimator_train(c.estimator,
                         &(ls_estimator_training){.input = estimator_input(&c)},
                         NULL),
      LS_INVALID_ARGUMENT, "must be set");
  expect_contains(ls_estimator_last_compile_error(c.estimator), "planned");
}
