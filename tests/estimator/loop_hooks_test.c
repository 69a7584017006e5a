// SPDX-License-Identifier: Apache-2.0
//
// How many steps a run of a loop makes, and when there is no other run.
#include "lockstep/estimator_hooks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/flow.h"
#include "lockstep/graph_ops.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/monitored_runs.h"
#include "support/values.h"
#include "train/own.h"

// ---- The variable ----------------------------------------------------------
TEST(a_graph_has_one_loop_variable) {
  LS_SPEC("E10 E11");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_variable *variable = NULL, *again = NULL;
  {
    LS_GRAPH_SCOPE(f.graph);
    LS_NAME_SCOPE("deep");
    expect_ok(ls_iterations_per_loop(f.graph, &variable));
  }
  expect_ok(ls_iterations_per_loop(f.graph, &again));
  assert_ptr_equal(variable, again);
  assert_string_equal(ls_variable_name(variable),
                      "tpu_estimator/iterations_per_loop");
  assert_int_equal(ls_variable_dtype(variable), LS_DTYPE_I32);
  assert_int_equal(ls_variable_shape(variable).rank, 0);
  assert_false(ls_variable_is_trainable(variable));
  static const char *const in[] = {"tpu_estimator_iterations_per_loop",
                                   "local_variables"};
  for (int i = 0; i < 2; ++i) {
    ls_nest leaf = ls_none();
    assert_int_equal(ls_graph_collection(f.graph, in[i], &leaf, 1), 1);
    assert_ptr_equal(ls_nest_as_variable(leaf), variable);
  }
  const ls_attr *beside = NULL;
  expect_ok(ls_op_attr(ls_variable_initializer(variable), "_class", &beside));
  assert_int_equal(beside->as.strings.count, 1);
  expect_contains(beside->as.strings.items[0], "global_step");
  // Wherever that is.
  ls_graph *placed = NULL;
  ls_variable *step = NULL;
  static const char *const steps = "global_step";
  expect_ok(ls_graph_create("placed", &placed));
  {
    LS_GRAPH_SCOPE(placed);
    LS_DEVICE_SCOPE("/device:CPU:1");
    expect_ok(
        ls_variable_create(&(ls_variable_options){.name = "steps",
                                                  .dtype = LS_DTYPE_I64,
                                                  .shape = LS_SCALAR,
                                                  .trainable = LS_FLAG_OFF,
                                                  .collections = &steps,
                                                  .num_collections = 1},
                           &step));
    ls_variable_release(step);
  }
  expect_ok(ls_iterations_per_loop(placed, &again));
  const char *place = ls_op_device(ls_variable_initializer(again));
  expect_contains(place, "CPU:1");
  assert_string_equal(place, ls_op_device(ls_variable_initializer(step)));
  ls_graph_destroy(placed);
  const ls_nest leaf = ls_nest_variable(f.weight);
  expect_ok(ls_graph_add_to_collection(f.graph, in[0], leaf));
  ls_nest_release(leaf);
  expect_status(ls_iterations_per_loop(f.graph, &again), LS_FAILED_PRECONDITION,
                "Multiple iterations_per_loop_var in collection");
  LS_OWN(ls_graph, other) = NULL;
  expect_ok(ls_graph_create("other", &other));
  expect_status(ls_iterations_per_loop(other, &again), LS_FAILED_PRECONDITION,
                "Global step");
}

TEST(a_loaded_graph_has_it_too) {
  LS_SPEC("E12");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_variable *variable = NULL, *again = NULL, *step = NULL;
  LS_OWN(ls_graph, copy) = NULL;
  expect_ok(ls_iterations_per_loop(f.graph, &variable));
  LS_OWN(printed, text) = graph_text(f.graph);
  expect_ok(ls_graph_parse(text, NULL, 0, &copy));
  ls_nest leaf = ls_none();
  assert_int_equal(
      ls_graph_collection(copy, LS_COLLECTION_ITERATIONS_PER_LOOP, &leaf, 1),
      1);
  again = ls_nest_as_variable(leaf);
  assert_non_null(again);
  assert_string_equal(ls_variable_name(again),
                      "tpu_estimator/iterations_per_loop");
  assert_int_equal(ls_variable_dtype(again), LS_DTYPE_I32);
  // It is what is found from then on, and not made anew.
  const size_t ops = ls_graph_num_ops(copy);
  expect_ok(ls_iterations_per_loop(copy, &variable));
  assert_ptr_equal(variable, again);
  assert_int_equal(ls_graph_num_ops(copy), ops);
  expect_ok(ls_global_step_get(copy, &step));
  assert_int_equal(
      ls_graph_collection(copy, LS_COLLECTION_LOCAL_VARIABLES, &leaf, 1), 1);
  assert_ptr_equal(ls_nest_as_variable(leaf), again);
}

// ---- A loop of as many steps as the variable says --------------------------
enum { MOST_RUNS = 20 };
typedef struct device_loop {
  monitored_runs runs;
  ls_variable *iterations;
  ls_op train;  // Adds as many to the global step.
  int64_t made[MOST_RUNS];
  int count;
} device_loop;

static void begin(device_loop *d) {
  *d = (device_loop){.count = 0};
  monitored_runs_begin(&d->runs);
  expect_ok(ls_iterations_per_loop(d->runs.graph, &d->iterations));
  LS_GRAPH_SCOPE(d->runs.graph);
  d->train = ls_tensor_op(ls_variable_assign_add(
      d->runs.step, ls_convert(ls_variable_read(d->iterations), LS_DTYPE_I64)));
}

static int64_t next_steps(const device_loop *d, ls_session *session) {
  LS_OWN(ls_array, value) = session_array(session, d->iterations);
  return (int64_t)ls_array_f64(value, 0);
}

// Notes what each run makes.
static void run_all(device_loop *d) {
  ls_monitored_session *session = d->runs.session;
  ls_nest results = ls_none();
  while (!ls_monitored_session_should_stop(session)) {
    assert_true(d->count < MOST_RUNS);
    d->made[d->count++] = next_steps(d, ls_monitored_session_now(session));
    expect_ok(ls_monitored_session_run(session, ls_nest_op(d->train), NULL, 0,
                                       &results));
  }
}

TEST(a_plan_ends_at_the_last_step) {
  LS_SPEC("E13 E69 E70 E71");
  ls_hook *hook = NULL;
  const ls_loop_length four = {.steps = 4};
  expect_status(ls_tpu_stop_hook(four, (ls_opt){0}, (ls_opt){0}, &hook),
                LS_INVALID_ARGUMENT, "One of num_steps or last_step must be");
  expect_status(ls_tpu_stop_hook(four, LS_SOME(1), LS_SOME(1), &hook),
                LS_INVALID_ARGUMENT, "Only one of num_steps or last_step");
  expect_status(
      ls_tpu_stop_hook((ls_loop_length){0}, LS_SOME(1), (ls_opt){0}, &hook),
      LS_INVALID_ARGUMENT, "without a step or a second");
  assert_null(hook);
  for (int way = 0; way < 6; ++way) {
    const bool by_last = way % 2 == 1;
    const int rest = way / 2;  // 4, 4, and so many.
    const ls_opt steps = LS_SOME(8 + rest), none = {0};
    device_loop d;
    begin(&d);
    expect_ok(ls_tpu_stop_hook(four, by_last ? none : steps,
                               by_last ? steps : none, &hook));
    monitored_runs_open(&d.runs, &hook, 1, NULL);
    run_all(&d);
    assert_int_equal(d.count, rest > 0 ? 3 : 2);
    assert_int_equal(d.made[0], 4);
    assert_int_equal(d.made[1], 4);
    assert_int_equal(d.made[2], rest);
    assert_int_equal(monitored_runs_step(&d.runs), 8 + rest);
    // At the end it is left as it was.
    assert_int_equal(next_steps(&d, ls_monitored_session_now(d.runs.session)),
                     rest > 0 ? rest : 4);
    monitored_runs_close(&d.runs);
    monitored_runs_end(&d.runs);
  }
}

// A session begins at a step of its own, and is lost once.
typedef struct beginning {
  device_loop loop;
  int64_t first[2];  // Of each session.
  int sessions;
  bool lost;
} beginning;

static ls_status begin_at(void *user, ls_run_context *context) {
  beginning *b = user;
  LS_OWN(ls_array, value) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create_copy(LS_DTYPE_I64, LS_SCALAR,
                                          &b->first[b->sessions++], &value));
  return ls_session_set_variable_value(ls_run_context_session(context),
                                       b->loop.runs.step, value);
}

static ls_status lose_once(void *user, ls_run_context *context,
                           ls_nest results) {
  beginning *b = user;
  (void)context, (void)results;
  if (b->lost) return ls_ok();
  b->lost = true;
  return LS_STATUS(LS_UNAVAILABLE, "lost");
}

// The last step follows from where the first session began.
TEST(steps_are_counted_from_where_a_training_began) {
  LS_SPEC("E70");
  beginning b = {.first = {5, 8}};
  device_loop *d = &b.loop;
  ls_hook *hooks[2] = {NULL};
  begin(d);
  expect_ok(ls_hook_create(&(ls_hook_options){.user = &b,
                                              .after_create_session = begin_at,
                                              .after_run = lose_once},
                           &hooks[0]));
  expect_ok(ls_tpu_stop_hook((ls_loop_length){.steps = 4}, LS_SOME(10),
                             (ls_opt){0}, &hooks[1]));
  monitored_runs_open(&d->runs, hooks, 2, NULL);
  run_all(d);
  assert_int_equal(b.sessions, 2);
  assert_int_equal(monitored_runs_step(&d->runs), 15);
  monitored_runs_close(&d->runs);
  monitored_runs_end(&d->runs);
}

TEST(a_graph_without_steps_is_refused) {
  LS_SPEC("E70");
  LS_OWN(ls_graph, graph) = graph_named("other");
  LS_OWN(ls_hook, hook) = NULL;
  ls_monitored_session *session = NULL;
  expect_ok(ls_tpu_stop_hook((ls_loop_length){.steps = 4}, LS_SOME(10),
                             (ls_opt){0}, &hook));
  expect_status(ls_monitored_session_create(
                    &(ls_monitored_options){
                        .graph = graph, .hooks = &hook, .num_hooks = 1},
                    &session),
                LS_FAILED_PRECONDITION, "Global step should be created");
}

// Each step takes two seconds.
static ls_status take_time(void *user, ls_run_context *context,
                           ls_run_wish *wish) {
  (void)wish;
  monitored_runs_pass(
      2.0 * (double)next_steps(user, ls_run_context_session(context)));
  return ls_ok();
}

TEST(a_time_is_filled_with_steps) {
  LS_SPEC("E72");
  device_loop d;
  ls_hook *hooks[2] = {NULL};
  begin(&d);
  expect_ok(ls_tpu_stop_hook((ls_loop_length){.seconds = 20}, LS_SOME(45),
                             (ls_opt){0}, &hooks[0]));
  expect_ok(ls_hook_create(
      &(ls_hook_options){.user = &d, .before_run = take_time}, &hooks[1]));
  monitored_runs_open(&d.runs, hooks, 2, NULL);
  run_all(&d);
  static const int64_t made[] = {1, 10, 10, 10, 10, 4};
  assert_int_equal(d.count, LS_COUNT_OF(made));
  assert_memory_equal(d.made, made, sizeof(made));
  monitored_runs_close(&d.runs);
  monitored_runs_end(&d.runs);
}

// An op that counts so many evaluations.
static ls_op count_evaluations(monitored_runs *f, int count) {
  ls_variable *evals = NULL;
  expect_ok(ls_eval_step_get(f->graph, &evals));
  LS_GRAPH_SCOPE(f->graph);
  return ls_tensor_op(
      ls_variable_assign_add(evals, ls_scalar(LS_DTYPE_I64, count)));
}

TEST(an_evaluation_is_one_run) {
  LS_SPEC("E15 E73 E75");
  device_loop d;
  ls_hook *hooks[2] = {NULL};
  begin(&d);
  ls_op more;
  {
    LS_GRAPH_SCOPE(d.runs.graph);
    expect_ok(ls_increase_eval_step(ls_variable_read(d.iterations), &more));
  }
  const ls_op one = count_evaluations(&d.runs, 1);  // As the evaluator does.
  expect_status(ls_eval_iterations_hook(0, &hooks[0]), LS_INVALID_ARGUMENT,
                "Eval steps");
  expect_ok(ls_eval_iterations_hook(7, &hooks[0]));
  expect_ok(ls_stop_after_evals_hook(7, &hooks[1]));
  monitored_runs_open(&d.runs, hooks, 2, NULL);
  assert_int_equal(next_steps(&d, ls_monitored_session_now(d.runs.session)), 7);
  const ls_nest both = LS_LIST(ls_nest_op(more), ls_nest_op(one));
  ls_nest results = ls_none();
  expect_ok(ls_monitored_session_run(d.runs.session, both, NULL, 0, &results));
  assert_true(ls_monitored_session_should_stop(d.runs.session));
  expect_contains(monitored_runs_log(), "Evaluation [7/7]");
  ls_nest_release(both);
  monitored_runs_close(&d.runs);
  monitored_runs_end(&d.runs);
}

TEST(evaluations_are_counted_in_the_log) {
  LS_SPEC("E75");
  static const int rows[][4] = {// Asked for, of a run, runs, lines.
                                {0, 1, 30, 30},
                                {1, 1, 1, 1},
                                {7, 3, 3, 3},  // More are made than asked for.
                                {19, 1, 19, 19},
                                {25, 1, 25, 13}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
    ls_hook *hook = NULL;
    const ls_op some = count_evaluations(&f, rows[i][1]);
    expect_ok(ls_stop_after_evals_hook(rows[i][0], &hook));
    monitored_runs_open(&f, &hook, 1, NULL);
    (void)monitored_runs_log();
    int runs = 0, lines = 0;
    for (; runs < 30 && !ls_monitored_session_should_stop(f.session); ++runs)
      expect_ok(ls_monitored_session_run(f.session, ls_nest_op(some), NULL, 0,
                                         &f.results));
    for (const char *at = monitored_runs_log();
         (at = strstr(at, "Evaluation [")) != NULL; ++at)
      ++lines;
    assert_int_equal(runs, rows[i][2]);
    assert_int_equal(lines, rows[i][3]);
  }
}

static ls_status run_fed(monitored_runs *f, float value) {
  LS_OWN(ls_array, fed) = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SCALAR, &value, &fed));
  const ls_feed feed = {f->input, fed};
  return ls_monitored_session_run(f->session, ls_leaf(f->input), &feed, 1,
                                  &f->results);
}

TEST(a_prediction_ends_by_its_signal) {
  LS_SPEC("E74");
  device_loop d;
  begin(&d);
  monitored_runs *f = &d.runs;
  ls_hook *hook = NULL;
  ls_tensor stopping;
  {
    LS_GRAPH_SCOPE(f->graph);
    stopping = ls_greater(f->input, ls_scalar(LS_DTYPE_F32, 0));
  }
  expect_ok(ls_predict_stop_hook(stopping, &hook));
  monitored_runs_open(f, &hook, 1, NULL);
  assert_int_equal(next_steps(&d, ls_monitored_session_now(f->session)), 1);
  expect_ok(run_fed(f, 0));
  const ls_status status = run_fed(f, 1);
  assert_int_equal(ls_status_code(status), LS_OUT_OF_RANGE);
  expect_contains(ls_status_message(status), "Stopped by stopping signal.");
  expect_ok(monitored_runs_try_close(f, status));
  monitored_runs_end(f);
}

// ---- Beside the loop -------------------------------------------------------
static void set_weight(monitored_runs *f, float value) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SCALAR, &value, &array));
  expect_ok(ls_session_set_variable_value(ls_monitored_session_now(f->session),
                                          f->weight, array));
}

TEST(variables_that_are_no_numbers_fail_the_run) {
  LS_SPEC("E14");
  for (int broadcast = 0; broadcast < 2; ++broadcast) {
    LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
    LS_OWN(ls_nest, ops) = ls_none();
    ls_nest results = ls_none();
    LS_OWN(ls_variable, count) = NULL;
    {
      LS_GRAPH_SCOPE(f.graph);
      expect_ok(ls_variable_create(
          &(ls_variable_options){.name = "count",
                                 .initial_value = ls_scalar(LS_DTYPE_I32, 1)},
          &count));
    }
    expect_ok(ls_tpu_sync_ops(f.graph, broadcast, &ops));
    assert_int_equal(ls_nest_count(ops), 1);  // Of floats alone, or a no-op.
    monitored_runs_open(&f, NULL, 0, NULL);
    expect_ok(ls_monitored_session_run(f.session, ops, NULL, 0, &results));
    static const float bad[] = {NAN, INFINITY};
    for (int i = 0; i < 2; ++i) {
      set_weight(&f, bad[i]);
      const ls_status status =
          ls_monitored_session_run(f.session, ops, NULL, 0, &results);
      expect_status(status, broadcast ? LS_OK : LS_INVALID_ARGUMENT,
                    broadcast ? "" : "Gradient for weight:0 is NaN");
    }
  }
}

static void expect_checked(monitored_runs *f, ls_nest ops, ls_variable *of,
                           float value, bool is_checked) {
  LS_OWN(ls_array, array) = NULL;
  ls_nest results = ls_none();
  const float values[] = {1, value, 2};
  char says[60] = "";
  ls_session *session = ls_monitored_session_now(f->session);
  if (is_checked)
    snprintf(says, sizeof(says), "Gradient for %s:0 is NaN",
             ls_variable_name(of));
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(3), values, &array));
  expect_ok(ls_session_set_variable_value(session, of, array));
  expect_status(ls_monitored_session_run(f->session, ops, NULL, 0, &results),
                is_checked ? LS_INVALID_ARGUMENT : LS_OK, says);
  ls_array_set_f64(array, 1, 0);
  expect_ok(ls_session_set_variable_value(session, of, array));
}

// Each is checked by an op of its own, of which one number is enough; what is
// not trained is not.
TEST(each_trainable_variable_is_checked) {
  LS_SPEC("E14");
  static const char *const names[] = {"first", "second", "kept"};
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  ls_nest ops = ls_none();
  ls_variable *all[3] = {NULL};
  for (int i = 0; i < 3; ++i) {
    LS_GRAPH_SCOPE(f.graph);
    expect_ok(ls_variable_create(
        &(ls_variable_options){
            .name = names[i],
            .initial_value = ls_fill(LS_DTYPE_F32, LS_SHAPE(3), 1),
            .trainable = i == 2 ? LS_FLAG_OFF : LS_FLAG_DEFAULT},
        &all[i]));
  }
  expect_ok(ls_tpu_sync_ops(f.graph, false, &ops));
  assert_int_equal(ls_nest_count(ops), 3);  // With the weight.
  monitored_runs_open(&f, NULL, 0, NULL);
  for (int i = 0; i < 3; ++i) {
    expect_checked(&f, ops, all[i], NAN, i < 2);
    expect_checked(&f, ops, all[i], -INFINITY, i < 2);
  }
  ls_nest_release(ops);
  monitored_runs_close(&f);
  for (int i = 0; i < 3; ++i)
    ls_variable_release(all[i]);
}
