// SPDX-License-Identifier: Apache-2.0
// Host threads: run users' functions, which never run on a worker or a caller.
//
// Jobs start one after another, in order of submission, since no job should
// block. If a job blocks all the same, a thread that waits for later jobs is
// patient for a while (ls_host_threads_wait), then lets another thread take the
// next job. So a job that never returns costs one thread.
//
// An abandoned job is one that its owner gave up: it is listed until it ends,
// and all memory it may use stays.
//
// Thread-safe.
#ifndef LS_BASE_THREADS_HOST_THREADS_H_
#define LS_BASE_THREADS_HOST_THREADS_H_

#include "base/memory/allocator.h"
#include "base/threads/threads.h"
#include "lockstep/runtime.h"

typedef struct ls_host_job {
  void (*fn)(struct ls_host_job *self);
  const char *label;         // Names an abandoned job. Lent.
  struct ls_host_job *next;  // Link of the list that holds the job. Private.
} ls_host_job;

typedef struct ls_host_threads {
  ls_allocator *allocator;
  ls_mutex lock;       // Guards the fields below and state of jobs' owners.
  ls_condition work;   // Signals that a job may start, or the end.
  ls_condition event;  // For owners; see ls_host_threads_wait.
  ls_host_job *first, *last;  // Jobs not started yet.
  ls_host_job *abandoned;
  size_t num_abandoned;
  ls_host_job *running;  // The newest started job; NULL if that has returned.
  uint64_t num_started;  // Number of jobs started so far.
  struct ls_host_thread *threads;
  int num_idle;  // Threads without a job, including new ones.
  bool stop;
} ls_host_threads;

LS_MUST_USE ls_status ls_host_threads_create(ls_allocator *allocator,
                                             ls_host_threads **out_threads);
// Ends the threads. There must be no jobs left, abandoned ones included.
void ls_host_threads_destroy(ls_host_threads *self);

// Queues a job: a host thread calls fn(job) without the lock.
//   LS_RESOURCE_EXHAUSTED  there is no thread and none can be started.
LS_MUST_USE ls_status ls_host_threads_submit(ls_host_threads *self,
                                             ls_host_job *job);

// ---- With the lock held ----------------------------------------------------
// Withdraws a job. Returns false if it has started.
bool ls_host_threads_cancel(ls_host_threads *self, ls_host_job *job);
// Waits for `event`, for at most `nanos`; after some 10 ms passes over a job
// that keeps others from starting.
void ls_host_threads_wait(ls_host_threads *self, int64_t nanos);
// Calls expired timers of the runtime, or moves a simulated clock to the next
// timer, in small steps while a host function runs, because its time is real.
// Returns true if timers were called or the clock has moved. Releases the lock
// meanwhile.
bool ls_host_threads_call_timers(ls_host_threads *self, ls_runtime *runtime);
// Lists a job that nobody waits for any more, until it ends; then frees it with
// the threads' allocator.
void ls_host_threads_abandon(ls_host_threads *self, ls_host_job *job);
void ls_host_threads_forget(ls_host_threads *self, ls_host_job *job);

// Returns FAILED_PRECONDITION naming an abandoned job, if there is one. Takes
// the lock.
LS_MUST_USE ls_status ls_host_threads_check(ls_host_threads *self);

#endif  // LS_BASE_THREADS_HOST_THREADS_H_
