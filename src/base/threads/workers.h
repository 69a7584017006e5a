// SPDX-License-Identifier: Apache-2.0
// Workers: T threads that share the numbers of a job.
//
// The caller is worker 0; the other T - 1 threads start at the first job and
// stay, each bound to its own core if the machine permits. Between jobs they
// spin for a while before they park: a spin barrier costs 0.3 us, waking a
// parked thread 15 to 90.
//
// Thread-safe: two jobs run one after the other. A job inside a job is refused.
#ifndef LS_BASE_THREADS_WORKERS_H_
#define LS_BASE_THREADS_WORKERS_H_

#include "base/memory/allocator.h"

// ---- Cores -----------------------------------------------------------------
typedef struct ls_cores ls_cores;

// Lists the machine's cores. Fails only without memory: without information
// about the machine, reports one core.
LS_MUST_USE ls_status ls_cores_create(ls_allocator *allocator,
                                      ls_cores **out_cores);
void ls_cores_destroy(ls_cores *cores);  // Accepts NULL.

// Lists the cores again, since bindings may have changed. Returns false without
// memory.
bool ls_cores_look_again(ls_cores *cores);

// Returns a hash of the processors that this thread may run on.
uint64_t ls_cores_identify(const ls_cores *cores);
// Binds the calling thread to one of `parts` shares of the cores; with fewer
// cores than shares several have the same core. Returns false and changes
// nothing if that is refused.
bool ls_cores_share(const ls_cores *cores, int part, int parts);

// Returns the number of cores that the process may run on, at least 1. Hardware
// threads of a core count once.
int ls_cores_count(const ls_cores *cores);
// Binds the calling thread to core `index`; 0 is the core on which
// ls_cores_create ran. Returns false and changes nothing if the binding is
// refused or there is no such core.
bool ls_cores_bind(const ls_cores *cores, int index);

// Reads up to `most` numbers of a list such as "0-3,64" in /sys and stops at
// the first malformed character. Returns their number.
int ls_parse_processors(const char *list, int *out, int most);

typedef struct ls_workers ls_workers;

// Creates a pool of `threads` (1 or more) workers, the caller included, without
// starting them.
//   LS_INVALID_ARGUMENT  fewer than one thread, or more than 4096.
LS_MUST_USE ls_status ls_workers_create(ls_allocator *allocator, int threads,
                                        ls_workers **out_workers);
// Ends the threads. No job may be running. Accepts NULL.
void ls_workers_destroy(ls_workers *workers);

int ls_workers_count(const ls_workers *workers);

// Calls fn(user, worker, begin, end) on ranges that together cover each number
// of 0 to count - 1 once, and returns when all calls have. A worker begins with
// its own part, the w-th of T, and then helps the others; a worker that is
// late, parked or preempted is waited for only while it holds a range. So a
// loaded machine delays a job by at most one range. Workers see all earlier
// writes, and the caller sees theirs afterwards. Denormals are zero inside.
//   LS_RESOURCE_EXHAUSTED   a thread could not be started: nothing was run.
//   LS_FAILED_PRECONDITION  called from inside a job of the same workers.
typedef void (*ls_share_function)(void *user, int worker, int64_t begin,
                                  int64_t end);
LS_MUST_USE ls_status ls_workers_share(ls_workers *workers,
                                       ls_share_function fn, void *user,
                                       int64_t count);
// Does so, or calls fn(user, 0, 0, count) itself: without workers (NULL) or
// threads, or inside a job.
void ls_workers_share_or_run(ls_workers *workers, ls_share_function fn,
                             void *user, int64_t count);

// Sets the idle function: workers without a job call fn(user) again and again
// while it returns true. A new job waits for a call that is running, so calls
// must be short. NULL removes the function, and returns when no call is
// running.
typedef bool (*ls_idle_function)(void *user);
void ls_workers_set_idle(ls_workers *workers, ls_idle_function fn, void *user);
// Notifies the workers of work for the idle function; starts the threads if
// need be.
//   LS_RESOURCE_EXHAUSTED  none could be started.
LS_MUST_USE ls_status ls_workers_wake(ls_workers *workers);

// Takes over a list of the machine's cores, which the pool would otherwise need
// a millisecond to make. Before the first job; accepts NULL.
void ls_workers_take_cores(ls_workers *workers, ls_cores *cores);

// Sets this thread's floating-point mode to that of all kernels: denormals are
// flushed to zero, rounding is to nearest, no traps, whatever mode the caller
// has chosen. Returns the control word for ls_float_mode_leave. Compilers may
// move arithmetic across both calls: the mode holds for functions called in
// between.
static inline uint64_t ls_float_mode_enter(void) {
#if defined(__x86_64__)
  const uint32_t before = __builtin_ia32_stmxcsr();
  // Masks all traps (the default, 0x1F80) and sets FTZ (bit 15) and DAZ (bit
  // 6).
  __builtin_ia32_ldmxcsr(0x9FC0U);
  return before;
#elif defined(__aarch64__)
  uint64_t before = 0;
  __asm__ __volatile__("mrs %0, fpcr" : "=r"(before));
  const uint64_t after = UINT64_C(1) << 24;  // FZ flushes operands and results.
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
