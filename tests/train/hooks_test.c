// SPDX-License-Identifier: Apache-2.0
//
// Ready-made hooks, and what they stand on: steps, timers.
#include "lockstep/graph_ops.h"
#include "lockstep/hook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "distribute/own.h"
#include "support/function.h"
#include "support/monitored_runs.h"

// ---- Steps -----------------------------------------------------------------
TEST(a_graph_has_one_global_step) {
  LS_SPEC("E9");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_variable *step = NULL;
  expect_status(ls_global_step_create(f.graph, &step), LS_FAILED_PRECONDITION,
                "\"global_step\" already exists");
  expect_ok(ls_global_step_get(f.graph, &step));
  assert_ptr_equal(step, f.step);
  LS_OWN(ls_graph, other) = NULL;
  expect_ok(ls_graph_create("other", &other));
  expect_status(ls_global_step_get(other, &step), LS_FAILED_PRECONDITION,
                "Global step should be created");
  {
    LS_GRAPH_SCOPE(other);
    LS_NAME_SCOPE("deep");
    expect_ok(ls_global_step_create(other, &step));
  }
  assert_string_equal(ls_variable_name(step), "global_step");
  assert_int_equal(ls_variable_dtype(step), LS_DTYPE_I64);
  assert_int_equal(ls_variable_shape(step).rank, 0);
  assert_false(ls_variable_is_trainable(step));
  static const char *const in[] = {"variables", "global_step"};
  for (int i = 0; i < 2; ++i) {
    ls_nest leaf = ls_none();
    assert_int_equal(ls_graph_collection(other, in[i], &leaf, 1), 1);
    assert_ptr_equal(ls_nest_as_variable(leaf), step);
  }
}

TEST(an_evaluation_counts_apart) {
  LS_SPEC("E16");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_variable *step = NULL, *again = NULL;
  expect_ok(ls_eval_step_get(f.graph, &step));
  expect_ok(ls_eval_step_get(f.graph, &again));
  assert_ptr_equal(step, again);
  assert_string_equal(ls_variable_name(step), "eval_step");
  assert_int_equal(ls_variable_dtype(step), LS_DTYPE_I64);
  assert_false(ls_variable_is_trainable(step));
  ls_nest leaf = ls_none();
  assert_int_equal(
      ls_graph_collection(f.graph, LS_COLLECTION_LOCAL_VARIABLES, &leaf, 1), 1);
  expect_ok(ls_graph_add_to_collection(f.graph, LS_COLLECTION_EVAL_STEP,
                                       ls_nest_variable(f.weight)));
  ls_variable_release(f.weight);  // The leaf's reference.
  expect_status(ls_eval_step_get(f.graph, &step), LS_FAILED_PRECONDITION,
                "several eval steps");
}

TEST(timers_are_due) {
  LS_SPEC("E184");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_step_timer t;
  expect_status(ls_step_timer_begin(&t, LS_SOME(1), LS_SOME(1)),
                LS_INVALID_ARGUMENT, "one of the two");
  expect_ok(ls_step_timer_begin(&t, LS_SOME(10), (ls_opt){0}));
  assert_int_equal(t.last_step, -1);
  assert_true(ls_step_timer_is_due(&t, 3));
  assert_false(ls_step_timer_done(&t, 3, NULL, NULL));
  assert_false(ls_step_timer_is_due(&t, 3));
  assert_false(ls_step_timer_is_due(&t, 12));
  assert_true(ls_step_timer_is_due(&t, 13));
  double seconds = 0;
  int64_t steps = 0;
  monitored_runs_pass(2.5);
  assert_true(ls_step_timer_done(&t, 13, &seconds, &steps));
  assert_true(seconds == 2.5);
  assert_int_equal(steps, 10);
  assert_int_equal(t.last_step, 13);
  expect_ok(ls_step_timer_begin(&t, (ls_opt){0}, LS_SOME(5)));
  assert_true(ls_step_timer_is_due(&t, 0));
  (void)ls_step_timer_done(&t, 0, NULL, NULL);
  assert_false(ls_step_timer_is_due(&t, 1));
  monitored_runs_pass(5);
  assert_false(ls_step_timer_is_due(&t, 0));  // The same step.
  assert_true(ls_step_timer_is_due(&t, 1));
}

TEST(training_stops_at_a_step) {
  LS_SPEC("E187");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hook = NULL;
  expect_status(ls_stop_at_step_hook((ls_opt){0}, (ls_opt){0}, &hook),
                LS_INVALID_ARGUMENT, "One of");
  expect_status(ls_stop_at_step_hook(LS_SOME(1), LS_SOME(1), &hook),
                LS_INVALID_ARGUMENT, "Only one of");
  expect_ok(ls_stop_at_step_hook(LS_SOME(3), (ls_opt){0}, &hook));
  monitored_runs_open(&f, &hook, 1, NULL);
  assert_int_equal(monitored_runs_all(&f, 10), 3);
  assert_int_equal(monitored_runs_step(&f), 3);
  monitored_runs_close(&f);
  monitored_runs_renew(&f);
  expect_ok(ls_stop_at_step_hook((ls_opt){0}, LS_SOME(5), &hook));
  monitored_runs_open(&f, &hook, 1, NULL);
  assert_int_equal(monitored_runs_all(&f, 10), 5);
}

// ---- Saves -----------------------------------------------------------------
static void folder_of(char *path) {
  strcpy(path, "hooks.XXXXXX");
  assert_non_null(mkdtemp(path));
}

static bool has(const char *folder, const char *file) {
  char path[100];
  snprintf(path, sizeof(path), "%s/%s", folder, file);
  return access(path, R_OK) == 0;
}

typedef struct heard {
  char text[300];
  bool stops;
} heard;

static ls_status hear_begin(void *user) {
  strcat(((heard *)user)->text, "begin ");
  return ls_ok();
}

static ls_status hear_before(void *user, ls_session *session, int64_t step) {
  char *text = ((heard *)user)->text;
  assert_non_null(session);
  sprintf(text + strlen(text), "before %d ", (int)step);
  return ls_ok();
}

static ls_status hear_after(void *user, ls_session *session, int64_t step,
                            bool *out_stop) {
  heard *h = user;
  (void)session;
  sprintf(h->text + strlen(h->text), "after %d ", (int)step);
  *out_stop = h->stops && step >= 4;
  return ls_ok();
}

static ls_status hear_end(void *user, ls_session *session, int64_t step) {
  char *text = ((heard *)user)->text;
  (void)session;
  sprintf(text + strlen(text), "end %d ", (int)step);
  return ls_ok();
}

static ls_save_listener listener_of(heard *h) {
  return (ls_save_listener){h, hear_begin, hear_before, hear_after, hear_end};
}

TEST(a_saver_saves_when_it_is_due) {
  LS_SPEC("E181 E185");
  char folder[20];
  heard h = {.text = ""};
  folder_of(folder);
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hooks[2] = {NULL};
  expect_status(
      ls_saver_hook(&(ls_saver_hook_options){.folder = folder,
                                             .every_steps = LS_SOME(2),
                                             .every_seconds = LS_SOME(2)},
                    &hooks[0]),
      LS_INVALID_ARGUMENT, "one of the two");
  expect_ok(ls_saver_hook(
      &(ls_saver_hook_options){.folder = folder, .every_steps = LS_SOME(2)},
      &hooks[0]));
  expect_ok(ls_stop_at_step_hook((ls_opt){0}, LS_SOME(5), &hooks[1]));
  const ls_save_listener listener = listener_of(&h);
  expect_status(ls_saver_hooks_add_listeners(&hooks[1], 1, &listener, 1),
                LS_INVALID_ARGUMENT, "no saver hook");
  expect_ok(ls_saver_hooks_add_listeners(hooks, 2, &listener, 1));
  monitored_runs_open(&f, hooks, 2, NULL);
  assert_true(has(folder, "graph.ls"));  // Before a run.
  assert_int_equal(monitored_runs_all(&f, 10), 5);
  monitored_runs_close(&f);
  assert_string_equal(h.text, "begin before 0 after 0 before 2 after 2 "
                              "before 4 after 4 before 5 after 5 end 5 ");
  assert_true(has(folder, "graph.ls") && has(folder, "checkpoint"));
  assert_true(has(folder, "model.ckpt-0.json"));
  assert_true(has(folder, "model.ckpt-5.safetensors"));
  // Another session goes on from there, and saves the step it began with.
  monitored_runs_renew(&f);
  h.text[0] = '\0';
  h.stops = true;
  expect_ok(ls_saver_hook(&(ls_saver_hook_options){.folder = folder,
                                                   .every_steps = LS_SOME(3),
                                                   .listeners = &listener,
                                                   .num_listeners = 1},
                          &hooks[0]));
  monitored_runs_open(&f, hooks, 1, folder);
  assert_int_equal(monitored_runs_step(&f), 5);
  assert_int_equal(monitored_runs_all(&f, 10), 0);  // The listener said so.
  monitored_runs_close(&f);
  assert_string_equal(h.text, "begin before 5 after 5 end 5 ");
}

// The steps of a run are bounded by what is left to the next save.
TEST(a_save_may_be_as_far_away_as_numbers_go) {
  char folder[20];
  folder_of(folder);
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  for (int again = 0; again < 2; ++again) {
    ls_hook *hooks[2] = {NULL};
    expect_ok(ls_saver_hook(
        &(ls_saver_hook_options){.folder = folder,
                                 .every_steps = LS_SOME(INT64_MAX)},
        &hooks[0]));
    expect_ok(ls_stop_at_step_hook(LS_SOME(3), (ls_opt){0}, &hooks[1]));
    monitored_runs_open(&f, hooks, 2, folder);
    assert_int_equal(monitored_runs_all(&f, 10), 3);
    monitored_runs_close(&f);
    assert_true(has(folder, again ? "model.ckpt-6.json" : "model.ckpt-3.json"));
    if (!again) monitored_runs_renew(&f);
  }
}

static ls_status fail_once(void *user, ls_run_context *context,
                           ls_run_wish *wish) {
  int *left = user;
  (void)context, (void)wish;
  return --*left == 0 ? LS_STATUS(LS_UNAVAILABLE, "a host is gone") : ls_ok();
}

TEST(a_lost_session_goes_on_from_the_checkpoint) {
  LS_SPEC("E183 E185");
  char folder[20];
  int left = 5;
  folder_of(folder);
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hooks[3] = {NULL};
  expect_ok(ls_saver_hook(
      &(ls_saver_hook_options){.folder = folder, .every_steps = LS_SOME(2)},
      &hooks[0]));
  expect_ok(ls_stop_at_step_hook(LS_SOME(7), (ls_opt){0}, &hooks[1]));
  expect_ok(ls_hook_create(
      &(ls_hook_options){.user = &left, .before_run = fail_once}, &hooks[2]));
  monitored_runs_open(&f, hooks, 3, folder);
  for (int i = 0; i < 4; ++i)
    expect_ok(monitored_runs_try(&f));
  assert_int_equal(monitored_runs_step(&f), 4);
  expect_ok(monitored_runs_try(&f));  // In a new session, from step 4.
  assert_int_equal(monitored_runs_step(&f), 5);
  assert_int_equal(monitored_runs_all(&f, 10), 2);
}

// Says once why a run has failed that another hook has made fail.
static ls_status know_better(void *user, ls_status status) {
  bool *knows = user;
  if (!*knows) return status;
  *knows = false;
  ls_status_free(status);
  return LS_STATUS(LS_UNAVAILABLE, "it will be well again");
}

static ls_status fail_badly(void *user, ls_run_context *context,
                            ls_nest results) {
  int *left = user;
  (void)context, (void)results;
  return (*left)-- > 0 ? LS_STATUS(LS_DATA_LOSS, "a bad run") : ls_ok();
}

TEST(a_hook_may_know_why_a_run_has_failed) {
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hooks[2] = {NULL};
  bool knows = true;
  int left = 1;
  expect_ok(ls_hook_create(
      &(ls_hook_options){.user = &left, .after_run = fail_badly}, &hooks[0]));
  expect_ok(ls_hook_create(
      &(ls_hook_options){.user = &knows, .run_failed = know_better},
      &hooks[1]));
  monitored_runs_open(&f, hooks, 2, NULL);
  expect_ok(monitored_runs_try(&f));  // In a new session.
  expect_contains(monitored_runs_log(), "it will be well again");
  assert_false(knows);
  left = 1;
  expect_status(monitored_runs_try(&f), LS_DATA_LOSS, "a bad run");
}

// ---- Telling ---------------------------------------------------------------
TEST(steps_a_second_are_told) {
  LS_SPEC("E186");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hook = NULL;
  expect_ok(ls_counter_hook(
      &(ls_counter_hook_options){.every_steps = LS_SOME(2), .batch_size = 16},
      &hook));
  monitored_runs_open(&f, &hook, 1, NULL);
  (void)monitored_runs_log();
  for (int i = 0; i < 2; ++i) {
    monitored_runs_pass(0.5);
    expect_ok(monitored_runs_try(&f));
  }
  assert_string_equal(monitored_runs_log(), "");  // The first says nothing.
  monitored_runs_pass(0.5);
  expect_ok(monitored_runs_try(&f));
  assert_string_equal(monitored_runs_log(),
                      "global_step/sec: 2\nexamples/sec: 32\n");
  // A step that does not grow is warned of, five times.
  for (int i = 0; i < 9; ++i)
    expect_ok(ls_monitored_session_run(f.session, ls_leaf(f.loss), NULL, 0,
                                       &f.results));
  const char *log = monitored_runs_log();
  int warnings = 0;
  for (const char *at = log; (at = strstr(at, "has not grown")) != NULL; ++at)
    ++warnings;
  assert_int_equal(warnings, 5);
}

TEST(values_are_logged) {
  LS_SPEC("E186");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hook = NULL;
  ls_tensor read;
  {
    LS_GRAPH_SCOPE(f.graph);
    read = ls_variable_read(f.weight);
  }
  const char *const names[] = {"loss", "a"};
  const ls_tensor values[] = {f.loss, read};
  ls_log_hook_options o = {.names = names, .values = values, .num_values = 2};
  expect_status(ls_log_hook(&o, &hook), LS_INVALID_ARGUMENT, "set an interval");
  o.every_steps = LS_SOME(2);
  o.every_seconds = LS_SOME(2);
  expect_status(ls_log_hook(&o, &hook), LS_INVALID_ARGUMENT, "one of the two");
  o.every_seconds = (ls_opt){0};
  o.at_end = true;
  expect_ok(ls_log_hook(&o, &hook));
  monitored_runs_open(&f, &hook, 1, NULL);
  (void)monitored_runs_log();
  expect_ok(monitored_runs_try(&f));
  expect_contains(monitored_runs_log(), ", loss = 1\n");  // Sorted: "a = ...".
  expect_ok(monitored_runs_try(&f));
  assert_string_equal(monitored_runs_log(), "");
  monitored_runs_pass(3);
  expect_ok(monitored_runs_try(&f));
  expect_contains(monitored_runs_log(), "(3.000 sec)");
  monitored_runs_close(&f);
  expect_contains(monitored_runs_log(), "a = 11, loss = 0.25");
}

// What the caller of a run gets is found by its names, as of a function.
TEST(what_the_caller_fetches_has_names) {
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hooks[2] = {NULL};
  const char *const names[] = {"rate"};
  expect_ok(ls_log_hook(&(ls_log_hook_options){.names = names,
                                               .num_values = 1,
                                               .every_steps = LS_SOME(1)},
                        &hooks[0]));
  expect_ok(ls_nan_hook_named("rate", LS_FLAG_DEFAULT, &hooks[1]));
  monitored_runs_open(&f, hooks, 2, NULL);
  (void)monitored_runs_log();
  const ls_nest fetches =
      ls_nest_dict("", names, (const ls_nest[]){ls_leaf(f.loss)}, 1);
  expect_ok(ls_monitored_session_run(f.session, fetches, NULL, 0, &f.results));
  expect_contains(monitored_runs_log(), "rate = 1\n");
  expect_status(monitored_runs_try(&f), LS_NOT_FOUND, "\"rate\"");
  ls_nest_release(fetches);
  expect_ok(monitored_runs_try_close(&f, ls_ok()));
}

static void count_record(void *user, const ls_summary_record *record) {
  int64_t *steps = user;
  assert_string_equal(record->tag, "loss");
  steps[++steps[0]] = record->step;
}

TEST(summaries_are_recorded_when_due) {
  LS_SPEC("E186");
  int64_t steps[20] = {0};
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_OWN(ls_summary_writer, writer) = NULL;
  ls_op op;
  expect_ok(ls_summary_writer_create(count_record, steps, &writer));
  {
    LS_GRAPH_SCOPE(f.graph);
    LS_SUMMARY_SCOPE(writer);
    op = ls_summary("loss", f.loss);
  }
  assert_int_equal(
      ls_graph_collection(f.graph, LS_COLLECTION_SUMMARIES, NULL, 0), 1);
  ls_hook *hook = NULL;
  ls_summary_hook_options o = {.ops = &op, .num_ops = 1, .writer = writer};
  expect_status(ls_summary_hook(&o, &hook), LS_INVALID_ARGUMENT,
                "set an interval");
  o.every_steps = LS_SOME(3);
  expect_ok(ls_summary_hook(&o, &hook));
  monitored_runs_open(&f, &hook, 1, NULL);
  for (int i = 0; i < 8; ++i)
    expect_ok(monitored_runs_try(&f));
  assert_int_equal(steps[0], 3);  // The first run, and each third.
  assert_int_equal(steps[1], 1);
  assert_int_equal(steps[2], 4);
  assert_int_equal(steps[3], 7);
  ls_summary_writer_set_every(writer, 4);  // Of steps 10, 13 and 16 the last.
  for (int i = 0; i < 8; ++i)
    expect_ok(monitored_runs_try(&f));
  assert_int_equal(steps[0], 4);
  assert_int_equal(steps[4], 16);
  monitored_runs_close(&f);
}

TEST(a_loss_that_is_no_number_ends_the_training) {
  LS_SPEC("E187");
  for (int fails = 0; fails < 2; ++fails) {
    LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
    LS_OWN(ls_array, nan) = NULL;
    expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SCALAR,
                                   (float[]){0.0f / 0.0f}, &nan));
    ls_hook *hook = NULL;
    expect_ok(
        ls_nan_hook(f.input, fails ? LS_FLAG_DEFAULT : LS_FLAG_OFF, &hook));
    monitored_runs_open(&f, &hook, 1, NULL);
    const ls_feed feed = {f.input, nan};
    const ls_status status = ls_monitored_session_run(
        f.session, ls_nest_op(f.train), &feed, 1, &f.results);
    if (fails) {
      expect_status(monitored_runs_try_close(&f, status),
                    LS_FAILED_PRECONDITION, "NaN loss during training");
    } else {
      expect_ok(status);
      expect_contains(monitored_runs_log(), "NaN loss during training");
      assert_true(ls_monitored_session_should_stop(f.session));
      monitored_runs_close(&f);
    }
  }
}

static ls_status feed_three(void *user, ls_feed *feeds, size_t capacity,
                            size_t *out_count) {
  assert_true(capacity >= 1);
  feeds[0] = *(const ls_feed *)user;
  *out_count = 1;
  return ls_ok();
}

TEST(what_is_fed_and_what_is_run_at_the_end) {
  LS_SPEC("E187");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_OWN(ls_array, three) = NULL;
  expect_ok(
      ls_array_create_copy(LS_DTYPE_F32, LS_SCALAR, (float[]){3}, &three));
  ls_feed feed = {f.input, three};
  LS_OWN(ls_nest, last) = ls_none();
  ls_hook *hooks[2] = {NULL};
  expect_ok(ls_feed_hook(feed_three, &feed, &hooks[0]));
  expect_ok(ls_final_ops_hook(ls_leaf(f.loss), NULL, 0, &last, &hooks[1]));
  monitored_runs_open(&f, hooks, 2, NULL);
  expect_ok(ls_monitored_session_run(f.session, ls_leaf(f.input), NULL, 0,
                                     &f.results));
  assert_true(ls_array_f64(ls_nest_as_array(f.results), 0) == 3);
  for (int i = 0; i < 3; ++i)
    expect_ok(monitored_runs_try(&f));
  monitored_runs_close(&f);
  assert_true(ls_array_f64(ls_nest_as_array(last), 0) == 0.25);
}

typedef struct mover {
  ls_session *session;
  monitored_runs *runs;
} mover;

static void move(void *user) {
  const mover *m = user;
  LS_OWN(ls_nest, nothing) =
      session_results(m->session, ls_nest_op(m->runs->train));
}

// Whenever who waits looks again, another step has been made.
TEST(who_comes_later_waits) {
  LS_SPEC("E187");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hook = NULL;
  expect_ok(ls_wait_for_step_hook(3, &hook));
  monitored_runs_open(&f, &hook, 1, NULL);
  mover m = {ls_monitored_session_now(f.session), &f};
  monitored_runs_on_sleep(move, &m);
  expect_ok(monitored_runs_try(&f));
  assert_int_equal(monitored_runs_step(&f), 4);
  assert_true(monitored_runs_now() == 1.5);  // Three looks.
  monitored_runs_on_sleep(NULL, NULL);
  expect_ok(monitored_runs_try(&f));
}

static ls_status feed_too_many(void *user, ls_feed *feeds, size_t capacity,
                               size_t *out_count) {
  (void)user;
  (void)feeds;
  *out_count = capacity + 1;
  return ls_ok();
}

TEST(what_a_hook_cannot_do_is_refused) {
  ls_hook *hook = NULL;
  expect_status(ls_profiler_hook("here", (ls_opt){0}, (ls_opt){0}, &hook),
                LS_INVALID_ARGUMENT, "set an interval");
  assert_null(hook);
  expect_status(ls_profiler_hook("here", LS_SOME(1), LS_SOME(1), &hook),
                LS_INVALID_ARGUMENT, "one of the two");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  expect_ok(ls_feed_hook(feed_too_many, NULL, &hook));
  monitored_runs_open(&f, &hook, 1, NULL);
  const ls_status status = monitored_runs_try(&f);
  expect_status(monitored_runs_try_close(&f, status), LS_INVALID_ARGUMENT,
                "65 feeds were written, of at most 64");
  f.session = NULL;
  ls_hook *const none[] = {NULL};
  expect_status(ls_monitored_session_create(
                    &(ls_monitored_options){
                        .graph = f.graph, .hooks = none, .num_hooks = 1},
                    &f.session),
                LS_INVALID_ARGUMENT, "hooks[0] is NULL");
  expect_status(ls_saver_hooks_add_listeners(none, 1, NULL, 0),
                LS_INVALID_ARGUMENT, "hooks[0] is NULL");
}

static int lost;
static void count_lost(void *user) {
  (void)user;
  ++lost;
}

TEST(the_last_session_goes_as_lost_ones_do) {
  for (int fails = 0; fails < 2; ++fails) {
    ls_hook *hook = NULL;
    LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
    lost = 0;
    expect_ok(
        ls_hook_create(&(ls_hook_options){.session_lost = count_lost}, &hook));
    monitored_runs_open(&f, &hook, 1, NULL);
    expect_ok(monitored_runs_try(&f));
    assert_int_equal(lost, 0);
    const ls_status how = fails ? LS_STATUS(LS_INTERNAL, "no") : ls_ok();
    const ls_status status = monitored_runs_try_close(&f, how);
    assert_int_equal(ls_status_is_ok(status), !fails);
    ls_status_free(status);
    f.session = NULL;
    assert_int_equal(lost, 1);
  }
}

TEST(a_run_is_traced_when_due) {
  LS_SPEC("E187");
  char folder[20];
  folder_of(folder);
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hook = NULL;
  expect_ok(ls_profiler_hook(folder, LS_SOME(3), (ls_opt){0}, &hook));
  monitored_runs_open(&f, &hook, 1, NULL);
  for (int i = 0; i < 5; ++i)
    expect_ok(monitored_runs_try(&f));
  monitored_runs_close(&f);
  assert_true(has(folder, "timeline-1.json"));
  assert_false(has(folder, "timeline-2.json"));
  assert_false(has(folder, "timeline-3.json"));
  assert_true(has(folder, "timeline-4.json"));
  assert_false(has(folder, "timeline-5.json"));
}

// Runs twenty steps without a clock's second, with a checkpoint of the last.
static void run_to_step_20(monitored_runs *f, const char *folder) {
  ls_hook *hook = NULL;
  expect_ok(ls_saver_hook(
      &(ls_saver_hook_options){.folder = folder, .every_steps = LS_SOME(20)},
      &hook));
  monitored_runs_renew(f);
  monitored_runs_open(f, &hook, 1, NULL);
  for (int i = 0; i < 20; ++i)
    expect_ok(monitored_runs_try(f));
  monitored_runs_close(f);
}

// A counter and a profiler of another training, which has made more steps, or
// fewer than that with which this one begins.
TEST(hooks_begin_again_with_another_training) {
  LS_SPEC("E186 E187");
  char folder[20], other[20];
  folder_of(folder);
  folder_of(other);
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hooks[2] = {NULL};
  expect_ok(ls_counter_hook(
      &(ls_counter_hook_options){.every_steps = LS_SOME(2)}, &hooks[0]));
  expect_ok(ls_profiler_hook(folder, LS_SOME(3), (ls_opt){0}, &hooks[1]));
  for (int training = 0; training < 3; ++training) {
    char command[60], name[40];
    const int begin = training == 2 ? 20 : 0;
    if (training == 2) run_to_step_20(&f, other);
    if (training > 0) monitored_runs_renew(&f);
    for (int i = 0; training < 2 && i < 2; ++i)
      ls_hook_retain(hooks[i]);
    monitored_runs_open(&f, hooks, 2, training == 2 ? other : NULL);
    (void)monitored_runs_log();
    for (int i = 0; i < 5; ++i) {
      monitored_runs_pass(0.5);
      expect_ok(monitored_runs_try(&f));
    }
    assert_string_equal(monitored_runs_log(),
                        "global_step/sec: 2\nglobal_step/sec: 2\n");
    monitored_runs_close(&f);
    for (int i = 0; i < 2; ++i) {
      snprintf(name, sizeof(name), "timeline-%d.json", begin + 1 + 3 * i);
      assert_true(has(folder, name));
    }
    snprintf(command, sizeof(command), "rm %s/*", folder);
    assert_int_equal(system(command), 0);
  }
}

// Where hooks read the step before a run's op adds to it.
TEST(a_step_that_was_read_too_early_is_read_again) {
  LS_SPEC("E185 E186 E187");
  char folder[20];
  folder_of(folder);
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hooks[3] = {NULL};
  expect_ok(ls_stop_at_step_hook(LS_SOME(3), (ls_opt){0}, &hooks[0]));
  hooks[1] = monitored_runs_late(&f, 1);
  monitored_runs_open(&f, hooks, 2, NULL);
  for (int run = 1; run <= 3; ++run) {
    assert_false(ls_monitored_session_should_stop(f.session));
    expect_ok(monitored_runs_try_late(&f));
  }
  assert_true(ls_monitored_session_should_stop(f.session));
  monitored_runs_close(&f);
  // Runs of 4 steps: what is due at the end of one is done there.
  monitored_runs_renew(&f);
  expect_ok(ls_saver_hook(&(ls_saver_hook_options){.folder = folder,
                                                   .every_steps = LS_SOME(4),
                                                   .steps_per_run = LS_SOME(4)},
                          &hooks[0]));
  expect_ok(
      ls_counter_hook(&(ls_counter_hook_options){.every_steps = LS_SOME(4),
                                                 .steps_per_run = LS_SOME(4)},
                      &hooks[1]));
  hooks[2] = monitored_runs_late(&f, 4);
  monitored_runs_open(&f, hooks, 3, NULL);
  (void)monitored_runs_log();
  for (int run = 1; run <= 3; ++run) {
    monitored_runs_pass(2);
    expect_ok(monitored_runs_try_late(&f));
    const char *log = monitored_runs_log();
    if (run > 1) expect_contains(log, "global_step/sec: 2\n");
  }
  monitored_runs_close(&f);
  assert_true(has(folder, "model.ckpt-4.safetensors"));
  assert_true(has(folder, "model.ckpt-8.safetensors"));
}
