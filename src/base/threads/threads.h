// SPDX-License-Identifier: Apache-2.0
// Locks, waits and counts: pthread, with statuses. Threads are workers
// (base/threads/worker.h).
//
// Zeroed storage is a valid half-made mutex or condition: deinit accepts it, so
// that a half-built owner can be destroyed.
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

// Waits measure time on the monotonic clock.
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
// A mutex that its holder may lock again.
LS_MUST_USE ls_status ls_mutex_init_recursive(ls_mutex *mutex);
LS_PRIVATE_API void ls_mutex_deinit(ls_mutex *mutex);
LS_PRIVATE_API void ls_mutex_lock(ls_mutex *mutex);
LS_PRIVATE_API void ls_mutex_unlock(ls_mutex *mutex);

LS_MUST_USE ls_status ls_condition_init(ls_condition *condition);
void ls_condition_deinit(ls_condition *condition);
void ls_condition_signal(ls_condition *condition);
void ls_condition_broadcast(ls_condition *condition);

// ---- The gate --------------------------------------------------------------
// The only functions in which a thread of the library stops and another one
// goes on, besides the lock of a mutex and a worker's join. Whoever wants to
// decide which thread runs next does so here.

// Spurious returns happen: wait in a loop that looks at what is waited for.
void ls_condition_wait(ls_condition *condition, ls_mutex *mutex);
// The same for at most `nanos`. False when they have passed.
bool ls_condition_wait_for(ls_condition *condition, ls_mutex *mutex,
                           int64_t nanos);
// Sleeps by the system's clock. Code of the library asks its runtime's clock
// (ls_runtime_sleep).
void ls_thread_sleep(int64_t nanos);
// Lets another thread have the processor, for loops that wait for moments.
void ls_thread_yield(void);

// Starts as not set. A failed one needs no deinit.
LS_MUST_USE ls_status ls_event_init(ls_event *event);
void ls_event_deinit(ls_event *event);
// Sets it and wakes who waits for it. Takes an ls_event *, as callbacks do.
void ls_event_set(void *event);
void ls_event_wait(ls_event *event);
// The same for at most `nanos`. False: it is still not set.
bool ls_event_wait_for(ls_event *event, int64_t nanos);

// The status of what the system does not give: `error` is errno's.
LS_MUST_USE ls_status ls_thread_status(const char *noun, int error);

// ---- Counts ----------------------------------------------------------------
// References: adding needs no order, the last to drop sees all that the others
// did before they dropped theirs.
static inline void ls_count_retain(int *count) {
  __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}
// True when the last reference went.
static inline bool ls_count_release(int *count) {
  return __atomic_fetch_sub(count, 1, __ATOMIC_ACQ_REL) == 1;
}
static inline bool ls_count_is(const int *count, int wanted) {
  return __atomic_load_n(count, __ATOMIC_ACQUIRE) == wanted;
}

// Tells the core that this is a spin loop.
static inline void ls_spin_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb");
#endif
}

#endif  // LS_BASE_THREADS_THREADS_H_
