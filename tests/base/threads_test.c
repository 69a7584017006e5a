// SPDX-License-Identifier: Apache-2.0
#include "base/threads/worker.h"

#include <signal.h>
#include <time.h>

#include "base/memory/own.h"
#include "support/expect.h"

typedef struct shared {
  ls_mutex lock;
  ls_condition changed;
  int turn;
  int64_t sum;
} shared;

static void init_shared(shared *it) {
  *it = (shared){0};
  expect_ok(ls_mutex_init(&it->lock));
  expect_ok(ls_condition_init(&it->changed));
}

static void deinit_shared(shared *it) {
  ls_condition_deinit(&it->changed);
  ls_mutex_deinit(&it->lock);
}
LS_OWNED_STRUCT(shared, deinit_shared)

static void add_often(void *user) {
  shared *it = user;
  for (int i = 0; i < 10000; ++i) {
    ls_mutex_lock(&it->lock);
    ++it->sum;
    ls_mutex_unlock(&it->lock);
  }
}

TEST(a_mutex_lets_one_in_at_a_time) {
  LS_OWN_BEGUN(shared, it, init_shared);
  ls_worker threads[3] = {0};
  for (int i = 0; i < 3; ++i) {
    expect_ok(ls_worker_start(&threads[i], "adder", NULL, add_often, &it));
  }
  for (int i = 0; i < 3; ++i)
    ls_worker_join(&threads[i]);
  assert_int_equal(it.sum, 30000);
}

TEST(a_recursive_mutex_lets_its_holder_in_again) {
  ls_mutex lock = {0};
  expect_ok(ls_mutex_init_recursive(&lock));
  ls_mutex_lock(&lock);
  ls_mutex_lock(&lock);
  ls_mutex_unlock(&lock);
  ls_mutex_unlock(&lock);
  ls_mutex_deinit(&lock);
}

static void answer(void *user) {
  shared *it = user;
  ls_mutex_lock(&it->lock);
  while (it->turn == 0)
    ls_condition_wait(&it->changed, &it->lock);
  it->turn = 2;
  ls_condition_broadcast(&it->changed);
  ls_mutex_unlock(&it->lock);
}

TEST(conditions_wake_who_waits) {
  LS_OWN_BEGUN(shared, it, init_shared);
  ls_worker thread = {0};
  expect_ok(
      ls_worker_start(&thread, "a name too long for it", NULL, answer, &it));
  ls_mutex_lock(&it.lock);
  it.turn = 1;
  ls_condition_signal(&it.changed);
  while (it.turn != 2)
    ls_condition_wait(&it.changed, &it.lock);
  ls_mutex_unlock(&it.lock);
  ls_worker_join(&thread);
}

TEST(a_limited_wait_ends) {
  LS_OWN_BEGUN(shared, it, init_shared);
  ls_mutex_lock(&it.lock);
  const int64_t nanos = 2000000;
  struct timespec before;
  struct timespec after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  // It may return early, but not say that the time has passed.
  while (ls_condition_wait_for(&it.changed, &it.lock, nanos)) {
  }
  clock_gettime(CLOCK_MONOTONIC, &after);
  assert_true((after.tv_sec - before.tv_sec) * 1000000000 +
                  (after.tv_nsec - before.tv_nsec) >=
              nanos);
  assert_false(ls_condition_wait_for(&it.changed, &it.lock, -5));
  ls_mutex_unlock(&it.lock);
}

static void look_at_signals(void *user) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  *(int *)user = sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM);
}

TEST(threads_leave_signals_to_the_program) {
  ls_worker thread = {0};
  int blocked = 0;
  expect_ok(ls_worker_start(&thread, "quiet", NULL, look_at_signals, &blocked));
  ls_worker_join(&thread);
  assert_true(blocked);
  look_at_signals(&blocked);
  assert_false(blocked);
}

TEST(zeroed_storage_is_fine_to_undo) {
  shared it = {0};
  deinit_shared(&it);
  ls_worker thread = {0};
  ls_worker_join(&thread);
  assert_false(thread.is_started);
}

TEST(counts_tell_the_last) {
  int count = 1;
  assert_true(ls_count_is(&count, 1));
  ls_count_retain(&count);
  assert_false(ls_count_is(&count, 1));
  assert_false(ls_count_release(&count));
  assert_true(ls_count_release(&count));
}
