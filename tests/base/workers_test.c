// SPDX-License-Identifier: Apache-2.0
#include "base/threads/workers.h"

#include <pthread.h>
#include <time.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/threads/worker.h"
#include "support/fault.h"
#include "support/place.h"

LS_OWNED_POINTER(ls_workers, ls_workers_destroy)

enum { MAX_WORKERS = 3 };

typedef struct job {
  ls_workers *workers;
  int runs[MAX_WORKERS];
  pthread_t threads[MAX_WORKERS];
  double product[MAX_WORKERS];
  volatile double tiny;
  int64_t sleep;
  int inside;  // The worker that starts a run inside.
  ls_code code;
} job;

static ls_workers *make(int threads) {
  ls_workers *workers = NULL;
  expect_ok(ls_workers_create(ls_allocator_system(), threads, &workers));
  assert_int_equal(ls_workers_count(workers), threads);
  return workers;
}

// A job of which each worker does one number: nobody goes on before all have
// begun.
typedef void (*worker_function)(void *user, int worker);
typedef struct meeting {
  worker_function fn;
  void *user;
  int missing;  // Atomic.
} meeting;

static void meet_and_call(void *user, int worker, int64_t begin, int64_t end) {
  meeting *self = user;
  assert_int_equal(end, begin + 1);
  __atomic_fetch_sub(&self->missing, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&self->missing, __ATOMIC_ACQUIRE) > 0)
    ls_thread_yield();
  self->fn(self->user, worker);
}

static ls_status run_on_each(ls_workers *workers, worker_function fn,
                             void *user) {
  meeting self = {fn, user, ls_workers_count(workers)};
  return ls_workers_share(workers, meet_and_call, &self, self.missing);
}

static void count_run(void *user, int worker) {
  job *it = user;
  ++it->runs[worker];
  it->threads[worker] = pthread_self();
  it->product[worker] = it->tiny * 0.5;
  if (worker > 0 && it->sleep > 0) {
    nanosleep(&(struct timespec){.tv_nsec = (long)it->sleep}, NULL);
  }
}

TEST(every_worker_runs_once_a_run) {
  for (int threads = 1; threads <= MAX_WORKERS; ++threads) {
    LS_OWN(ls_workers, workers) = make(threads);
    job it = {0};
    for (int run = 1; run <= 300; ++run) {
      expect_ok(run_on_each(workers, count_run, &it));
      for (int w = 0; w < MAX_WORKERS; ++w) {
        assert_int_equal(it.runs[w], w < threads ? run : 0);
      }
    }
    assert_true(pthread_equal(it.threads[0], pthread_self()));
    for (int w = 1; w < threads; ++w) {
      assert_false(pthread_equal(it.threads[w], it.threads[w - 1]));
    }
  }
}

TEST(both_sides_wake_up_after_parking) {
  LS_OWN(ls_workers, workers) = make(2);
  job it = {.sleep = 3000000};  // The caller waits.
  for (int run = 0; run < 5; ++run) {
    expect_ok(run_on_each(workers, count_run, &it));
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);  // So do they.
  }
  assert_int_equal(it.runs[1], 5);
}

TEST(denormals_are_zero_inside_and_back_outside) {
  LS_OWN(ls_workers, workers) = make(2);
  job it = {.tiny = 0x1p-1022};
  expect_ok(run_on_each(workers, count_run, &it));
  assert_true(it.product[0] == 0);
  assert_true(it.product[1] == 0);
  assert_true(it.tiny * 0.5 == 0x1p-1023);
  // Called through a pointer, so that no compiler moves the product.
  const volatile worker_function call = count_run;
  const uint64_t mode = ls_float_mode_enter();
  call(&it, 2);
  ls_float_mode_leave(mode);
  assert_true(it.product[2] == 0);
  call(&it, 2);
  assert_true(it.product[2] == 0x1p-1023);
}

TEST(a_runtime_has_one_pool) {
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){.threads = 3});
  ls_workers *workers = NULL;
  expect_ok(ls_runtime_workers(home.runtime, &workers));
  assert_int_equal(ls_workers_count(workers), 3);
  ls_workers *again = NULL;
  expect_ok(ls_runtime_workers(home.runtime, &again));
  assert_ptr_equal(again, workers);
}

static void run_inside(void *user, int worker) {
  job *it = user;
  if (worker != it->inside) return;
  LS_OWN(ls_status, status) = run_on_each(it->workers, count_run, it);
  it->code = ls_status_code(status);
}

TEST(a_run_inside_a_run_is_refused) {
  for (int threads = 1; threads <= 2; ++threads) {
    LS_OWN(ls_workers, workers) = make(threads);
    for (int inside = 0; inside < threads; ++inside) {
      job it = {.workers = workers, .inside = inside};
      expect_ok(run_on_each(workers, run_inside, &it));
      assert_int_equal(it.code, LS_FAILED_PRECONDITION);
    }
    // Another pool's is not.
    LS_OWN(ls_workers, other) = make(2);
    job it = {.workers = other};
    expect_ok(run_on_each(workers, run_inside, &it));
    assert_int_equal(it.code, LS_OK);
    assert_int_equal(it.runs[1], 1);
  }
}

static void add_slowly(void *user, int worker) {
  if (worker == 0) {
    int *sum = user;  // Not atomic: runs take turns.
    const int before = *sum;
    for (int i = 0; i < 100; ++i)
      ls_spin_pause();
    *sum = before + 1;
  }
}

typedef struct caller {
  ls_workers *workers;
  int *sum;
  bool failed;
} caller;

static void call_often(void *user) {
  caller *self = user;
  for (int i = 0; i < 200; ++i) {
    LS_OWN(ls_status, status) =
        run_on_each(self->workers, add_slowly, self->sum);
    self->failed |= !ls_status_is_ok(status);
  }
}

TEST(runs_from_several_threads_take_turns) {
  LS_OWN(ls_workers, workers) = make(2);
  int sum = 0;
  ls_worker threads[2] = {0};
  caller callers[2] = {{workers, &sum, false}, {workers, &sum, false}};
  for (int i = 0; i < 2; ++i) {
    expect_ok(
        ls_worker_start(&threads[i], "caller", NULL, call_often, &callers[i]));
  }
  for (int i = 0; i < 2; ++i) {
    ls_worker_join(&threads[i]);
    assert_false(callers[i].failed);
  }
  assert_int_equal(sum, 400);
}

TEST(absurd_counts_are_refused) {
  ls_workers *workers = NULL;
  expect_status(ls_workers_create(ls_allocator_system(), 0, &workers),
                LS_INVALID_ARGUMENT, "0 threads");
  expect_status(ls_workers_create(ls_allocator_system(), 5000, &workers),
                LS_INVALID_ARGUMENT, "4096");
  assert_null(workers);
  ls_workers_destroy(NULL);
}

TEST(a_pool_that_never_ran_has_no_threads) {
  ls_workers *workers = make(4096);  // Starting them would take a while.
  ls_workers_destroy(workers);
}

static void do_nothing(void *user, int worker) {
  (void)user;
  (void)worker;
}

MEMORY_TEST(run_workers) {
  LS_OWN(ls_workers, workers) = NULL;
  LS_RETURN_IF_ERROR(ls_workers_create(ls_current_allocator(), 2, &workers));
  return run_on_each(workers, do_nothing, NULL);
}

MEMORY_TEST(run_workers_on_cores) {
  ls_cores *cores = NULL;
  ls_workers *workers = NULL;
  LS_RETURN_IF_ERROR(ls_cores_create(ls_current_allocator(), &cores));
  ls_status status = ls_workers_create(ls_current_allocator(), 2, &workers);
  if (!ls_status_is_ok(status)) {
    ls_cores_destroy(cores);
    return status;
  }
  ls_workers_take_cores(workers, cores);
  status = run_on_each(workers, do_nothing, NULL);
  ls_workers_destroy(workers);
  return status;
}

typedef struct shared_job {
  int hits[1000];  // Atomic.
  int64_t sleep;
} shared_job;

static void hit(void *user, int worker, int64_t begin, int64_t end) {
  shared_job *it = user;
  for (int64_t i = begin; i < end; ++i) {
    __atomic_add_fetch(&it->hits[i], 1, __ATOMIC_RELAXED);
  }
  if (worker > 0 && it->sleep > 0) {
    nanosleep(&(struct timespec){.tv_nsec = (long)it->sleep}, NULL);
  }
}

TEST(every_number_is_shared_out_once) {
  static const int64_t counts[] = {0, 1, 2, 3, 7, 64, 1000};
  for (int threads = 1; threads <= MAX_WORKERS; ++threads) {
    LS_OWN(ls_workers, workers) = make(threads);
    for (int run = 0; run < 400; ++run) {
      const int64_t count = counts[run % 7];
      shared_job it = {.sleep = run % 50 == 49 ? 100000 : 0};
      expect_ok(ls_workers_share(workers, hit, &it, count));
      for (int64_t i = 0; i < 1000; ++i) {
        assert_int_equal(it.hits[i], i < count);
      }
      if (run % 10 == 0) {  // Jobs of a number each take turns with it.
        job all = {0};
        expect_ok(run_on_each(workers, count_run, &all));
        for (int w = 0; w < threads; ++w)
          assert_int_equal(all.runs[w], 1);
      }
    }
  }
}

// ---- Idle workers ----------------------------------------------------------
static bool do_chore(void *user) {
  int *left = user;
  int seen = __atomic_load_n(left, __ATOMIC_ACQUIRE);
  while (seen > 0)
    if (__atomic_compare_exchange_n(left, &seen, seen - 1, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      return true;
  return false;
}

// Whether all are done within some seconds.
static bool are_done(const int *left) {
  for (int i = 0; i < 5000; ++i) {
    if (__atomic_load_n(left, __ATOMIC_ACQUIRE) == 0) return true;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return false;
}

TEST(idle_workers_do_what_there_is_and_runs_go_on) {
  for (int threads = 2; threads <= MAX_WORKERS; ++threads) {
    LS_OWN(ls_workers, workers) = make(threads);
    job it = {0};
    int left = 3;
    ls_workers_set_idle(workers, do_chore, &left);
    expect_ok(ls_workers_wake(workers));  // Starts them.
    assert_true(are_done(&left));
    for (int run = 1; run <= 100; ++run) {
      __atomic_fetch_add(&left, 10, __ATOMIC_RELEASE);
      expect_ok(ls_workers_wake(workers));
      expect_ok(run_on_each(workers, count_run, &it));
      for (int w = 0; w < threads; ++w)
        assert_int_equal(it.runs[w], run);
      if (run % 10 == 0) assert_true(are_done(&left));
    }
    ls_workers_set_idle(workers, NULL, NULL);
    left = 1;
    expect_ok(ls_workers_wake(workers));
    expect_ok(run_on_each(workers, count_run, &it));
    assert_int_equal(left, 1);
  }
}

TEST(alone_nobody_is_idle) {
  LS_OWN(ls_workers, workers) = make(1);
  int left = 1;
  ls_workers_set_idle(workers, do_chore, &left);
  expect_ok(ls_workers_wake(workers));
  assert_int_equal(left, 1);
}
