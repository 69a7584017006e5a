// SPDX-License-Identifier: Apache-2.0
// Locks, waits and reference counts: pthread with statuses. For threads see
// base/threads/worker.h.
//
// Zeroed memory is a valid mutex or condition for deinit, so that a half-built
// owner can be destroyed.
#ifndef LS_BASE_THREADS_THREADS_H_
#define LS_BASE_THREADS_THREADS_H_

#include <pthread.h>
#include <stdint.h>

#include "base/export.h"
#include "lockstep/status.h"

typedef struct ls_mutex {
  pthread_mutex_t handle;
  bool made;
} ls_mutex;

// A condition variable whose timed waits use the monotonic clock.
typedef struct ls_condition {
  pthread_cond_t handle;
  bool made;
} ls_condition;

// A flag that one thread sets and another one waits for.
typedef struct ls_event {
  ls_mutex lock;
  ls_condition changed;
  bool is_set;
} ls_event;

LS_PRIVATE_API LS_MUST_USE ls_status ls_mutex_init(ls_mutex *mutex);
// Initializes a recursive mutex.
LS_MUST_USE ls_status ls_mutex_init_recursive(ls_mutex *mutex);
LS_PRIVATE_API void ls_mutex_deinit(ls_mutex *mutex);
LS_PRIVATE_API void ls_mutex_lock(ls_mutex *mutex);
LS_PRIVATE_API void ls_mutex_unlock(ls_mutex *mutex);

LS_MUST_USE ls_status ls_condition_init(ls_condition *condition);
void ls_condition_deinit(ls_condition *condition);
void ls_condition_signal(ls_condition *condition);
void ls_condition_broadcast(ls_condition *condition);

// ---- The gate --------------------------------------------------------------
// The only functions in which a thread of the library blocks, besides locking a
// mutex and joining a worker. A scheduler that decides which thread runs next
// would hook in here.

// Waits for a signal. Wakes spuriously: call in a loop that checks the
// condition.
void ls_condition_wait(ls_condition *condition, ls_mutex *mutex);
// Waits for at most `nanos`; returns false when they have passed.
bool ls_condition_wait_for(ls_condition *condition, ls_mutex *mutex,
                           int64_t nanos);
// Sleeps by the system's clock. Use ls_runtime_sleep for the runtime's clock.
void ls_thread_sleep(int64_t nanos);
// Yields the processor, for loops with short waits.
void ls_thread_yield(void);

// Initializes an event that is not set. After a failure deinit is not needed.
LS_MUST_USE ls_status ls_event_init(ls_event *event);
void ls_event_deinit(ls_event *event);
// Sets an ls_event and wakes its waiters; a void * so that it can be a
// callback.
void ls_event_set(void *event);
void ls_event_wait(ls_event *event);
// Waits for at most `nanos`; returns false if the event is still not set.
bool ls_event_wait_for(ls_event *event, int64_t nanos);

// Returns the status for a resource `noun` that the system refuses; `error` is
// an errno value.
LS_MUST_USE ls_status ls_thread_status(const char *noun, int error);

// ---- Counts ----------------------------------------------------------------
// Reference counts: retaining needs no order; the thread that drops the last
// reference sees all writes made before the others dropped theirs.
static inline void ls_count_retain(int *count) {
  __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}
// Drops a reference; returns true if it was the last.
static inline bool ls_count_release(int *count) {
  return __atomic_fetch_sub(count, 1, __ATOMIC_ACQ_REL) == 1;
}
static inline bool ls_count_is(const int *count, int wanted) {
  return __atomic_load_n(count, __ATOMIC_ACQUIRE) == wanted;
}

// Hints to the core that this is a spin loop.
static inline void ls_spin_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb");
#endif
}

#endif  // LS_BASE_THREADS_THREADS_H_
