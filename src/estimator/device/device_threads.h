// SPDX-License-Identifier: Apache-2.0
//
// The two threads beside a program on cores: one feeds them, the other takes
// what they say. Both are told a count before a run of the program.
//
// What goes wrong on a thread ends it and is recorded in the rendezvous. Where
// a session recovers from it (ABORTED, UNAVAILABLE), nothing would end the run
// of the program that waits for the thread: its session is closed, and what
// went wrong is told instead of that.
//
// One thread starts, tells and ends them: that of the session's hooks. It does
// itself what is to be done once, where a thread may be helped and has nothing
// to do: waking that takes longer.
#ifndef LS_ESTIMATOR_DEVICE_DEVICE_THREADS_H_
#define LS_ESTIMATOR_DEVICE_DEVICE_THREADS_H_

#include "estimator/device/controller.h"
#include "lockstep/cancel.h"
#include "lockstep/rendezvous.h"

typedef enum ls_device_thread_id {
  LS_INFEED_THREAD,
  LS_OUTFEED_THREAD,
  LS_DEVICE_THREADS,
} ls_device_thread_id;

// What a thread does, all of it there.
typedef struct ls_device_work {
  const char *name, *source;       // The thread's; in the rendezvous. Static.
  bool once;                       // One count is all it is told.
  bool helped;                     // It can be done before the run begins.
  ls_status (*begin)(void *user);  // Before anything else.
  ls_status (*work)(void *user, int64_t count);
  // By what it has ended; OK: that is no failure. Takes the status over.
  ls_status (*judge)(void *user, ls_status status);
} ls_device_work;

typedef struct ls_device_threads ls_device_threads;
typedef struct ls_device_thread {
  ls_device_threads *all;
  const ls_device_work *work;
  ls_controller *controller;  // NULL: it is not there.
  // By the lock of all.
  int64_t told, done;  // Counts.
  bool begun, ended;
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
  ls_condition moved;
  bool runs;  // The program.
  bool lost;  // The session is, by what a thread has met.
};

// Zeroed storage can be deinited.
LS_MUST_USE ls_status ls_device_threads_init(ls_device_threads *self,
                                             const ls_device_work *works,
                                             void *user,
                                             ls_rendezvous *rendezvous);
void ls_device_threads_deinit(ls_device_threads *self);

LS_MUST_USE ls_status ls_device_threads_start(ls_device_threads *self,
                                              ls_session *session);
// Has them end, whatever they do, and waits. The session goes.
void ls_device_threads_stop(ls_device_threads *self);
// Waits until a thread has done all that it was told, and ends it.
void ls_device_threads_join(ls_device_threads *self, ls_device_thread_id id);

// A run of the program begins. What a thread has ended by, if one has failed.
LS_MUST_USE ls_status ls_device_threads_tell(ls_device_threads *self,
                                             int64_t count);
// It has ended, by `status`, which is taken over: by what is told.
LS_MUST_USE ls_status ls_device_threads_run_ended(ls_device_threads *self,
                                                  ls_status status);
// Waits until a thread has done what it was told so far, or has ended.
void ls_device_threads_settle(ls_device_threads *self, ls_device_thread_id id);
// What one has ended by that the rendezvous does not keep.
LS_MUST_USE ls_status ls_device_threads_unkept(const ls_device_threads *self);
// Whether the calling thread of either shall end.
bool ls_device_threads_should_end(const ls_device_threads *self);

#endif  // LS_ESTIMATOR_DEVICE_DEVICE_THREADS_H_
