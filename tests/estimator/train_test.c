// SPDX-License-Identifier: Apache-2.0
// Training: what is refused, how it ends, and who is told.
#include <pthread.h>
#include <string.h>

#include "lockstep/element_spec.h"
#include "lockstep/graph_ops.h"
#include "support/counted.h"
#include "support/estimator_ways.h"
#include "train/own.h"

static ls_status train(estimator_case *c, ls_estimator_training training,
                       ls_training_end *end) {
  training.input = estimator_input(c);
  return ls_estimator_train(c->estimator, &training, end);
}

TEST(numbers_of_steps_are_checked) {
  LS_SPEC("E66 E162 E165");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    ls_training_end end;
    c.folder = "numbers";
    estimator_case_begin(&c);
    expect_status(train(&c,
                        (ls_estimator_training){.steps = LS_SOME(1),
                                                .max_steps = LS_SOME(1)},
                        &end),
                  LS_INVALID_ARGUMENT, "both steps and max_steps");
    expect_status(train(&c, (ls_estimator_training){.steps = LS_SOME(0)}, &end),
                  LS_INVALID_ARGUMENT, "Must specify steps > 0");
    expect_status(
        train(&c, (ls_estimator_training){.max_steps = LS_SOME(-1)}, &end),
        LS_INVALID_ARGUMENT, "Must specify max_steps > 0");
    expect_status(train(&c,
                        (ls_estimator_training){.max_steps = LS_SOME(1),
                                                .num_listeners = 1},
                        &end),
                  LS_INVALID_ARGUMENT, "listeners");
    if (c.way == ON_TPU)
      expect_status(train(&c, (ls_estimator_training){0}, &end),
                    LS_INVALID_ARGUMENT,
                    "one of `steps` or `max_steps` must be set");
    assert_int_equal(c.input_calls, 0);
    assert_int_equal(c.model_calls, 0);
  }
}

TEST(as_many_steps_as_there_are_numbers_end_with_the_input) {
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    ls_training_end end;
    c.folder = "many";
    c.examples = 24 * 6;
    estimator_case_begin(&c);
    expect_ok(train(&c, (ls_estimator_training){.steps = LS_SOME(2)}, &end));
    assert_int_equal(end.step, 2);
    expect_ok(
        train(&c, (ls_estimator_training){.steps = LS_SOME(INT64_MAX)}, &end));
    assert_int_equal(end.step, 6);
    assert_true(end.input_ended);
  }
}

// ---- Summaries -------------------------------------------------------------
typedef struct collecting {
  ls_model_function model;
  bool other;  // What is no op and no tensor.
} collecting;

static ls_status collect(void *user, ls_model_call *call,
                         ls_estimator_spec **out_spec) {
  collecting *self = user;
  LS_RETURN_IF_ERROR(self->model.call(self->model.user, call, out_spec));
  const ls_nest leaf = self->other
                           ? ls_nest_f64(1)
                           : ls_leaf(ls_estimator_spec_values(*out_spec)->loss);
  return ls_graph_add_to_collection(ls_graph_current(), LS_COLLECTION_SUMMARIES,
                                    leaf);
}

// As other systems keep them there.
TEST(summaries_may_be_tensors_and_nothing_else) {
  for (int other = 0; other < 2; ++other) {
    LS_OWN(estimator_case, c) = {.folder = "collected"};
    collecting self = {.other = other == 1};
    ls_training_end end;
    self.model = estimator_model(&c);
    c.more.model_fn = (ls_model_function){collect, &self, NULL};
    estimator_case_begin(&c);
    const ls_status status =
        train(&c, (ls_estimator_training){.steps = LS_SOME(2)}, &end);
    if (other == 0)
      expect_ok(status);
    else
      expect_status(status, LS_INVALID_ARGUMENT, "collection 'summaries'");
  }
}

static const char *task_of(void *user, const char *name) {
  return strcmp(name, "TF_CONFIG") == 0 ? user : NULL;
}

TEST(evaluators_and_parameter_servers_do_not_train) {
  LS_SPEC("E162");
  static char tasks[2][120] = {
      "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\"]}, "
      "\"task\": {\"type\": \"evaluator\", \"index\": 0}}",
      "{\"cluster\": {\"chief\": [\"a:1\"], \"ps\": [\"b:1\"]}, "
      "\"task\": {\"type\": \"ps\", \"index\": 0}}"};
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    for (int t = 0; t < 2; ++t) {
      LS_OWN(counted, runtime) = counted_begin_with((ls_runtime_options){
          .environment = task_of, .environment_user = tasks[t]});
      LS_OWN(estimator_case, c) = estimator_case_of(i);
      c.folder = "tasks";
      estimator_case_begin(&c);
      expect_status(
          train(&c, (ls_estimator_training){.max_steps = LS_SOME(1)}, NULL),
          LS_INVALID_ARGUMENT, t == 0 ? "'evaluator'" : "'ps'");
    }
  }
}

typedef struct run_losses {
  double first, last;
  int runs;
} run_losses;

static ls_status note_loss(void *user, ls_run_context *context,
                           ls_nest results) {
  run_losses *self = user;
  (void)results;
  LS_RETURN_IF_ERROR(ls_run_context_number(context, "loss", &self->last));
  if (self->runs++ == 0) self->first = self->last;
  return ls_ok();
}

TEST(a_trainings_loss_is_that_of_its_last_run) {
  LS_SPEC("E166");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    run_losses seen = {0};
    LS_OWN(ls_hook, hook) = NULL;
    ls_training_end end;
    c.folder = "last";
    c.repeats = true;
    estimator_case_begin(&c);
    expect_ok(ls_hook_create(
        &(ls_hook_options){.user = &seen, .after_run = note_loss}, &hook));
    expect_ok(train(&c,
                    (ls_estimator_training){.max_steps = LS_SOME(6),
                                            .hooks = &hook,
                                            .num_hooks = 1},
                    &end));
    assert_true(seen.runs > 1 && seen.first != seen.last);
    assert_true(end.loss == seen.last);
  }
}

TEST(steps_add_and_a_limit_that_is_reached_is_no_failure) {
  LS_SPEC("E162");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    ls_training_end end;
    c.folder = "adds";
    c.repeats = true;
    estimator_case_begin(&c);
    for (int k = 1; k <= 2; ++k) {
      expect_ok(train(&c, (ls_estimator_training){.steps = LS_SOME(3)}, &end));
      assert_int_equal(end.step, 3 * k);
      assert_true(end.has_loss);
    }
    c.input_calls = 0;
    expect_ok(
        train(&c, (ls_estimator_training){.max_steps = LS_SOME(6)}, &end));
    assert_int_equal(end.step, 6);
    assert_false(end.has_loss);
    assert_int_equal(c.input_calls, 0);
    expect_ok(
        train(&c, (ls_estimator_training){.max_steps = LS_SOME(7)}, &end));
    assert_int_equal(end.step, 7);
  }
}

typedef struct lines {
  int ended, none, losses, no_losses;
} lines;

static void note(void *user, const ls_log_line *line) {
  lines *self = user;
  self->ended += strstr(line->text, "the input has ended") != NULL;
  self->losses += strstr(line->text, "loss = ") != NULL;
  self->no_losses += strstr(line->text, "loss = 1e+07") != NULL;
  self->none += strstr(line->text, "training has made no step") != NULL &&
                line->level == LS_LOG_WARNING;
}

static void expect_losses_below(const char *folder, double most) {
  LS_OWN(ls_event_numbers, losses) = NULL;
  expect_ok(ls_events_read(folder, "loss", &losses));
  assert_true(losses->count > 0);
  for (size_t i = 0; i < losses->count; ++i)
    assert_true(losses->items[i].value < most);
}

TEST(the_end_of_the_input_ends_a_training) {
  LS_SPEC("E173");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    for (int fails = 0; fails < 2; ++fails) {
      lines told = {0};
      LS_OWN(counted, runtime) = counted_begin_with(
          (ls_runtime_options){.log = note, .log_user = &told});
      LS_OWN(estimator_case, c) = estimator_case_of(i);
      ls_training_end end;
      c.folder = "ended";
      c.more.input_end_fails = fails == 1;
      c.config.log_step_count_steps = LS_SOME(1);
      c.config.save_summary_steps = LS_SOME(1);
      estimator_case_begin(&c);
      const ls_status status =
          train(&c, (ls_estimator_training){.max_steps = LS_SOME(9)}, &end);
      if (fails == 1) {
        expect_status(status, LS_OUT_OF_RANGE, "shall not end");
      } else {
        expect_ok(status);
        assert_int_equal(end.step, 4);
        assert_true(end.input_ended && end.has_loss && !end.stopped);
      }
      assert_int_equal(told.ended, 1);
      // The run that made no step has no loss to be seen.
      assert_int_equal(told.losses, c.way == ON_TPU ? 2 : 0);
      assert_int_equal(told.no_losses, 0);
      expect_losses_below("ended", 100);
    }
  }
}

// ---- Stops -----------------------------------------------------------------
typedef struct watch {
  ls_train_stop *stop;
  int runs, ends;
} watch;

static void *ask(void *stop) {
  ls_train_stop_request(stop);
  return NULL;
}

// From another thread.
static ls_status after_run(void *user, ls_run_context *context,
                           ls_nest results) {
  watch *self = user;
  pthread_t thread;
  (void)context, (void)results;
  if (++self->runs != 2 || self->stop == NULL) return ls_ok();
  assert_int_equal(pthread_create(&thread, NULL, ask, self->stop), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  return ls_ok();
}

static ls_status at_end(void *user, ls_run_context *context) {
  (void)context;
  ++((watch *)user)->ends;
  return ls_ok();
}

static ls_hook *watching(watch *self) {
  ls_hook *hook = NULL;
  expect_ok(ls_hook_create(
      &(ls_hook_options){.user = self, .after_run = after_run, .end = at_end},
      &hook));
  return hook;
}

TEST(a_training_that_is_asked_to_stop_saves_and_says_so) {
  LS_SPEC("E166 E216");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    lines told = {0};
    LS_OWN(counted, runtime) = counted_begin_with(
        (ls_runtime_options){.log = note, .log_user = &told});
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    ls_train_stop stop = {0};
    watch seen = {.stop = &stop};
    ls_training_end end;
    LS_OWN(printed, path) = NULL;
    c.folder = "stopped";
    c.repeats = true;
    estimator_case_begin(&c);
    LS_OWN(ls_hook, hook) = watching(&seen);
    expect_ok(train(&c,
                    (ls_estimator_training){.max_steps = LS_SOME(20),
                                            .hooks = &hook,
                                            .num_hooks = 1,
                                            .stop = &stop},
                    &end));
    const int step = c.way == ON_TPU ? 4 : 2;
    assert_int_equal(end.step, step);
    assert_true(end.stopped && end.has_loss);
    assert_int_equal(seen.ends, 1);
    expect_ok(ls_estimator_latest_checkpoint(c.estimator, &path));
    expect_contains(path, c.way == ON_TPU ? "model.ckpt-4" : "model.ckpt-2");
    assert_int_equal(told.none, 0);
    // Asked before the first run.
    expect_ok(train(&c,
                    (ls_estimator_training){.max_steps = LS_SOME(20),
                                            .hooks = &hook,
                                            .num_hooks = 1,
                                            .stop = &stop},
                    &end));
    assert_int_equal(end.step, step);
    assert_true(end.stopped && !end.has_loss);
    assert_int_equal(seen.runs, 2);
    assert_int_equal(seen.ends, 2);
    assert_int_equal(told.none, 1);
  }
}

// ---- Listeners -------------------------------------------------------------
static ls_status after_save(void *user, ls_session *session, int64_t step,
                            bool *out_stop) {
  (void)session, (void)step, (void)out_stop;
  ++*(int *)user;
  return ls_ok();
}

TEST(listeners_go_to_the_first_saver) {
  LS_SPEC("E165");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    for (int savers = 0; savers < 3; ++savers) {
      LS_OWN(estimator_case, c) = estimator_case_of(i);
      int saves = 0;
      const ls_save_listener listener = {.user = &saves,
                                         .after_save = after_save};
      LS_OWN(ls_hook, hook) = NULL;
      ls_training_end end;
      c.folder = "listened";
      c.repeats = true;
      c.config.checkpoints = savers == 1 ? LS_FLAG_DEFAULT : LS_FLAG_OFF;
      estimator_case_begin(&c);
      if (savers == 2)
        expect_ok(
            ls_saver_hook(&(ls_saver_hook_options){.folder = "listened",
                                                   .every_steps = LS_SOME(100)},
                          &hook));
      const ls_status status =
          train(&c,
                (ls_estimator_training){.max_steps = LS_SOME(4),
                                        .hooks = &hook,
                                        .num_hooks = savers == 2,
                                        .listeners = &listener,
                                        .num_listeners = 1},
                &end);
      if (savers == 0)
        expect_status(status, LS_INVALID_ARGUMENT, "need checkpoints");
      else
        expect_ok(status);
      assert_int_equal(saves > 0, savers > 0);
    }
  }
}

static ls_hook *saver_in(const char *folder) {
  ls_hook *hook = NULL;
  expect_ok(ls_saver_hook(&(ls_saver_hook_options){.folder = folder,
                                                   .every_steps = LS_SOME(2)},
                          &hook));
  return hook;
}

// The hook has another training's listeners and input no more.
TEST(a_saver_of_the_caller_serves_one_training_after_another) {
  LS_SPEC("E154 E165");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(ls_hook, hook) = saver_in("served");
    for (int k = 0; k < 3; ++k) {
      LS_OWN(estimator_case, c) = estimator_case_of(i);
      int saves = 0;
      const ls_save_listener listener = {.user = &saves,
                                         .after_save = after_save};
      ls_training_end end;
      c.folder = "served";
      c.repeats = true;
      c.save_steps = LS_SOME(2);
      estimator_case_begin(&c);
      expect_ok(train(&c,
                      (ls_estimator_training){.max_steps = LS_SOME(4),
                                              .hooks = &hook,
                                              .num_hooks = 1,
                                              .listeners = &listener,
                                              .num_listeners = k < 2},
                      &end));
      assert_int_equal(saves, k < 2 ? 3 : 0);
    }
  }
}

// The case's batches, in another order in each epoch.
static ls_nest shuffled(void *user, ls_input_call *call) {
  LS_OWN(ls_nest, batches) = estimator_input(user).call(user, call);
  return ls_nest_dataset(
      ls_dataset_shuffle(ls_dataset_retain(ls_nest_as_dataset(batches)),
                         &(ls_shuffle_options){.seed = 1, .buffer = 4}));
}

// Trains to step 3 with these hooks or, if the input does not repeat, to its
// end at step 5, and on to step 8 without them.
static void train_on(estimator_case *c, ls_hook **hooks, size_t num_hooks) {
  ls_training_end end;
  c->save_steps = (ls_opt)LS_SOME(2);
  c->examples = 24 * 5;
  estimator_case_begin(c);
  ls_estimator_training training = {.input = {.call = shuffled, .user = c},
                                    .max_steps = LS_SOME(c->repeats ? 3 : 6),
                                    .hooks = hooks,
                                    .num_hooks = num_hooks};
  expect_ok(ls_estimator_train(c->estimator, &training, &end));
  assert_int_equal(end.step, c->repeats ? 3 : 5);
  training.max_steps = (ls_opt)LS_SOME(8);
  training.num_hooks = 0;
  expect_ok(ls_estimator_train(c->estimator, &training, &end));
  assert_int_equal(end.step, 8);
}

// A saver of the caller, alone and after another one.
TEST(a_training_goes_on_from_what_a_saver_of_the_caller_has_saved) {
  LS_SPEC("E154 E183");
  for (int i = 0; i < 2 * ESTIMATOR_WAYS; ++i) {
    ls_hook *hooks[] = {saver_in("first-saver"), saver_in("own-saver")};
    LS_OWN(estimator_case, alone) = estimator_case_of(i / 2);
    LS_OWN(estimator_case, second) = estimator_case_of(i / 2);
    LS_OWN(estimator_case, usual) = estimator_case_of(i / 2);
    alone.repeats = second.repeats = usual.repeats = i % 2 == 0;
    usual.folder = "usual-saver";
    train_on(&usual, NULL, 0);
    alone.folder = second.folder = "own-saver";
    train_on(&alone, &hooks[1], 1);
    estimator_cases_expect_equal(&alone, &usual, 0);
    train_on(&second, hooks, 2);
    estimator_cases_expect_equal(&second, &usual, 0);
    ls_hook_release(hooks[0]);
    ls_hook_release(hooks[1]);
  }
}

// Saves the variables alone, without the input's position.
static ls_status save_variables(void *folder, ls_run_context *context) {
  enum { ROOM = 32 };
  ls_nest leaves[ROOM];
  ls_variable *variables[ROOM];
  ls_checkpoints *checkpoints = NULL;
  int64_t step = 0;
  const size_t count =
      ls_graph_collection(ls_run_context_graph(context),
                          LS_COLLECTION_GLOBAL_VARIABLES, leaves, ROOM);
  assert_in_range(count, 1, ROOM);
  for (size_t i = 0; i < count; ++i)
    variables[i] = ls_nest_as_variable(leaves[i]);
  expect_ok(ls_run_context_steps(context, &step));
  expect_ok(ls_checkpoints_open(
      &(ls_checkpoints_options){
          .folder = folder,
          .values = &(ls_saver){.variables = variables,
                                .num_variables = count,
                                .session = ls_run_context_session(context),
                                .exact = true}},
      &checkpoints));
  expect_ok(ls_checkpoints_save(checkpoints, step, NULL, 0));
  return ls_checkpoints_close(checkpoints);
}

static void count_none(void *user, const ls_log_line *line) {
  *(int *)user +=
      strstr(line->text, "beginning: the checkpoint has no") != NULL;
}

TEST(the_input_begins_where_a_checkpoint_has_no_position_in_it) {
  LS_SPEC("E154");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    int told = 0;
    LS_OWN(counted, runtime) = counted_begin_with(
        (ls_runtime_options){.log = count_none, .log_user = &told});
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    LS_OWN(ls_hook, hook) = NULL;
    expect_ok(ls_hook_create(
        &(ls_hook_options){.user = (void *)"bare", .end = save_variables},
        &hook));
    c.folder = "bare";
    c.examples = 24 * 6;
    c.config.checkpoints = LS_FLAG_OFF;
    estimator_case_begin(&c);
    ls_training_end end;
    for (int k = 0; k < 2; ++k) {
      expect_ok(
          train(&c,
                (ls_estimator_training){.max_steps = LS_SOME(k == 0 ? 4 : 12),
                                        .hooks = &hook,
                                        .num_hooks = 1},
                &end));
      assert_int_equal(end.step, k == 0 ? 4 : 4 + 6);
      assert_int_equal(told, k);
    }
  }
}
