// SPDX-License-Identifier: Apache-2.0
//
// Trainings that end when their evaluations say so.
#define _GNU_SOURCE
#include "lockstep/early_stopping.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/own.h"
#include "lockstep/events.h"
#include "lockstep/graph_ops.h"
#include "support/fault.h"
#include "support/monitored_runs.h"
#include "support/values.h"
#include "train/hooks/hook.h"

// ---- Evaluations -----------------------------------------------------------
typedef struct evaluation {
  int64_t step;  // 0 behind the last.
  double value;
} evaluation;

static void folder_of(char *path) {
  strcpy(path, "XXXXXX");
  assert_non_null(mkdtemp(path));
}

static void write_events(const char *folder, const char *tag,
                         const evaluation *rows, int count) {
  ls_event_writer *writer = NULL;
  expect_ok(ls_event_writer_open(
      &(ls_event_writer_options){.folder = folder, .first_step = INT64_MAX},
      &writer));
  for (int i = 0; i < count && rows[i].step > 0; ++i)
    expect_ok(ls_event_writer_scalar(writer, tag, rows[i].step, rows[i].value));
  expect_ok(ls_event_writer_close(writer));
}

static ls_hook *hook_of(ls_early_stopping_options options) {
  ls_hook *hook = NULL;
  expect_ok(ls_early_stopping_hook(&options, &hook));
  assert_non_null(hook);
  return hook;
}

// Whether a training of one run is stopped by what the folder says.
static bool stops(ls_early_stopping_options options) {
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hook = hook_of(options);
  monitored_runs_open(&f, &hook, 1, NULL);
  expect_ok(monitored_runs_try(&f));
  return ls_monitored_session_should_stop(f.session);
}

// ---- Rules -----------------------------------------------------------------
enum { MOST_ROWS = 6 };

TEST(rules_look_at_what_evaluations_have_written) {
  LS_SPEC("E205");
  static const struct {
    const char *what;
    ls_stop_rule rule;
    double threshold;
    int64_t max_steps, min_steps;
    evaluation rows[MOST_ROWS];
    bool stops;
  } cases[] = {
      {"higher", LS_STOP_IF_HIGHER, 0.8, 0, 0, {{10, 0.5}, {20, 0.81}}, true},
      {"strictly higher", LS_STOP_IF_HIGHER, 0.8, 0, 0, {{10, 0.8}}, false},
      {"not yet", LS_STOP_IF_HIGHER, 0.8, 0, 21, {{20, 0.9}}, false},
      {"from min_steps on", LS_STOP_IF_HIGHER, 0.8, 0, 20, {{20, 0.9}}, true},
      {"once is enough",
       LS_STOP_IF_HIGHER,
       0.8,
       0,
       0,
       {{10, 0.9}, {20, 0.1}},
       true},
      {"lower", LS_STOP_IF_LOWER, -1, 0, 0, {{10, 5}, {20, -1.5}}, true},
      {"strictly lower", LS_STOP_IF_LOWER, -1, 0, 0, {{10, -1}}, false},
      {"no number is not lower", LS_STOP_IF_LOWER, 1, 0, 0, {{10, NAN}}, false},
      {"no increase",
       LS_STOP_IF_NO_INCREASE,
       0,
       20,
       0,
       {{10, 0.5}, {20, 0.5}, {30, 0.4}},
       true},
      {"a late increase",
       LS_STOP_IF_NO_INCREASE,
       0,
       20,
       0,
       {{10, 0.5}, {29, 0.6}, {48, 0.2}},
       false},
      {"no increase within fewer steps",
       LS_STOP_IF_NO_INCREASE,
       0,
       21,
       0,
       {{10, 0.5}, {30, 0.4}},
       false},
      {"no decrease",
       LS_STOP_IF_NO_DECREASE,
       0,
       20,
       0,
       {{10, 1}, {20, 0.5}, {30, 0.75}, {40, 0.5}},
       true},
      {"a decrease",
       LS_STOP_IF_NO_DECREASE,
       0,
       20,
       0,
       {{10, 1}, {20, 0.5}, {30, 0.75}, {39, 0.25}},
       false},
      {"what was before min_steps",
       LS_STOP_IF_NO_DECREASE,
       0,
       20,
       15,
       {{1, 0.1}, {20, 0.5}, {30, 0.75}},
       false},
      {"standing still behind min_steps",
       LS_STOP_IF_NO_DECREASE,
       0,
       20,
       15,
       {{1, 0.1}, {20, 0.5}, {40, 0.5}},
       true},
      {"any number is better than none",
       LS_STOP_IF_NO_DECREASE,
       0,
       20,
       0,
       {{10, NAN}, {20, 5}, {30, 6}},
       false},
      {"nothing was written", LS_STOP_IF_NO_DECREASE, 0, 1, 0, {{0, 0}}, false},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    char folder[8];
    folder_of(folder);
    write_events(folder, "score", cases[i].rows, MOST_ROWS);
    const bool stopped =
        stops((ls_early_stopping_options){.rule = cases[i].rule,
                                          .metric = "score",
                                          .threshold = cases[i].threshold,
                                          .max_steps = cases[i].max_steps,
                                          .min_steps = cases[i].min_steps,
                                          .folder = folder});
    if (stopped != cases[i].stops) print_error("%s\n", cases[i].what);
    assert_int_equal(stopped, cases[i].stops);
  }
}

static ls_run_config *config_of(const char *model_dir) {
  ls_run_config *config = NULL;
  expect_ok(ls_run_config_create(
      &(ls_run_config_options){.model_dir = model_dir}, &config));
  return config;
}

TEST(evaluations_are_found_in_the_models_folder) {
  LS_SPEC("E205");
  static const evaluation high = {10, 1};
  char folder[8], eval[40];
  ls_run_config *config = NULL;
  for (int named = 0; named < 2; ++named) {
    folder_of(folder);
    config = config_of(folder);
    ls_early_stopping_options options = {.config = config,
                                         .rule = LS_STOP_IF_HIGHER,
                                         .metric = "score",
                                         .evaluation = named ? "test" : NULL};
    assert_false(stops(options));
    snprintf(eval, sizeof(eval), "%s/eval%s", folder, named ? "" : "_test");
    write_events(eval, "score", &high, 1);  // Of the other one.
    assert_false(stops(options));
    snprintf(eval, sizeof(eval), "%s/eval%s", folder, named ? "_test" : "");
    write_events(eval, "score", &high, 1);
    assert_true(stops(options));
    ls_run_config_release(config);
  }
}

TEST(a_metric_that_is_never_written_is_told) {
  static const evaluation high = {10, 1};
  char folder[8];
  folder_of(folder);
  write_events(folder, "score", &high, 1);
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hook =
      hook_of((ls_early_stopping_options){.rule = LS_STOP_IF_HIGHER,
                                          .metric = "scores",
                                          .folder = folder,
                                          .run_every_steps = LS_SOME(1)});
  monitored_runs_open(&f, &hook, 1, NULL);
  (void)monitored_runs_log();
  assert_int_equal(monitored_runs_all(&f, 3), 3);
  const char *log = monitored_runs_log();
  const char *line = strstr(log, "there is no metric 'scores' in '");
  assert_non_null(line);
  expect_contains(line, "step 10 has score\n");
  assert_null(strstr(line + 1, "there is no metric"));  // Once.
}

TEST(a_damaged_file_counts_up_to_its_damage) {
  LS_SPEC("E205");
  static const evaluation rows[] = {{10, 0.25}, {20, 0.9}};
  for (int damaged = 0; damaged < 2; ++damaged) {
    char folder[8], command[200];
    folder_of(folder);
    write_events(folder, "score", rows, 2);
    if (damaged) {
      // The last byte of the last record's checksum.
      snprintf(command, sizeof(command),
               "for f in %s/*; do truncate -s -1 $f; done", folder);
      assert_int_equal(system(command), 0);
    }
    assert_int_equal(
        stops((ls_early_stopping_options){.rule = LS_STOP_IF_HIGHER,
                                          .metric = "score",
                                          .threshold = 0.8,
                                          .folder = folder}),
        !damaged);
  }
}

// ---- The hook --------------------------------------------------------------
typedef struct judge {
  int asked;
  int stops_at;  // The so-manieth question; 0: never.
  bool fails;
} judge;

static ls_status should_stop(void *user, bool *out_stop) {
  judge *self = user;
  *out_stop = ++self->asked == self->stops_at;
  return self->fails ? ls_invalid_argument("cannot judge") : ls_ok();
}

static bool stop_value(monitored_runs *f) {
  ls_variable *stop = NULL;
  ls_nest leaves[8];
  const size_t count =
      ls_graph_collection(f->graph, LS_COLLECTION_LOCAL_VARIABLES, leaves, 8);
  for (size_t i = 0; i < count; ++i)
    if (strcmp(ls_variable_name(ls_nest_as_variable(leaves[i])),
               "signal_early_stopping/STOP") == 0)
      stop = ls_nest_as_variable(leaves[i]);
  assert_non_null(stop);
  assert_int_equal(ls_variable_dtype(stop), LS_DTYPE_BOOL);
  assert_int_equal(ls_variable_shape(stop).rank, 0);
  assert_false(ls_variable_is_trainable(stop));
  LS_OWN(ls_array, value) =
      session_array(ls_monitored_session_now(f->session), stop);
  return ls_array_f64(value, 0) != 0;
}

TEST(the_chief_asks_each_minute_and_stops_all) {
  LS_SPEC("E205");
  judge j = {.stops_at = 3};
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hook = hook_of(
      (ls_early_stopping_options){.should_stop = should_stop, .user = &j});
  monitored_runs_open(&f, &hook, 1, NULL);
  assert_int_equal(monitored_runs_all(&f, 5), 5);
  assert_int_equal(j.asked, 1);  // The first time,
  monitored_runs_pass(59.5);
  assert_int_equal(monitored_runs_all(&f, 1), 1);
  assert_int_equal(j.asked, 1);
  monitored_runs_pass(0.5);
  assert_int_equal(monitored_runs_all(&f, 3), 3);
  assert_int_equal(j.asked, 2);  // and then each 60 seconds.
  assert_false(stop_value(&f));
  monitored_runs_pass(60);
  assert_int_equal(monitored_runs_all(&f, 3), 1);
  assert_int_equal(j.asked, 3);
  assert_true(stop_value(&f));
  expect_contains(monitored_runs_log(), "requesting early stopping at global");
}

TEST(the_chief_can_ask_by_steps) {
  LS_SPEC("E205");
  judge j = {.stops_at = 0};
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_hook *hook = hook_of((ls_early_stopping_options){
      .should_stop = should_stop, .user = &j, .run_every_steps = LS_SOME(4)});
  monitored_runs_open(&f, &hook, 1, NULL);
  monitored_runs_pass(1000);
  assert_int_equal(monitored_runs_all(&f, 12), 12);
  assert_int_equal(j.asked, 3);
  j.fails = true;
  ls_status status = ls_ok();
  for (int i = 0; i < 5 && ls_status_is_ok(status); ++i)
    status = monitored_runs_try(&f);
  expect_status(status, LS_INVALID_ARGUMENT, "cannot judge");
}

static ls_run_config *config_of_worker(void) {
  setenv("TF_CONFIG",
         "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\"]},"
         " \"task\": {\"type\": \"worker\", \"index\": 0}}",
         1);
  ls_run_config *config = config_of("unused");
  unsetenv("TF_CONFIG");
  assert_false(ls_run_config_values(config)->is_chief);
  return config;
}

static ls_status set_stop(void *user, ls_run_context *context,
                          ls_nest results) {
  monitored_runs *f = user;
  ls_nest leaves[8];
  (void)results;
  const size_t count =
      ls_graph_collection(f->graph, LS_COLLECTION_LOCAL_VARIABLES, leaves, 8);
  const bool yes = monitored_runs_step(f) >= 3;
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_BOOL, LS_SCALAR, &yes, &array));
  for (size_t i = 0; i < count; ++i) {
    ls_variable *variable = ls_nest_as_variable(leaves[i]);
    if (strcmp(ls_variable_name(variable), LS_STOP_VARIABLE) == 0)
      expect_ok(ls_session_set_variable_value(ls_run_context_session(context),
                                              variable, array));
  }
  return ls_ok();
}

TEST(others_stop_when_the_variable_says_so) {
  LS_SPEC("E205");
  judge j = {.stops_at = 1};
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_OWN(ls_run_config, config) = config_of_worker();
  ls_hook *hooks[2] = {NULL};
  hooks[0] = hook_of((ls_early_stopping_options){
      .config = config, .should_stop = should_stop, .user = &j});
  // In place of the chief.
  expect_ok(ls_hook_create(
      &(ls_hook_options){.user = &f, .after_run = set_stop}, &hooks[1]));
  monitored_runs_open(&f, hooks, 2, NULL);
  assert_int_equal(monitored_runs_all(&f, 10), 4);
  assert_int_equal(j.asked, 0);
  expect_contains(monitored_runs_log(), "early stopping requested");
}

TEST(a_stop_is_not_that_of_the_next_training) {
  char folder[8];
  folder_of(folder);
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  for (int again = 0; again < 2; ++again) {
    judge j = {.stops_at = again ? 0 : 1};
    ls_hook *hooks[2] = {NULL};
    hooks[0] = hook_of(
        (ls_early_stopping_options){.should_stop = should_stop, .user = &j});
    expect_ok(ls_saver_hook(
        &(ls_saver_hook_options){.folder = folder, .every_steps = LS_SOME(100)},
        &hooks[1]));
    monitored_runs_open(&f, hooks, 2, folder);
    assert_int_equal(monitored_runs_all(&f, 3), again ? 3 : 1);
    assert_int_equal(stop_value(&f), !again);
    assert_int_equal(monitored_runs_step(&f), again ? 4 : 1);
    monitored_runs_close(&f);
    if (!again) monitored_runs_renew(&f);
  }
}

static ls_status begin_twice(void *user) {
  ls_hook *hooks[2] = {NULL};
  LS_OWN(ls_graph, graph) = NULL;
  LS_RETURN_IF_ERROR(ls_graph_create("twice", &graph));
  ls_status status = ls_ok();
  {
    LS_GRAPH_SCOPE(graph);
    for (int i = 0; i < 2 && ls_status_is_ok(status); ++i) {
      status = ls_early_stopping_hook(
          &(ls_early_stopping_options){.should_stop = should_stop,
                                       .user = user},
          &hooks[i]);
      if (ls_status_is_ok(status))
        status = hooks[i]->type->begin(hooks[i]->state);
    }
    // A second one would have another name.
    const size_t stops =
        ls_graph_collection(graph, LS_COLLECTION_LOCAL_VARIABLES, NULL, 0);
    assert_true(stops == 1 || (stops == 0 && !ls_status_is_ok(status)));
  }
  ls_hook_release(hooks[0]);
  ls_hook_release(hooks[1]);
  return status;
}

TEST(hooks_share_one_variable_also_where_memory_fails) {
  judge j = {0};
  REFUSE_EACH(begin_twice, &j);
}

// ---- What is refused -------------------------------------------------------
TEST(options_are_checked) {
  LS_SPEC("E205");
  judge j = {0};
  const struct {
    ls_early_stopping_options options;
    const char *says;
  } rows[] = {
      {{.should_stop = should_stop,
        .user = &j,
        .run_every_secs = LS_SOME(60),
        .run_every_steps = LS_SOME(10)},
       "only one of run_every_secs, 60, and run_every_steps, 10"},
      {{.should_stop = should_stop, .run_every_secs = LS_SOME(0)},
       "run_every_secs is 0"},
      {{.should_stop = should_stop, .run_every_steps = LS_SOME(-1)},
       "run_every_steps is -1"},
      {{.metric = "loss"}, "neither should_stop nor a rule"},
      {{.should_stop = should_stop, .metric = "loss"},
       "together with should_stop"},
      {{.rule = LS_STOP_IF_LOWER, .metric = "loss", .should_stop = should_stop},
       "should_stop is given together"},
      {{.rule = LS_STOP_IF_LOWER, .folder = "x"}, "the metric is not given"},
      {{.rule = LS_STOP_IF_LOWER,
        .metric = "loss",
        .folder = "x",
        .threshold = NAN},
       "the threshold is no number"},
      {{.rule = LS_STOP_IF_LOWER,
        .metric = "loss",
        .folder = "x",
        .max_steps = 5},
       "max_steps is 5, and the rule has a threshold"},
      {{.rule = LS_STOP_IF_NO_DECREASE, .metric = "loss", .folder = "x"},
       "max_steps is 0"},
      {{.rule = LS_STOP_IF_NO_DECREASE,
        .metric = "loss",
        .folder = "x",
        .max_steps = 5,
        .threshold = 1},
       "the threshold is 1, but the rule has none"},
      {{.rule = LS_STOP_IF_LOWER,
        .metric = "loss",
        .folder = "x",
        .min_steps = -1},
       "min_steps is -1"},
      {{.rule = LS_STOP_IF_LOWER,
        .metric = "loss",
        .folder = "x",
        .evaluation = "y"},
       "both a folder, 'x', and an evaluation, 'y'"},
      {{.rule = LS_STOP_IF_LOWER, .metric = "loss"},
       "neither a folder of evaluations nor a configuration"},
      {{.rule = (ls_stop_rule)7, .metric = "loss", .folder = "x"},
       "there is no rule 7"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    ls_hook *hook = NULL;
    expect_status(ls_early_stopping_hook(&rows[i].options, &hook),
                  LS_INVALID_ARGUMENT, rows[i].says);
    assert_null(hook);
  }
  ls_hook *hook = NULL;
  expect_status(ls_early_stopping_hook(NULL, &hook), LS_INVALID_ARGUMENT,
                "options is NULL");
}

static ls_status train_and_look(void *user) {
  LS_OWN(ls_graph, graph) = NULL;
  ls_variable *step = NULL;
  LS_OWN(ls_hook, hook) = NULL;
  ls_monitored_session *session = NULL;
  LS_RETURN_IF_ERROR(ls_graph_create("train", &graph));
  ls_status status = ls_global_step_create(graph, &step);
  if (ls_status_is_ok(status))
    status = ls_early_stopping_hook(
        &(ls_early_stopping_options){.rule = LS_STOP_IF_NO_DECREASE,
                                     .metric = "score",
                                     .max_steps = 10,
                                     .folder = user},
        &hook);
  if (ls_status_is_ok(status))
    status = ls_monitored_session_create(
        &(ls_monitored_options){.graph = graph, .hooks = &hook, .num_hooks = 1},
        &session);
  ls_nest results = ls_none();
  if (ls_status_is_ok(status))
    status = ls_monitored_session_run(session, ls_none(), NULL, 0, &results);
  if (session != NULL) status = ls_monitored_session_close(session, status);
  return status;
}

TEST(failed_requests_for_memory_are_survived) {
  static const evaluation rows[] = {{10, 0.25}, {20, 0.9}};
  char folder[8];
  folder_of(folder);
  write_events(folder, "score", rows, 2);
  REFUSE_EACH(train_and_look, folder);
}
