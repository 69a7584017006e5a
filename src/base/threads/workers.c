// SPDX-License-Identifier: Apache-2.0
// Workers: a generation counter starts a job, a count of finished numbers ends
// it. A worker spins on the generation before it parks on a condition; it first
// sets a flag that the caller reads after its own write (both sequentially
// consistent, so that one of them sees the other's write).
#include "base/threads/workers.h"

#include "base/memory/own.h"
#include "base/threads/thread_state.h"
#include "base/threads/worker.h"

#include <time.h>

// SPIN_NANOS is longer than a core takes to wake up: otherwise each side of
// back-to-back jobs would park just before the other arrives.
enum { MAX_THREADS = 4096, SPIN_NANOS = 200000, PAUSES = 50 };

LS_OWNED_POINTER(ls_workers, ls_workers_destroy)

typedef struct worker {
  ls_workers *pool;
  int index;
  ls_worker thread;
  // Atomic: generation << 32 | the next number of this worker's part of the
  // job. Claimed by compare-and-swap: a late worker cannot take a number of a
  // finished job, and a job with a claimed number cannot finish.
  char padding0[LS_CACHE_LINE];
  uint64_t next;
  char padding1[LS_CACHE_LINE];
} worker;

struct ls_workers {
  ls_allocator *allocator;
  int count;
  worker *threads;  // Entry 0 is the caller and has no thread.
  ls_cores *cores;  // While threads run, or as given by a caller.
  bool bind;        // There is a core for each thread, so threads are bound.
  bool started;     // Atomic; written under `turn`, which guards the job.
  ls_mutex turn;    // Held during a job.
  ls_share_function fn;
  void *user;
  int64_t num_numbers;    // Atomic.
  bool stop;              // Atomic, since a late worker may read it early.
  ls_mutex lock;          // Guards the condition and the idle function.
  ls_idle_function idle;  // NULL: no idle function.
  void *idle_user;
  int in_idle;  // Number of workers inside the idle function.
  ls_condition work;

  // The fields below are atomic, each on its own cache line.
  char padding0[LS_CACHE_LINE];
  unsigned generation;  // Generation of the current or latest job.
  char padding1[LS_CACHE_LINE];
  int parked_workers;
  unsigned wakes;  // Counts calls of ls_workers_wake.
  char padding2[LS_CACHE_LINE];
  int64_t num_done;  // Finished numbers of the job.
};

static int64_t nanos(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// Returns true if the worker should go on spinning: `spin` counts its spins,
// `*began` (0 at first) is when they began. Reads the clock only now and then.
static bool spin_on(int spin, int64_t *began) {
  ls_spin_pause();
  if (spin % PAUSES != 0) return true;
  const int64_t now = nanos();
  if (*began == 0) *began = now;
  return now - *began < SPIN_NANOS;
}

// ---- A worker's side -------------------------------------------------------
// Calls the idle function once. Returns false if it had nothing to do.
static bool do_idle(ls_workers *pool) {
  ls_mutex_lock(&pool->lock);
  const ls_idle_function fn = pool->idle;
  void *user = pool->idle_user;
  pool->in_idle += fn != NULL;
  ls_mutex_unlock(&pool->lock);
  if (fn == NULL) return false;
  const bool did = fn(user);
  ls_mutex_lock(&pool->lock);
  --pool->in_idle;
  ls_mutex_unlock(&pool->lock);
  return did;
}

// Parks until the generation differs from `seen` or the wake counter from
// `woken`; returns the generation.
static unsigned park(ls_workers *pool, unsigned seen, unsigned woken) {
  unsigned now = seen;
  ls_mutex_lock(&pool->lock);
  __atomic_fetch_add(&pool->parked_workers, 1, __ATOMIC_SEQ_CST);
  while ((now = __atomic_load_n(&pool->generation, __ATOMIC_SEQ_CST)) == seen &&
         __atomic_load_n(&pool->wakes, __ATOMIC_SEQ_CST) == woken) {
    ls_condition_wait(&pool->work, &pool->lock);
  }
  __atomic_fetch_sub(&pool->parked_workers, 1, __ATOMIC_SEQ_CST);
  ls_mutex_unlock(&pool->lock);
  return now;
}

// Spins, then parks, until the generation is not `seen`; returns it.
static unsigned wait_for_work(ls_workers *pool, unsigned seen) {
  int64_t began = 0;
  int spin = 0;
  unsigned now = seen;
  do {
    now = __atomic_load_n(&pool->generation, __ATOMIC_ACQUIRE);
    if (now != seen) return now;
  } while (spin_on(++spin, &began));
  while (now == seen) {
    const unsigned woken = __atomic_load_n(&pool->wakes, __ATOMIC_SEQ_CST);
    now = do_idle(pool) ? __atomic_load_n(&pool->generation, __ATOMIC_ACQUIRE)
                        : park(pool, seen, woken);
  }
  return now;
}

// ---- Jobs ------------------------------------------------------------------
static int64_t part_begin(const ls_workers *pool, int64_t count, int part) {
  return count * part / pool->count;
}

// Claims half of the remaining numbers of a part, so that work on neighbours
// can be joined. Returns the first and stores the end of the range; -1: no
// numbers are left, or the job is over.
static int64_t claim(ls_workers *pool, uint32_t generation, int part,
                     int64_t *out_end) {
  uint64_t *next = &pool->threads[part].next;
  uint64_t seen = __atomic_load_n(next, __ATOMIC_ACQUIRE);
  for (;;) {
    const int64_t count = __atomic_load_n(&pool->num_numbers, __ATOMIC_ACQUIRE);
    const int64_t number = (int64_t)(seen & UINT32_MAX);
    const int64_t left = part_begin(pool, count, part + 1) - number;
    if (seen >> 32 != generation || left <= 0) return -1;
    const uint64_t some = (uint64_t)(left + 1) / 2;
    *out_end = number + (int64_t)some;
    if (__atomic_compare_exchange_n(next, &seen, seen + some, true,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      return number;
    }
  }
}

static void do_share(ls_workers *pool, uint32_t generation, int index) {
  for (int i = 0; i < pool->count; ++i) {
    const int part = (index + i) % pool->count;
    int64_t begin = 0, end = 0;
    while ((begin = claim(pool, generation, part, &end)) >= 0) {
      pool->fn(pool->user, index, begin, end);
      __atomic_add_fetch(&pool->num_done, end - begin, __ATOMIC_RELEASE);
    }
  }
}

static void run_worker(void *user) {
  const worker *self = user;
  ls_workers *pool = self->pool;
  if (pool->bind) (void)ls_cores_bind(pool->cores, self->index);
  (void)ls_float_mode_enter();
  ls_this_thread.workers = pool;
  for (unsigned seen = 0;;) {
    seen = wait_for_work(pool, seen);
    if (__atomic_load_n(&pool->stop, __ATOMIC_RELAXED)) return;
    do_share(pool, seen, self->index);
  }
}

// ---- The caller's side -----------------------------------------------------
static void announce_work(ls_workers *pool) {
  __atomic_store_n(&pool->generation, pool->generation + 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&pool->parked_workers, __ATOMIC_SEQ_CST) == 0) return;
  ls_mutex_lock(&pool->lock);
  ls_condition_broadcast(&pool->work);
  ls_mutex_unlock(&pool->lock);
}

static void stop_threads(ls_workers *pool) {
  if (pool->threads == NULL) return;
  __atomic_store_n(&pool->stop, true, __ATOMIC_RELAXED);
  announce_work(pool);
  for (int i = 1; i < pool->count; ++i)
    ls_worker_join(&pool->threads[i].thread);
  pool->stop = false;
  __atomic_store_n(&pool->started, false, __ATOMIC_RELEASE);
  pool->generation = 0;  // The generation that new threads expect.
  ls_cores_destroy(pool->cores);
  pool->cores = NULL;
}

static ls_status start_threads(ls_workers *pool) {
  if (pool->cores == NULL)
    LS_RETURN_IF_ERROR(ls_cores_create(pool->allocator, &pool->cores));
  else if (!ls_cores_look_again(pool->cores))
    return ls_out_of_memory();
  pool->bind = pool->count <= ls_cores_count(pool->cores);
  for (int i = 1; i < pool->count; ++i) {
    worker *self = &pool->threads[i];
    ls_status status =
        ls_worker_start(&self->thread, "ls-worker", NULL, run_worker, self);
    if (!ls_status_is_ok(status)) {
      stop_threads(pool);
      return ls_status_annotate(status, "starting worker %d of %d", i,
                                pool->count);
    }
  }
  __atomic_store_n(&pool->started, true, __ATOMIC_RELEASE);
  return ls_ok();
}

static void share_job(ls_workers *pool, ls_share_function fn, void *user,
                      int64_t count) {
  const ls_workers *outer = ls_this_thread.workers;
  ls_this_thread.workers = pool;
  const uint64_t mode = ls_float_mode_enter();
  const uint32_t generation = pool->generation + 1;
  pool->fn = fn;
  pool->user = user;
  __atomic_store_n(&pool->num_done, 0, __ATOMIC_RELAXED);
  for (int part = 0; part < pool->count; ++part)
    __atomic_store_n(&pool->threads[part].next,
                     (uint64_t)generation << 32 |
                         (uint64_t)part_begin(pool, count, part),
                     __ATOMIC_RELEASE);
  // Written only now: a worker that is late by a job must not see the new count
  // together with a number of the old job, which it would take for unfinished
  // work.
  __atomic_store_n(&pool->num_numbers, count, __ATOMIC_RELEASE);
  announce_work(pool);
  do_share(pool, generation, 0);
  int64_t began = 0;
  for (int spin = 1; __atomic_load_n(&pool->num_done, __ATOMIC_ACQUIRE) < count;
       ++spin) {
    if (!spin_on(spin, &began)) ls_thread_yield();
  }
  ls_float_mode_leave(mode);
  ls_this_thread.workers = outer;
}

ls_status ls_workers_share(ls_workers *workers, ls_share_function fn,
                           void *user, int64_t count) {
  if (ls_this_thread.workers == workers)
    return ls_failed_precondition("a run of workers inside a run of the same "
                                  "workers; its threads are busy with it");
  if (count > INT32_MAX)
    return ls_invalid_argument("%lld numbers to share; at most %d",
                               (long long)count, INT32_MAX);
  ls_mutex_lock(&workers->turn);
  ls_status status = ls_ok();
  if (workers->count > 1 && !workers->started) status = start_threads(workers);
  if (ls_status_is_ok(status)) share_job(workers, fn, user, count);
  ls_mutex_unlock(&workers->turn);
  return status;
}

void ls_workers_share_or_run(ls_workers *workers, ls_share_function fn,
                             void *user, int64_t count) {
  if (workers != NULL) {
    const ls_status status = ls_workers_share(workers, fn, user, count);
    if (ls_status_is_ok(status)) return;
    ls_status_free(status);  // No thread was available, and nothing was run.
  }
  fn(user, 0, 0, count);
}

// ---- Idle workers ----------------------------------------------------------
void ls_workers_set_idle(ls_workers *workers, ls_idle_function fn, void *user) {
  ls_mutex_lock(&workers->lock);
  workers->idle = fn;
  workers->idle_user = user;
  while (fn == NULL && workers->in_idle > 0) {
    ls_mutex_unlock(&workers->lock);
    ls_thread_yield();
    ls_mutex_lock(&workers->lock);
  }
  ls_mutex_unlock(&workers->lock);
}

ls_status ls_workers_wake(ls_workers *workers) {
  ls_status status = ls_ok();
  if (!__atomic_load_n(&workers->started, __ATOMIC_ACQUIRE)) {
    ls_mutex_lock(&workers->turn);
    if (workers->count > 1 && !workers->started)
      status = start_threads(workers);
    ls_mutex_unlock(&workers->turn);
  }
  __atomic_fetch_add(&workers->wakes, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&workers->parked_workers, __ATOMIC_SEQ_CST) == 0)
    return status;
  ls_mutex_lock(&workers->lock);
  ls_condition_broadcast(&workers->work);
  ls_mutex_unlock(&workers->lock);
  return status;
}

// ---- Creation and destruction ----------------------------------------------
static ls_status init_pool(ls_workers *pool) {
  LS_RETURN_IF_ERROR(ls_mutex_init(&pool->turn));
  LS_RETURN_IF_ERROR(ls_mutex_init(&pool->lock));
  LS_RETURN_IF_ERROR(ls_condition_init(&pool->work));
  LS_SET_ARRAY_OR_RETURN(pool->allocator, worker, pool->threads,
                         (size_t)pool->count);
  for (int i = 0; i < pool->count; ++i) {
    pool->threads[i].pool = pool;
    pool->threads[i].index = i;
  }
  return ls_ok();
}

ls_status ls_workers_create(ls_allocator *allocator, int threads,
                            ls_workers **out_workers) {
  *out_workers = NULL;
  if (threads < 1 || threads > MAX_THREADS)
    return ls_invalid_argument("%d threads; 1 to %d are possible", threads,
                               MAX_THREADS);
  LS_OWN_NEW_OR_RETURN(allocator, ls_workers, pool);
  pool->allocator = allocator;
  pool->count = threads;
  LS_RETURN_IF_ERROR(init_pool(pool));
  return ls_hand_over(&pool, out_workers);
}

void ls_workers_destroy(ls_workers *workers) {
  if (workers == NULL) return;
  if (workers->started) stop_threads(workers);
  ls_cores_destroy(workers->cores);
  ls_condition_deinit(&workers->work);
  ls_mutex_deinit(&workers->lock);
  ls_mutex_deinit(&workers->turn);
  ls_release(workers->allocator, workers->threads);
  ls_release(workers->allocator, workers);
}

void ls_workers_take_cores(ls_workers *workers, ls_cores *cores) {
  ls_cores_destroy(workers->cores);
  workers->cores = cores;
}

int ls_workers_count(const ls_workers *workers) { return workers->count; }
