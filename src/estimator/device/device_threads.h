// SPDX-License-Identifier: Apache-2.0
//
// The two threads beside a program on cores: one feeds it, the other takes its
// outputs. Each gets a count before a run of the program.
//
// An error ends a thread and is recorded in the rendezvous. The program then
// waits for the thread forever, so for errors from which a session recovers
// (ABORTED, UNAVAILABLE) its session is closed, and the thread's error is
// reported instead of the closing.
//
// One thread, the session's, starts, posts to and ends both. It does a single
// round of work itself if the thread is idle and `helped`, because waking the
// thread takes longer.
#ifndef LS_ESTIMATOR_DEVICE_DEVICE_THREADS_H_
#define LS_ESTIMATOR_DEVICE_DEVICE_THREADS_H_

#include "base/runtime_internal.h"
#include "base/threads/worker.h"
#include "lockstep/cancel.h"
#include "lockstep/rendezvous.h"

typedef enum ls_device_thread_id {
  LS_INFEED_THREAD,
  LS_OUTFEED_THREAD,
  LS_DEVICE_THREADS,
} ls_device_thread_id;

// The work of a thread; all fields are required.
typedef struct ls_device_work {
  // Names of the thread, and in the rendezvous. Static.
  const char *name, *source;
  bool once;    // Receives only the first count.
  bool helped;  // Its work may be done before the run begins.
  ls_status (*begin)(void *user);  // Called first.
  ls_status (*work)(void *user, int64_t count);
  // Maps the error that ended the thread, which it takes over; OK means no
  // failure.
  ls_status (*map_error)(void *user, ls_status status);
} ls_device_work;

typedef struct ls_device_threads ls_device_threads;
typedef struct ls_device_thread {
  ls_device_threads *all;
  const ls_device_work *work;
  ls_worker worker;
  bool has_count;
  // Guarded by the common lock.
  bool has_begun, has_ended;
  ls_status failure;
} ls_device_thread;

struct ls_device_threads {
  ls_runtime *runtime;
  ls_rendezvous *rendezvous;
  void *user;
  ls_cancel *cancel;    // For both threads' work.
  ls_session *session;  // NULL: no session, and no threads.
  ls_device_thread threads[LS_DEVICE_THREADS];
  ls_mutex lock;  // Guards the fields below.
  bool runs;      // True while the program runs.
  bool lost;      // True if a thread's error has closed the session.
};

// Initializes the threads without starting them. Zeroed storage may be
// deinited.
LS_MUST_USE ls_status ls_device_threads_init(ls_device_threads *self,
                                             const ls_device_work *works,
                                             void *user,
                                             ls_rendezvous *rendezvous);
void ls_device_threads_deinit(ls_device_threads *self);

LS_MUST_USE ls_status ls_device_threads_start(ls_device_threads *self,
                                              ls_session *session);
// Cancels both threads, whatever they do, and waits for them. The session is
// about to close.
void ls_device_threads_stop(ls_device_threads *self);
// Waits until a thread has worked off its counts and ended.
void ls_device_threads_join(ls_device_threads *self, ls_device_thread_id id);

// Gives both threads a count, before a run of the program. Returns the error of
// a failed thread.
LS_MUST_USE ls_status ls_device_threads_post(ls_device_threads *self,
                                             int64_t count);
// Notes that the run ended with `status`, taken over. Returns the error to
// report.
LS_MUST_USE ls_status ls_device_threads_run_ended(ls_device_threads *self,
                                                  ls_status status);
// Waits until a thread has worked off its counts so far, or has ended.
void ls_device_threads_settle(ls_device_threads *self, ls_device_thread_id id);
// Returns a thread's error that the rendezvous does not keep.
LS_MUST_USE ls_status ls_device_threads_unkept(const ls_device_threads *self);
// Returns true if the calling thread is to end.
bool ls_device_threads_should_end(const ls_device_threads *self);

#endif  // LS_ESTIMATOR_DEVICE_DEVICE_THREADS_H_
