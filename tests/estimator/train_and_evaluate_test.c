// SPDX-License-Identifier: Apache-2.0
// Trainings with evaluations on their way, and what is exported of them.
#include "lockstep/train_and_evaluate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "estimator/own.h"
#include "lockstep/events.h"
#include "support/estimators.h"
#include "support/waits.h"
#include "train/own.h"

LS_OWNED_STRUCT(ls_train_and_evaluation, ls_train_and_evaluation_deinit)

// ---- Local -----------------------------------------------------------------
static ls_status count_begin(void *user) {
  ++*(int *)user;
  return ls_ok();
}

TEST(what_is_saved_is_evaluated_and_exported) {
  LS_SPEC("E207 E208");
  for (int way = 0; way < 3; ++way) {
    int begins = 0;
    ls_hook *hook = NULL;
    LS_OWN_BEGUN(waits, w, waits_begin, NULL);
    LS_OWN(estimator_case, c) = {.way = (estimator_way)way,
                                 .replicas = way == ON_CPU ? 1 : 2,
                                 .folder = "evaluated",
                                 .repeats = true,
                                 .save_steps = LS_SOME(2)};
    LS_OWN(estimator_case, plain) = c;
    plain.folder = "not-evaluated";
    estimator_case_begin(&c);
    ls_exporter *exporters[] = {
        waits_exporter(
            (ls_exporter_options){.kind = LS_EXPORTER_FINAL, .name = "final"}),
        waits_exporter(
            (ls_exporter_options){.name = "latest", .keep = LS_SOME(3)})};
    expect_ok(ls_hook_create(
        &(ls_hook_options){.user = &begins, .begin = count_begin}, &hook));
    ls_train_and_evaluation result;
    expect_ok(
        ls_train_and_evaluate(c.estimator,
                              &(ls_train_spec){.input = estimator_input(&c),
                                               .max_steps = LS_SOME(8),
                                               .hooks = &hook,
                                               .num_hooks = 1},
                              &(ls_eval_spec){.input = estimator_input(&c),
                                              .steps = LS_SOME(4),
                                              .throttle_secs = LS_SOME(0),
                                              .exporters = exporters,
                                              .num_exporters = 2},
                              &result));
    // Of steps 0, 2, 4, 6 and 8 all but the first.
    assert_int_equal(result.num_evaluations, 4);
    assert_int_equal(result.training.step, 8);
    assert_true(estimator_metric(result.metrics, "global_step") == 8);
    assert_int_equal(result.num_exports, 2);
    assert_non_null(result.exports[0]);
    assert_non_null(result.exports[1]);
    expect_contains(result.exports[0], "evaluated/export/final/17000000");
    assert_int_equal(waits_count_in("evaluated/export/final"), 1);
    assert_int_equal(waits_count_in("evaluated/export/latest"), 3);
    if (way != ON_TPU) {
      assert_int_equal(begins, 1);
      assert_int_equal(c.input_calls, 5);
    }
    ls_train_and_evaluation_deinit(&result);
    ls_hook_release(hook);
    for (int i = 0; i < 2; ++i)
      ls_exporter_destroy(exporters[i]);
    // What was trained is what it is without evaluations.
    estimator_case_begin(&plain);
    estimator_case_train(&plain, 8);
    estimator_cases_expect_equal(&c, &plain, 0);
  }
}

// Ends where the training alone does, wherever it is stopped for evaluations.
TEST(a_training_with_evaluations_ends_with_its_input) {
  LS_SPEC("E207");
  for (int way = 0; way < 3; ++way)
    for (int64_t save = 1; save < 6; ++save) {
      LS_OWN(estimator_case, c) = {.way = (estimator_way)way,
                                   .folder = "ends",
                                   .save_steps = LS_SOME(save)};
      LS_OWN(ls_train_and_evaluation, result) = {0};
      estimator_case_begin(&c);
      expect_ok(
          ls_train_and_evaluate(c.estimator,
                                &(ls_train_spec){.input = estimator_input(&c),
                                                 .max_steps = LS_SOME(20)},
                                &(ls_eval_spec){.input = estimator_input(&c),
                                                .steps = LS_SOME(2),
                                                .throttle_secs = LS_SOME(0)},
                                &result));
      assert_int_equal(result.training.step, 4);
      assert_true(result.training.input_ended);
      assert_true(estimator_metric(result.metrics, "global_step") == 4);
    }
}

// With a limit the step tells which model is the final one, else the end.
TEST(the_last_model_of_an_input_is_the_final_one) {
  LS_SPEC("E207 E208");
  static const estimator_way ways[] = {ON_CPU, IN_STRATEGY};
  for (int way = 0; way < 2; ++way)
    for (int64_t save = 1; save < 4; ++save)
      for (int limited = 0; limited < 2; ++limited) {
        LS_OWN_BEGUN(waits, w, waits_begin, NULL);
        LS_OWN(estimator_case, c) = {.way = ways[way],
                                     .folder = "final",
                                     .save_steps = LS_SOME(save)};
        LS_OWN(ls_train_and_evaluation, result) = {0};
        estimator_case_begin(&c);
        LS_OWN(ls_exporter, exporter) = waits_exporter(
            (ls_exporter_options){.kind = LS_EXPORTER_FINAL, .name = "last"});
        expect_ok(ls_train_and_evaluate(
            c.estimator,
            &(ls_train_spec){.input = estimator_input(&c),
                             .max_steps = {limited == 1, 20}},
            &(ls_eval_spec){.input = estimator_input(&c),
                            .steps = LS_SOME(2),
                            .throttle_secs = LS_SOME(0),
                            .exporters = &exporter,
                            .num_exporters = 1},
            &result));
        assert_int_equal(result.training.step, 4);
        assert_int_equal(result.exports[0] != NULL, !limited);
        assert_int_equal(waits_count_in("final/export/last"), !limited);
      }
}

static ls_status pass_some(void *user, ls_run_context *context,
                           ls_nest results) {
  (void)context;
  (void)results;
  waits_pass(user, 100 * (int64_t)SECOND);
  return ls_ok();
}

static ls_status request_stop(void *user, ls_run_context *context,
                              ls_nest results) {
  (void)context;
  (void)results;
  ls_train_stop_request(user);
  return ls_ok();
}

TEST(evaluations_are_throttled) {
  LS_SPEC("E207");
  static const struct {
    ls_opt throttle;
    int64_t evaluations;
  } rows[] = {
      // Runs take 100 seconds: step 4 at 300 seconds, step 7 at 600, the end.
      {{true, 250}, 3},
      // 600: step 7, and the end.
      {{false, 0}, 2},
      {{true, 5000}, 1},
      {{true, INT64_MAX}, 1},
      {{true, 0}, 8},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN_BEGUN(waits, w, waits_begin, NULL);
    LS_OWN(estimator_case, c) = {
        .folder = "throttled", .repeats = true, .save_steps = LS_SOME(1)};
    LS_OWN(ls_train_and_evaluation, result) = {0};
    LS_OWN(ls_hook, hook) = NULL;
    estimator_case_begin(&c);
    expect_ok(ls_hook_create(
        &(ls_hook_options){.user = &w, .after_run = pass_some}, &hook));
    expect_ok(ls_train_and_evaluate(
        c.estimator,
        &(ls_train_spec){.input = estimator_input(&c),
                         .max_steps = LS_SOME(8),
                         .hooks = &hook,
                         .num_hooks = 1},
        &(ls_eval_spec){.input = estimator_input(&c),
                        .steps = LS_SOME(1),
                        .throttle_secs = rows[i].throttle},
        &result));
    assert_int_equal(result.num_evaluations, rows[i].evaluations);
    assert_true(estimator_metric(result.metrics, "global_step") == 8);
  }
}

// What a stop has cut short says nothing of a model.
TEST(a_training_that_is_stopped_is_not_evaluated) {
  for (int way = 0; way < 3; ++way) {
    ls_train_stop stop = {0};
    LS_OWN_BEGUN(waits, w, waits_begin, NULL);
    LS_OWN(estimator_case, c) = {.way = (estimator_way)way,
                                 .replicas = way == ON_CPU ? 1 : 2,
                                 .folder = "stopped",
                                 .repeats = true,
                                 .save_steps = LS_SOME(2)};
    LS_OWN(ls_train_and_evaluation, result) = {0};
    LS_OWN(ls_hook, hook) = NULL;
    estimator_case_begin(&c);
    LS_OWN(ls_exporter, exporter) =
        waits_exporter((ls_exporter_options){.name = "e"});
    expect_ok(ls_hook_create(
        &(ls_hook_options){.user = &stop, .after_run = request_stop}, &hook));
    expect_ok(
        ls_train_and_evaluate(c.estimator,
                              &(ls_train_spec){.input = estimator_input(&c),
                                               .max_steps = LS_SOME(40),
                                               .hooks = &hook,
                                               .num_hooks = 1,
                                               .stop = &stop},
                              &(ls_eval_spec){.input = estimator_input(&c),
                                              .steps = LS_SOME(4),
                                              .exporters = &exporter,
                                              .num_exporters = 1},
                              &result));
    assert_true(result.training.stopped);
    assert_int_equal(result.num_evaluations, 0);
    assert_int_equal(result.metrics.kind, LS_KIND_NONE);
    assert_int_equal(result.num_exports, 0);
    ls_event_numbers *numbers = NULL;
    expect_ok(ls_events_read("stopped/eval", NULL, &numbers));
    assert_int_equal(numbers->count, 0);
    ls_event_numbers_destroy(numbers);
    // A caller's own evaluation gives what it has, and writes none of it.
    ls_nest metrics = ls_none();
    expect_ok(ls_estimator_evaluate(
        c.estimator,
        &(ls_estimator_evaluation){
            .input = estimator_input(&c), .steps = LS_SOME(4), .stop = &stop},
        &metrics));
    ls_nest_release(metrics);
    expect_ok(ls_events_read("stopped/eval", NULL, &numbers));
    assert_int_equal(numbers->count, 0);
    ls_event_numbers_destroy(numbers);
  }
}

static ls_status stop_before_run(void *user, ls_run_context *context,
                                 ls_run_wish *wish) {
  int64_t step = 0;
  (void)wish;
  expect_ok(ls_run_context_steps(context, &step));
  if (step >= 6) ls_train_stop_request(user);
  return ls_ok();
}

// A stop in the run that ends at the last step.
TEST(a_final_evaluation_that_was_missed_is_made_by_the_next_call) {
  LS_SPEC("E207");
  for (int way = 0; way < 3; ++way) {
    ls_train_stop stop = {0};
    LS_OWN_BEGUN(waits, w, waits_begin, NULL);
    LS_OWN(estimator_case, c) = {.way = (estimator_way)way,
                                 .folder = "missed",
                                 .repeats = true,
                                 .save_steps = LS_SOME(2)};
    LS_OWN(ls_hook, hook) = NULL;
    estimator_case_begin(&c);
    LS_OWN(ls_exporter, exporter) = waits_exporter(
        (ls_exporter_options){.kind = LS_EXPORTER_FINAL, .name = "final"});
    expect_ok(ls_hook_create(
        &(ls_hook_options){.user = &stop, .before_run = stop_before_run},
        &hook));
    for (int call = 0; call < 3; ++call) {
      LS_OWN(ls_train_and_evaluation, result) = {0};
      expect_ok(ls_train_and_evaluate(
          c.estimator,
          &(ls_train_spec){.input = estimator_input(&c),
                           .max_steps = LS_SOME(way == ON_TPU ? 8 : 7),
                           .hooks = &hook,
                           .num_hooks = 1,
                           .stop = call == 0 ? &stop : NULL},
          &(ls_eval_spec){.input = estimator_input(&c),
                          .steps = LS_SOME(2),
                          .throttle_secs = LS_SOME(0),
                          .keep_best = "loss",
                          .exporters = &exporter,
                          .num_exporters = 1},
          &result));
      assert_int_equal(result.training.step, way == ON_TPU ? 8 : 7);
      assert_int_equal(result.num_evaluations, call == 0 ? 3 : call == 1);
      assert_int_equal(waits_count_in("missed/export/final"), call > 0);
      assert_true(call == 0 || result.best_step > 0);
    }
  }
}

// A request to stop, at a step, by a hook or by a listener.
typedef struct stop_at {
  int64_t step;
  bool has_asked;
} stop_at;

static ls_status stop_after_run(void *user, ls_run_context *context,
                                ls_nest results) {
  int64_t step = 0;
  (void)results;
  expect_ok(ls_run_context_steps(context, &step));
  if (step == ((stop_at *)user)->step) ls_run_context_request_stop(context);
  return ls_ok();
}

static ls_status stop_after_save(void *user, ls_session *session, int64_t step,
                                 bool *out_stop) {
  stop_at *self = user;
  (void)session;
  *out_stop = step == self->step && !self->has_asked;
  self->has_asked = self->has_asked || *out_stop;
  return ls_ok();
}

// On cores the same run ends for an evaluation, too.
TEST(a_stop_that_a_hook_or_a_listener_requests_ends_all) {
  LS_SPEC("E207");
  for (int way = 0; way < 3; ++way)
    for (int by = 0; by < 4; ++by) {
      stop_at at = {.step = 4};
      LS_OWN_BEGUN(waits, w, waits_begin, NULL);
      LS_OWN(estimator_case, c) = {.way = (estimator_way)way,
                                   .folder = "stops",
                                   .repeats = true,
                                   // Step 4 is saved at its time or at the end.
                                   .save_steps = LS_SOME(by == 3 ? 8 : 2)};
      LS_OWN(ls_train_and_evaluation, result) = {0};
      LS_OWN(ls_hook, hook) = NULL;
      estimator_case_begin(&c);
      if (by == 0)
        expect_ok(
            ls_stop_at_step_hook((ls_opt){0}, (ls_opt)LS_SOME(4), &hook));
      else if (by != 2)
        expect_ok(ls_hook_create(
            &(ls_hook_options){.user = &at, .after_run = stop_after_run},
            &hook));
      const ls_save_listener listener = {.user = &at,
                                         .after_save = stop_after_save};
      expect_ok(ls_train_and_evaluate(
          c.estimator,
          &(ls_train_spec){.input = estimator_input(&c),
                           .max_steps = LS_SOME(12),
                           .hooks = &hook,
                           .num_hooks = by != 2,
                           .listeners = &listener,
                           .num_listeners = by == 2},
          &(ls_eval_spec){.input = estimator_input(&c),
                          .steps = LS_SOME(2),
                          .throttle_secs = LS_SOME(0)},
          &result));
      assert_int_equal(result.training.step, 4);
      assert_int_equal(result.num_evaluations, by == 3 ? 1 : 2);
      assert_true(estimator_metric(result.metrics, "global_step") == 4);
    }
}

TEST(a_training_that_saves_elsewhere_is_not_evaluated) {
  LS_SPEC("E207");
  LS_OWN(estimator_case, c) = {.folder = "elsewhere", .repeats = true};
  LS_OWN(ls_hook, saver) = NULL;
  estimator_case_begin(&c);
  expect_ok(ls_saver_hook(&(ls_saver_hook_options){.folder = "elsewhere-saved",
                                                   .every_steps = LS_SOME(1)},
                          &saver));
  expect_status(ls_train_and_evaluate(
                    c.estimator,
                    &(ls_train_spec){.input = estimator_input(&c),
                                     .max_steps = LS_SOME(2),
                                     .hooks = &saver,
                                     .num_hooks = 1},
                    &(ls_eval_spec){.input = estimator_input(&c)}, NULL),
                LS_FAILED_PRECONDITION, "no new checkpoint");
}

// ---- One of several --------------------------------------------------------
TEST(an_evaluator_takes_checkpoints_as_they_come) {
  LS_SPEC("E207");
  estimator_case first = {.folder = "come", .repeats = true};
  LS_OWN_BEGUN(waits, w, waits_begin, NULL);
  estimator_case_begin(&first);
  estimator_case_train(&first, 4);
  assert_int_equal(system("rm -rf came && cp -r come came"), 0);
  estimator_case_train(&first, 8);
  estimator_case_end(&first);
  waits_end(&w);
  waits_begin(&w, "{\"cluster\":{\"chief\":[\"a:1\"]},"
                  "\"task\":{\"type\":\"evaluator\",\"index\":0}}");
  w.copy = "cp come/* came/ 2>/dev/null; true";
  w.copies_at = 1000;
  LS_OWN(estimator_case, c) = {.folder = "came", .goes_on = true};
  LS_OWN(ls_train_and_evaluation, result) = {0};
  ls_hook *hook = NULL;
  estimator_case_begin(&c);
  expect_ok(ls_hook_create(
      &(ls_hook_options){.user = &w, .after_run = pass_some}, &hook));
  expect_ok(ls_train_and_evaluate(
      c.estimator,
      &(ls_train_spec){.input = estimator_input(&c), .max_steps = LS_SOME(8)},
      &(ls_eval_spec){.input = estimator_input(&c),
                      .steps = LS_SOME(2),
                      .hooks = &hook,
                      .num_hooks = 1,
                      .throttle_secs = LS_SOME(300)},
      &result));
  ls_hook_release(hook);
  assert_int_equal(result.num_evaluations, 2);
  assert_true(estimator_metric(result.metrics, "global_step") == 8);
  // 120 seconds, then each 300, of which evaluations take 200: the checkpoint
  // of 1000 is seen at 1020.
  assert_int_equal(w.now / SECOND, 1220);
}

TEST(an_evaluator_warns_now_and_then_and_can_be_stopped) {
  LS_SPEC("E207");
  LS_OWN_BEGUN(waits, w, waits_begin,
               "{\"cluster\":{\"chief\":[\"a:1\"]},"
               "\"task\":{\"type\":\"evaluator\",\"index\":0}}");
  w.stops_at = 2200;
  LS_OWN(estimator_case, c) = {.folder = "waits"};
  LS_OWN(ls_train_and_evaluation, result) = {0};
  estimator_case_begin(&c);
  expect_ok(
      ls_train_and_evaluate(c.estimator,
                            &(ls_train_spec){.input = estimator_input(&c),
                                             .max_steps = LS_SOME(8),
                                             .stop = &w.stop},
                            &(ls_eval_spec){.input = estimator_input(&c),
                                            .throttle_secs = LS_SOME(100)},
                            &result));
  // At 120, 720, 1320 and 1920 seconds, of looks each 100.
  assert_int_equal(w.warnings, 4);
  assert_int_equal(w.now / SECOND, 2200);
  assert_int_equal(result.num_evaluations, 0);
}

TEST(workers_wait_before_they_train) {
  LS_SPEC("E207");
  static const struct {
    const char *task;
    int64_t seconds;
  } rows[] = {
      {"\"chief\",\"index\":0", 0},
      {"\"worker\",\"index\":0", 5},
      {"\"worker\",\"index\":1", 10},
      {"\"worker\",\"index\":12", 60},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    char config[400];
    snprintf(config, sizeof(config),
             "{\"cluster\":{\"chief\":[\"a:1\"],\"worker\":[\"b:1\",\"b:2\","
             "\"b:3\",\"b:4\",\"b:5\",\"b:6\",\"b:7\",\"b:8\",\"b:9\",\"c:1\","
             "\"c:2\",\"c:3\",\"c:4\"]},\"task\":{\"type\":%s}}",
             rows[i].task);
    LS_OWN_BEGUN(waits, w, waits_begin, config);
    LS_OWN(estimator_case, c) = {.folder = "worker", .repeats = true};
    LS_OWN(ls_train_and_evaluation, result) = {0};
    estimator_case_begin(&c);
    expect_ok(ls_train_and_evaluate(
        c.estimator,
        &(ls_train_spec){.input = estimator_input(&c), .max_steps = LS_SOME(2)},
        &(ls_eval_spec){.input = estimator_input(&c)}, &result));
    assert_int_equal(w.now / SECOND, rows[i].seconds);
    assert_int_equal(result.training.step, 2);
    assert_int_equal(result.num_evaluations, 0);
  }
}

// Without a communicator a worker trains by itself, as a chief does.
TEST(a_worker_does_not_write_to_the_folder_of_another) {
  static const char *const tasks[] = {"chief", "worker"};
  const ls_file_system *files = ls_file_system_system();
  for (size_t i = 0; i < LS_COUNT_OF(tasks); ++i) {
    char config[200];
    void *lock = NULL;
    snprintf(config, sizeof(config),
             "{\"cluster\":{\"chief\":[\"a:1\"],\"worker\":[\"b:1\"]},"
             "\"task\":{\"type\":\"%s\",\"index\":0}}",
             tasks[i]);
    LS_OWN_BEGUN(waits, w, waits_begin, config);
    LS_OWN(estimator_case, c) = {.folder = "shared"};
    estimator_case_begin(&c);
    expect_ok(files->make_directories(files->user, "shared"));
    expect_ok(files->lock(files->user, "shared/lock", &lock));
    expect_status(ls_train_and_evaluate(
                      c.estimator,
                      &(ls_train_spec){.input = estimator_input(&c),
                                       .max_steps = LS_SOME(2)},
                      &(ls_eval_spec){.input = estimator_input(&c)}, NULL),
                  LS_FAILED_PRECONDITION, "'shared/lock' is locked by process");
    files->unlock(files->user, lock);
  }
}

TEST(other_tasks_are_refused) {
  LS_SPEC("E207");
  static const struct {
    const char *config;
    ls_code code;
    const char *part;
  } rows[] = {
      {"{\"cluster\":{\"chief\":[\"a:1\"]},"
       "\"task\":{\"type\":\"evaluator\",\"index\":1}}",
       LS_INVALID_ARGUMENT, "only be one evaluator"},
      {"{\"cluster\":{\"chief\":[\"a:1\"],\"ps\":[\"b:1\"]},"
       "\"task\":{\"type\":\"ps\",\"index\":0}}",
       LS_UNIMPLEMENTED, "'ps'"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN_BEGUN(waits, w, waits_begin, rows[i].config);
    LS_OWN(estimator_case, c) = {.folder = "tasks"};
    estimator_case_begin(&c);
    expect_status(ls_train_and_evaluate(
                      c.estimator,
                      &(ls_train_spec){.input = estimator_input(&c)},
                      &(ls_eval_spec){.input = estimator_input(&c)}, NULL),
                  rows[i].code, rows[i].part);
  }
}

// ---- What is refused -------------------------------------------------------
static void expect_refused(estimator_case *c, ls_train_spec train,
                           ls_eval_spec eval, const char *part) {
  expect_status(ls_train_and_evaluate(c->estimator, &train, &eval, NULL),
                LS_INVALID_ARGUMENT, part);
  assert_int_equal(c->input_calls, 0);
}

TEST(specs_that_cannot_be_are_refused) {
  LS_SPEC("E206");
  LS_OWN(estimator_case, c) = {.folder = "specs"};
  estimator_case_begin(&c);
  const ls_input_function input = estimator_input(&c);
  const ls_train_spec train = {.input = input};
  const ls_eval_spec eval = {.input = input};
  expect_refused(&c, (ls_train_spec){.max_steps = LS_SOME(1)}, eval,
                 "training needs an input_fn");
  expect_refused(&c, (ls_train_spec){.input = input, .max_steps = LS_SOME(0)},
                 eval, "Must specify max_steps > 0");
  expect_refused(&c, train, (ls_eval_spec){.steps = LS_SOME(1)},
                 "evaluation needs an input_fn");
  expect_refused(&c, train, (ls_eval_spec){.input = input, .steps = LS_SOME(0)},
                 "Must specify steps > 0");
  expect_refused(
      &c, train,
      (ls_eval_spec){.input = input, .start_delay_secs = LS_SOME(-1)},
      "start_delay_secs >= 0");
  expect_refused(&c, train,
                 (ls_eval_spec){.input = input, .throttle_secs = LS_SOME(-1)},
                 "throttle_secs >= 0");
  char name[300];
  memset(name, 'n', sizeof(name));
  strcpy(name + 256, ":min");
  expect_refused(&c, train, (ls_eval_spec){.input = input, .keep_best = name},
                 "name has 256 bytes");
  ls_exporter *twice[] = {waits_exporter((ls_exporter_options){.name = "a"}),
                          waits_exporter((ls_exporter_options){.name = "a"})};
  expect_refused(
      &c, train,
      (ls_eval_spec){.input = input, .exporters = twice, .num_exporters = 2},
      "called 'a'");
  ls_exporter_destroy(twice[0]);
  ls_exporter_destroy(twice[1]);
}

TEST(a_name_of_a_metric_is_not_cut) {
  LS_OWN(estimator_case, c) = {.folder = "long-name"};
  estimator_case_begin(&c);
  expect_status(
      ls_train_and_evaluate(
          c.estimator,
          &(ls_train_spec){.input = estimator_input(&c),
                           .max_steps = LS_SOME(2)},
          &(ls_eval_spec){
              .input = estimator_input(&c),
              .steps = LS_SOME(1),
              .keep_best = "root_mean_squared_error_of_the_first_head:min"},
          NULL),
      LS_INVALID_ARGUMENT,
      "no metric 'root_mean_squared_error_of_the_first_head'");
}

static ls_status count_run(void *user, ls_run_context *context,
                           ls_nest results) {
  (void)context;
  (void)results;
  ++*(int *)user;
  return ls_ok();
}

TEST(an_evaluation_has_a_hundred_steps) {
  LS_SPEC("E206");
  for (int whole = 0; whole < 2; ++whole) {
    int runs = 0;
    LS_OWN(estimator_case, c) = {.folder = "hundred", .repeats = !whole};
    LS_OWN(ls_hook, hook) = NULL;
    estimator_case_begin(&c);
    expect_ok(ls_hook_create(
        &(ls_hook_options){.user = &runs, .after_run = count_run}, &hook));
    expect_ok(ls_train_and_evaluate(
        c.estimator,
        &(ls_train_spec){.input = estimator_input(&c), .max_steps = LS_SOME(2)},
        &(ls_eval_spec){.input = estimator_input(&c),
                        .whole_input = whole,
                        .hooks = &hook,
                        .num_hooks = 1},
        NULL));
    // 96 examples in batches of 24.
    assert_int_equal(runs, whole ? 4 : 100);
  }
}
