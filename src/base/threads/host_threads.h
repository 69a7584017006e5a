// SPDX-License-Identifier: Apache-2.0
// Host threads: where functions of users run, never a worker or a caller.
//
// Jobs start one after another, in the order they came, as none is meant to
// wait. One that waits all the same is passed over: a thread that waits for
// later jobs has some patience (ls_host_threads_wait), then another thread
// takes the next. So a thread that never comes back costs nothing but itself.
//
// A job whose owner has given it up is an abandoned job: it is listed until it
// ends, and all that it may touch stays.
//
// Thread-safe.
#ifndef LS_BASE_THREADS_HOST_THREADS_H_
#define LS_BASE_THREADS_HOST_THREADS_H_

#include "base/memory/allocator.h"
#include "base/threads/threads.h"

typedef struct ls_host_job {
  void (*fn)(struct ls_host_job *self);
  const char *label;         // Names it, once abandoned. Lives as long.
  struct ls_host_job *next;  // In its list; the threads' own.
} ls_host_job;

typedef struct ls_host_threads {
  ls_allocator *allocator;
  ls_mutex lock;       // Guards all that follows, and what owners of jobs like.
  ls_condition work;   // A job may start, or the end.
  ls_condition event;  // For owners: see ls_host_threads_wait.
  ls_host_job *first, *last;  // Not started.
  ls_host_job *abandoned;
  size_t num_abandoned;
  ls_host_job *running;  // The newest that started; NULL: it has returned.
  uint64_t num_started;  // Jobs so far.
  struct ls_host_thread *threads;
  int num_idle;  // Threads without a job, new ones included.
  bool stop;
} ls_host_threads;

LS_MUST_USE ls_status ls_host_threads_create(ls_allocator *allocator,
                                             ls_host_threads **out_threads);
// Ends the threads. No job may be there, abandoned ones included.
void ls_host_threads_destroy(ls_host_threads *self);

// Has fn(job) called on a host thread. The lock is not held.
//   LS_RESOURCE_EXHAUSTED  there is no thread and none can be started.
LS_MUST_USE ls_status ls_host_threads_submit(ls_host_threads *self,
                                             ls_host_job *job);

// ---- With the lock held ----------------------------------------------------
// Takes a job back. False: it has started.
bool ls_host_threads_cancel(ls_host_threads *self, ls_host_job *job);
// Waits for `event`, for at most `nanos`, and passes over a job that keeps
// others from starting for some 10 ms.
void ls_host_threads_wait(ls_host_threads *self, int64_t nanos);
// Lists a job that nobody waits for any more, until it is forgotten, which
// also releases its memory: an allocation of the threads' allocator.
void ls_host_threads_abandon(ls_host_threads *self, ls_host_job *job);
void ls_host_threads_forget(ls_host_threads *self, ls_host_job *job);

// FAILED_PRECONDITION naming an abandoned job, if there is one. Takes the lock.
LS_MUST_USE ls_status ls_host_threads_check(ls_host_threads *self);

#endif  // LS_BASE_THREADS_HOST_THREADS_H_
