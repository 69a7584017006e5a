// SPDX-License-Identifier: Apache-2.0
// The device side of a job: its threads, the hook that runs them, its system.
#ifndef LS_ESTIMATOR_DEVICE_DEVICE_H_
#define LS_ESTIMATOR_DEVICE_DEVICE_H_

#include "base/runtime_internal.h"
#include "base/threads/worker.h"
#include "estimator/config/plan.h"
#include "lockstep/cancel.h"
#include "lockstep/hook.h"
#include "lockstep/rendezvous.h"

// ---- Threads ---------------------------------------------------------------
// The two threads beside a program on cores: one feeds it, the other takes its
// outputs. Each gets a count before a run of the program.
//
// An error ends a thread and is recorded in the rendezvous. The program then
// waits for the thread forever, so for errors from which a session can recover
// (ABORTED, UNAVAILABLE) the thread's session is closed, and the thread's error
// is reported instead of the closing.
//
// One thread, the session's, starts, posts to and ends both. It does a single
// round of work itself if the thread is idle and `helped`, because waking the
// thread takes longer.

typedef enum ls_device_thread_id {
  LS_INFEED_THREAD,
  LS_OUTFEED_THREAD,
  LS_DEVICE_THREADS,
} ls_device_thread_id;

// The work of a thread; all fields are required.
typedef struct ls_device_work {
  // Names of the thread, and of its entry in the rendezvous. Static texts.
  const char *name, *source;
  bool once;    // True if it takes only the first count.
  bool helped;  // True if its work may be done before the run begins.
  ls_status (*begin)(void *user);  // Called once, first.
  ls_status (*work)(void *user, int64_t count);
  // Maps the error that ended the thread, which is taken over, to the error to
  // report; OK: no failure.
  ls_status (*map_error)(void *user, ls_status status);
} ls_device_work;

typedef struct ls_device_threads ls_device_threads;
typedef struct ls_device_thread {
  ls_device_threads *all;
  const ls_device_work *work;
  ls_worker worker;
  bool has_count;
  // Guarded by the lock of ls_device_threads.
  bool has_begun, has_ended;
  ls_status failure;
} ls_device_thread;

struct ls_device_threads {
  ls_runtime *runtime;
  ls_rendezvous *rendezvous;
  void *user;
  ls_cancel *cancel;    // Cancels the work of both threads.
  ls_session *session;  // NULL: no session, and no threads.
  ls_device_thread threads[LS_DEVICE_THREADS];
  ls_mutex lock;  // Guards the fields below.
  bool runs;      // True while the program runs.
  bool lost;      // True if a thread's error has closed the session.
};

// Initializes the threads without starting them. Zeroed storage may be
// deinited, too.
LS_MUST_USE ls_status ls_device_threads_init(ls_device_threads *self,
                                             const ls_device_work *works,
                                             void *user,
                                             ls_rendezvous *rendezvous);
void ls_device_threads_deinit(ls_device_threads *self);

LS_MUST_USE ls_status ls_device_threads_start(ls_device_threads *self,
                                              ls_session *session);
// Cancels both threads in whatever they do, and waits for them. Called before
// the session closes.
void ls_device_threads_stop(ls_device_threads *self);
// Waits until a thread has done the work of all its counts and ended.
void ls_device_threads_join(ls_device_threads *self, ls_device_thread_id id);

// Gives both threads a count, before a run of the program. Returns the error of
// a failed thread.
LS_MUST_USE ls_status ls_device_threads_post(ls_device_threads *self,
                                             int64_t count);
// Records that the run ended with `status`, which is taken over. Returns the
// error to report.
LS_MUST_USE ls_status ls_device_threads_run_ended(ls_device_threads *self,
                                                  ls_status status);
// Waits until a thread has done the work of all counts it has so far, or has
// ended.
void ls_device_threads_settle(ls_device_threads *self, ls_device_thread_id id);
// Returns the error of a thread if the rendezvous does not keep it.
LS_MUST_USE ls_status ls_device_threads_unkept(const ls_device_threads *self);
// Returns true if the calling thread must end.
bool ls_device_threads_should_end(const ls_device_threads *self);

// ---- Ferries ---------------------------------------------------------------
// Carry tuples between ranks: what a host feeds to a core of another rank, and
// what a core sends to the first host. A thread for each other rank and
// direction moves the tuples of a step at a time from queues here to the same
// queues there.
typedef struct ls_ferries ls_ferries;

// Starts the ferries of an initialized system. A failure closes the session and
// fails all ranks. `*out` is NULL in a process that is alone.
LS_MUST_USE ls_status ls_ferries_start(const ls_plan *plan, ls_session *session,
                                       ls_ferries **out);
// Waits until all that was sent has come, on all ranks, and ends them. NULL is
// allowed.
void ls_ferries_end(ls_ferries *ferries);
// Ends them after `failure` (lent), which all ranks then get.
void ls_ferries_give_up(ls_ferries *ferries, ls_status failure);
// Returns the failure that has closed the session.
LS_MUST_USE ls_status ls_ferries_failure(ls_ferries *ferries);

// ---- The hook --------------------------------------------------------------
// A hook that feeds a program on cores and takes its outputs, in two threads,
// while the program runs.

// Options of the hook, which borrows nests, rendezvous and plan.
typedef struct ls_device_hook_options {
  const ls_plan *plan;
  // Lists of ops: those that feed; those that take a step's outputs; and those
  // that tell all cores that the input has ended.
  ls_nest enqueue_ops, dequeue_ops, close_ops;
  // See ls_split_compile_and_replicate; failed if the program has none.
  ls_tensor compile_status;
  bool each_step;  // True if a run of the enqueue ops feeds one step only.
  bool predicts;   // True for predictions, which feed once, for all runs.
  // True if the end of the input is recorded as an error in the rendezvous.
  bool input_end_fails;
  ls_rendezvous *rendezvous;
  // Set when the input ends, after which no more runs are made. The caller may
  // read it when the loop has ended.
  bool *input_ended;
} ls_device_hook_options;

LS_MUST_USE ls_status ls_device_hook(const ls_device_hook_options *options,
                                     ls_hook **out_hook);
// Waits until all announced steps have been fed, so that the iterators'
// positions match the steps made. No effect on other hooks.
void ls_device_hook_settle(ls_hook *hook);
// Returns why the program does not compile, NULL if it compiles. Borrowed from
// the hook. Checked only if TPU_SPLIT_COMPILE_AND_EXECUTE is 1 in the
// environment, before the first run, which is then not made.
const char *ls_device_hook_compile_error(const ls_hook *hook);

// ---- The system ------------------------------------------------------------
// Initializes, clears and shuts down an estimator's system, each in a graph and
// session of its own.

// Connects to the system and initializes it.
LS_MUST_USE ls_status ls_device_system_begin(const ls_plan *plan);
// Empties and reopens the queues of a system that another job or process
// initialized.
void ls_device_system_clear(const ls_plan *plan);
// Shuts the system down.
LS_MUST_USE ls_status ls_device_system_end(const ls_plan *plan);
// Closes the system's outfeeds: a dequeue fails with OUT_OF_RANGE after the
// remaining tuples.
LS_MUST_USE ls_status ls_device_system_close_outfeeds(const ls_plan *plan);
// Copies the error text of a compile status; "" if the program compiled.
//   LS_INTERNAL  the array is no compile status
LS_MUST_USE ls_status ls_device_system_compile_error(const ls_array *status,
                                                     char **out_text);

#endif  // LS_ESTIMATOR_DEVICE_DEVICE_H_
