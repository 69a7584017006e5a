// SPDX-License-Identifier: Apache-2.0
// Input threads: where elements of data sets are computed ahead of who reads
// them. They sleep while there is nothing to do, unlike workers.
//
// A task is the owner's memory; it waits in one line with all others of the
// runtime, first come, first served, until a thread takes it or its owner takes
// it back, to do it himself.
//
// Thread-safe.
#ifndef LS_BASE_THREADS_INPUT_THREADS_H_
#define LS_BASE_THREADS_INPUT_THREADS_H_

#include "base/memory/allocator.h"
#include "base/threads/threads.h"
#include "lockstep/runtime.h"

struct ls_runtime;

typedef struct ls_input_task {
  void (*run)(struct ls_input_task *self);  // On a thread, with no lock held.
  struct ls_input_task *next, *before;      // The line's own.
  bool queued;                              // The same.
} ls_input_task;

typedef struct ls_input_threads ls_input_threads;

// Starts no thread yet. `user` is the runtime that they work under.
LS_MUST_USE ls_status ls_input_threads_create(ls_allocator *allocator,
                                              struct ls_runtime *runtime,
                                              int count,
                                              ls_input_threads **out_threads);
// Ends the threads. No task may be in the line. NULL is fine.
void ls_input_threads_destroy(ls_input_threads *threads);
int ls_input_threads_count(const ls_input_threads *threads);

// Puts a task in the line, in which it is not yet, and calls a thread. If no
// thread could be started at all it stays there for its owner.
void ls_input_threads_submit(ls_input_threads *threads, ls_input_task *task);
// The same in two steps, for callers that may do without a call: to wake up a
// thread costs more than a small task. A thread that is awake takes what is in
// the line before it goes to sleep.
void ls_input_threads_add(ls_input_threads *threads, ls_input_task *task);
void ls_input_threads_call(ls_input_threads *threads);
// Takes it back. False: a thread has it, or had it.
bool ls_input_threads_withdraw(ls_input_threads *threads, ls_input_task *task);
// Returns true if tasks wait in the line.
bool ls_input_threads_are_wanted(const ls_input_threads *threads);
// Returns true if there is a thread, so that waiting tasks are taken; tries to
// start one.
bool ls_input_threads_are_there(ls_input_threads *threads);

#endif  // LS_BASE_THREADS_INPUT_THREADS_H_
