// SPDX-License-Identifier: Apache-2.0
//
// The two threads beside a program on cores: one feeds them, the other takes
// what they send. Both get a count before a run of the program.
//
// An error ends a thread and is recorded in the rendezvous. Where a session
// recovers from it (ABORTED, UNAVAILABLE), nothing would end the run of the
// program that waits for the thread: its session is closed, and the error is
// reported instead of that.
//
// One thread starts, posts to and ends them: that of the session's hooks. It
// does itself what is to be done once, where a thread may be helped and has
// nothing to do: waking that takes longer.
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

// The work of a thread; all fields are needed.
typedef struct ls_device_work {
  const char *name, *source;  // The thread's; in the rendezvous. Static.
  bool once;                  // It gets the first count alone.
  bool helped;                // The work can be done before the run begins.
  ls_status (*begin)(void *user);  // Before anything else.
  ls_status (*work)(void *user, int64_t count);
  // Maps the error that ended it; OK: that is no failure. Takes it over.
  ls_status (*map_error)(void *user, ls_status status);
} ls_device_work;

typedef struct ls_device_threads ls_device_threads;
typedef struct ls_device_thread {
  ls_device_threads *all;
  const ls_device_work *work;
  ls_worker worker;
  bool has_count;
  // By the lock of all.
  bool has_begun, has_ended;
  ls_status failure;
} ls_device_thread;

struct ls_device_threads {
  ls_runtime *runtime;
  ls_rendezvous *rendezvous;
  void *user;
  ls_cancel *cancel;    // Of what both run.
  ls_session *session;  // NULL: there is none, and no thread.
  ls_device_thread threads[LS_DEVICE_THREADS];
  ls_mutex lock;  // Guards what follows.
  bool runs;      // The program.
  bool lost;      // The session is, by the error of a thread.
};

// Zeroed storage can be deinited.
LS_MUST_USE ls_status ls_device_threads_init(ls_device_threads *self,
                                             const ls_device_work *works,
                                             void *user,
                                             ls_rendezvous *rendezvous);
void ls_device_threads_deinit(ls_device_threads *self);

LS_MUST_USE ls_status ls_device_threads_start(ls_device_threads *self,
                                              ls_session *session);
// Ends them, whatever they do, and waits. The session goes.
void ls_device_threads_stop(ls_device_threads *self);
// Waits until a thread has worked on all its counts, and ends it.
void ls_device_threads_join(ls_device_threads *self, ls_device_thread_id id);

// Gives both a count, as a run of the program begins. Returns the error of a
// thread that has failed.
LS_MUST_USE ls_status ls_device_threads_post(ls_device_threads *self,
                                             int64_t count);
// Ends that run, which ended with `status`, taken over. Returns the error to
// report.
LS_MUST_USE ls_status ls_device_threads_run_ended(ls_device_threads *self,
                                                  ls_status status);
// Waits until a thread has worked on its counts so far, or has ended.
void ls_device_threads_settle(ls_device_threads *self, ls_device_thread_id id);
// Returns the error of a thread that the rendezvous does not keep.
LS_MUST_USE ls_status ls_device_threads_unkept(const ls_device_threads *self);
// Returns whether the calling thread of either shall end.
bool ls_device_threads_should_end(const ls_device_threads *self);

#endif  // LS_ESTIMATOR_DEVICE_DEVICE_THREADS_H_
