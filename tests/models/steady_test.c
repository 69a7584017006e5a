// SPDX-License-Identifier: Apache-2.0
//
// A step that has run before, on arrays and results that are used again, takes
// no memory: neither from the runtime's allocator nor from the system behind
// its back.
#include "support/counted.h"
#include "support/expect.h"

#include <stdlib.h>

#include "lockstep/function_plan.h"
#include "support/sanitizer.h"
#include "support/trainer.h"
#include "support/training.h"

// ---- The system's memory ---------------------------------------------------
// Every request of the whole program comes through here. Sanitizers have their
// own such functions, and other C libraries other names.
#if defined(__GLIBC__) && !LS_SANITIZED
#define COUNTS_SYSTEM 1
#else
#define COUNTS_SYSTEM 0
#endif

static uint64_t system_requests;

#if COUNTS_SYSTEM
// What glibc's own functions do.
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static void count_request(void) {
  __atomic_add_fetch(&system_requests, 1, __ATOMIC_RELAXED);
}

#define INTERPOSED __attribute__((visibility("default")))

INTERPOSED void *malloc(size_t size) {
  count_request();
  return __libc_malloc(size);
}

INTERPOSED void *calloc(size_t count, size_t size) {
  count_request();
  return __libc_calloc(count, size);
}

INTERPOSED void *realloc(void *memory, size_t size) {
  count_request();
  return __libc_realloc(memory, size);
}

INTERPOSED void *aligned_alloc(size_t alignment, size_t size) {
  count_request();
  return __libc_memalign(alignment, size);
}

INTERPOSED void *memalign(size_t alignment, size_t size);
INTERPOSED void *memalign(size_t alignment, size_t size) {
  count_request();
  return __libc_memalign(alignment, size);
}

INTERPOSED int posix_memalign(void **out, size_t alignment, size_t size) {
  count_request();
  void *memory = __libc_memalign(alignment, size);
  if (memory == NULL) return 12;  // ENOMEM
  *out = memory;
  return 0;
}
#endif

static uint64_t system_count(void) {
  return __atomic_load_n(&system_requests, __ATOMIC_RELAXED);
}

TEST(the_system_count_counts) {
  if (!COUNTS_SYSTEM) skip();
  const uint64_t before = system_count();
  ls_allocator *system = ls_allocator_system();
  system->release(system, system->allocate(system, 100, 64));
  assert_true(system_count() > before);
}

// ---- Counting steps --------------------------------------------------------
typedef struct requests {
  uint64_t own, system;  // Of the runtime's allocator, and of the system.
} requests;

enum { WARM_STEPS = 3, COUNTED_STEPS = LS_SANITIZED ? 3 : 10 };

static ls_status run_steps(trainer *it, ls_counting_allocator *memory,
                           requests *out_taken) {
  const uint64_t own = ls_counting_allocator_counts(memory).allocations;
  const uint64_t system = system_count();
  ls_status status = ls_ok();
  for (int i = 0; i < COUNTED_STEPS && ls_status_is_ok(status); ++i)
    status = trainer_step(it);
  out_taken->own = ls_counting_allocator_counts(memory).allocations - own;
  out_taken->system = system_count() - system;
  return status;
}

// What COUNTED_STEPS take, after a few others. A worker thread that wakes late
// binds itself to its core then, for which the system's library takes memory;
// so the steps are counted once more for each thread while they take some.
static requests count_steps(const trainer_options *options, int threads) {
  LS_OWN(counted, memory) = counted_begin(threads);
  trainer it;
  expect_ok(trainer_create(options, &it));
  for (int i = 0; i < WARM_STEPS; ++i)
    expect_ok(trainer_step(&it));
  const float loss = trainer_loss(&it);
  requests taken;
  expect_ok(run_steps(&it, memory.memory, &taken));
  for (int i = 1; i < threads && taken.own == 0 && taken.system != 0; ++i)
    expect_ok(run_steps(&it, memory.memory, &taken));
  assert_true(trainer_loss(&it) < loss);  // It did train.
  trainer_destroy(&it);
  return taken;
}

static void expect_none(const char *name, const trainer_options *options) {
  for (int threads = 1; threads <= 2; ++threads) {
    const requests taken = count_steps(options, threads);
    if (taken.own != 0 || taken.system != 0)
      fail_msg("%s with %d threads: %d steps took memory %llu times from the "
               "runtime's allocator, %llu times from the system",
               name, threads, COUNTED_STEPS, (unsigned long long)taken.own,
               (unsigned long long)taken.system);
  }
}

TEST(a_function_call_takes_no_memory) {
  expect_none("tiny", &(trainer_options){&mlp_tiny, TRAINER_FUNCTION, 8, 0});
  if (LS_SANITIZED) return;  // A large model does nothing else.
  expect_none("mlp", &(trainer_options){&mlp_large, TRAINER_FUNCTION, 64, 0});
}

TEST(a_step_on_replicas_takes_no_memory) {
  static const int replicas[] = {1, 3, 8};
  for (size_t i = 0; i < 3; ++i) {
    const int64_t batch = 8 * replicas[i];
    expect_none("tiny", &(trainer_options){&mlp_tiny, TRAINER_STRATEGY, batch,
                                           replicas[i]});
    if (LS_SANITIZED) continue;
    expect_none("mlp", &(trainer_options){&mlp_large, TRAINER_STRATEGY, batch,
                                          replicas[i]});
  }
}

// ---- The reference models --------------------------------------------------
// Counts what `steps` steps take; nothing they should, but a worker thread may
// wake late, once each.
static void expect_quiet(const char *what, const training_job *job,
                         training_setup *setup, ls_counting_allocator *memory,
                         int steps) {
  requests taken = {0};
  for (int attempt = 0; attempt < job->threads; ++attempt) {
    const uint64_t own = ls_counting_allocator_counts(memory).allocations;
    const uint64_t system = system_count();
    for (int i = 0; i < steps; ++i)
      expect_ok(training_setup_step(setup));
    taken.own = ls_counting_allocator_counts(memory).allocations - own;
    taken.system = system_count() - system;
    if (taken.own != 0 || taken.system == 0) break;
  }
  if (taken.own != 0 || taken.system != 0)
    fail_msg("%s on %d replicas and %d threads, %s: %llu times from the "
             "runtime's allocator, %llu times from the system",
             job->model, job->replicas, job->threads, what,
             (unsigned long long)taken.own, (unsigned long long)taken.system);
}

static void expect_quiet_model(const training_job *job) {
  const int steps = job->replicas > 1 ? 1 : 3;
  LS_OWN(counted, memory) = counted_begin(job->threads);
  training_setup setup;
  training_setup_create(job, &setup);
  for (int i = 0; i < 2; ++i)
    expect_ok(training_setup_step(&setup));
  expect_quiet("plainly", job, &setup, memory.memory, steps);
  expect_ok(ls_function_measure(setup.function, true));
  expect_quiet("measured", job, &setup, memory.memory, 1);
  expect_ok(ls_function_measure(setup.function, false));
  expect_quiet("measured no more", job, &setup, memory.memory, 1);
  training_setup_destroy(&setup);
}

TEST(a_step_of_every_model_takes_no_memory) {
  for (size_t i = 0; i < (LS_SANITIZED ? 4 : TRAINING_MODELS); ++i) {
    training_job job = training_small_job(i);
    job.replicas = 1;
    job.options.metrics = i % 2 == 0;
    for (job.threads = 1; job.threads <= (LS_SANITIZED ? 1 : 2); ++job.threads)
      expect_quiet_model(&job);
  }
}

TEST(nor_does_one_on_eight_replicas) {
  for (size_t i = 0; i < (LS_SANITIZED ? 2 : TRAINING_MODELS); ++i) {
    training_job job = training_small_job(i);
    job.replicas = 8;
    job.batch = 8;
    job.threads = 2;
    expect_quiet_model(&job);
  }
}

// Not promised, but it stays small: what a session looks up per run, and what
// eager makes per op.
TEST(sessions_and_eager_take_little) {
  const requests session =
      count_steps(&(trainer_options){&mlp_tiny, TRAINER_SESSION, 8, 0}, 1);
  const requests eager =
      count_steps(&(trainer_options){&mlp_tiny, TRAINER_EAGER, 8, 0}, 1);
  print_message("requests a step of tiny: session %.1f, eager %.1f\n",
                (double)session.own / COUNTED_STEPS,
                (double)eager.own / COUNTED_STEPS);
  assert_true(session.own <= 10 * COUNTED_STEPS);
  assert_true(eager.own <= 400 * COUNTED_STEPS);
}
