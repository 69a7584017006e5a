// SPDX-License-Identifier: Apache-2.0
//
// A run of many steps that fails or is cancelled leaves its variables as the
// last whole trip left them: all of one trip, and never of half of it.
#include <string.h>

#include "graph/own.h"
#include "lockstep/cancel.h"
#include "lockstep/flow.h"
#include "lockstep/function_plan.h"
#include "lockstep/host.h"
#include "lockstep/session.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/values.h"

enum { WIDTH = 8, TRIPS = 10, FAILS_AT = 7 };

// How many calls there were, which one fails, and what the last one cancels.
static struct {
  int calls, fails_at;
  ls_cancel *cancels;
} host;

static ls_status fail_once(ls_host_call *call) {
  if (++host.calls == host.fails_at) {
    if (host.cancels == NULL) return ls_out_of_range("it was told to");
    ls_cancel_request(host.cancels);
  }
  ls_host_done(call, ls_ok());
  return ls_ok();
}
static const ls_host_kernel on_host = {.name = "on_host", .start = fail_once};
static const ls_host_kernel in_line = {
    .name = "in_line", .start = fail_once, .flags = LS_HOST_INLINE};
static const ls_host_kernel *const kernels[] = {&on_host, &in_line};

// Where in a trip the call stands, and what it looks at.
typedef enum place { FIRST, BETWEEN, LAST, LOOKS_AT_NEW, PLACES } place;

typedef struct loop {
  const ls_host_kernel *kernel;
  place place;
  ls_variable *a, *b;
} loop;

static void call_host(const loop *l, place at, ls_tensor value) {
  if (l->place == at) (void)ls_host_call_add(l->kernel, NULL, &value, 1);
}

// Each trip adds one to all of both.
static ls_nest trip(ls_nest values, void *user) {
  const loop *l = user;
  const ls_tensor x = ls_variable_read(l->a);
  const ls_tensor one = ls_fill(LS_DTYPE_F32, LS_SHAPE(WIDTH, WIDTH), 1);
  call_host(l, FIRST, x);
  const ls_tensor after = ls_variable_assign_add(l->a, one);
  call_host(l, BETWEEN, x);
  call_host(l, LOOKS_AT_NEW, after);
  (void)ls_variable_assign_add(l->b, one);
  call_host(l, LAST, x);
  return ls_nest_retain(values);
}

static ls_nest train(ls_nest args, void *user) {
  (void)args;
  return ls_while(always_true, trip, user, ls_leaf(ls_scalar(LS_DTYPE_F32, 0)),
                  TRIPS);
}

// The same once, without a loop.
static ls_nest train_once(ls_nest args, void *user) {
  (void)args;
  ls_nest_release(trip(ls_none(), user));
  return ls_none();
}

static double whole(ls_variable *variable) {
  double values[WIDTH * WIDTH];
  read_variable(variable, values, WIDTH * WIDTH);
  for (int i = 1; i < WIDTH * WIDTH; ++i)
    assert_true(values[i] == values[0]);
  return values[0];
}

static void expect_trips(const loop *l, double trips) {
  assert_true(whole(l->a) == trips);
  assert_true(whole(l->b) == trips);
}

// ---- Functions, on replicas ------------------------------------------------
typedef struct fixture {
  loop l;
  ls_strategy *strategy;
  ls_function *function;
  ls_nest results;
} fixture;

static void setup(fixture *f, int replicas, ls_callback call,
                  const ls_host_kernel *kernel, place at) {
  const double zeros[WIDTH * WIDTH] = {0};
  memset(&host, 0, sizeof(host));
  f->l = (loop){.kernel = kernel, .place = at};
  f->results = ls_none();
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &f->strategy));
  LS_STRATEGY_SCOPE(f->strategy);
  f->l.a = variable_of("a", LS_DTYPE_F32, LS_SHAPE(WIDTH, WIDTH), zeros);
  f->l.b = variable_of("b", LS_DTYPE_F32, LS_SHAPE(WIDTH, WIDTH), zeros);
  expect_ok(ls_function_create(
      &(ls_function_options){.call = call, .user = &f->l}, &f->function));
}

static void teardown(fixture *f) {
  ls_nest_release(f->results);
  ls_function_release(f->function);
  ls_variable_release(f->l.a);
  ls_variable_release(f->l.b);
  ls_strategy_release(f->strategy);
}
LS_OWNED_STRUCT(fixture, teardown)

static ls_status run(fixture *f) {
  return ls_strategy_run(f->strategy, ls_traced(f->function), ls_none(),
                         &f->results);
}

TEST(a_failed_run_leaves_its_last_whole_trip) {
  for (int i = 0; i < 2 * PLACES; ++i)
    for (int replicas = 1; replicas <= 3; replicas += 2) {
      LS_OWN_BEGUN(fixture, f, setup, replicas, train, kernels[i % 2],
                   (place)(i / 2));
      host.fails_at = replicas * (FAILS_AT - 1) + 1;
      expect_status(run(&f), LS_OUT_OF_RANGE, "told");
      // Where the call looks at what its trip has made, that trip counts.
      const double trips = f.l.place == LOOKS_AT_NEW ? FAILS_AT : FAILS_AT - 1;
      expect_trips(&f.l, trips);
      expect_ok(run(&f));
      expect_trips(&f.l, trips + TRIPS);
    }
}

TEST(a_cancelled_run_leaves_its_last_whole_trip) {
  ls_cancel *cancel = NULL;
  expect_ok(ls_cancel_create(ls_runtime_current(), &cancel));
  for (int i = 0; i < 2 * PLACES; ++i) {
    LS_OWN_BEGUN(fixture, f, setup, 3, train, kernels[i % 2], (place)(i / 2));
    host.fails_at = 3 * FAILS_AT;
    host.cancels = cancel;
    assert_null(ls_cancel_make_current(cancel));
    expect_status(run(&f), LS_CANCELLED, "cancelled");
    assert_ptr_equal(ls_cancel_make_current(NULL), cancel);
    ls_cancel_reset(cancel);
    // It looks where it waits and at the loop's head.
    const double trips = whole(f.l.a);
    assert_true(trips == FAILS_AT || trips == FAILS_AT - 1);
    expect_trips(&f.l, trips);
  }
  ls_cancel_destroy(cancel);
}

// One step without a loop writes variables where they are, unless it has to
// wait, or fails when one of them is written.
TEST(a_failed_step_leaves_what_was_there) {
  for (int i = 0; i < 2 * PLACES; ++i)
    for (int replicas = 1; replicas <= 3; replicas += 2) {
      LS_OWN_BEGUN(fixture, f, setup, replicas, train_once, kernels[i % 2],
                   (place)(i / 2));
      expect_ok(run(&f));
      host.calls = 0;
      host.fails_at = replicas;
      expect_status(run(&f), LS_OUT_OF_RANGE, "told");
      expect_trips(&f.l, 1);
      LS_OWN(printed, plan) = NULL;
      expect_ok(ls_function_print_plan(f.function, &plan));
      const bool apart = strstr(plan, "new value") != NULL;
      assert_int_equal(apart,
                       f.l.kernel == &on_host || f.l.place == LOOKS_AT_NEW);
    }
}

// ---- Sessions --------------------------------------------------------------
static double session_value(ls_session *session, ls_variable *variable) {
  LS_OWN(ls_array, array) = session_array(session, variable);
  for (int i = 1; i < WIDTH * WIDTH; ++i)
    assert_true(ls_array_f64(array, i) == ls_array_f64(array, 0));
  return ls_array_f64(array, 0);
}

TEST(a_failed_session_run_leaves_its_last_whole_trip) {
  for (int i = 0; i < 2 * PLACES; ++i) {
    const double zeros[WIDTH * WIDTH] = {0};
    loop l = {.kernel = kernels[i % 2], .place = (place)(i / 2)};
    ls_nest fetches = ls_none();
    ls_op init = {0};
    memset(&host, 0, sizeof(host));
    host.fails_at = FAILS_AT;
    LS_OWN(ls_graph, graph) = graph_named("g");
    {
      LS_GRAPH_SCOPE(graph);
      l.a = variable_of("a", LS_DTYPE_F32, LS_SHAPE(WIDTH, WIDTH), zeros);
      l.b = variable_of("b", LS_DTYPE_F32, LS_SHAPE(WIDTH, WIDTH), zeros);
      fetches = train(ls_none(), &l);
      init = ls_global_initializer();
    }
    ls_session *session = session_of(graph);
    ls_nest results = session_results(session, ls_nest_op(init));
    expect_status(ls_session_run(session, fetches, NULL, 0, &results),
                  LS_OUT_OF_RANGE, "told");
    const double trips = l.place == LOOKS_AT_NEW ? FAILS_AT : FAILS_AT - 1;
    assert_true(session_value(session, l.a) == trips);
    assert_true(session_value(session, l.b) == trips);
    ls_nest_release(fetches);
    ls_nest_release(results);
    ls_session_destroy(session);
    ls_variable_release(l.a);
    ls_variable_release(l.b);
  }
}
