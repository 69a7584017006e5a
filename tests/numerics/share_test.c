// SPDX-License-Identifier: Apache-2.0
//
// Threads that share blocks: each block runs once, however late a thread is;
// they spin between jobs that follow one another, and park when none does.
#include "support/expect.h"

#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/threads/worker.h"
#include "base/threads/workers.h"
#include "support/sanitizer.h"

static ls_workers *make(int threads) {
  ls_workers *workers = NULL;
  expect_ok(ls_workers_create(ls_allocator_system(), threads, &workers));
  return workers;
}

// ---- Once each -------------------------------------------------------------
enum { MOST = 8 * 40 };
static int hits[MOST];  // Atomic.

static void hit(void *user, int worker, int64_t begin, int64_t end) {
  (void)user;
  (void)worker;
  for (int64_t i = begin; i < end; ++i)
    __atomic_add_fetch(&hits[i], 1, __ATOMIC_RELAXED);
}

// More threads than cores, so that some are a job behind; small jobs and large
// ones in turn, so that a number of one means another block in the next.
TEST(every_block_runs_once_however_late_a_thread_is) {
  for (int threads = 2; threads <= 8; threads += 3) {
    ls_workers *workers = make(threads);
    for (int round = 0; round < (LS_SANITIZED ? 500 : 5000); ++round) {
      const int64_t count = round % 2 == 0 ? threads * 40 : threads;
      memset(hits, 0, sizeof(hits));
      expect_ok(ls_workers_share(workers, hit, NULL, count));
      for (int i = 0; i < MOST; ++i) {
        const int times = __atomic_load_n(&hits[i], __ATOMIC_RELAXED);
        if (times != (i < count))
          fail_msg("%d threads, round %d: block %d of %lld ran %d times",
                   threads, round, i, (long long)count, times);
      }
    }
    ls_workers_destroy(workers);
  }
}

// ---- Spinning and parking --------------------------------------------------
static void do_nothing(void *user, int worker, int64_t begin, int64_t end) {
  (void)user;
  (void)worker;
  (void)begin;
  (void)end;
}

static long switches(void) {
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_nvcsw;
}

// What one hand-over between two threads that only spin takes, at best. A busy
// machine may have no two cores for us at the same time.
typedef struct rally {
  int turn;  // Atomic.
} rally;
enum { HANDOVERS = 200 };

static void answer(void *user) {
  rally *it = user;
  for (int i = 0; i < HANDOVERS; ++i) {
    while (__atomic_load_n(&it->turn, __ATOMIC_ACQUIRE) != 2 * i + 1)
      ls_spin_pause();
    __atomic_store_n(&it->turn, 2 * i + 2, __ATOMIC_RELEASE);
  }
}

static double handover_seconds(void) {
  rally it = {0};
  ls_worker thread = {0};
  struct timespec began, ended;
  expect_ok(ls_worker_start(&thread, "answer", NULL, answer, &it));
  clock_gettime(CLOCK_MONOTONIC, &began);
  for (int i = 0; i < HANDOVERS; ++i) {
    __atomic_store_n(&it.turn, 2 * i + 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&it.turn, __ATOMIC_ACQUIRE) != 2 * i + 2)
      ls_spin_pause();
  }
  clock_gettime(CLOCK_MONOTONIC, &ended);
  ls_worker_join(&thread);
  return ((double)(ended.tv_sec - began.tv_sec) +
          (double)(ended.tv_nsec - began.tv_nsec) * 1e-9) /
         HANDOVERS;
}

// On a thread of its own, which is bound to the first core once the pool has
// bound the worker to the second: two that share one have to sleep.
enum { POOLS = 4, ATTEMPTS = 200, RUNS = 50, FEW = 2 };
static void count_switches(void *user) {
  long *fewest = user;
  ls_workers *workers = make(2);
  ls_cores *cores = NULL;
  expect_ok(ls_workers_share(workers, do_nothing, NULL, 2));
  expect_ok(ls_cores_create(ls_allocator_system(), &cores));
  (void)ls_cores_bind(cores, 0);
  ls_cores_destroy(cores);
  for (int i = 0; i<ATTEMPTS && * fewest> FEW; ++i) {
    nanosleep(&(struct timespec){.tv_nsec = i * 50000}, NULL);
    expect_ok(ls_workers_share(workers, do_nothing, NULL, 2));
    const long before = switches();
    for (int run = 0; run < RUNS; ++run)
      expect_ok(ls_workers_share(workers, do_nothing, NULL, 2));
    const long taken = switches() - before;
    if (taken < *fewest) *fewest = taken;
  }
  ls_workers_destroy(workers);
}

static int count_cores(void) {
  ls_cores *cores = NULL;
  expect_ok(ls_cores_create(ls_allocator_system(), &cores));
  const int count = ls_cores_count(cores);
  ls_cores_destroy(cores);
  return count;
}

// Nobody goes to sleep between runs that follow one another. Another process on
// the cores can make them, or who has the machine can take a core away for
// seconds, so that one quiet attempt of one pool must do.
TEST(runs_that_follow_one_another_wake_nobody) {
  if (count_cores() < 2) skip();
  long fewest = RUNS;
  for (int i = 0; i < POOLS && fewest > FEW; ++i) {
    ls_worker thread = {0};
    expect_ok(
        ls_worker_start(&thread, "caller", NULL, count_switches, &fewest));
    ls_worker_join(&thread);
  }
  if (fewest <= FEW) return;
  const double handover = handover_seconds();
  if (handover > 20e-6) {
    print_message("no two cores at the same time: a hand-over takes %.0f us\n",
                  handover * 1e6);
    skip();
  }
  fail_msg("%d runs: %ld times asleep", RUNS, fewest);
}

static double cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

TEST(idle_workers_take_no_time) {
  ls_workers *workers = make(4);
  expect_ok(ls_workers_share(workers, do_nothing, NULL, 2));
  expect_ok(ls_workers_share(workers, hit, NULL, 4));
  // Others make the threads late to lie down: one quiet attempt must do.
  double taken = 1;
  for (int i = 0; i < 10 && taken > 0.01; ++i) {
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    const double before = cpu_seconds();
    nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
    taken = cpu_seconds() - before;
  }
  ls_workers_destroy(workers);
  if (taken > 0.01) fail_msg("idle for 60 ms took %.1f ms", taken * 1e3);
}
