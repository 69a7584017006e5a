// SPDX-License-Identifier: Apache-2.0
// What is recorded of a training with `lines`, and of its evaluations.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/chain.h"
#include "lockstep/ops.h"
#include "lockstep/train_and_evaluate.h"
#include "lockstep/variable.h"
#include "support/estimator_ways.h"
#include "train/own.h"

enum { MOST_LINES = 8, LINE_SIZE = 400 };

typedef struct file_lines {
  char text[MOST_LINES][LINE_SIZE];
  int count;
} file_lines;

static file_lines read_lines(const char *folder) {
  char path[100];
  file_lines lines = {0};
  snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (lines.count < MOST_LINES &&
         fgets(lines.text[lines.count], LINE_SIZE, file) != NULL)
    ++lines.count;
  fclose(file);
  return lines;
}

// A member of a line; NaN if it has none.
static double member_of(const char *line, const char *key) {
  char quoted[40];
  snprintf(quoted, sizeof(quoted), "\"%s\":", key);
  const char *at = strstr(line, quoted);
  return at != NULL ? strtod(at + strlen(quoted), NULL) : NAN;
}

// Returns the number of lines of evaluations.
static int count_tests(const file_lines *lines) {
  int count = 0;
  for (int k = 0; k < lines->count; ++k)
    count += !isnan(member_of(lines->text[k], "test_loss"));
  return count;
}

static ls_status train_with(estimator_case *c, ls_training_lines lines) {
  return ls_estimator_train(
      c->estimator,
      &(ls_estimator_training){
          .input = estimator_input(c), .max_steps = LS_SOME(4), .lines = lines},
      NULL);
}

static file_lines train_in(int way, const char *folder,
                           ls_training_lines lines) {
  LS_OWN(estimator_case, c) = estimator_case_of(way);
  c.folder = folder;
  c.save_steps = (ls_opt)LS_SOME(4);
  estimator_case_begin(&c);
  expect_ok(train_with(&c, lines));
  return read_lines(folder);
}

TEST(a_training_writes_sums_and_a_line_with_the_norm_of_its_gradients) {
  double norms[ESTIMATOR_WAYS];
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    const file_lines lines =
        train_in(i, "lines",
                 (ls_training_lines){
                     .metrics = true, .checksum = 2, .gradient_norm = true});
    const file_lines plain =
        train_in(i, "plain", (ls_training_lines){.metrics = true});
    const char *last = lines.text[lines.count - 1];
    assert_int_equal(lines.count, 3);
    assert_non_null(strstr(lines.text[0], "\"step\":2,\"checksum\":"));
    assert_non_null(strstr(lines.text[1], "\"step\":4,\"checksum\":"));
    assert_int_equal(plain.count, 1);
    assert_true(member_of(last, "loss") == member_of(plain.text[0], "loss"));
    assert_true(isnan(member_of(plain.text[0], "gradient_norm")));
    norms[i] = member_of(last, "gradient_norm");
    assert_true(norms[i] > 0 && fabs(norms[i] - norms[0]) < 1e-5);
  }
}

// A model that counts steps, without an optimizer. With `user` its loss is the
// step.
static ls_status count_steps(void *user, ls_model_call *call,
                             ls_estimator_spec **out) {
  ls_variable *step = NULL;
  LS_RETURN_IF_ERROR(ls_global_step_get(ls_graph_current(), &step));
  const ls_tensor loss = user != NULL
                             ? ls_convert(ls_variable_read(step), LS_DTYPE_F32)
                             : ls_scalar(LS_DTYPE_F32, 1);
  return ls_tpu_estimator_spec_create(
      &(ls_estimator_spec_options){
          .mode = call->mode,
          .loss = loss,
          .train_op = ls_tensor_op(
              ls_variable_assign_add(step, ls_scalar_i64(LS_DTYPE_I64, 1)))},
      out);
}

static void check_report(void *user, const ls_train_report *report) {
  const int64_t num_steps = *(const int64_t *)user;
  assert_int_equal(report->num_steps, num_steps);
  assert_true(report->seconds_left >= 0);
  assert_true(num_steps == 0 || report->step < num_steps ||
              report->seconds_left == 0);
}

// As far as it is known: of more steps, of a limit, or to the input's end.
TEST(reports_know_the_last_step) {
  static const ls_opt none, four = {true, 4}, eight = {true, 8};
  const struct {
    ls_opt steps, max_steps;
    int64_t num_steps[2];
  } rows[] = {{four, none, {4, 8}}, {none, eight, {8, 8}}, {none, none, {0}}};
  for (int i = 0; i < ESTIMATOR_WAYS; ++i)
    for (size_t row = 0; row < LS_COUNT_OF(rows); ++row)
      for (int call = 0; call < 2; ++call) {
        LS_OWN(estimator_case, c) = estimator_case_of(i);
        int64_t num_steps = rows[row].num_steps[call];
        if (c.way == ON_TPU && !rows[row].steps.set &&
            !rows[row].max_steps.set)
          continue;
        c.folder = "reported";
        c.goes_on = call > 0;
        c.repeats = rows[row].steps.set;
        c.save_steps = (ls_opt)LS_SOME(4);
        estimator_case_begin(&c);
        expect_ok(ls_estimator_train(
            c.estimator,
            &(ls_estimator_training){
                .input = estimator_input(&c),
                .steps = rows[row].steps,
                .max_steps = rows[row].max_steps,
                .lines = {.report = check_report, .report_user = &num_steps}},
            NULL));
      }
}

TEST(a_model_without_an_optimizer_has_no_norm_of_gradients) {
  LS_OWN(estimator_case, c) = {.folder = "lines"};
  c.more.model_fn = (ls_model_function){.call = count_steps};
  estimator_case_begin(&c);
  expect_status(train_with(&c, (ls_training_lines){.metrics = true,
                                                   .gradient_norm = true}),
                LS_INVALID_ARGUMENT, "gradient_norm");
}

TEST(events_need_no_lines) {
  LS_OWN(estimator_case, c) = {.folder = "lines", .save_steps = LS_SOME(4)};
  estimator_case_begin(&c);
  expect_ok(train_with(&c, (ls_training_lines){.events = "lines/own"}));
  assert_int_equal(access("lines/own/train", R_OK), 0);
  assert_int_equal(access("lines/metrics.jsonl", R_OK), -1);
}

TEST(a_training_is_as_its_chain_says) {
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    ls_chain_result found = {0};
    (void)train_in(i, "attested",
                   (ls_training_lines){.metrics = true, .attest = true});
    expect_ok(ls_chain_check("attested", NULL, &found));
    assert_int_equal(found.differences, 0);
    assert_int_equal(found.checkpoints, 2);
    FILE *file = fopen("attested/metrics.jsonl", "r+");
    assert_non_null(file);
    assert_true(fputs("[", file) >= 0);
    fclose(file);
    expect_ok(ls_chain_check("attested", NULL, &found));
    assert_int_equal(found.differences, 1);
  }
}

// Also those removed by a later training, which keeps fewer.
TEST(checkpoints_that_are_not_kept_are_missed_by_no_chain) {
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    ls_chain_result found = {0};
    const int64_t keep[] = {3, 1 + i % 2};
    for (int k = 0; k < 2; ++k) {
      LS_OWN(estimator_case, c) = estimator_case_of(i);
      c.folder = "attested";
      c.goes_on = k == 1;
      c.repeats = true;
      c.save_steps = (ls_opt)LS_SOME(2);
      c.config.keep_checkpoint_max = (ls_opt){true, keep[k]};
      estimator_case_begin(&c);
      expect_ok(ls_estimator_train(
          c.estimator,
          &(ls_estimator_training){.input = estimator_input(&c),
                                   .steps = LS_SOME(8),
                                   .lines = {.attest = true}},
          NULL));
      expect_ok(ls_chain_check("attested", NULL, &found));
      assert_int_equal(found.differences, 0);
      assert_int_equal(found.checkpoints, keep[k]);
    }
    // The kept ones are missed.
    assert_int_equal(system("rm attested/model.ckpt-16.*"), 0);
    expect_ok(ls_chain_check("attested", NULL, &found));
    assert_true(found.differences > 0);
  }
}

static ls_status expect_chain(void *user) {
  *(bool *)user = access("attested/chain.jsonl", R_OK) == 0;
  return LS_STATUS(LS_CANCELLED, "the training does not begin");
}

// A program may write its configuration then: killed before, it has the former
// one, which the chain has, too.
TEST(a_chain_has_its_line_before_hooks_begin) {
  bool has_line = false;
  LS_OWN(estimator_case, c) = {.folder = "attested", .save_steps = LS_SOME(4)};
  LS_OWN(ls_hook, hook) = NULL;
  expect_ok(ls_hook_create(&(ls_hook_options){.name = "of the test",
                                              .user = &has_line,
                                              .begin = expect_chain},
                           &hook));
  estimator_case_begin(&c);
  expect_status(
      ls_estimator_train(c.estimator,
                         &(ls_estimator_training){.input = estimator_input(&c),
                                                  .max_steps = LS_SOME(4),
                                                  .hooks = &hook,
                                                  .num_hooks = 1,
                                                  .lines = {.attest = true}},
                         NULL),
      LS_CANCELLED, "does not begin");
  assert_true(has_line);
  // Without a checkpoint there is nothing to go on from.
  expect_ok(train_with(&c, (ls_training_lines){.metrics = true}));
  assert_int_equal(access("attested/chain.jsonl", R_OK), -1);
}

TEST(a_chain_needs_checkpoints) {
  LS_OWN(estimator_case, c) = {.folder = "lines"};
  c.config.save_checkpoints_secs = (ls_opt)LS_SOME(0);
  estimator_case_begin(&c);
  expect_status(train_with(&c, (ls_training_lines){.attest = true}),
                LS_FAILED_PRECONDITION, "itself saves none");
}

// ---- The lowest loss --------------------------------------------------------
// Makes an estimator whose loss grows, which keeps the newest checkpoint.
static void begin_growing(estimator_case *c) {
  c->folder = "grown";
  c->repeats = true;
  c->save_steps = (ls_opt)LS_SOME(2);
  c->config.keep_checkpoint_max = (ls_opt)LS_SOME(1);
  c->more.model_fn = (ls_model_function){.call = count_steps, .user = c};
  estimator_case_begin(c);
}

static void grow_to(estimator_case *c, int64_t steps, ls_hook *hook) {
  expect_ok(ls_estimator_train(
      c->estimator,
      &(ls_estimator_training){.input = estimator_input(c),
                               .max_steps = LS_SOME(steps),
                               .hooks = &hook,
                               .num_hooks = hook != NULL,
                               .lines = {.keep_best_loss = true}},
      NULL));
}

static void expect_grown(bool has_0, bool has_2) {
  assert_int_equal(access("grown/model.ckpt-0.json", R_OK) == 0, has_0);
  assert_int_equal(access("grown/model.ckpt-2.json", R_OK) == 0, has_2);
  assert_int_equal(access("grown/model.ckpt-4.json", R_OK), 0);
}

TEST(a_training_that_goes_on_keeps_the_best_checkpoint) {
  LS_OWN(estimator_case, c) = {0};
  begin_growing(&c);
  grow_to(&c, 2, NULL);
  grow_to(&c, 4, NULL);
  expect_grown(false, true);
  grow_to(&c, 6, NULL);
  assert_int_equal(access("grown/model.ckpt-2.json", R_OK), 0);
}

static ls_status fail_once(void *user, ls_run_context *context,
                           ls_nest results) {
  bool *has_failed = user;
  (void)context, (void)results;
  if (*has_failed) return ls_ok();
  *has_failed = true;
  return LS_STATUS(LS_ABORTED, "the session is lost");
}

TEST(runs_of_a_lost_session_count_for_no_checkpoint) {
  bool has_failed = false;
  LS_OWN(estimator_case, c) = {0};
  LS_OWN(ls_hook, hook) = NULL;
  expect_ok(ls_hook_create(&(ls_hook_options){.name = "of the test",
                                              .user = &has_failed,
                                              .after_run = fail_once},
                           &hook));
  begin_growing(&c);
  grow_to(&c, 4, hook);
  assert_true(has_failed);
  expect_grown(false, true);
}

// ---- Evaluations -----------------------------------------------------------
// Trains and evaluates; keeps one checkpoint more than the newest.
static ls_train_and_evaluation
evaluate_with(estimator_case *c, ls_training_lines lines, ls_eval_spec eval) {
  ls_train_and_evaluation made = {0};
  c->folder = "evaluated";
  c->save_steps = (ls_opt)LS_SOME(2);
  c->config.keep_checkpoint_max = (ls_opt)LS_SOME(1);
  c->repeats = !eval.whole_input;
  estimator_case_begin(c);
  eval.input = estimator_input(c);
  eval.throttle_secs = (ls_opt)LS_SOME(0);
  if (!eval.whole_input) eval.steps = (ls_opt)LS_SOME(2);
  expect_ok(ls_train_and_evaluate(
      c->estimator,
      &(ls_train_spec){.input = estimator_input(c),
                       .max_steps = LS_SOME(eval.whole_input ? 3 : 20),
                       .lines = lines},
      &eval, &made));
  return made;
}

TEST(evaluations_end_a_training_and_keep_the_best_checkpoint) {
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    char path[60];
    // The loss falls, so that the first evaluation has the highest.
    ls_train_and_evaluation made =
        evaluate_with(&c, (ls_training_lines){.metrics = true, .events = ""},
                      (ls_eval_spec){.stop_early = "loss:max", .patience = 2});
    assert_true(made.stopped_early);
    assert_int_equal(made.best_step, 2);
    assert_int_equal(made.training.step, 6);
    snprintf(path, sizeof(path), "evaluated/model.ckpt-%lld.json",
             (long long)made.best_step);
    assert_int_equal(access(path, R_OK), 0);
    assert_int_equal(access("evaluated/model.ckpt-4.json", R_OK), -1);
    assert_int_equal(access("evaluated/events/test", R_OK), 0);
    const file_lines lines = read_lines("evaluated");
    assert_int_equal(count_tests(&lines), 3);
    ls_train_and_evaluation_deinit(&made);
  }
}

// The last batch is shorter than the others, which a training cannot take.
TEST(an_evaluation_may_take_the_whole_input) {
  double losses[2];
  for (int i = 0; i < 2; ++i) {
    LS_OWN(estimator_case, c) = {
        .way = i == 0 ? ON_CPU : ON_TPU, .replicas = 1 + 2 * i, .examples = 90};
    c.more.any_use_batch = true;
    ls_train_and_evaluation made =
        evaluate_with(&c, (ls_training_lines){.keep_best_loss = true},
                      (ls_eval_spec){.whole_input = true});
    assert_int_equal(made.training.step, 3);
    losses[i] = estimator_metric(made.metrics, "loss");
    assert_true(estimator_metric(made.metrics, "accuracy") > 0);
    ls_train_and_evaluation_deinit(&made);
  }
  assert_true(fabs(losses[0] - losses[1]) < 1e-5);
}

static file_lines evaluate_up_to(estimator_case *c, int64_t steps) {
  expect_ok(ls_train_and_evaluate(c->estimator,
                                  &(ls_train_spec){.input = estimator_input(c),
                                                   .max_steps = LS_SOME(steps),
                                                   .lines = {.metrics = true}},
                                  &(ls_eval_spec){.input = estimator_input(c),
                                                  .steps = LS_SOME(1),
                                                  .throttle_secs = LS_SOME(0),
                                                  .keep_best = "loss"},
                                  NULL));
  return read_lines(c->folder);
}

// That of the last step is not made again, since no save of the training that
// goes on would have been due there.
TEST(evaluations_keep_their_lines_when_a_training_goes_on) {
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    c.folder = "evaluated";
    c.iterations = "1";
    c.save_steps = (ls_opt)LS_SOME(2);
    c.repeats = true;
    estimator_case_begin(&c);
    file_lines lines = evaluate_up_to(&c, 3);  // At steps 2 and 3.
    assert_int_equal(count_tests(&lines), 2);
    lines = evaluate_up_to(&c, 4);
    assert_int_equal(count_tests(&lines), 3);
    lines = evaluate_up_to(&c, 5);  // That of step 4 is made again.
    assert_int_equal(count_tests(&lines), 4);
  }
}
