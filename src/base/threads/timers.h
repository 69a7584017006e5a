// SPDX-License-Identifier: Apache-2.0
// Timers: calls at a given time of the runtime's clock. There is no timer
// thread: threads that wait for something else also look here and make the
// calls that are due.
//
// Thread-safe.
#ifndef LS_BASE_THREADS_TIMERS_H_
#define LS_BASE_THREADS_TIMERS_H_

#include "base/threads/threads.h"
#include "lockstep/runtime.h"

// A timer. Its owner keeps it until it was called or cleared.
typedef struct ls_timer {
  void (*fn)(struct ls_timer *self);
  int64_t due;            // Private, like the fields below.
  struct ls_timer *next;  // The list, by due time.
} ls_timer;

typedef struct ls_timers {
  ls_mutex lock;  // Guards the list; no other lock is taken under it.
  ls_timer *first;
} ls_timers;

// Sets a timer that calls fn once, after `nanos`.
void ls_timer_set(ls_runtime *runtime, ls_timer *timer, int64_t nanos);
// Clears a timer. Returns false if its call was made or is being made.
bool ls_timer_clear(ls_runtime *runtime, ls_timer *timer);

// Returns nanoseconds until the next timer; INT64_MAX if there is none.
int64_t ls_timers_left(ls_runtime *runtime);
// If the runtime's clock is a caller's, waits a moment for the next timer, so
// that nobody waits in real time. Returns false if there is no timer or that
// clock stands still.
bool ls_timers_skip(ls_runtime *runtime);
// Makes the calls that are due, without locks.
void ls_timers_call(ls_runtime *runtime);

#endif  // LS_BASE_THREADS_TIMERS_H_
