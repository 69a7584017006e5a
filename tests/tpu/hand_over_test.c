// SPDX-License-Identifier: Apache-2.0
//
// Tuples that threads hand over and take without ops.
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "lockstep/cancel.h"
#include "lockstep/tpu_system.h"
#include "support/pod_runs.h"
#include "tpu/pod/core_queues.h"

static const ls_runtime_options usual = {.threads = 1, .stall_ms = 20000};
static const char first_core[] = "/device:TPU:0";

static ls_nest number_array(double value) {
  const ls_nest made = ls_nest_zeros(LS_DTYPE_F32, LS_SCALAR);
  ls_array_set_f64(ls_nest_as_array(made), 0, value);
  return made;
}

TEST(arrays_are_kept_until_they_are_taken) {
  LS_SPEC("O141");
  LS_OWN(pod_runs, f) = pod_runs_begin(2, 2, usual);
  LS_OWN(ls_nest, take) = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    take = ls_leaf(take_number(1, 0));
  }
  LS_OWN(ls_nest, array) = number_array(7);
  LS_OWN(ls_nest, other) = number_array(8);
  expect_ok(ls_infeed_put("/task:1/device:TPU:0", array));
  const ls_nest list = LS_LIST(ls_nest_retain(other));
  expect_ok(ls_infeed_put("/task:1/device:TPU:0", list));
  ls_nest_release(list);
  assert_false(ls_array_is_unique(ls_nest_as_array(array)));
  for (int k = 0; k < 2; ++k) {
    pod_runs_do(&f, ls_nest_retain(take));
    assert_true(pod_runs_number(&f, 0) == 7 + k);
  }
  // They are the caller's again, as they were.
  assert_true(ls_array_is_unique(ls_nest_as_array(array)));
  assert_true(ls_array_f64(ls_nest_as_array(array), 0) == 7);
}

TEST(what_is_no_tuple_is_refused) {
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, usual);
  LS_OWN(ls_nest, empty) = ls_nest_sequence(LS_KIND_LIST, NULL, 0);
  expect_status(ls_infeed_put(first_core, empty), LS_INVALID_ARGUMENT,
                "at least one");
  expect_status(ls_infeed_put(first_core, ls_nest_i64(3)), LS_INVALID_ARGUMENT,
                "no array");
  // As the op refuses it.
  const ls_nest text = ls_nest_zeros(LS_DTYPE_STRING, LS_SCALAR);
  expect_status(ls_infeed_put(first_core, text), LS_INVALID_ARGUMENT,
                "element 0 of a tuple for an infeed is of type string");
  ls_nest_release(text);
  LS_OWN(ls_nest, array) = number_array(1);
  expect_status(ls_infeed_put("/device:TPU:5", array), LS_NOT_FOUND, "TPU:5");
  expect_status(ls_infeed_put("/device:CPU:0", array), LS_NOT_FOUND, "CPU");
  ls_nest close = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    close = LS_LIST(ls_nest_op(ls_infeed_close(0)),
                    ls_nest_op(ls_outfeed_close(0)));
  }
  pod_runs_do(&f, close);
  expect_status(ls_infeed_put(first_core, array), LS_FAILED_PRECONDITION,
                "closed");
  ls_nest tuple = ls_none();
  expect_status(ls_outfeed_take(first_core, &tuple), LS_OUT_OF_RANGE,
                "outfeed closed");
  assert_true(ls_array_is_unique(ls_nest_as_array(array)));
}

// ---- Faults ----------------------------------------------------------------
// Of four tuples the second is lost, and the third the last one.
TEST(faults_of_a_pod_meet_what_is_handed_over) {
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, usual);
  ls_nest take = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    take = ls_leaf(take_number(0, 0));
  }
  expect_ok(ls_pod_inject(
      f.pod, &(ls_pod_fault){.kind = LS_POD_TUPLE_LOST, .at_step = 1}));
  expect_ok(ls_pod_inject(
      f.pod, &(ls_pod_fault){.kind = LS_POD_INFEED_CLOSED, .at_step = 2}));
  for (int i = 0; i < 3; ++i) {
    LS_OWN(ls_nest, array) = number_array(i);
    expect_ok(ls_infeed_put(first_core, array));
  }
  const ls_nest late = number_array(3);
  expect_status(ls_infeed_put(first_core, late), LS_FAILED_PRECONDITION,
                "closed");
  ls_nest_release(late);
  for (int i = 0; i < 3; i += 2) {
    pod_runs_do(&f, ls_nest_retain(take));
    assert_true(pod_runs_number(&f, 0) == i);
  }
  expect_status(pod_runs_try(&f, take), LS_OUT_OF_RANGE, "infeed closed");
}

// ---- Threads ---------------------------------------------------------------
enum { TUPLES = 500 };

typedef struct feeder {
  ls_runtime *runtime;
  ls_cancel *cancel;
  ls_status status;
  int put;  // Atomic.
} feeder;

static void *feed(void *user) {
  feeder *self = user;
  ls_runtime *before = ls_runtime_make_current(self->runtime);
  (void)ls_cancel_make_current(self->cancel);
  for (int i = 0; i < TUPLES && ls_status_is_ok(self->status); ++i) {
    LS_OWN(ls_nest, array) = number_array(i);
    self->status = ls_infeed_put(first_core, array);
    __atomic_fetch_add(&self->put, 1, __ATOMIC_RELAXED);
  }
  (void)ls_cancel_make_current(NULL);
  (void)ls_runtime_make_current(before);
  return NULL;
}

// A run takes each and gives it back through the outfeed, to another thread.
TEST(threads_feed_and_read_a_core) {
  LS_SPEC("O141");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, usual);
  LS_OWN(ls_nest, step) = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    step = ls_nest_op(give_tensor(0, 0, take_number(0, 0)));
  }
  feeder self = {.runtime = f.c.runtime};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, feed, &self), 0);
  for (int i = 0; i < TUPLES; ++i) {
    pod_runs_do(&f, ls_nest_retain(step));
    LS_OWN(ls_nest, tuple) = ls_none();
    expect_ok(ls_outfeed_take(first_core, &tuple));
    const ls_nest item = ls_nest_item(tuple, 0);
    assert_true(ls_array_f64(ls_nest_as_array(item), 0) == i);
  }
  assert_int_equal(pthread_join(thread, NULL), 0);
  expect_ok(self.status);
}

TEST(a_cancelled_thread_stops_waiting) {
  LS_SPEC("O143");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, usual);
  feeder self = {.runtime = f.c.runtime};
  expect_ok(ls_cancel_create(f.c.runtime, &self.cancel));
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, feed, &self), 0);
  while (__atomic_load_n(&self.put, __ATOMIC_RELAXED) < 64)
    sched_yield();
  ls_cancel_request(self.cancel);
  assert_int_equal(pthread_join(thread, NULL), 0);
  expect_status(self.status, LS_CANCELLED, "Infeed was cancelled");
  assert_int_equal(self.put, 65);
  (void)ls_cancel_make_current(self.cancel);
  ls_nest tuple = ls_none();
  expect_status(ls_outfeed_take(first_core, &tuple), LS_CANCELLED,
                "Outfeed was cancelled");
  (void)ls_cancel_make_current(NULL);
  ls_cancel_destroy(self.cancel);
}

static void *take_one(void *user) {
  feeder *self = user;
  ls_nest tuple = ls_none();
  ls_runtime *before = ls_runtime_make_current(self->runtime);
  (void)ls_cancel_make_current(self->cancel);
  self->status = ls_outfeed_take(first_core, &tuple);
  ls_nest_release(tuple);
  __atomic_fetch_add(&self->put, 1, __ATOMIC_RELAXED);
  (void)ls_cancel_make_current(NULL);
  (void)ls_runtime_make_current(before);
  return NULL;
}

// A reader whose call lasts while another one waits after it, until it may end.
typedef struct slow_reader {
  ls_queue_waiter waiter;
  ls_queue *tuples;
  bool has_next;
  int called, may_end;  // Atomic.
} slow_reader;

static void read_slowly(void *user) {
  slow_reader *self = user;
  self->has_next = self->waiter.next != NULL;
  __atomic_store_n(&self->called, 1, __ATOMIC_RELEASE);
  while (self->has_next && !__atomic_load_n(&self->may_end, __ATOMIC_ACQUIRE))
    sched_yield();
}

static void *call_readers(void *user) {
  ls_queue_tell(((slow_reader *)user)->tuples);
  return NULL;
}

// Cancels a thread that is about to be called. False: it did not wait yet.
static bool try_to_cancel_late(feeder *self, ls_queue *tuples) {
  slow_reader slow = {.tuples = tuples};
  pthread_t threads[2];
  slow.waiter = (ls_queue_waiter){.ready = read_slowly, .user = &slow};
  assert_true(ls_queue_on_ready(tuples, LS_QUEUE_POP, &slow.waiter));
  assert_int_equal(pthread_create(&threads[0], NULL, take_one, self), 0);
  (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  assert_int_equal(pthread_create(&threads[1], NULL, call_readers, &slow), 0);
  while (!__atomic_load_n(&slow.called, __ATOMIC_ACQUIRE))
    sched_yield();
  ls_cancel_request(self->cancel);
  // It looks for a request every 20 ms.
  (void)nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
  if (slow.has_next)
    assert_int_equal(__atomic_load_n(&self->put, __ATOMIC_RELAXED), 0);
  __atomic_store_n(&slow.may_end, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 2; ++i)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  expect_status(self->status, LS_CANCELLED, "Outfeed was cancelled");
  return slow.has_next;
}

TEST(a_cancelled_thread_stays_for_the_call_that_has_begun) {
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, usual);
  LS_OWN(ls_core, core) = NULL;
  ls_core_queue *queue = NULL;
  feeder self = {.runtime = f.c.runtime};
  expect_ok(ls_pod_lookup_core(f.c.runtime, first_core, &core));
  expect_ok(ls_core_queue_of(core, true, &queue));
  expect_ok(ls_cancel_create(f.c.runtime, &self.cancel));
  while (!try_to_cancel_late(&self, queue->tuples)) {
    ls_cancel_reset(self.cancel);
    self.put = 0;
  }
  ls_cancel_destroy(self.cancel);
}

// A thread that comes too late to wait finds no system.
static void expect_gone(ls_status status) {
  if (ls_status_code(status) == LS_NOT_FOUND)
    ls_status_free(status);
  else
    expect_status(status, LS_FAILED_PRECONDITION, "was shut down while");
}

TEST(nobody_waits_for_a_system_that_has_gone) {
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, usual);
  feeder puts = {.runtime = f.c.runtime}, takes = puts;
  pthread_t threads[2];
  assert_int_equal(pthread_create(&threads[0], NULL, take_one, &takes), 0);
  while (__atomic_load_n(&takes.put, __ATOMIC_RELAXED) == 0) {
    ls_pod_initialize(f.pod);
    sched_yield();
  }
  assert_int_equal(pthread_join(threads[0], NULL), 0);
  expect_status(takes.status, LS_FAILED_PRECONDITION,
                "was initialized again while");
  assert_int_equal(pthread_create(&threads[0], NULL, feed, &puts), 0);
  assert_int_equal(pthread_create(&threads[1], NULL, take_one, &takes), 0);
  while (__atomic_load_n(&puts.put, __ATOMIC_RELAXED) < 64)
    sched_yield();
  // Both wait by then, mostly.
  (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  ls_pod_shut_down(f.pod);
  for (int i = 0; i < 2; ++i)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  expect_gone(puts.status);
  expect_gone(takes.status);
}
