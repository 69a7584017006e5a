// SPDX-License-Identifier: Apache-2.0
//
// Loops of one session run that wait for each other through queues: they go
// side by side on the caller's thread.
#include "support/expect.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "lockstep/cancel.h"
#include "lockstep/flow.h"
#include "lockstep/runtime_settings.h"
#include "lockstep/session.h"
#include "support/callbacks.h"
#include "support/place.h"
#include "support/queue_ops.h"
#include "support/values.h"

// A loop that puts 0, 1, 2, ... or adds up what it gets.
typedef struct loop {
  queue_state *queue;
  bool gets;
} loop;

static ls_nest trip(ls_nest values, void *user) {
  const loop *self = user;
  const ls_tensor i = ls_nest_tensor(values, 0);
  ls_tensor sum = ls_nest_tensor(values, 1);
  if (self->gets)
    sum = ls_add(sum, queue_get(self->queue));
  else
    (void)queue_put(self->queue, i);
  return LS_LIST(ls_leaf(ls_add_scalar(i, 1)), ls_leaf(sum));
}

static ls_tensor make_loop(loop *self, int64_t trips) {
  LS_OWN(ls_nest, made) = ls_while(always_true, trip, self,
                                   LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_F32, 0)),
                                           ls_leaf(ls_scalar(LS_DTYPE_F32, 0))),
                                   trips);
  return ls_nest_tensor(made, 1);
}

enum { LOOPS = 4 };

// Two producers and two consumers over two queues, consumers first.
typedef struct fixture {
  queue_state queues[2];
  loop loops[LOOPS];
  ls_graph *graph;
  ls_session *session;
  ls_nest fetches, results;
} fixture;

static void setup(fixture *f, int64_t trips) {
  memset(f, 0, sizeof(*f));
  for (int i = 0; i < 2; ++i)
    queue_state_init(&f->queues[i], 1);
  ls_nest sums[LOOPS];
  expect_ok(ls_graph_create("queues", &f->graph));
  {
    LS_GRAPH_SCOPE(f->graph);
    for (int i = 0; i < LOOPS; ++i) {
      f->loops[i] = (loop){&f->queues[i % 2], i < 2};
      sums[i] = ls_leaf(make_loop(&f->loops[i], trips));
    }
  }
  f->fetches = ls_nest_sequence(LS_KIND_LIST, sums, LOOPS);
  f->results = ls_none();
  expect_ok(ls_session_create(f->graph, &f->session));
}

static void teardown(fixture *f) {
  ls_nest_release(f->fetches);
  ls_nest_release(f->results);
  ls_session_destroy(f->session);
  ls_graph_destroy(f->graph);
  for (int i = 0; i < 2; ++i)
    queue_state_deinit(&f->queues[i]);
}
LS_OWNED_STRUCT(fixture, teardown)

static double sum_of(const fixture *f, size_t i) {
  return ls_array_f64(ls_nest_as_array(ls_nest_item(f->results, i)), 0);
}

TEST(loops_over_queues_of_one_end_on_one_thread) {
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){.threads = 1});
  LS_OWN_BEGUN(fixture, f, setup, 1000);
  for (int k = 0; k < 3; ++k) {
    expect_ok(ls_session_run(f.session, f.fetches, NULL, 0, &f.results));
    for (size_t i = 0; i < 2; ++i)
      assert_true(sum_of(&f, i) == 999.0 * 1000 / 2);
  }
}

// ---- Cancelling ------------------------------------------------------------
static void *request(void *cancel) {
  usleep((useconds_t)(rand() % 700));
  ls_cancel_request(cancel);
  return NULL;
}

// Everything that goes on and on.
static void empty(fixture *f) {
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_nest, item) = ls_none();
    bool popped = false;
    expect_ok(ls_queue_try_pop(f->queues[i].queue, 0, &item, &popped));
  }
}

TEST(a_cancelled_run_ends_wherever_it_is) {
  const char *times = getenv("LS_TEST_CANCELS");
  const int count = times != NULL ? atoi(times) : 100;
  LS_OWN_BEGUN(fixture, f, setup, 20);
  LS_OWN_BEGUN(fixture, endless, setup, 0);
  ls_cancel *cancel = NULL;
  expect_ok(ls_cancel_create(ls_runtime_current(), &cancel));
  for (int k = 0; k < count; ++k) {
    pthread_t thread;
    assert_null(ls_cancel_make_current(cancel));
    assert_int_equal(pthread_create(&thread, NULL, request, cancel), 0);
    expect_status(ls_session_run(endless.session, endless.fetches, NULL, 0,
                                 &endless.results),
                  LS_CANCELLED, "cancelled");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ptr_equal(ls_cancel_make_current(NULL), cancel);
    ls_cancel_reset(cancel);
    empty(&endless);
    expect_ok(ls_session_run(f.session, f.fetches, NULL, 0, &f.results));
    assert_true(sum_of(&f, 0) == 19.0 * 20 / 2);
  }
  assert_int_equal(ls_runtime_abandoned_calls(ls_runtime_current()), 0);
  ls_cancel_destroy(cancel);
}

// ---- Closing ---------------------------------------------------------------
// Once its run has begun.
static void *close_session(void *user) {
  fixture *f = user;
  while (__atomic_load_n(&f->queues[0].puts, __ATOMIC_RELAXED) == 0)
    sched_yield();
  expect_ok(ls_session_close(f->session));
  return NULL;
}

TEST(a_closed_session_ends_its_runs) {
  LS_OWN_BEGUN(fixture, f, setup, 0);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, close_session, &f), 0);
  expect_status(ls_session_run(f.session, f.fetches, NULL, 0, &f.results),
                LS_CANCELLED, "session was closed");
  assert_int_equal(pthread_join(thread, NULL), 0);
  expect_status(ls_session_run(f.session, f.fetches, NULL, 0, &f.results),
                LS_FAILED_PRECONDITION, "closed");
  expect_ok(ls_session_close(f.session));
}

// ---- Failing ---------------------------------------------------------------
TEST(a_part_that_fails_ends_the_others) {
  LS_OWN_BEGUN(fixture, f, setup, 0);
  ls_queue_close(f.queues[1].queue);
  expect_status(ls_session_run(f.session, f.fetches, NULL, 0, &f.results),
                LS_OUT_OF_RANGE, "queue_get");
}

// A consumer alone waits for good, and says for what.
TEST(a_loop_that_nobody_feeds_is_named) {
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.threads = 1, .stall_ms = 50});
  LS_OWN_BEGUN(fixture, f, setup, 3);
  expect_status(ls_session_run(f.session, ls_nest_item(f.fetches, 0), NULL, 0,
                               &f.results),
                LS_DEADLINE_EXCEEDED, "queue_get");
  assert_int_equal(ls_runtime_abandoned_calls(home.runtime), 0);
}
