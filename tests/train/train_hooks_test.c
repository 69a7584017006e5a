// SPDX-License-Identifier: Apache-2.0
//
// Hooks around a run that calls functions: ls_train.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/hook.h"
#include "lockstep/ops.h"
#include "lockstep/train.h"
#include "support/expect.h"
#include "support/resumable.h"

enum { EXAMPLES = 202, BATCH = 8, EPOCH = 26, MOST = 6 };

// A run of tiny on made-up data, in a runtime whose log the test keeps.
typedef struct setup {
  ls_runtime *runtime;
  ls_strategy *strategy;
  ls_model_type type;
  ls_model model;
  ls_dataset *train;
  ls_hook *hooks[MOST];
  ls_train_options options;
  ls_train_result result;
} setup;

static char lines[20000];

static void keep_line(void *user, const ls_log_line *line) {
  (void)user;
  const size_t used = strlen(lines);
  snprintf(lines + used, sizeof(lines) - used, "%s\n", line->text);
}

static void begin(setup *s, int64_t replicas, double learning_rate) {
  *s = (setup){.type = *ls_model_find("tiny")};
  lines[0] = '\0';
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.threads = 1, .log = keep_line}, &s->runtime));
  ls_runtime_make_current(s->runtime);
  s->train = ls_dataset_synthetic(
      &(ls_synthetic_options){.size = EXAMPLES,
                              .shape = s->type.example_shape,
                              .num_classes = s->type.num_classes});
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &s->strategy));
  expect_ok(ls_model_create(
      &s->type,
      &(ls_model_options){.metrics = true, .learning_rate = learning_rate},
      &s->model));
  s->options = (ls_train_options){.model = &s->model,
                                  .strategy = s->strategy,
                                  .train = s->train,
                                  .batch_size = BATCH,
                                  .epochs = 2,
                                  .hooks = s->hooks};
}

static void end(setup *s) {
  for (size_t i = 0; i < MOST; ++i)
    ls_hook_release(s->hooks[i]);
  ls_model_destroy(&s->model);
  ls_strategy_release(s->strategy);
  ls_dataset_release(s->train);
  ls_runtime_make_current(NULL);
  expect_ok(ls_runtime_destroy(s->runtime));
}
LS_OWNED_STRUCT(setup, end)

static void expect_trains(setup *s) {
  expect_ok(ls_train(&s->options, &s->result));
}

// ---- Moments ---------------------------------------------------------------
typedef struct heard {
  char text[100];  // A letter a moment.
  int64_t befores, afters, steps, most;
  double loss, reported;
  bool stops, fetches;
  ls_code fails;
} heard;

static void note(heard *h, const char *moment) {
  if (strlen(h->text) + 1 < sizeof(h->text)) strcat(h->text, moment);
}

static ls_status hear_begin(void *user) {
  note(user, "b");
  return ls_ok();
}

static ls_status hear_create(void *user, ls_run_context *context) {
  heard *h = user;
  double loss = 0;
  note(h, "c");
  assert_null(ls_run_context_session(context));
  assert_null(ls_run_context_graph(context));
  assert_int_equal(ls_run_context_results(context).kind, LS_KIND_NONE);
  expect_status(ls_run_context_number(context, "loss", &loss), LS_NOT_FOUND,
                "no run was made");
  expect_ok(ls_run_context_steps(context, &h->steps));
  return ls_ok();
}

static void hear_lost(void *user) { note(user, "l"); }

static ls_status hear_before(void *user, ls_run_context *context,
                             ls_run_wish *wish) {
  heard *h = user;
  int64_t steps = 0;
  expect_ok(ls_run_context_steps(context, &steps));
  assert_int_equal(steps, h->steps);
  if (h->befores++ == 0) note(h, "<");
  if (h->fetches) wish->fetches = ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
  wish->most_steps = h->most;
  return ls_ok();
}

static ls_status hear_after(void *user, ls_run_context *context,
                            ls_nest results) {
  heard *h = user;
  int64_t steps = 0;
  double nothing = 0;
  assert_int_equal(results.kind, LS_KIND_NONE);
  if (h->afters++ == 0) note(h, ">");
  expect_ok(ls_run_context_steps(context, &steps));
  assert_true(steps > h->steps &&
              (h->most == 0 || steps - h->steps <= h->most));
  h->steps = steps;
  expect_ok(ls_run_context_number(context, "loss", &h->loss));
  assert_non_null(ls_nest_key(ls_run_context_results(context), 0));  // By name.
  expect_status(ls_run_context_number(context, "lost", &nothing), LS_NOT_FOUND,
                "\"lost\"");
  if (h->stops) ls_run_context_request_stop(context);
  return h->fails != LS_OK && steps >= 5 ? LS_STATUS(h->fails, "no more")
                                         : ls_ok();
}

static ls_status hear_end(void *user, ls_run_context *context) {
  heard *h = user;
  int64_t steps = 0;
  note(h, "e");
  expect_ok(ls_run_context_steps(context, &steps));
  assert_int_equal(steps, h->steps);
  return ls_ok();
}

static void hear_destroy(void *user) { note(user, "d"); }

static ls_hook *listen(heard *h, const char *name) {
  ls_hook *hook = NULL;
  expect_ok(
      ls_hook_create(&(ls_hook_options){.name = name,
                                        .user = h,
                                        .begin = hear_begin,
                                        .after_create_session = hear_create,
                                        .session_lost = hear_lost,
                                        .before_run = hear_before,
                                        .after_run = hear_after,
                                        .end = hear_end,
                                        .destroy = hear_destroy},
                     &hook));
  return hook;
}

// The mean of a batch is what a report of its epoch's first step says.
static void hear_report(void *user, const ls_train_report *report) {
  heard *h = user;
  if (report->epoch_step == 1 && !report->epoch_end) h->reported = report->loss;
}

TEST(hooks_are_called_around_each_run) {
  for (int64_t replicas = 1; replicas <= 3; replicas += 2) {
    setup s;
    heard h = {0};
    begin(&s, replicas, 0);
    s.hooks[0] = listen(&h, NULL);
    s.options.num_hooks = 1;
    s.options.report = hear_report;
    s.options.report_user = &h;
    expect_trains(&s);
    assert_string_equal(h.text, "bc<>el");
    assert_int_equal(h.befores, 2 * EPOCH);
    assert_int_equal(h.afters, 2 * EPOCH);
    assert_int_equal(h.steps, 2 * EPOCH);
    s.options.steps = 1;
    h = (heard){0};
    expect_trains(&s);  // A hook goes from run to run.
    assert_true(h.loss == h.reported);
    end(&s);
    assert_string_equal(h.text, "bc<>eld");
  }
}

TEST(a_loop_of_steps_is_one_run_as_long_as_hooks_wish) {
  static const struct {
    int64_t loop, most, runs;
  } rows[] = {// The first and the last, smaller one, are runs of their own.
              {100, 0, 3},
              {8, 0, 5},
              {100, 8, 5},
              {8, 100, 5},
              {4, 1, EPOCH}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    for (int64_t replicas = 1; replicas <= 2; ++replicas) {
      heard plain = {0}, h = {0};
      LS_OWN_BEGUN(setup, s, begin, replicas, 0);
      s.options.epochs = 1;
      s.options.num_hooks = 1;
      s.hooks[0] = listen(&plain, NULL);
      expect_trains(&s);
      end(&s);
      begin(&s, replicas, 0);
      h.most = rows[i].most;
      s.options.epochs = 1;
      s.options.iterations_per_loop = rows[i].loop;
      s.options.num_hooks = 1;
      s.hooks[0] = listen(&h, NULL);
      expect_trains(&s);
      assert_int_equal(h.afters, rows[i].runs);
      assert_int_equal(h.steps, EPOCH);
      assert_memory_equal(&h.loss, &plain.loss, sizeof(h.loss));
    }
}

TEST(what_hooks_want_ends_the_run) {
  heard h = {.stops = true}, other = {0};
  LS_OWN_BEGUN(setup, s, begin, 1, 0);
  s.options.num_hooks = 2;
  s.hooks[0] = listen(&h, "first");
  s.hooks[1] = listen(&other, "second");
  expect_trains(&s);
  assert_true(s.result.stopped);
  assert_int_equal(s.result.steps, 1);
  assert_string_equal(other.text, "bc<>el");
  h.stops = false;
  h.fails = LS_ABORTED;
  h.text[0] = other.text[0] = '\0';
  ls_status status = ls_train(&s.options, &s.result);
  expect_contains(ls_status_message(status), "in hook 'first', after a run");
  expect_status(status, LS_ABORTED, "no more");
  assert_int_equal(s.result.steps, 5);
  assert_string_equal(h.text, "bcl");  // It has run before.
  assert_string_equal(other.text, "bcl");
  assert_int_equal(other.afters, 1 + 4);
}

// ---- Examples --------------------------------------------------------------
typedef struct seen {
  int64_t last[BATCH], befores;
  size_t count;
} seen;

// Between epochs too, the last step's are those it had when it was made.
static ls_status see_before(void *user, ls_run_context *context,
                            ls_run_wish *wish) {
  (void)wish;
  seen *h = user;
  int64_t examples[BATCH] = {0};
  size_t count = 0;
  const ls_status status =
      ls_run_context_examples(context, examples, BATCH, &count);
  if (h->befores++ == 0) {
    expect_status(status, LS_FAILED_PRECONDITION, "before the first step");
    return ls_ok();
  }
  expect_ok(status);
  assert_int_equal(count, h->count);
  assert_memory_equal(examples, h->last, count * sizeof(*examples));
  return ls_ok();
}

static ls_status see_after(void *user, ls_run_context *context,
                           ls_nest results) {
  (void)results;
  seen *h = user;
  expect_ok(ls_run_context_examples(context, h->last, BATCH, &h->count));
  assert_int_equal(h->count,
                   h->befores % EPOCH == 0 ? EXAMPLES % BATCH : BATCH);
  return ls_ok();
}

TEST(the_last_examples_are_known_between_runs) {
  seen h = {0};
  LS_OWN_BEGUN(setup, s, begin, 1, 0);
  expect_ok(ls_hook_create(&(ls_hook_options){.user = &h,
                                              .before_run = see_before,
                                              .after_run = see_after},
                           &s.hooks[0]));
  s.options.num_hooks = 1;
  expect_trains(&s);
  assert_int_equal(h.befores, 2 * EPOCH);
}

// ---- What is for sessions --------------------------------------------------
static ls_status feed_nothing(void *user, ls_feed *feeds, size_t capacity,
                              size_t *out_count) {
  (void)user, (void)feeds, (void)capacity;
  *out_count = 0;
  return ls_ok();
}

static void expect_refused(setup *s, const char *name) {
  char part[100];
  snprintf(part, sizeof(part), "hook '%s' needs a session", name);
  s->options.num_hooks = 1;
  expect_status(ls_train(&s->options, &s->result), LS_INVALID_ARGUMENT, part);
  assert_int_equal(s->result.steps, 0);
  ls_hook_release(s->hooks[0]);
  s->hooks[0] = NULL;
}

TEST(no_hook_in_a_list_is_refused) {
  LS_OWN_BEGUN(setup, s, begin, 1, 0);
  s.options.num_hooks = 1;
  expect_status(ls_train(&s.options, &s.result), LS_INVALID_ARGUMENT,
                "hooks[0] is NULL");
}

TEST(what_is_in_a_graph_is_refused_by_name) {
  ls_nest last = ls_none();
  const char *const names[] = {"loss"};
  LS_OWN_BEGUN(setup, s, begin, 1, 0);
  const ls_tensor value = ls_scalar(LS_DTYPE_F32, 1);
  const ls_op op = ls_tensor_op(value);
  expect_ok(ls_feed_hook(feed_nothing, NULL, &s.hooks[0]));
  expect_refused(&s, "feeder");
  expect_ok(ls_final_ops_hook(ls_none(), NULL, 0, &last, &s.hooks[0]));
  expect_refused(&s, "final ops");
  expect_ok(ls_wait_for_step_hook(3, &s.hooks[0]));
  expect_refused(&s, "wait for step");
  expect_ok(ls_nan_hook(value, LS_FLAG_DEFAULT, &s.hooks[0]));
  expect_refused(&s, "NaN guard");
  expect_ok(ls_log_hook(&(ls_log_hook_options){.names = names,
                                               .values = &value,
                                               .num_values = 1,
                                               .every_steps = LS_SOME(1)},
                        &s.hooks[0]));
  expect_refused(&s, "logger");
  expect_ok(ls_summary_hook(
      &(ls_summary_hook_options){
          .ops = &op, .num_ops = 1, .every_steps = LS_SOME(1)},
      &s.hooks[0]));
  expect_refused(&s, "summary saver");
  heard h = {.fetches = true};
  s.hooks[0] = listen(&h, "mine");
  s.options.num_hooks = 1;
  expect_status(ls_train(&s.options, &s.result), LS_INVALID_ARGUMENT,
                "hook 'mine' wishes to fetch");
  s.options.hooks = NULL;
  expect_status(ls_train(&s.options, &s.result), LS_INVALID_ARGUMENT, "hooks");
}

// ---- Saves -----------------------------------------------------------------
static ls_status save_count(void *self, ls_record *record) {
  return ls_record_set_i64(record, "afters", ((heard *)self)->afters);
}

static ls_status restore_count(void *self, const ls_record *record) {
  return ls_record_get_i64(record, "afters", &((heard *)self)->afters);
}

TEST(what_hooks_count_is_saved_as_it_is_behind_the_step) {
  heard h = {0};
  const ls_saveable count = {"count", &h, save_count, restore_count};
  LS_OWN_BEGUN(setup, s, begin, 1, 0);
  s.options.run_folder = "train_hooks_states";
  s.options.overwrite = true;
  s.options.steps = 12;
  s.options.save_steps = 5;
  s.options.states = &count;
  s.options.num_states = 1;
  s.options.num_hooks = 1;
  s.hooks[0] = listen(&h, NULL);
  h.fails = LS_ABORTED;  // Behind the fifth step, before it is saved.
  expect_status(ls_train(&s.options, &s.result), LS_ABORTED, "no more");
  h.fails = LS_OK;
  h.afters = 0;
  expect_trains(&s);
  assert_int_equal(h.afters, 12);
  s.options.overwrite = false;
  s.options.resume = true;
  s.options.steps = 14;
  h.afters = 0;
  expect_trains(&s);
  assert_int_equal(h.afters, 14);
}

// ---- Ready-made ones -------------------------------------------------------
TEST(a_run_stops_at_a_step) {
  for (int64_t loop = 1; loop <= 10; loop += 9) {
    LS_OWN_BEGUN(setup, s, begin, 2, 0);
    s.options.iterations_per_loop = loop;
    s.options.num_hooks = 1;
    expect_ok(ls_stop_at_step_hook((ls_opt){0}, LS_SOME(7), &s.hooks[0]));
    expect_trains(&s);
    assert_true(s.result.stopped);
    assert_int_equal(s.result.steps, 7);
  }
}

static void folder_of(char *path) {
  strcpy(path, "train_hooks.XXXXXX");
  assert_non_null(mkdtemp(path));
}

static bool has(const char *folder, const char *file) {
  char path[100];
  snprintf(path, sizeof(path), "%s/%s", folder, file);
  return access(path, R_OK) == 0;
}

static ls_status hear_save(void *user, ls_session *session, int64_t step) {
  char *text = user;
  assert_null(session);
  sprintf(text + strlen(text), "%d ", (int)step);
  return ls_ok();
}

// The newest is what the model has now.
static void expect_saved(const char *folder, const ls_model *model) {
  ls_variable *variables[4] = {NULL};
  ls_array *values[2] = {NULL};
  ls_checkpoints *checkpoints = NULL;
  const size_t count = model->type->variables(model->self, variables, 4);
  const ls_saver saver = {.variables = variables, .num_variables = count};
  expect_ok(ls_variable_value(variables[0], &values[0]));
  ls_array *other = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, ls_array_shape(values[0]), &other));
  expect_ok(ls_variable_set_value(variables[0], other));
  ls_array_release(other);
  expect_ok(ls_checkpoints_open(
      &(ls_checkpoints_options){.folder = folder, .values = &saver},
      &checkpoints));
  expect_ok(ls_checkpoints_restore(checkpoints, NULL, NULL));
  expect_ok(ls_checkpoints_close(checkpoints));
  expect_ok(ls_variable_value(variables[0], &values[1]));
  assert_memory_equal(ls_array_data(values[0]), ls_array_data(values[1]),
                      ls_array_size(values[0]));
  ls_array_release(values[0]);
  ls_array_release(values[1]);
}

TEST(a_saver_saves_what_the_model_has) {
  for (int64_t loop = 1; loop <= 10; loop += 9) {
    char folder[20], saved[100] = "";
    folder_of(folder);
    LS_OWN_BEGUN(setup, s, begin, 2, 0);
    s.options.steps = 24;
    s.options.iterations_per_loop = loop;
    s.options.num_hooks = 1;
    const ls_save_listener listener = {.user = saved, .before_save = hear_save};
    expect_ok(ls_saver_hook(&(ls_saver_hook_options){.folder = folder,
                                                     .every_steps = LS_SOME(7),
                                                     .listeners = &listener,
                                                     .num_listeners = 1},
                            &s.hooks[0]));
    expect_trains(&s);
    assert_string_equal(saved, "0 7 14 21 24 ");
    assert_true(has(folder, "graph.ls"));
    assert_true(has(folder, "model.ckpt-14.json"));
    expect_saved(folder, &s.model);
  }
}

TEST(a_loss_that_is_no_number_is_its_guards_to_judge) {
  for (int fails = 0; fails < 2; ++fails) {
    LS_OWN_BEGUN(setup, s, begin, 1, 1e30);
    s.options.num_hooks = 1;
    s.options.run_folder = "train_hooks_nan";
    s.options.overwrite = true;
    expect_ok(ls_nan_hook_named("loss", fails ? LS_FLAG_DEFAULT : LS_FLAG_OFF,
                                &s.hooks[0]));
    const ls_status status = ls_train(&s.options, &s.result);
    if (fails) {
      expect_status(status, LS_FAILED_PRECONDITION,
                    "NaN loss during training: 'loss' is no number");
    } else {
      expect_ok(status);
      assert_true(s.result.stopped);
      expect_contains(lines, "NaN loss during training: 'loss'");
    }
  }
  LS_OWN_BEGUN(setup, s, begin, 1, 0);
  s.options.num_hooks = 1;
  expect_ok(ls_nan_hook_named("los", LS_FLAG_DEFAULT, &s.hooks[0]));
  expect_status(ls_train(&s.options, &s.result), LS_NOT_FOUND, "\"los\"");
}

TEST(results_are_logged_by_their_names) {
  for (int64_t replicas = 1; replicas <= 2; ++replicas) {
    heard h = {0};
    char line[100];
    const char *const names[] = {"loss", "accuracy"};
    LS_OWN_BEGUN(setup, s, begin, replicas, 0);
    s.options.steps = 5;
    s.options.num_hooks = 2;
    s.hooks[0] = listen(&h, NULL);
    expect_ok(ls_log_hook(&(ls_log_hook_options){.names = names,
                                                 .num_values = 2,
                                                 .every_steps = LS_SOME(4)},
                          &s.hooks[1]));
    expect_trains(&s);
    snprintf(line, sizeof(line), "loss = %g (", h.loss);
    expect_contains(lines, "accuracy = ");
    expect_contains(lines, line);
    assert_null(strstr(strchr(strchr(lines, '\n') + 1, '\n') + 1, "loss"));
  }
}

TEST(steps_a_second_are_counted) {
  LS_OWN_BEGUN(setup, s, begin, 1, 0);
  s.options.steps = 10;
  s.options.num_hooks = 1;
  expect_ok(
      ls_counter_hook(&(ls_counter_hook_options){.every_steps = LS_SOME(4),
                                                 .batch_size = BATCH},
                      &s.hooks[0]));
  expect_trains(&s);
  expect_contains(lines, "global_step/sec: ");
  expect_contains(lines, "examples/sec: ");
  assert_null(strstr(lines, "has not grown"));
}

static ls_nest step_with_summary(ls_nest args, void *self) {
  const ls_nest made = ls_model_find("tiny")->train_step(args, self);
  if (!ls_nest_is_failed(made))
    (void)ls_summary("loss", ls_nest_tensor(ls_nest_find(made, "loss"), 0));
  return made;
}

static void keep_step(void *user, const ls_summary_record *record) {
  char *text = user;
  assert_string_equal(record->tag, "loss");
  sprintf(text + strlen(text), "%d ", (int)record->step);
}

// Also of a second training with the same hook.
TEST(summaries_of_a_step_are_written_when_due) {
  for (int64_t loop = 1; loop <= 10; loop += 9) {
    LS_OWN(setup, s) = {0};
    char steps[100] = "";
    LS_OWN(ls_summary_writer, writer) = NULL;
    begin(&s, 2, 0);
    s.type.train_step = step_with_summary;
    expect_ok(ls_summary_writer_create(keep_step, steps, &writer));
    s.options.steps = 24;
    s.options.iterations_per_loop = loop;
    s.options.num_hooks = 1;
    expect_ok(ls_summary_hook(
        &(ls_summary_hook_options){.writer = writer, .every_steps = LS_SOME(5)},
        &s.hooks[0]));
    for (int training = 0; training < 2; ++training) {
      LS_SUMMARY_SCOPE(writer);
      steps[0] = '\0';
      expect_trains(&s);
      assert_string_equal(steps, "1 6 11 16 21 ");
    }
  }
}

TEST(steps_are_traced_when_due) {
  char folder[20];
  folder_of(folder);
  LS_OWN_BEGUN(setup, s, begin, 1, 0);
  s.options.steps = 5;
  s.options.num_hooks = 1;
  expect_ok(ls_profiler_hook(folder, LS_SOME(3), (ls_opt){0}, &s.hooks[0]));
  expect_trains(&s);
  assert_true(has(folder, "timeline-1.json"));
  assert_false(has(folder, "timeline-3.json"));
  assert_true(has(folder, "timeline-4.json"));
}

// ---- Ranks -----------------------------------------------------------------
static int hooks_made;

// One of them stops all.
static ls_status make_stop(ls_hook **out_hook) {
  const int made = __atomic_fetch_add(&hooks_made, 1, __ATOMIC_RELAXED);
  return ls_stop_at_step_hook((ls_opt){0}, LS_SOME(made == 1 ? 9 : 100),
                              out_hook);
}

static ls_status make_saver(ls_hook **out_hook) {
  return ls_saver_hook(
      &(ls_saver_hook_options){.folder = "train_hooks_ranks/more",
                               .every_steps = LS_SOME(5)},
      out_hook);
}

static ls_status make_slow_saver(ls_hook **out_hook) {
  return ls_saver_hook(
      &(ls_saver_hook_options){.folder = "train_hooks_ranks/more"}, out_hook);
}

TEST(hooks_of_ranks_go_together) {
  ls_train_result result;
  resumable r = {.folder = "train_hooks_ranks",
                 .replicas = 4,
                 .ranks = 3,
                 .threads = 1,
                 .overwrite = true,
                 .make_hook = make_stop};
  hooks_made = 0;
  expect_ok(resumable_run(&r, &result));
  assert_true(result.stopped);
  assert_int_equal(result.steps, 9);
  r.make_hook = make_saver;
  r.steps = 12;
  expect_ok(resumable_run(&r, &result));
  expect_same_file("train_hooks_ranks", "train_hooks_ranks/more",
                   "model.ckpt-12.safetensors");
  assert_true(has("train_hooks_ranks/more", "model.ckpt-5.json"));
  assert_true(has("train_hooks_ranks/more", "graph.ls"));
  // Saves by time go by one clock.
  r.make_hook = make_slow_saver;
  expect_ok(resumable_run(&r, &result));
  expect_same_file("train_hooks_ranks", "train_hooks_ranks/more",
                   "model.ckpt-12.safetensors");
}
