// SPDX-License-Identifier: Apache-2.0
#include "base/threads/fiber.h"
#include "base/threads/thread_state.h"

#include "base/runtime_internal.h"
#include "base/threads/worker.h"
#include "support/fault.h"

LS_OWNED_POINTER(ls_fiber_pool, ls_fiber_pool_destroy)

static ls_fiber_pool *make_pool(void) {
  ls_fiber_pool *pool = NULL;
  expect_ok(ls_fiber_pool_create(ls_allocator_system(), &pool));
  return pool;
}

static ls_fiber *make_fiber(ls_fiber_pool *pool, ls_fiber_function fn,
                            void *user) {
  ls_fiber *fiber = NULL;
  expect_ok(ls_fiber_create(pool, fn, user, &fiber));
  assert_false(ls_fiber_is_started(fiber));
  assert_false(ls_fiber_is_done(fiber));
  return fiber;
}

// Appends to a trace, pausing between the letters.
static char trace[64];
static void write_letters(void *user) {
  for (const char *letter = user; *letter != '\0'; ++letter) {
    if (letter != user) ls_fiber_pause();
    const size_t used = strlen(trace);
    trace[used] = *letter;
    trace[used + 1] = '\0';
  }
}

TEST(fibers_pause_and_go_on) {
  trace[0] = '\0';
  LS_OWN(ls_fiber_pool, pool) = make_pool();
  ls_fiber *a = make_fiber(pool, write_letters, "abc");
  ls_fiber *b = make_fiber(pool, write_letters, "XY");
  expect_ok(ls_fiber_resume(a));
  assert_true(ls_fiber_is_started(a));
  expect_ok(ls_fiber_resume(b));
  expect_ok(ls_fiber_resume(a));
  expect_ok(ls_fiber_resume(b));
  assert_true(ls_fiber_is_done(b));
  assert_false(ls_fiber_is_done(a));
  expect_ok(ls_fiber_resume(a));
  assert_true(ls_fiber_is_done(a));
  assert_string_equal(trace, "aXbYc");
  ls_fiber_destroy(a);
  ls_fiber_destroy(b);
  ls_fiber_destroy(NULL);
}

enum { MANY = 1024 };

// Uses much of its stack, pausing at the bottom of it.
static int sum_down(int depth, int id) {
  volatile char frame[256];
  frame[0] = (char)id;
  if (depth == 0) {
    ls_fiber_pause();
    return id;
  }
  const int below = sum_down(depth - 1, id);
  return below + (frame[0] == (char)id ? 0 : 1000000);
}

static void sum_fiber(void *user) {
  int *sum = user;
  *sum = sum_down(100, *sum);
}

TEST(a_thousand_can_be_paused_at_once) {
  static ls_fiber *fibers[MANY];
  static int sums[MANY];
  LS_OWN(ls_fiber_pool, pool) = make_pool();
  for (int i = 0; i < MANY; ++i) {
    sums[i] = i;
    fibers[i] = make_fiber(pool, sum_fiber, &sums[i]);
    expect_ok(ls_fiber_resume(fibers[i]));
  }
  assert_int_equal(ls_fiber_pool_stacks(pool), MANY);
  for (int i = 0; i < MANY; ++i) {
    expect_ok(ls_fiber_resume(fibers[i]));
    assert_true(ls_fiber_is_done(fibers[i]));
    assert_int_equal(sums[i], i);
    ls_fiber_destroy(fibers[i]);
  }
  assert_int_equal(ls_fiber_pool_stacks(pool), MANY);
}

static void count_fiber(void *user) { ++*(int *)user; }

TEST(fibers_one_after_another_share_a_stack) {
  static ls_fiber *fibers[MANY];
  int count = 0;
  LS_OWN(ls_fiber_pool, pool) = make_pool();
  for (int i = 0; i < MANY; ++i) {
    fibers[i] = make_fiber(pool, count_fiber, &count);
  }
  assert_int_equal(ls_fiber_pool_stacks(pool), 0);
  for (int i = 0; i < MANY; ++i)
    expect_ok(ls_fiber_resume(fibers[i]));
  assert_int_equal(count, MANY);
  assert_int_equal(ls_fiber_pool_stacks(pool), 1);
  for (int i = 0; i < MANY; ++i)
    ls_fiber_destroy(fibers[i]);
}

TEST(a_fiber_never_resumed_can_be_destroyed) {
  int count = 0;
  LS_OWN(ls_fiber_pool, pool) = make_pool();
  ls_fiber_destroy(make_fiber(pool, count_fiber, &count));
  assert_int_equal(count, 0);
}

// ---- State -----------------------------------------------------------------
typedef struct seen {
  void *first;
  void *second;
  ls_fiber *fiber;
  ls_runtime *runtime[2];
  int own;
} seen;

static void look_at_state(void *user) {
  seen *it = user;
  it->first = ls_this_thread.work.context;
  it->fiber = ls_fiber_current();
  it->runtime[0] = ls_this_thread.work.runtime;
  ls_this_thread.work.context = (void *)&it->own;
  ls_this_thread.work.runtime = NULL;
  ls_fiber_pause();
  it->second = ls_this_thread.work.context;
  it->runtime[1] = ls_this_thread.work.runtime;
}

TEST(each_fiber_has_its_own_state) {
  int mine = 0;
  int given = 0;
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(&(ls_runtime_options){.threads = 1}, &runtime));
  ls_runtime_make_current(runtime);
  ls_this_thread.work.context = (void *)&mine;
  ls_fiber_pool *pool = make_pool();
  seen seen_a = {0};
  seen seen_b = {0};
  ls_fiber *a = make_fiber(pool, look_at_state, &seen_a);
  ls_fiber *b = make_fiber(pool, look_at_state, &seen_b);
  ls_fiber_set_context(a, (void *)&given);
  for (int round = 0; round < 2; ++round) {
    expect_ok(ls_fiber_resume(a));
    assert_ptr_equal(ls_this_thread.work.context, &mine);
    assert_ptr_equal(ls_this_thread.work.runtime, runtime);
    expect_ok(ls_fiber_resume(b));
    assert_ptr_equal(ls_this_thread.work.context, &mine);
    assert_null(ls_fiber_current());
  }
  assert_ptr_equal(seen_a.first, &given);
  assert_ptr_equal(seen_a.second, &seen_a.own);
  assert_null(seen_b.first);
  assert_ptr_equal(seen_b.second, &seen_b.own);
  assert_ptr_equal(seen_a.fiber, a);
  // The resumer's runtime at first, then what the fiber made current.
  assert_ptr_equal(seen_a.runtime[0], runtime);
  assert_null(seen_a.runtime[1]);
  ls_this_thread.work.context = NULL;
  ls_runtime_make_current(NULL);
  ls_fiber_destroy(a);
  ls_fiber_destroy(b);
  ls_fiber_pool_destroy(pool);
  expect_ok(ls_runtime_destroy(runtime));
}

typedef struct nesting {
  ls_fiber *inner;
  ls_fiber *outer_seen;
  int steps;
} nesting;

static void pause_twice(void *user) {
  nesting *it = user;
  ++it->steps;
  ls_fiber_pause();
  ++it->steps;
}

static void drive_inner(void *user) {
  nesting *it = user;
  ls_status_free(ls_fiber_resume(it->inner));
  it->outer_seen = ls_fiber_current();
  ls_fiber_pause();
  ls_status_free(ls_fiber_resume(it->inner));
}

TEST(fibers_may_resume_fibers) {
  LS_OWN(ls_fiber_pool, pool) = make_pool();
  nesting it = {0};
  it.inner = make_fiber(pool, pause_twice, &it);
  ls_fiber *outer = make_fiber(pool, drive_inner, &it);
  expect_ok(ls_fiber_resume(outer));
  assert_ptr_equal(it.outer_seen, outer);
  assert_int_equal(it.steps, 1);
  expect_ok(ls_fiber_resume(outer));
  assert_int_equal(it.steps, 2);
  assert_true(ls_fiber_is_done(it.inner) && ls_fiber_is_done(outer));
  ls_fiber_destroy(it.inner);
  ls_fiber_destroy(outer);
}

// ---- Threads ---------------------------------------------------------------
typedef struct crew {
  ls_fiber_pool *pool;
  int done;
} crew;

static void run_some(void *user) {
  crew *self = user;
  for (int round = 0; round < 20; ++round) {
    ls_fiber *fibers[8] = {0};
    int sums[8];
    for (int i = 0; i < 8; ++i) {
      sums[i] = i;
      ls_status_free(
          ls_fiber_create(self->pool, sum_fiber, &sums[i], &fibers[i]));
      ls_status_free(ls_fiber_resume(fibers[i]));
    }
    for (int i = 0; i < 8; ++i) {
      ls_status_free(ls_fiber_resume(fibers[i]));
      if (ls_fiber_is_done(fibers[i]) && sums[i] == i) ++self->done;
      ls_fiber_destroy(fibers[i]);
    }
  }
}

TEST(threads_may_share_a_pool) {
  LS_OWN(ls_fiber_pool, pool) = make_pool();
  crew crews[3] = {{pool, 0}, {pool, 0}, {pool, 0}};
  ls_worker threads[3] = {0};
  for (int i = 0; i < 3; ++i) {
    expect_ok(ls_worker_start(&threads[i], "crew", NULL, run_some, &crews[i]));
  }
  for (int i = 0; i < 3; ++i) {
    ls_worker_join(&threads[i]);
    assert_int_equal(crews[i].done, 160);
  }
  assert_in_range(ls_fiber_pool_stacks(pool), 8, 24);
}

// ---- Failing memory --------------------------------------------------------
MEMORY_TEST(run_a_fiber) {
  LS_OWN(ls_fiber_pool, pool) = NULL;
  ls_fiber *fiber = NULL;
  int sum = 3;
  LS_RETURN_IF_ERROR(ls_fiber_pool_create(ls_current_allocator(), &pool));
  ls_status status = ls_fiber_create(pool, sum_fiber, &sum, &fiber);
  while (ls_status_is_ok(status) && !ls_fiber_is_done(fiber)) {
    status = ls_fiber_resume(fiber);
  }
  if (!ls_status_is_ok(status) && fiber != NULL)
    assert_false(ls_fiber_is_started(fiber));
  ls_fiber_destroy(fiber);
  return status;
}
