// SPDX-License-Identifier: Apache-2.0
//
// The threads beside a program on cores: what they are told, what they do, and
// how they end.
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "support/device_runs.h"
#include "support/fault.h"
#include "support/thread_count.h"
#include "tpu/pod/pod.h"
#include "train/own.h"

static ls_hook *stop_hook(int64_t iterations, int64_t last) {
  ls_hook *hook = NULL;
  expect_ok(ls_tpu_stop_hook((ls_loop_length){.steps = iterations}, (ls_opt){0},
                             LS_SOME(last), &hook));
  return hook;
}

// A session that makes `last` steps, in runs of so many.
static void open_runs(device_runs *d, int64_t iterations, int64_t last) {
  ls_hook *stop = stop_hook(iterations, last);
  device_runs_open(d, &stop, 1);
}

// ---- Counts ----------------------------------------------------------------
TEST(steps_are_fed_and_taken_beside_the_program) {
  LS_SPEC("E83 E84 E85 E87");
  for (int way = 0; way < 4; ++way) {
    const int64_t each = way & 2 ? 4 : 1;
    LS_OWN(device_runs, d) = {0};
    device_runs_begin(
        &d, &(device_runs_options){.hosts = 2, .cores = 2, .loops = way & 1});
    open_runs(&d, each, 10);
    for (int64_t fed = each; fed < 10 + each; fed += each) {
      expect_ok(device_runs_try(&d));
      ls_device_hook_settle(d.hook);
      assert_int_equal(d.source.count, fed < 10 ? fed : 10);
    }
    assert_true(ls_monitored_session_should_stop(d.session));
    assert_int_equal(device_runs_step(&d), 10);
    assert_true(device_runs_total(&d) == 55);
    (void)device_runs_log();
    expect_ok(device_runs_close(&d, ls_ok()));
    assert_int_equal(d.sink.count, 10);
    assert_int_equal(d.sink.wrong, 0);
    const char *log = device_runs_log();
    const char *first = strstr(log, "InfeedController read its stop signal");
    assert_non_null(first);
    expect_contains(first, "OutfeedController read its stop signal");
    // Both have said that they are done: who waits for all waits for the loop.
    ls_rendezvous_record_done(d.rendezvous, "loop");
    const double now = device_runs_now();
    expect_ok(ls_rendezvous_status(d.rendezvous, 1000));
    assert_true(device_runs_now() == now);
    assert_null(device_runs_pod(&d));
    assert_false(d.input_ended);
  }
}

// Takes its time with each step: all are taken before a hook behind is ended.
static int64_t taken_at_end;
static ls_status look_at_end(void *user, ls_run_context *context) {
  (void)context;
  taken_at_end = ((const device_runs *)user)->sink.count;
  return ls_ok();
}

static ls_status open_with_look(device_runs *d) {
  LS_OWN(ls_hook, look) = NULL;
  LS_RETURN_IF_ERROR(
      ls_hook_create(&(ls_hook_options){.user = d, .end = look_at_end}, &look));
  ls_hook *hooks[] = {stop_hook(1, 20), d->hook, look};
  const ls_status status = ls_monitored_session_create(
      &(ls_monitored_options){
          .graph = d->graph, .hooks = hooks, .num_hooks = 3},
      &d->session);
  ls_hook_release(hooks[0]);
  return status;
}

TEST(all_is_taken_before_later_hooks_end) {
  LS_SPEC("E87");
  LS_OWN_BEGUN(device_runs, d, device_runs_begin,
               &(device_runs_options){.hosts = 1});
  d.sink.micros = 1000;
  device_runs_make_hook(&d);
  expect_ok(open_with_look(&d));
  expect_ok(device_runs_all(&d));
  expect_ok(device_runs_close(&d, ls_ok()));
  assert_int_equal(taken_at_end, 20);
}

TEST(steps_that_say_nothing_are_counted_too) {
  LS_SPEC("E85");
  LS_OWN_BEGUN(device_runs, d, device_runs_begin,
               &(device_runs_options){.hosts = 1, .silent = true});
  open_runs(&d, 3, 9);
  expect_ok(device_runs_all(&d));
  assert_true(device_runs_total(&d) == 45);
  expect_ok(device_runs_close(&d, ls_ok()));
}

// At steps 0, 3, 6, ... of each run.
TEST(hosts_are_called_each_so_many_steps) {
  LS_SPEC("E85");
  const ls_tpu_config tpu = {.host_call_every_n_steps = LS_SOME(3)};
  LS_OWN_BEGUN(device_runs, d, device_runs_begin,
               &(device_runs_options){.hosts = 1, .tpu = &tpu});
  open_runs(&d, 4, 10);
  expect_ok(device_runs_all(&d));
  expect_ok(device_runs_close(&d, ls_ok()));
  assert_int_equal(d.sink.count, 2 + 2 + 1);
}

TEST(feeding_may_begin_later) {
  LS_SPEC("E84");
  const ls_tpu_config tpu = {.initial_infeed_sleep_secs = LS_SOME(30)};
  LS_OWN_BEGUN(device_runs, d, device_runs_begin,
               &(device_runs_options){.hosts = 1, .tpu = &tpu});
  open_runs(&d, 2, 6);
  expect_ok(device_runs_all(&d));
  assert_true(device_runs_now() >= 30 && device_runs_now() < 60);
  expect_ok(device_runs_close(&d, ls_ok()));
}

// ---- The end of the input --------------------------------------------------
TEST(the_end_of_the_input_ends_the_loop) {
  for (int way = 0; way < 16; ++way) {
    const bool loops = way & 1, fails = way & 2;
    const int64_t steps = way & 4 ? 8 : 6;  // In a run, or between two.
    const int64_t each = way & 8 ? 4 : 1;
    LS_OWN_BEGUN(
        device_runs, d, device_runs_begin,
        &(device_runs_options){
            .hosts = 2, .cores = 2, .loops = loops, .input_end_fails = fails});
    d.source.at = steps;
    d.source.code = LS_OUT_OF_RANGE;
    open_runs(&d, each, 100);
    expect_ok(device_runs_all(&d));
    ls_device_hook_settle(d.hook);
    assert_true(d.input_ended);
    assert_int_equal(device_runs_step(&d), steps);
    assert_true(device_runs_total(&d) == (double)(steps * (steps + 1) / 2));
    expect_contains(device_runs_log(), "the input has ended");
    expect_ok(device_runs_close(&d, ls_ok()));
    assert_int_equal(d.sink.count, steps);
    assert_int_equal(d.sink.wrong, 0);
    expect_status(ls_rendezvous_status(d.rendezvous, 0),
                  fails ? LS_OUT_OF_RANGE : LS_OK,
                  fails ? "the source has failed" : "");
  }
}

// ---- Failures --------------------------------------------------------------
// A thread that was joined may be seen for a moment.
static void expect_threads(int count) {
  for (int i = 0; i < 1000 && thread_count() != count; ++i)
    usleep(1000);
  assert_int_equal(thread_count(), count);
}

// What a call says whose loop has ended by `status`.
static ls_status end_of(device_runs *d, ls_status status) {
  ls_status_free(device_runs_close(d, status));
  return ls_rendezvous_status(d->rendezvous, 0);
}

// What was recorded is this one's: its last record counts.
static void expect_source(device_runs *d, const char *name) {
  ls_rendezvous_record(d->rendezvous, name,
                       LS_STATUS(LS_INTERNAL, "recorded later"), NULL);
  expect_status(ls_rendezvous_status(d->rendezvous, 0), LS_INTERNAL,
                "recorded later");
}

TEST(a_failing_input_ends_the_run) {
  LS_SPEC("E86");
  for (int loops = 0; loops < 2; ++loops) {
    const int before = thread_count();
    device_runs d;
    device_runs_begin(
        &d, &(device_runs_options){.hosts = 2, .cores = 2, .loops = loops});
    d.source.at = 5;
    d.source.code = LS_DATA_LOSS;
    open_runs(&d, 4, 100);
    const ls_status status = device_runs_all(&d);
    assert_false(ls_status_is_ok(status));  // It, or the next, was ended.
    assert_true(device_runs_now() < 6);     // At the latest.
    expect_status(end_of(&d, status), LS_DATA_LOSS, "the source has failed");
    expect_source(&d, "infeed");
    assert_int_equal(d.sink.wrong, 0);
    device_runs_end(&d);
    expect_threads(before);
  }
}

// Where nobody waits for it, its failure is told at once.
TEST(a_failing_input_of_single_steps_is_told) {
  LS_SPEC("E86");
  LS_OWN_BEGUN(device_runs, d, device_runs_begin,
               &(device_runs_options){.hosts = 2, .cores = 2});
  d.source.at = 500;
  d.source.code = LS_DATA_LOSS;
  open_runs(&d, 1, 1000);
  const ls_status status = device_runs_all(&d);
  assert_int_equal(ls_status_code(status), LS_DATA_LOSS);
  assert_int_equal(device_runs_step(&d), 500);
  assert_true(device_runs_now() < 5);
  expect_status(end_of(&d, status), LS_DATA_LOSS, "the source has failed");
}

TEST(a_failing_host_function_ends_the_loop) {
  LS_SPEC("E86");
  for (int last = 0; last < 2; ++last) {
    LS_OWN_BEGUN(device_runs, d, device_runs_begin,
                 &(device_runs_options){.hosts = 2, .cores = 2});
    d.sink.at = 5;
    d.sink.code = LS_DATA_LOSS;
    open_runs(&d, 4, last ? 8 : 1000000);
    const ls_status status = device_runs_all(&d);
    // Of the last run it may be told once the loop has ended.
    if (!last || !ls_status_is_ok(status))
      assert_int_equal(ls_status_code(status), LS_DATA_LOSS);
    expect_status(end_of(&d, status), LS_DATA_LOSS, "the sink has failed");
    expect_source(&d, "outfeed");
  }
}

// What may be well again ends the session; another one goes on.
TEST(what_can_be_recovered_from_is) {
  LS_SPEC("E88");
  for (int way = 0; way < 8; ++way) {
    const int before = thread_count();
    device_runs d;
    device_runs_begin(
        &d, &(device_runs_options){.hosts = 2, .cores = 2, .loops = way & 1});
    device_end *of = way & 2 ? &d.sink : &d.source;
    of->at = 5;
    of->code = LS_UNAVAILABLE;
    of->once = true;
    const int64_t last = way & 2 ? 400 : 12;
    open_runs(&d, way & 4 ? 4 : 1, last);
    expect_ok(device_runs_all(&d));
    assert_int_equal(device_runs_step(&d), last);
    expect_contains(device_runs_log(), "made again in a new session");
    expect_ok(end_of(&d, ls_ok()));
    device_runs_end(&d);
    expect_threads(before);
  }
}

TEST(a_lost_core_comes_back_with_the_session) {
  LS_SPEC("E88");
  for (int way = 0; way < 2; ++way) {
    const int before = thread_count();
    device_runs d;
    device_runs_begin(&d, &(device_runs_options){.hosts = 2, .cores = 2});
    open_runs(&d, 4, 12);
    ls_pod *pod = device_runs_pod(&d);
    expect_ok(ls_pod_inject(
        pod, &(ls_pod_fault){.kind = way == 0 ? LS_POD_CORE_LOST
                                              : LS_POD_HOST_PREEMPTED,
                             .host = 1,
                             .at_step = 6}));
    ls_pod_release(pod);
    expect_ok(device_runs_all(&d));
    assert_int_equal(device_runs_step(&d), 12);
    expect_contains(device_runs_log(), "made again in a new session");
    expect_ok(end_of(&d, ls_ok()));
    device_runs_end(&d);
    expect_threads(before);
  }
}

static void *close_later(void *user) {
  const device_runs *d = user;
  while (!__atomic_load_n(&d->source.waits, __ATOMIC_ACQUIRE))
    usleep(1000);
  ls_session_request_close(ls_monitored_session_now(d->session));
  return NULL;
}

// An input, or a function on the host, that waits and waits.
TEST(what_waits_for_ever_is_ended) {
  LS_SPEC("E88");
  for (int loops = 0; loops < 2; ++loops) {
    const int before = thread_count();
    pthread_t thread;
    device_runs d;
    device_runs_begin(
        &d, &(device_runs_options){
                .hosts = 2, .cores = 2, .loops = loops, .real_clock = true});
    d.source.at = 5;
    open_runs(&d, 4, 100);
    assert_int_equal(pthread_create(&thread, NULL, close_later, &d), 0);
    const ls_status status = device_runs_all(&d);
    assert_int_equal(pthread_join(thread, NULL), 0);
    // The program's run may begin after the request, and is refused then.
    const bool refused = ls_status_code(status) == LS_FAILED_PRECONDITION;
    expect_contains(ls_status_message(status),
                    refused ? "the session is closed" : "session was closed");
    ls_status_free(device_runs_close(&d, status));
    device_runs_end(&d);
    expect_threads(before);
  }
}

// ---- Prediction ------------------------------------------------------------
TEST(a_prediction_is_fed_by_one_run) {
  LS_SPEC("E89");
  const int before = thread_count();
  device_runs d;
  device_runs_begin(
      &d, &(device_runs_options){
              .hosts = 2, .cores = 2, .loops = true, .predicts = true});
  ls_hook *one = NULL;
  expect_ok(ls_eval_iterations_hook(1, &one));
  device_runs_open(&d, &one, 1);
  for (int k = 0; k < 100; ++k) {
    expect_ok(device_runs_try(&d));
    assert_true(ls_array_f64(ls_nest_as_array(d.results), 0) == k + 1);
    ls_device_hook_settle(d.hook);  // Nothing to wait for.
  }
  // Left early: the program would go on and on.
  expect_ok(end_of(&d, ls_ok()));
  device_runs_end(&d);
  expect_threads(before);
}

// ---- Ops that are counted --------------------------------------------------
static ls_status count_call(ls_host_call *call) {
  __atomic_fetch_add(&((device_end *)call->state)->count, 1, __ATOMIC_RELAXED);
  ls_host_done(call, ls_ok());
  return ls_ok();
}
static const ls_host_kernel counting = {.name = "device_hook_counting",
                                        .start = count_call};

// Its feed is not begun again by a later run; what is said is taken each time.
TEST(a_prediction_is_launched_once) {
  LS_SPEC("E89");
  ls_hook *one = NULL;
  ls_tensor step;
  LS_OWN_BEGUN(device_runs, d, device_runs_begin,
               &(device_runs_options){.hosts = 1, .predicts = true});
  ls_nest_release(d.enqueue);
  {
    LS_GRAPH_SCOPE(d.graph);
    d.enqueue = LS_LIST(
        ls_nest_op(ls_host_call_add(&counting, &d.source.object, NULL, 0)));
    d.dequeue = LS_LIST(
        ls_nest_op(ls_host_call_add(&counting, &d.sink.object, NULL, 0)));
    step = ls_variable_read(d.step);
  }
  expect_ok(ls_eval_iterations_hook(1, &one));
  device_runs_open(&d, &one, 1);
  for (int k = 0; k < 5; ++k) {
    expect_ok(ls_monitored_session_run(d.session, ls_leaf(step), NULL, 0,
                                       &d.results));
  }
  // The end would be the end of the threads.
  while (__atomic_load_n(&d.sink.count, __ATOMIC_RELAXED) < 5 ||
         __atomic_load_n(&d.source.count, __ATOMIC_RELAXED) < 1)
    usleep(100);
  expect_ok(device_runs_close(&d, ls_ok()));
  assert_int_equal(d.source.count, 1);
  assert_int_equal(d.sink.count, 5);
}

// ---- Making ----------------------------------------------------------------
MEMORY_TEST(make_a_device_hook) {
  ls_hook *hook = NULL;
  device_runs *d = self;
  ls_rendezvous *rendezvous = NULL;
  ls_run_config *config = NULL;
  ls_plans *plans = NULL;
  const ls_plan *plan = NULL;
  (void)d;
  ls_status status = ls_rendezvous_create(3, &rendezvous);
  if (ls_status_is_ok(status)) status = ls_tpu_run_config_create(NULL, &config);
  if (ls_status_is_ok(status))
    status = ls_plans_create(&(ls_estimator_facts){.config = config}, &plans);
  if (ls_status_is_ok(status))
    status = ls_plans_get(plans, LS_MODE_TRAIN, false, &plan);
  if (ls_status_is_ok(status))
    status = ls_device_hook(&(ls_device_hook_options){.plan = plan,
                                                      .enqueue_ops = ls_none(),
                                                      .dequeue_ops = ls_none(),
                                                      .close_ops = ls_none(),
                                                      .rendezvous = rendezvous},
                            &hook);
  ls_hook_release(hook);
  ls_plans_destroy(plans);
  ls_run_config_release(config);
  ls_rendezvous_destroy(rendezvous);
  return status;
}

TEST(other_hooks_have_nothing_to_settle) {
  LS_OWN(ls_hook, hook) = stop_hook(1, 2);
  ls_device_hook_settle(hook);
  ls_device_hook_settle(NULL);
  assert_null(ls_device_hook_compile_error(hook));
  assert_null(ls_device_hook_compile_error(NULL));
}
