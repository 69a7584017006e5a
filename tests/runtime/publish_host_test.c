// SPDX-License-Identifier: Apache-2.0
//
// A run that may wait for the host excludes nobody meanwhile: it reads what
// there was at its start and publishes at its end, or never.
#include <sched.h>
#include <string.h>

#include "base/memory/own.h"
#include "graph/own.h"
#include "lockstep/function_plan.h"
#include "support/counted.h"
#include "support/function.h"
#include "support/writers.h"

enum { SIZE = 16 << 10, THREADS = 4, STEPS = 1000 };

// ---- A host call for tests -------------------------------------------------
static struct {
  const writer *writer;  // Whose variables it reads.
  ls_variable *wrote;    // It adds one to; or NULL.
  ls_status status;      // What the write gave.
  double value, steps;   // What it read.
  ls_session *inner;     // It reads and writes in a run of this, or NULL.
  ls_op inner_op;
  bool fails, waits;
  bool is_in, may_go;  // Atomic.
  int calls;           // Atomic.
} host;

static void look(void) {
  host.value = writer_value(host.writer, host.writer->value);
  host.steps = writer_value(host.writer, host.writer->steps);
  if (host.wrote == NULL) return;
  LS_OWN(ls_array, one) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){1});
  host.status =
      host.writer->way == IN_SESSION
          ? ls_session_set_variable_value(host.writer->session, host.wrote, one)
          : ls_variable_set_value(host.wrote, one);
}

static ls_status look_inside(ls_nest args, void *user) {
  (void)args, (void)user;
  look();
  return ls_ok();
}

static ls_status start_host(ls_host_call *call) {
  __atomic_fetch_add(&host.calls, 1, __ATOMIC_RELEASE);
  if (host.inner != NULL)
    ls_nest_release(session_results(host.inner, ls_nest_op(host.inner_op)));
  else if (host.writer != NULL)
    look();
  __atomic_store_n(&host.is_in, true, __ATOMIC_RELEASE);
  while (host.waits && !__atomic_load_n(&host.may_go, __ATOMIC_ACQUIRE))
    sched_yield();
  if (host.fails) return ls_invalid_argument("the host says no");
  ls_host_done(call, ls_ok());
  return ls_ok();
}
static const ls_host_kernel kernel = {.name = "looks", .start = start_host};

static void begin(writer *w, way_to_write way, int64_t size) {
  memset(&host, 0, sizeof(host));
  *w = (writer){.kernel = &kernel};
  writer_init(w, way, size, NULL);
}

static const way_to_write ways[] = {IN_FUNCTION, IN_SESSION};

// ---- What a host call sees -------------------------------------------------
TEST(a_host_call_sees_the_values_before_its_run) {
  for (int i = 0; i < 2; ++i) {
    LS_OWN_BEGUN(writer, w, begin, ways[i], SIZE);
    host.writer = &w;
    for (int step = 0; step < 5; ++step) {
      expect_ok(writer_step(&w));
      assert_true(host.value == step && host.steps == step);
    }
    assert_true(writer_value(&w, w.value) == 5);
    assert_true(writer_value(&w, w.steps) == 5);
  }
}

TEST(a_run_that_fails_publishes_nothing) {
  for (int i = 0; i < 2; ++i) {
    LS_OWN_BEGUN(writer, w, begin, ways[i], SIZE);
    expect_ok(writer_step(&w));
    for (int k = 0; k < 3; ++k) {
      host.fails = true;
      expect_status(writer_step(&w), LS_INVALID_ARGUMENT, "the host says no");
      assert_true(writer_value(&w, w.value) == 1 + k);
      assert_true(writer_value(&w, w.steps) == 1 + k);
      host.fails = false;
      expect_ok(writer_step(&w));
      assert_true(writer_value(&w, w.value) == 2 + k);
      assert_true(writer_value(&w, w.steps) == 2 + k);
    }
  }
}

// It would wait for the end of the run that waits for it.
TEST(a_host_call_may_not_write_what_its_run_writes) {
  for (int i = 0; i < 2; ++i) {
    LS_OWN_BEGUN(writer, w, begin, ways[i], SIZE);
    host.writer = &w;
    host.wrote = w.steps;
    expect_ok(writer_step(&w));
    expect_status(host.status, LS_FAILED_PRECONDITION,
                  "'steps' is written by the run that this host call is part "
                  "of");
    assert_true(writer_value(&w, w.steps) == 1);
  }
}

// Not in a session of its own either, which uses no variables.
TEST(a_run_of_a_host_call_may_not_write_what_its_run_writes) {
  LS_OWN_BEGUN(writer, w, begin, IN_SESSION, SIZE);
  LS_OWN(ls_graph, graph) = NULL;
  expect_ok(ls_graph_create("inner", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    host.inner_op = ls_host_function_op(look_inside, NULL, ls_none());
  }
  expect_ok(ls_session_create(graph, &host.inner));
  host.writer = &w;
  host.wrote = w.steps;
  expect_ok(writer_step(&w));
  expect_status(host.status, LS_FAILED_PRECONDITION,
                "'steps' is written by the run that this host call is part of");
  ls_session_destroy(host.inner);
}

// What the run only reads it keeps, as it was at its start.
TEST(a_host_call_may_write_what_its_run_reads) {
  memset(&host, 0, sizeof(host));
  LS_OWN(writer, w) = {.kernel = &kernel};
  w.looks_at = variable_of("seen", LS_DTYPE_F32, LS_SCALAR, (double[]){7});
  writer_init(&w, IN_FUNCTION, SIZE, NULL);
  host.writer = &w;
  host.wrote = w.looks_at;
  for (int step = 1; step < 4; ++step) {
    expect_ok(writer_step(&w));
    expect_ok(host.status);
    assert_true(writer_value(&w, w.looks_at) == 1);
    assert_true(writer_value(&w, w.value) == step);
  }
  ls_variable_release(w.looks_at);
}

// The two buffers of a variable take turns, and nothing is copied.
TEST(new_values_are_made_where_they_stay) {
  LS_OWN(counted, memory) = counted_begin(1);
  LS_OWN(writer, w) = {0};
  LS_OWN(printed, plan) = NULL;
  LS_OWN(ls_nest, result) = ls_none();
  begin(&w, IN_FUNCTION, SIZE);
  for (int step = 0; step < 3; ++step)
    expect_ok(ls_function_call(w.function, ls_none(), &result));
  const ls_allocator_counts before = counted_now(&memory);
  for (int step = 0; step < 5; ++step)
    expect_ok(ls_function_call(w.function, ls_none(), &result));
  assert_int_equal(counted_now(&memory).allocations, before.allocations);
  assert_true(writer_value(&w, w.value) == 8);
  expect_ok(ls_function_print_plan(w.function, &plan));
  assert_non_null(strstr(plan, "new value 0:65536"));
  assert_null(strstr(plan, "copy variable 0"));
}

// ---- Side by side ----------------------------------------------------------
static void wait_until_in(void) {
  while (!__atomic_load_n(&host.is_in, __ATOMIC_ACQUIRE))
    sched_yield();
}

static void let_go(void) {
  __atomic_store_n(&host.may_go, true, __ATOMIC_RELEASE);
}

// One model's step is held in its host call; another one trains, and the held
// one's variables are read, by functions too.
TEST(others_go_on_while_a_run_waits_for_the_host) {
  for (int i = 0; i < 2; ++i) {
    writing thread;
    LS_OWN_BEGUN(writer, held, begin, ways[i], SIZE);
    host.waits = true;
    LS_OWN_BEGUN(writer, other, writer_init, ways[i], SIZE, &held);
    writing_begin(&thread, &held, 1);
    wait_until_in();
    for (int step = 1; step <= 20; ++step) {
      expect_ok(writer_step(&other));
      assert_true(writer_value(&other, other.value) == step);
      assert_true(writer_value(&held, held.value) == 0);
    }
    let_go();
    writing_end(&thread);
    assert_true(writer_value(&held, held.value) == 1);
  }
}

static ls_variable *set_to(ls_variable *variable, double value) {
  LS_OWN(ls_array, array) = array_of(LS_DTYPE_F32, LS_SCALAR, &value);
  expect_ok(ls_variable_set_value(variable, array));
  return variable;
}

// Behind one that waits for the held run's end others still come through.
TEST(a_writer_waits_for_the_run_and_readers_do_not) {
  writing threads[2];
  LS_OWN_BEGUN(writer, held, begin, IN_FUNCTION, SIZE);
  host.waits = true;
  LS_OWN_BEGUN(writer, other, writer_init, IN_EAGER, SIZE, NULL);
  ls_variable_release(other.steps);
  other.steps = ls_variable_retain(held.steps);
  writing_begin(&threads[0], &held, 1);
  wait_until_in();
  writing_begin(&threads[1], &other, 1);
  for (int i = 0; i < 200; ++i) {
    assert_true(writer_value(&held, held.steps) == 0);
    sched_yield();
  }
  assert_int_equal(__atomic_load_n(&threads[1].done, __ATOMIC_ACQUIRE), 0);
  let_go();
  writing_end(&threads[0]);
  writing_end(&threads[1]);
  assert_true(writer_value(&held, held.steps) == 2);
}

// The value that a held run reads is another one's to write, many times.
TEST(what_a_run_reads_stays_for_it) {
  memset(&host, 0, sizeof(host));
  LS_OWN(writer, w) = {.kernel = &kernel};
  writing thread;
  w.looks_at = variable_of("seen", LS_DTYPE_F32, LS_SCALAR, (double[]){7});
  writer_init(&w, IN_FUNCTION, SIZE, NULL);
  host.waits = true;
  writing_begin(&thread, &w, 1);
  wait_until_in();
  for (int i = 0; i < 5; ++i)
    assert_true(writer_value(&w, set_to(w.looks_at, i)) == i);
  let_go();
  writing_end(&thread);
  assert_true(writer_value(&w, w.looks_at) == 4);
  ls_variable_release(w.looks_at);
}

// ---- Many at once ----------------------------------------------------------
TEST(no_update_of_runs_with_host_calls_is_lost) {
  for (int i = 0; i < 2; ++i) {
    writing threads[THREADS];
    LS_OWN_BEGUN(writer, w, begin, ways[i], SIZE);
    LS_OWN_BEGUN(writer, plain, writer_init, ways[i], 300, &w);
    for (int k = 0; k < THREADS; ++k)
      writing_begin(&threads[k], k % 2 == 0 ? &w : &plain, STEPS / THREADS);
    int torn = 0;
    double last = 0;
    for (int k = 0; k < STEPS; ++k) {
      const double now = writer_value(&w, w.value);
      torn += now < last;
      last = now;
    }
    for (int k = 0; k < THREADS; ++k)
      writing_end(&threads[k]);
    assert_int_equal(torn, 0);
    assert_true(writer_value(&w, w.value) == STEPS / 2);
    assert_true(writer_value(&plain, plain.value) == STEPS / 2);
    assert_int_equal(host.calls, STEPS / 2);
  }
}
