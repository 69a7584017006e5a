// SPDX-License-Identifier: Apache-2.0
// Input threads: compute elements of data sets ahead of their readers. Unlike
// workers they sleep while there is nothing to do.
//
// A task's memory belongs to its owner; the task waits in one queue of the
// runtime, first come, first served, until a thread takes it or its owner takes
// it back to do the work itself.
//
// Thread-safe.
#ifndef LS_BASE_THREADS_INPUT_THREADS_H_
#define LS_BASE_THREADS_INPUT_THREADS_H_

#include "base/memory/allocator.h"
#include "base/threads/threads.h"
#include "lockstep/runtime.h"

struct ls_runtime;

typedef struct ls_input_task {
  void (*run)(struct ls_input_task *self);  // Called without locks.
  struct ls_input_task *next, *before;      // Links of the queue. Private.
  bool queued;                              // True while queued. Private.
} ls_input_task;

typedef struct ls_input_threads ls_input_threads;

// Creates input threads, which start later. `user` is the runtime that they
// work under.
LS_MUST_USE ls_status ls_input_threads_create(ls_allocator *allocator,
                                              struct ls_runtime *runtime,
                                              int count,
                                              ls_input_threads **out_threads);
// Ends the threads. The queue must be empty. Accepts NULL.
void ls_input_threads_destroy(ls_input_threads *threads);
int ls_input_threads_count(const ls_input_threads *threads);

// Adds a task that is not in the queue, and wakes a thread. If no thread can be
// started the task stays there for its owner.
void ls_input_threads_submit(ls_input_threads *threads, ls_input_task *task);
// Do the same in two steps, for a caller that may skip the wake-up, which costs
// more than a small task. A thread that is awake empties the queue before it
// sleeps.
void ls_input_threads_add(ls_input_threads *threads, ls_input_task *task);
void ls_input_threads_call(ls_input_threads *threads);
// Takes a task back. Returns false if a thread has taken it.
bool ls_input_threads_withdraw(ls_input_threads *threads, ls_input_task *task);
// Returns true if tasks wait in the queue.
bool ls_input_threads_are_wanted(const ls_input_threads *threads);
// Returns true if a thread exists, so that waiting tasks will be taken; tries
// to start one.
bool ls_input_threads_are_there(ls_input_threads *threads);

#endif  // LS_BASE_THREADS_INPUT_THREADS_H_
