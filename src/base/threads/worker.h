// SPDX-License-Identifier: Apache-2.0
// Worker: the one kind of thread in the library. It runs one function, to which
// other threads post numbers: steps to feed, batches to make, a file to write.
//
//   static void feeder_run(void *user) {
//     feeder *self = user;
//     for (int64_t steps = 0; ls_worker_next(&self->worker, &steps);)
//       feed(self, steps);
//   }
//
// Zeroed storage is a worker that was not started, which stop and join accept.
// The storage must not move from start to join. Start, stop and join are for
// one thread at a time; the other functions are thread-safe.
#ifndef LS_BASE_THREADS_WORKER_H_
#define LS_BASE_THREADS_WORKER_H_

#include "base/threads/threads.h"

struct ls_runtime;

enum { LS_WORKER_FEW = 4 };

// A worker; its fields are private.
typedef struct ls_worker {
  pthread_t thread;
  bool is_started;  // Started and not joined.
  char name[16];
  struct ls_runtime *runtime;
  void (*run)(void *user);
  void *user;
  struct {  // For ls_worker_every.
    int64_t nanos;
    bool (*call)(void *user);
    void *user;
  } every;
  ls_mutex lock;  // Guards the fields below.
  ls_condition event;
  bool is_stopped;  // Atomic.
  bool is_busy;     // `run` works on a number it has read.
  bool has_ended;
  int num_waiting;  // Number of threads in ls_worker_wait.
  // The inbox: items `first` to `count` of `numbers` are unread. `numbers` is
  // `few` until there are more.
  int64_t few[LS_WORKER_FEW];
  int64_t *numbers;
  size_t first, count, capacity;
} ls_worker;

// Starts a thread that calls run(user), with all signals blocked (signals are
// for the program's threads) and `runtime` current; NULL: the default runtime.
// `name`, up to 15 characters, is shown by debuggers and traces.
//   LS_RESOURCE_EXHAUSTED  the system gives no thread.
LS_MUST_USE ls_status ls_worker_start(ls_worker *self, const char *name,
                                      struct ls_runtime *runtime,
                                      void (*run)(void *user), void *user);
// Starts a thread that calls call(user) at once and then every `nanos` of the
// runtime's clock, until `call` returns false or the worker is stopped. Does
// not advance a clock of the caller's.
LS_MUST_USE ls_status ls_worker_every(ls_worker *self, const char *name,
                                      struct ls_runtime *runtime, int64_t nanos,
                                      bool (*call)(void *user), void *user);

// Posts a number for `run`, without limit; allocates only if more than
// LS_WORKER_FEW are unread. Numbers posted after a stop are dropped.
LS_MUST_USE ls_status ls_worker_post(ls_worker *self, int64_t number);
// Waits until all numbers are read and `run` asks for the next one or has
// returned.
void ls_worker_wait(ls_worker *self);
// Returns true if ls_worker_wait would not wait.
bool ls_worker_is_idle(ls_worker *self);
// Makes ls_worker_next return false once the numbers posted earlier are read.
// Does not wait.
void ls_worker_stop(ls_worker *self);
// Stops the worker and waits for the thread's end.
void ls_worker_join(ls_worker *self);

// ---- For `run` -------------------------------------------------------------
// Waits for the next number. Returns false if the worker was stopped and all
// numbers are read.
bool ls_worker_next(ls_worker *self, int64_t *out_number);
bool ls_worker_is_stopped(const ls_worker *self);
// Sleeps for `nanos`, but no longer once a thread waits for this worker.
void ls_worker_rest(ls_worker *self, int64_t nanos);
// Lowers this thread's priority to a tenth of other threads' share of a busy
// processor.
void ls_worker_give_way(void);

#endif  // LS_BASE_THREADS_WORKER_H_
