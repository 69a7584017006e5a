// SPDX-License-Identifier: Apache-2.0
#include "base/threads/worker.h"

#include <stdint.h>

#include "base/runtime_internal.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/fault.h"

typedef struct reader {
  ls_worker worker;
  ls_runtime *runtime;
  ls_mutex gate;  // Held: a number that was read is not done yet.
  int64_t read[64], count;
} reader;

static void read_numbers(void *user) {
  reader *self = user;
  self->runtime = ls_runtime_current();
  for (int64_t number = 0; ls_worker_next(&self->worker, &number);) {
    ls_mutex_lock(&self->gate);
    self->read[self->count++] = number;
    ls_mutex_unlock(&self->gate);
  }
}

static void begin_reader(reader *self, ls_runtime *runtime) {
  expect_ok(ls_mutex_init(&self->gate));
  expect_ok(
      ls_worker_start(&self->worker, "reader", runtime, read_numbers, self));
}

static void end_reader(reader *self) {
  ls_worker_join(&self->worker);
  ls_mutex_deinit(&self->gate);
}
LS_OWNED_STRUCT(reader, end_reader)

static void post_up_to(reader *self, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    expect_ok(ls_worker_post(&self->worker, i));
}

static void expect_read_in_order(const reader *self, int64_t count) {
  assert_int_equal(self->count, count);
  for (int64_t i = 0; i < count; ++i)
    assert_int_equal(self->read[i], i);
}

TEST(numbers_are_read_in_the_order_they_were_posted) {
  LS_OWN(counted, memory) = counted_begin(1);
  LS_OWN_BEGUN(reader, self, begin_reader, memory.runtime);
  ls_mutex_lock(&self.gate);
  post_up_to(&self, 50);
  assert_false(ls_worker_is_idle(&self.worker));
  ls_mutex_unlock(&self.gate);
  ls_worker_wait(&self.worker);
  assert_true(ls_worker_is_idle(&self.worker));
  expect_read_in_order(&self, 50);
  assert_ptr_equal(self.runtime, memory.runtime);
}

TEST(a_worker_without_a_number_is_idle) {
  reader self = {0};
  assert_true(ls_worker_is_idle(&self.worker));
  begin_reader(&self, NULL);
  assert_true(ls_worker_is_idle(&self.worker));
  ls_worker_wait(&self.worker);
  end_reader(&self);
  assert_true(ls_worker_is_idle(&self.worker));
}

TEST(a_stopped_worker_reads_what_was_posted_before) {
  reader self = {0};
  begin_reader(&self, NULL);
  ls_mutex_lock(&self.gate);
  post_up_to(&self, 4);
  ls_worker_stop(&self.worker);
  expect_ok(ls_worker_post(&self.worker, 4));
  ls_mutex_unlock(&self.gate);
  ls_worker_wait(&self.worker);
  end_reader(&self);
  expect_read_in_order(&self, 4);
}

TEST(a_joined_worker_starts_again) {
  reader self = {0};
  begin_reader(&self, NULL);
  post_up_to(&self, 3);
  ls_worker_join(&self.worker);
  ls_worker_join(&self.worker);
  self.count = 0;
  expect_ok(ls_worker_start(&self.worker, "again", NULL, read_numbers, &self));
  post_up_to(&self, 2);
  end_reader(&self);
  expect_read_in_order(&self, 2);
}

MEMORY_TEST(post_more_than_a_few) {
  LS_OWN_BEGUN(reader, it, begin_reader, ls_runtime_current());
  ls_mutex_lock(&it.gate);
  ls_status status = ls_ok();
  for (int64_t i = 0; i < 20 && ls_status_is_ok(status); ++i)
    status = ls_worker_post(&it.worker, i);
  ls_mutex_unlock(&it.gate);
  return status;
}

// ---- Rests -----------------------------------------------------------------
typedef struct rester {
  ls_worker worker;
  bool rested;
} rester;

static void rest_long(void *user) {
  enum { HOUR = 3600 };
  rester *self = user;
  for (int64_t number = 0; ls_worker_next(&self->worker, &number);) {
    ls_worker_rest(&self->worker, HOUR * INT64_C(1000000000));
    self->rested = true;
  }
}

TEST(a_worker_that_is_waited_for_does_not_rest) {
  rester self = {0};
  expect_ok(ls_worker_start(&self.worker, "rester", NULL, rest_long, &self));
  expect_ok(ls_worker_post(&self.worker, 1));
  ls_worker_wait(&self.worker);
  assert_true(self.rested);
  self.rested = false;
  expect_ok(ls_worker_post(&self.worker, 1));
  ls_worker_join(&self.worker);
  assert_true(self.rested);
}

// ---- Every so many seconds -------------------------------------------------
typedef struct ticker {
  ls_worker worker;
  int calls, last;  // Atomic.
} ticker;

static bool tick(void *user) {
  ticker *self = user;
  return __atomic_add_fetch(&self->calls, 1, __ATOMIC_ACQ_REL) < self->last;
}

static int64_t stopped_now(void *user) { return *(int64_t *)user; }
static void stopped_sleep(void *user, int64_t nanos) {
  *(int64_t *)user += nanos;
}

TEST(a_worker_calls_by_the_clock_of_its_runtime) {
  int64_t now = 0;
  const ls_clock clock = {stopped_now, stopped_now, stopped_sleep, &now};
  LS_OWN(counted, memory) =
      counted_begin_with((ls_runtime_options){.clock = &clock});
  ticker self = {.last = 2};
  expect_ok(ls_worker_every(&self.worker, "ticker", memory.runtime, 1000, tick,
                            &self));
  while (__atomic_load_n(&self.calls, __ATOMIC_ACQUIRE) < 1)
    ls_thread_yield();
  assert_int_equal(now, 0);  // It is looked at, not moved.
  ls_worker_join(&self.worker);
  assert_int_equal(self.calls, 1);
}

TEST(a_worker_calls_until_it_is_told_to_end) {
  LS_OWN(counted, memory) = counted_begin(1);
  ticker self = {.last = 3};
  expect_ok(ls_worker_every(&self.worker, "ticker", memory.runtime, 1000, tick,
                            &self));
  while (__atomic_load_n(&self.calls, __ATOMIC_ACQUIRE) < 3)
    ls_thread_yield();
  ls_worker_join(&self.worker);
  assert_int_equal(self.calls, 3);
}
