// SPDX-License-Identifier: Apache-2.0
// Timers: calls at a time of the runtime's clock. No thread waits for them: a
// thread that waits for something else looks here, too, and makes the calls
// that are due.
//
// Thread-safe.
#ifndef LS_BASE_THREADS_TIMERS_H_
#define LS_BASE_THREADS_TIMERS_H_

#include "base/threads/threads.h"
#include "lockstep/runtime.h"

// The owner keeps it until it is called or cleared.
typedef struct ls_timer {
  void (*fn)(struct ls_timer *self);
  int64_t due;            // The timers' own, as what follows.
  struct ls_timer *next;  // By when they are due.
} ls_timer;

typedef struct ls_timers {
  ls_mutex lock;  // Guards the list. Innermost: nothing is done with it held.
  ls_timer *first;
} ls_timers;

// Has fn called, once, when so much time has passed.
void ls_timer_set(ls_runtime *runtime, ls_timer *timer, int64_t nanos);
// Takes it back. False: it was called, or is being called.
bool ls_timer_clear(ls_runtime *runtime, ls_timer *timer);

// Nanoseconds until the next one; INT64_MAX without one.
int64_t ls_timers_left(ls_runtime *runtime);
// Waits for the next one, for a moment, if the runtime's clock is a caller's:
// then nobody need wait for real. False: there is none, or that clock stands
// still.
bool ls_timers_skip(ls_runtime *runtime);
// Makes the calls that are due, with no lock held.
void ls_timers_call(ls_runtime *runtime);

#endif  // LS_BASE_THREADS_TIMERS_H_
