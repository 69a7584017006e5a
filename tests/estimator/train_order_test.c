// SPDX-License-Identifier: Apache-2.0
// Training: in which order hooks are called, what its graph holds, and how
// failures of threads and values come out.
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "estimator/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/events.h"
#include "lockstep/graph_ops.h"
#include "lockstep/host.h"
#include "lockstep/losses.h"
#include "lockstep/optimizers.h"
#include "support/counted.h"
#include "support/estimator_ways.h"

// ---- Order -----------------------------------------------------------------
typedef struct watched {
  estimator_case setup;
  char order[400];  // What happened, a letter each.
  ls_hook *models;
  int enqueues, train_ops, saved_at_end;
  bool spoils;
} watched;

static void happen(watched *w, char what) {
  const size_t length = strlen(w->order);
  if (length + 1 < sizeof(w->order)) w->order[length] = what;
}

static ls_status users_begin(void *user) {
  watched *w = user;
  ls_graph *graph = ls_graph_current();
  w->enqueues = (int)ls_graph_collection(graph, "_tpu_enqueue_ops", NULL, 0);
  w->train_ops = (int)ls_graph_collection(graph, "_tpu_train_op", NULL, 0);
  happen(w, 'b');
  return ls_ok();
}

static ls_status users_after(void *user, ls_run_context *context,
                             ls_nest results) {
  (void)results;
  happen(user, ls_run_context_stop_requested(context) ? 'U' : 'u');
  return ls_ok();
}

static ls_status users_end(void *user, ls_run_context *context) {
  watched *w = user;
  LS_OWN(printed, path) = NULL;
  (void)context;
  LS_RETURN_IF_ERROR(ls_estimator_latest_checkpoint(w->setup.estimator, &path));
  w->saved_at_end = path != NULL && strstr(path, "model.ckpt-4") != NULL;
  return ls_ok();
}

static ls_status models_after(void *user, ls_run_context *context,
                              ls_nest results) {
  (void)results;
  happen(user, ls_run_context_stop_requested(context) ? 'M' : 'm');
  return ls_ok();
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  watched *w = user;
  LS_OWN(ls_estimator_spec, made) = NULL;
  const ls_model_function base = estimator_model(&w->setup);
  happen(w, 'f');
  LS_RETURN_IF_ERROR(base.call(base.user, call, &made));
  ls_estimator_spec_options o = *ls_estimator_spec_values(made);
  o.training_hooks = &w->models;
  o.num_training_hooks = 1;
  if (w->spoils) o.loss = ls_mul(o.loss, ls_scalar(LS_DTYPE_F32, NAN));
  return ls_tpu_estimator_spec_create(&o, out);
}

static ls_nest input(void *user, ls_input_call *call) {
  watched *w = user;
  const ls_input_function base = estimator_input(&w->setup);
  happen(w, 'i');
  return base.call(base.user, call);
}

static void note(void *user, const ls_log_line *line) {
  if (strstr(line->text, "examples/sec") != NULL) happen(user, 'e');
}

static ls_status run(watched *w) {
  ls_hook *users = NULL;
  expect_ok(ls_hook_create(&(ls_hook_options){.user = w,
                                              .begin = users_begin,
                                              .after_run = users_after,
                                              .end = users_end},
                           &users));
  expect_ok(ls_hook_create(
      &(ls_hook_options){.user = w, .after_run = models_after}, &w->models));
  w->setup.repeats = true;
  w->setup.more.model_fn = (ls_model_function){.call = model, .user = w};
  estimator_case_begin(&w->setup);
  const ls_status status = ls_estimator_train(
      w->setup.estimator,
      &(ls_estimator_training){.input = {.call = input, .user = w},
                               .max_steps = LS_SOME(4),
                               .hooks = &users,
                               .num_hooks = 1},
      NULL);
  ls_hook_release(users);
  ls_hook_release(w->models);
  estimator_case_end(&w->setup);
  return status;
}

// Examples a second are those of all replicas.
static void expect_speed(const char *folder, double batch) {
  LS_OWN(ls_event_numbers, steps) = NULL;
  LS_OWN(ls_event_numbers, examples) = NULL;
  expect_ok(ls_events_read(folder, "global_step/sec", &steps));
  expect_ok(ls_events_read(folder, "examples/sec", &examples));
  assert_true(steps->count == 1 && examples->count == 1);
  const double ratio = examples->items[0].value / steps->items[0].value;
  assert_true(fabs(ratio - batch) < 1e-3);
}

TEST(hooks_are_called_in_their_order) {
  LS_SPEC("E152 E153 E159 E164");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    watched w = {.setup = estimator_case_of(i)};
    LS_OWN(counted, runtime) =
        counted_begin_with((ls_runtime_options){.log = note, .log_user = &w});
    w.setup.folder = "order";
    w.setup.config.log_step_count_steps = LS_SOME(2);
    expect_ok(run(&w));
    const bool cores = w.setup.way == ON_TPU;
    // The caller's, the stop, the model's: and examples before those on cores,
    // behind them elsewhere.
    const char *runs = strchr(w.order, 'u');
    assert_non_null(runs);
    if (cores)
      assert_string_equal(runs, "umueM");
    else
      assert_string_equal(runs, "umumumeuM");
    assert_true(strchr(w.order, 'i') < strchr(w.order, 'f'));
    assert_true(strchr(w.order, 'f') < strchr(w.order, 'b'));
    assert_int_equal(w.enqueues > 0, cores);
    assert_int_equal(w.train_ops, cores);
    assert_int_equal(w.saved_at_end, 1);
    expect_speed("order", 24);
  }
}

typedef struct said {
  int times;
  char last[40];
} said;

static void note_cpu(void *user, const ls_log_line *line) {
  said *s = user;
  if (strncmp(line->text, "Running ", 8) != 0) return;
  ++s->times;
  snprintf(s->last, sizeof(s->last), "%s", line->text);
}

// With each so many steps, and one of its own by that name.
static ls_status summarizing(void *user, ls_model_call *call,
                             ls_estimator_spec **out) {
  estimator_case *c = user;
  const ls_model_function base = estimator_model(c);
  LS_RETURN_IF_ERROR(base.call(base.user, call, out));
  if (c->way == ON_CPU) {
    const ls_tensor loss = ls_estimator_spec_values(*out)->loss;
    ls_summary("loss", ls_mul_scalar(loss, 0));
    ls_summary("other", loss);
  }
  return ls_ok();
}

TEST(losses_are_summarized_when_due_and_once) {
  LS_SPEC("E163 E164");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    LS_OWN(ls_event_numbers, numbers) = NULL;
    c.folder = "summarized";
    c.repeats = true;
    c.iterations = "1";
    c.config.save_summary_steps = LS_SOME(3);
    c.more.model_fn = (ls_model_function){.call = summarizing, .user = &c};
    estimator_case_begin(&c);
    (void)estimator_case_train(&c, 8);
    expect_ok(ls_events_read("summarized", "loss", &numbers));
    assert_int_equal(numbers->count, 3);
    for (size_t k = 0; k < numbers->count; ++k) {
      assert_int_equal(numbers->items[k].step - numbers->items[0].step, 3 * k);
      assert_int_equal(numbers->items[k].value == 0, c.way == ON_CPU);
    }
  }
}

TEST(what_runs_on_a_cpu_is_told) {
  LS_SPEC("E152");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    said s = {0};
    LS_OWN(counted, runtime) = counted_begin_with(
        (ls_runtime_options){.log = note_cpu, .log_user = &s});
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    LS_OWN(ls_nest, metrics) = ls_none();
    ls_predictions *p = NULL;
    c.folder = "told";
    estimator_case_begin(&c);
    (void)estimator_case_train(&c, 2);
    if (c.way != ON_TPU) assert_string_equal(s.last, "Running train on CPU");
    expect_ok(ls_estimator_evaluate(
        c.estimator,
        &(ls_estimator_evaluation){.input = estimator_input(&c),
                                   .steps = LS_SOME(1)},
        &metrics));
    if (c.way != ON_TPU) assert_string_equal(s.last, "Running eval on CPU");
    expect_ok(ls_estimator_predict(
        c.estimator, &(ls_estimator_prediction){.input = estimator_input(&c)},
        &p));
    if (c.way != ON_TPU) assert_string_equal(s.last, "Running predict on CPU");
    expect_ok(ls_predictions_close(p));
    assert_int_equal(s.times, c.way == ON_TPU ? 0 : 3);
  }
}

TEST(a_loss_that_is_no_number_ends_a_training) {
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    watched w = {.setup = estimator_case_of(i), .spoils = true};
    LS_OWN(counted, runtime) = counted_begin_with((ls_runtime_options){0});
    w.setup.folder = "nan";
    expect_status(run(&w), LS_FAILED_PRECONDITION, "NaN loss");
    // The caller's hooks have seen the run, the model's have not.
    assert_non_null(strchr(w.order, 'u'));
    assert_null(strchr(w.order, 'm'));
  }
}

// ---- Sums over replicas ----------------------------------------------------
static ls_status alone(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  estimator_case *c = user;
  const ls_model_function base = estimator_model(c);
  ls_estimator_spec *made = NULL;
  LS_OWN(ls_optimizer, sgd) = NULL;
  ls_model_call evaluates = *call;
  evaluates.mode = LS_MODE_EVAL;
  LS_RETURN_IF_ERROR(base.call(base.user, &evaluates, &made));
  ls_estimator_spec_options o = {.mode = call->mode,
                                 .loss = ls_estimator_spec_values(made)->loss};
  ls_estimator_spec_release(made);
  LS_RETURN_IF_ERROR(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.1}, &sgd));
  o.train_op = ls_train_op(sgd, o.loss);
  return ls_tpu_estimator_spec_create(&o, out);
}

TEST(gradients_must_be_summed_over_several_replicas) {
  LS_SPEC("E155");
  for (int replicas = 1; replicas <= 3; replicas += 2) {
    LS_OWN(estimator_case, c) = {.way = ON_TPU,
                                 .replicas = replicas,
                                 .folder = "alone",
                                 .repeats = true};
    ls_event_numbers *numbers = NULL;
    c.more.model_fn = (ls_model_function){.call = alone, .user = &c};
    estimator_case_begin(&c);
    const ls_status status = ls_estimator_train(
        c.estimator,
        &(ls_estimator_training){.input = estimator_input(&c),
                                 .max_steps = LS_SOME(2)},
        NULL);
    if (replicas > 1) {
      expect_status(status, LS_INVALID_ARGUMENT,
                    "CrossShardOptimizer must be used");
    } else {
      expect_ok(status);
      expect_ok(ls_events_read("alone", "loss", &numbers));
      assert_true(numbers->count > 0);
      ls_event_numbers_destroy(numbers);
    }
  }
}

// ---- Input that fails ------------------------------------------------------
static ls_status fail_late(void *user, int64_t index, ls_nest out) {
  float *x = ls_nest_data(out, 0);
  (void)user;
  for (int i = 0; i < ESTIMATOR_WIDTH; ++i)
    x[i] = 1;
  *(int32_t *)ls_nest_data(out, 1) = 0;
  return index == 60 ? LS_STATUS(LS_DATA_LOSS, "example 60 is torn") : ls_ok();
}

static ls_nest torn(void *user, ls_input_call *call) {
  const estimator_case *c = user;
  ls_dataset *data = ls_dataset_from_function(&(ls_index_options){
      .size = 96,
      .element = LS_TUPLE(ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(ESTIMATOR_WIDTH)),
                          ls_nest_spec(LS_DTYPE_I32, LS_SCALAR)),
      .get = fail_late});
  return ls_nest_dataset(ls_dataset_batch(
      data, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", c->batch)}));
}

TEST(what_fails_in_a_thread_fails_the_call) {
  LS_SPEC("E172");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    estimator_case c = estimator_case_of(i);
    ls_nest metrics = ls_none(), row = ls_none();
    ls_predictions *p = NULL;
    LS_OWN(counted, runtime) = counted_begin_with((ls_runtime_options){0});
    c.folder = "torn";
    estimator_case_begin(&c);
    const ls_input_function from = {.call = torn, .user = &c};
    expect_status(
        ls_estimator_train(
            c.estimator,
            &(ls_estimator_training){.input = from, .max_steps = LS_SOME(4)},
            NULL),
        LS_DATA_LOSS, "example 60 is torn");
    expect_status(ls_estimator_evaluate(c.estimator,
                                        &(ls_estimator_evaluation){
                                            .input = from, .steps = LS_SOME(4)},
                                        &metrics),
                  LS_DATA_LOSS, "example 60 is torn");
    expect_ok(ls_estimator_predict(
        c.estimator, &(ls_estimator_prediction){.input = from}, &p));
    ls_status status = ls_ok();
    while (ls_status_is_ok(status))
      status = ls_predictions_next(p, &row);
    expect_status(status, LS_DATA_LOSS, "example 60 is torn");
    ls_status_free(ls_predictions_close(p));
    ls_nest_release(row);
    estimator_case_end(&c);
  }
}

// ---- Who has failed --------------------------------------------------------
static ls_nest gone(void *user, ls_input_call *call) {
  (void)user, (void)call;
  return LS_FAIL(LS_UNAVAILABLE, "the file is elsewhere");
}

typedef struct sources {
  bool loops[3];
} sources;

static void note_sources(void *user, const ls_log_line *line) {
  static const char *const names[] = {
      "training_loop: ", "evaluation_loop: ", "prediction_loop: "};
  for (int i = 0; i < 3; ++i)
    if (strncmp(line->text, names[i], strlen(names[i])) == 0)
      ((sources *)user)->loops[i] = true;
}

TEST(each_call_tells_what_it_failed_by) {
  LS_SPEC("E172");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    estimator_case c = estimator_case_of(i);
    sources told = {0};
    ls_nest metrics = ls_none();
    ls_predictions *p = NULL;
    LS_OWN(counted, runtime) = counted_begin_with(
        (ls_runtime_options){.log = note_sources, .log_user = &told});
    c.folder = "gone";
    estimator_case_begin(&c);
    const ls_input_function from = {.call = gone};
    expect_status(
        ls_estimator_train(
            c.estimator,
            &(ls_estimator_training){.input = from, .max_steps = LS_SOME(4)},
            NULL),
        LS_UNAVAILABLE, "elsewhere");
    expect_status(ls_estimator_evaluate(c.estimator,
                                        &(ls_estimator_evaluation){
                                            .input = from, .steps = LS_SOME(4)},
                                        &metrics),
                  LS_UNAVAILABLE, "elsewhere");
    expect_status(
        ls_estimator_predict(c.estimator,
                             &(ls_estimator_prediction){.input = from}, &p),
        LS_UNAVAILABLE, "elsewhere");
    assert_true(told.loops[0] && told.loops[1] && told.loops[2]);
    estimator_case_end(&c);
  }
}

// A host call that fails when the loop's last run is over already.
typedef struct late {
  estimator_case setup;
  pthread_mutex_t lock;
  pthread_cond_t moved;
  ls_host_call *call;  // That waits.
  bool over;
} late;

static late *the_late;

static ls_status start_late(ls_host_call *call) {
  pthread_mutex_lock(&the_late->lock);
  const bool over = the_late->over;
  the_late->call = call;
  pthread_cond_broadcast(&the_late->moved);
  pthread_mutex_unlock(&the_late->lock);
  if (over) ls_host_done(call, LS_STATUS(LS_DATA_LOSS, "too late"));
  return ls_ok();
}

static void cancel_late(ls_host_call *call) {
  pthread_mutex_lock(&the_late->lock);
  const bool waits = !the_late->over;
  the_late->over = true;
  pthread_mutex_unlock(&the_late->lock);
  if (waits) ls_host_done(call, LS_STATUS(LS_CANCELLED, "cancelled"));
}

static const ls_host_kernel late_kernel = {.name = "late",
                                           .start = start_late,
                                           .cancel = cancel_late,
                                           .flags = LS_HOST_WAITS};

static ls_nest call_late(ls_nest tensors, void *user) {
  const ls_tensor first = ls_nest_tensor(tensors, 0);
  (void)user;
  return ls_nest_op(ls_host_call_add(&late_kernel, NULL, &first, 1));
}

static ls_status late_model(void *user, ls_model_call *call,
                            ls_estimator_spec **out) {
  late *l = user;
  LS_OWN(ls_estimator_spec, made) = NULL;
  const ls_model_function base = estimator_model(&l->setup);
  LS_RETURN_IF_ERROR(base.call(base.user, call, &made));
  ls_estimator_spec_options o = *ls_estimator_spec_values(made);
  LS_OWN(ls_nest, list) = LS_LIST(ls_leaf(ls_reshape(o.loss, LS_SHAPE(1))));
  o.host_call = (ls_host_function){.call = call_late, .tensors = list};
  return ls_tpu_estimator_spec_create(&o, out);
}

// The caller's hooks end before those of the system.
static ls_status fail_late_call(void *user, ls_run_context *context) {
  late *l = user;
  (void)context;
  pthread_mutex_lock(&l->lock);
  while (l->call == NULL)
    pthread_cond_wait(&l->moved, &l->lock);
  l->over = true;
  pthread_mutex_unlock(&l->lock);
  ls_host_done(l->call, LS_STATUS(LS_DATA_LOSS, "too late"));
  return ls_ok();
}

TEST(what_fails_behind_the_last_run_fails_the_call) {
  LS_SPEC("E172");
  for (int replicas = 1; replicas <= 3; replicas += 2) {
    late l = {.setup = {.way = ON_TPU,
                        .replicas = replicas,
                        .folder = "late",
                        .repeats = true},
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .moved = PTHREAD_COND_INITIALIZER};
    ls_hook *hook = NULL;
    the_late = &l;
    LS_OWN(counted, runtime) = counted_begin_with((ls_runtime_options){0});
    l.setup.more.model_fn = (ls_model_function){.call = late_model, .user = &l};
    estimator_case_begin(&l.setup);
    expect_ok(ls_hook_create(
        &(ls_hook_options){.user = &l, .end = fail_late_call}, &hook));
    expect_status(ls_estimator_train(l.setup.estimator,
                                     &(ls_estimator_training){
                                         .input = estimator_input(&l.setup),
                                         .max_steps = LS_SOME(2),
                                         .hooks = &hook,
                                         .num_hooks = 1},
                                     NULL),
                  LS_DATA_LOSS, "too late");
    ls_hook_release(hook);
    estimator_case_end(&l.setup);
  }
}
