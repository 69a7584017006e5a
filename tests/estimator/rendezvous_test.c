// SPDX-License-Identifier: Apache-2.0
//
// What is told of several failures.
#include "lockstep/rendezvous.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "lockstep/cancel.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/host.h"
#include "lockstep/variable_parts.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/monitored_runs.h"

LS_OWNED_POINTER(ls_rendezvous, ls_rendezvous_destroy)

static void record(ls_rendezvous *r, const char *source, ls_code code,
                   const char *text) {
  ls_rendezvous_record(r, source, LS_STATUS(code, "%s", text), NULL);
}

TEST(the_first_cause_is_told) {
  LS_SPEC("E188 E189");
  LS_OWN(ls_rendezvous, r) = NULL;
  expect_ok(ls_rendezvous_create(3, &r));
  expect_ok(ls_rendezvous_status(r, 0));
  // A session recovers from these.
  record(r, "infeed", LS_ABORTED, "a");
  record(r, "infeed", LS_UNAVAILABLE, "b");
  expect_ok(ls_rendezvous_status(r, 0));
  record(r, "outfeed", LS_CANCELLED, "first cancelled");
  record(r, "other", LS_CANCELLED, "second cancelled");
  expect_status(ls_rendezvous_status(r, 0), LS_CANCELLED, "first cancelled");
  record(r, "training_loop", LS_DATA_LOSS, "lost");
  expect_status(ls_rendezvous_status(r, 0), LS_DATA_LOSS, "lost");
  // In the order of the sources, each with what it said last.
  record(r, "outfeed", LS_NOT_FOUND, "early");
  record(r, "outfeed", LS_NOT_FOUND, "late");
  expect_status(ls_rendezvous_status(r, 0), LS_NOT_FOUND, "late");
  ls_rendezvous_record_done(r, "outfeed");  // Which keeps it.
  expect_status(ls_rendezvous_status(r, 0), LS_NOT_FOUND, "late");
}

static ls_rendezvous *waited_for;

static void say(void *user) {
  (void)user;
  if (monitored_runs_now() >= 2)
    record(waited_for, "late", LS_NOT_FOUND, "late");
}

TEST(it_waits_for_all_sources) {
  LS_SPEC("E189");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  expect_ok(ls_rendezvous_create(2, &waited_for));
  ls_rendezvous_record_done(waited_for, "early");
  expect_ok(ls_rendezvous_status(waited_for, 1));  // Not long enough.
  monitored_runs_on_sleep(say, NULL);
  expect_status(ls_rendezvous_status(waited_for, 10), LS_NOT_FOUND, "late");
  assert_true(monitored_runs_now() < 3);
  monitored_runs_on_sleep(NULL, NULL);
  ls_rendezvous_destroy(waited_for);
}

// Longer than a clock can count.
TEST(it_may_wait_for_ever) {
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  static const double times[] = {1e300, (double)INFINITY};
  for (size_t i = 0; i < 2; ++i) {
    expect_ok(ls_rendezvous_create(1, &waited_for));
    monitored_runs_on_sleep(say, NULL);
    expect_status(ls_rendezvous_status(waited_for, times[i]), LS_NOT_FOUND,
                  "late");
    monitored_runs_on_sleep(NULL, NULL);
    ls_rendezvous_destroy(waited_for);
  }
  expect_ok(ls_rendezvous_create(1, &waited_for));
  expect_ok(ls_rendezvous_status(waited_for, (double)NAN));
  expect_ok(ls_rendezvous_status(waited_for, -1));
  ls_rendezvous_destroy(waited_for);
}

static ls_status never_ends(ls_host_call *call) {
  (void)call;
  return ls_ok();
}
static const ls_host_kernel stuck = {.name = "stuck",
                                     .start = never_ends,
                                     .flags = LS_HOST_INLINE | LS_HOST_WAITS,
                                     .cancel = cancel_call};

static ls_status run_stuck_in(monitored_runs *f, ls_session *session) {
  ls_nest results = ls_none();
  ls_op op;
  {
    LS_GRAPH_SCOPE(f->graph);
    op = ls_host_call_add(&stuck, NULL, NULL, 0);
  }
  return ls_session_run(session, ls_nest_op(op), NULL, 0, &results);
}

static ls_status run_stuck(monitored_runs *f, ls_rendezvous *r,
                           ls_status recorded) {
  LS_OWN(ls_session, session) = session_of(f->graph);
  ls_rendezvous_record(r, "infeed", recorded, session);
  return run_stuck_in(f, session);
}

// A run that nothing would ever end is ended five seconds after a failure.
TEST(a_failure_closes_the_session) {
  LS_SPEC("E188");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_OWN(ls_rendezvous, r) = NULL;
  expect_ok(ls_rendezvous_create(1, &r));
  expect_status(run_stuck(&f, r, ls_invalid_argument("no such file")),
                LS_CANCELLED, "");
  assert_true(monitored_runs_now() >= 5 && monitored_runs_now() < 6);
  expect_contains(monitored_runs_log(), "closing the session");
  expect_status(ls_rendezvous_status(r, 0), LS_INVALID_ARGUMENT, "no such");
}

// Who is told of it may look.
static void look(void *user) {
  LS_OWN(ls_status, status) = ls_rendezvous_status(user, 0);
  assert_int_equal(ls_status_code(status), LS_INVALID_ARGUMENT);
}

TEST(that_a_session_is_closed_is_told_without_a_lock) {
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_OWN(ls_rendezvous, r) = NULL;
  expect_ok(ls_rendezvous_create(1, &r));
  monitored_runs_on_line("closing the session", look, r);
  expect_status(run_stuck(&f, r, ls_invalid_argument("no such file")),
                LS_CANCELLED, "");
  monitored_runs_on_line(NULL, NULL, NULL);
}

TEST(the_first_failure_says_when_the_session_is_closed) {
  LS_SPEC("E188");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_OWN(ls_rendezvous, r) = NULL;
  expect_ok(ls_rendezvous_create(2, &r));
  LS_OWN(ls_session, session) = session_of(f.graph);
  ls_rendezvous_record(r, "infeed", LS_STATUS(LS_DATA_LOSS, "bad"), session);
  monitored_runs_pass(3);
  ls_rendezvous_record(r, "outfeed", LS_STATUS(LS_DATA_LOSS, "b"), session);
  const double began = monitored_runs_now();
  expect_status(run_stuck_in(&f, session), LS_CANCELLED, "");
  assert_true(monitored_runs_now() < began + 3);
  ls_rendezvous_forget(r, session);
}

// One that is forgotten is left alone; the next failure closes another one.
TEST(a_session_that_is_forgotten_stays_open) {
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_OWN(ls_rendezvous, r) = NULL;
  ls_tensor one;
  {
    LS_GRAPH_SCOPE(f.graph);
    one = ls_scalar(LS_DTYPE_F32, 1);
  }
  expect_ok(ls_rendezvous_create(1, &r));
  ls_session *session = session_of(f.graph);
  ls_rendezvous_record(r, "infeed", LS_STATUS(LS_DATA_LOSS, "bad"), session);
  ls_rendezvous_forget(r, NULL);
  ls_rendezvous_forget(r, session);
  monitored_runs_pass(10);
  LS_OWN(ls_nest, results) = session_results(session, ls_leaf(one));
  ls_session_destroy(session);
  const double began = monitored_runs_now();
  expect_status(run_stuck(&f, r, ls_invalid_argument("no such file")),
                LS_CANCELLED, "");
  assert_true(monitored_runs_now() >= began + 5);
  expect_contains(monitored_runs_log(), "closing the session");
}

// A session is forgotten, and another one fails, while the first one's time is
// over.
typedef struct crossing {
  ls_rendezvous *rendezvous;
  ls_session *first, *second;
  pthread_t threads[2];
} crossing;

static void *forget_first(void *user) {
  const crossing *self = user;
  ls_rendezvous_forget(self->rendezvous, self->first);
  return NULL;
}

static void *fail_second(void *user) {
  const crossing *self = user;
  ls_rendezvous_record(self->rendezvous, "infeed",
                       LS_STATUS(LS_DATA_LOSS, "bad"), self->second);
  return NULL;
}

static void cross(void *user) {
  static void *(*const calls[])(void *) = {forget_first, fail_second};
  crossing *self = user;
  ls_session_request_close(self->first);
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(pthread_create(&self->threads[i], NULL, calls[i], self),
                     0);
    usleep(20000);
  }
}

TEST(a_timer_closes_no_other_session) {
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_OWN(ls_rendezvous, r) = NULL;
  expect_ok(ls_rendezvous_create(1, &r));
  LS_OWN(ls_session, first) = session_of(f.graph);
  LS_OWN(ls_session, second) = session_of(f.graph);
  crossing c = {.rendezvous = r, .first = first, .second = second};
  monitored_runs_on_line("closing the session", cross, &c);
  ls_rendezvous_record(r, "infeed", LS_STATUS(LS_DATA_LOSS, "bad"), first);
  expect_status(run_stuck_in(&f, first), LS_CANCELLED, "");
  for (int i = 0; i < 2; ++i)
    assert_int_equal(pthread_join(c.threads[i], NULL), 0);
  monitored_runs_on_line(NULL, NULL, NULL);
  // The second one has five seconds of its own.
  const double began = monitored_runs_now();
  expect_status(run_stuck_in(&f, second), LS_CANCELLED, "");
  assert_true(monitored_runs_now() >= began + 4);
  ls_rendezvous_forget(r, second);
}

static void *request(void *cancel) {
  usleep(20000);
  ls_cancel_request(cancel);
  return NULL;
}

// What a run says that has found a variable which is not finite.
static ls_status fail_by_numbers(void) {
  LS_OWN(ls_graph, graph) = graph_named("numbers");
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_nest, checks) = ls_none();
  LS_OWN(ls_variable, w) = NULL;
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "w",
                               .initial_value = ls_scalar(LS_DTYPE_F32, NAN)},
        &w));
    expect_ok(ls_tpu_sync_ops(graph, false, &checks));
  }
  expect_ok(ls_session_create(graph, &session));
  LS_OWN(ls_nest, results) =
      session_results(session, ls_nest_op(ls_variable_initializer(w)));
  const ls_status status = ls_session_run(session, checks, NULL, 0, &results);
  expect_contains(ls_status_message(status), "Gradient for w:0 is NaN");
  return status;
}

// A check of numbers ends its own run. What only reads like one does not.
TEST(a_check_of_numbers_closes_nothing) {
  LS_SPEC("E188");
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_OWN(ls_rendezvous, r) = NULL;
  ls_cancel *cancel = NULL;
  pthread_t thread;
  expect_ok(ls_rendezvous_create(1, &r));
  expect_ok(ls_cancel_create(f.runtime, &cancel));
  ls_cancel *outer = ls_cancel_make_current(cancel);
  assert_int_equal(pthread_create(&thread, NULL, request, cancel), 0);
  expect_status(run_stuck(&f, r, fail_by_numbers()), LS_CANCELLED, "");
  (void)ls_cancel_make_current(outer);
  pthread_join(thread, NULL);
  assert_true(monitored_runs_now() < 5);
  expect_status(ls_rendezvous_status(r, 0), LS_INVALID_ARGUMENT, "Gradient");
  ls_cancel_destroy(cancel);
  const double began = monitored_runs_now();
  expect_status(run_stuck(&f, r, ls_invalid_argument("the path is NaN")),
                LS_CANCELLED, "");
  assert_true(monitored_runs_now() >= began + 5);
}
