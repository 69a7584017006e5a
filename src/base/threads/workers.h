// SPDX-License-Identifier: Apache-2.0
// Workers: T threads that share the numbers of a job.
//
// The caller is worker 0; the other T - 1 threads start at the first job and
// stay, each on its own core where the machine lets us bind it. Between jobs
// they spin for a while before they park: a spin barrier costs 0.3 us, waking
// a parked thread 15 to 90.
//
// Thread-safe: two jobs at once take turns. A job inside a job is refused.
#ifndef LS_BASE_THREADS_WORKERS_H_
#define LS_BASE_THREADS_WORKERS_H_

#include "base/memory/allocator.h"
#include "base/threads/cores.h"

typedef struct ls_workers ls_workers;

// Creates a pool of `threads` (1 or more), the caller's included. Starts none.
//   LS_INVALID_ARGUMENT  fewer than one thread, or more than 4096.
LS_MUST_USE ls_status ls_workers_create(ls_allocator *allocator, int threads,
                                        ls_workers **out_workers);
// Ends the threads. No job may be under way. NULL is fine.
void ls_workers_destroy(ls_workers *workers);

int ls_workers_count(const ls_workers *workers);

// Calls fn(user, worker, begin, end) until every number of 0 to count - 1 was
// in one range, and returns when all calls have. A worker begins with its own
// part, the w-th of T, and then helps the others; one that is late, parked or
// kept off its core is not waited for unless it holds a range. So a loaded
// machine costs time but no more than one range's. Workers see all writes made
// before, and the caller sees theirs after. Denormals are zero inside.
//   LS_RESOURCE_EXHAUSTED   a thread could not be started: nothing was run.
//   LS_FAILED_PRECONDITION  called from inside a job of the same workers.
typedef void (*ls_share_function)(void *user, int worker, int64_t begin,
                                  int64_t end);
LS_MUST_USE ls_status ls_workers_share(ls_workers *workers,
                                       ls_share_function fn, void *user,
                                       int64_t count);

// Has workers that have nothing else to do call fn(user), again and again while
// it returns true. A job that begins meanwhile waits for a call that is under
// way, so calls are short. One function at a time; NULL takes it away, and
// returns when no call is under way.
typedef bool (*ls_idle_function)(void *user);
void ls_workers_set_idle(ls_workers *workers, ls_idle_function fn, void *user);
// Reports that there is something to do for it; starts the threads if need be.
//   LS_RESOURCE_EXHAUSTED  none could be started.
LS_MUST_USE ls_status ls_workers_wake(ls_workers *workers);

// Takes over what is known of the machine's cores, so that the pool need not
// look itself, which takes a millisecond. Before its first job; NULL is fine.
void ls_workers_take_cores(ls_workers *workers, ls_cores *cores);

// Real cores that this process may use; at least 1.
int ls_real_cores(void);

// Sets this thread's floating-point mode to the one that all work runs in:
// denormals are zero, flushed and read so, numbers are rounded to nearest, and
// nothing traps, whatever the caller has chosen. Returns the control word to
// give back to ls_float_mode_leave. Compilers may move arithmetic over either:
// what counts is inside functions called in between.
static inline uint64_t ls_float_mode_enter(void) {
#if defined(__x86_64__)
  const uint32_t before = __builtin_ia32_stmxcsr();
  // All traps masked (the default, 0x1F80); FTZ is bit 15, DAZ bit 6.
  __builtin_ia32_ldmxcsr(0x9FC0U);
  return before;
#elif defined(__aarch64__)
  uint64_t before = 0;
  __asm__ __volatile__("mrs %0, fpcr" : "=r"(before));
  const uint64_t after = UINT64_C(1) << 24;  // FZ does both.
  __asm__ __volatile__("msr fpcr, %0" : : "r"(after));
  return before;
#else
  return 0;
#endif
}
static inline void ls_float_mode_leave(uint64_t before) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr((uint32_t)before);
#elif defined(__aarch64__)
  __asm__ __volatile__("msr fpcr, %0" : : "r"(before));
#else
  (void)before;
#endif
}

#endif  // LS_BASE_THREADS_WORKERS_H_
