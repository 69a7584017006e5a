// SPDX-License-Identifier: Apache-2.0
// Worker: the one kind of thread of the library. It runs one function, to which
// other threads post numbers: steps to feed, batches to make, a file to write.
//
//   static void feeder_run(void *user) {
//     feeder *self = user;
//     for (int64_t steps = 0; ls_worker_next(&self->worker, &steps);)
//       feed(self, steps);
//   }
//
// Zeroed storage is a worker that was not started, which stop and join accept.
// Storage stays in place from start to join. One thread at a time starts, stops
// and joins it; the rest is thread-safe.
#ifndef LS_BASE_THREADS_WORKER_H_
#define LS_BASE_THREADS_WORKER_H_

#include "base/threads/threads.h"

struct ls_runtime;

enum { LS_WORKER_FEW = 4 };

// Private, but for the storage.
typedef struct ls_worker {
  pthread_t thread;
  bool is_started;  // And not joined.
  char name[16];
  struct ls_runtime *runtime;
  void (*run)(void *user);
  void *user;
  struct {  // See ls_worker_every.
    int64_t nanos;
    bool (*call)(void *user);
    void *user;
  } every;
  ls_mutex lock;  // Guards the fields below.
  ls_condition event;
  bool is_stopped;  // Atomic.
  bool is_busy;     // `run` has read a number and not asked for the next one.
  bool has_ended;
  int num_waiting;  // Threads in ls_worker_wait.
  // The inbox: of `numbers`, which is `few` until more do not fit, those from
  // `first` to `count` were not read yet.
  int64_t few[LS_WORKER_FEW];
  int64_t *numbers;
  size_t first, count, capacity;
} ls_worker;

// Starts a thread that calls run(user), with every signal blocked (signals are
// the program's) and `runtime` current; NULL: the default one. `name`, up to 15
// characters, is what debuggers and traces show.
//   LS_RESOURCE_EXHAUSTED  the system gives no thread.
LS_MUST_USE ls_status ls_worker_start(ls_worker *self, const char *name,
                                      struct ls_runtime *runtime,
                                      void (*run)(void *user), void *user);
// Starts a thread that calls call(user) at once and then every `nanos` of the
// runtime's clock, until that returns false or the worker is stopped. Looks at
// a clock of the caller's and does not move it.
LS_MUST_USE ls_status ls_worker_every(ls_worker *self, const char *name,
                                      struct ls_runtime *runtime, int64_t nanos,
                                      bool (*call)(void *user), void *user);

// Adds a number to those that `run` reads. There is no limit; requests memory
// only if more than LS_WORKER_FEW wait. Numbers posted after a stop are
// dropped.
LS_MUST_USE ls_status ls_worker_post(ls_worker *self, int64_t number);
// Waits until all numbers are read and `run` asks for the next one, or has
// returned.
void ls_worker_wait(ls_worker *self);
// Returns true if ls_worker_wait would not wait.
bool ls_worker_is_idle(ls_worker *self);
// Has `run` return: it still reads the numbers posted before. Does not wait.
void ls_worker_stop(ls_worker *self);
// Stops it and waits for the thread's end.
void ls_worker_join(ls_worker *self);

// ---- For `run` -------------------------------------------------------------
// Waits for the next number. False: stopped, and all numbers are read.
bool ls_worker_next(ls_worker *self, int64_t *out_number);
bool ls_worker_is_stopped(const ls_worker *self);
// Waits for `nanos`, but no longer once a thread waits for this one.
void ls_worker_rest(ls_worker *self, int64_t nanos);
// From now on this thread gets a tenth of what others get of a processor that
// they want, too.
void ls_worker_give_way(void);

#endif  // LS_BASE_THREADS_WORKER_H_
