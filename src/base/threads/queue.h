// SPDX-License-Identifier: Apache-2.0
// Queue: a bounded first-in-first-out queue of nests between threads.
//
// Infeed and outfeed move tuples of arrays through queues. Closing a queue
// calls all waiters, and readers drain the remaining items before they get the
// end. No call blocks: a task that came too early registers a waiter; a thread
// waits for an event (threads.h) that its waiter sets.
//
// Thread-safe, except ls_queue_destroy. No user code runs under its lock.
#ifndef LS_BASE_THREADS_QUEUE_H_
#define LS_BASE_THREADS_QUEUE_H_

#include "lockstep/allocator.h"
#include "lockstep/nest.h"

typedef struct ls_queue ls_queue;

// Options of a queue. A zero field means its default.
typedef struct ls_queue_options {
  size_t capacity;          // Number of items. Default 16.
  const char *name;         // Shown in errors. Copied. Default "queue".
  ls_allocator *allocator;  // Outlives the queue. Default: the system's.
  uint64_t generation;      // Calls of others move nothing. Default 0.
} ls_queue_options;

// Creates an open, empty queue. `options` may be NULL: all defaults.
// The caller owns `*out_queue`, which is NULL on failure.
//   LS_RESOURCE_EXHAUSTED  no memory for `capacity` slots.
LS_MUST_USE ls_status ls_queue_create(const ls_queue_options *options,
                                      ls_queue **out_queue);
// Destroys the queue and its items. Nobody may be waiting. Accepts NULL.
void ls_queue_destroy(ls_queue *queue);

// Pushes a nest and takes over the caller's reference. If the queue is full,
// closed or of another generation `*out_pushed` is false, and the reference
// stays the caller's.
//   LS_CANCELLED  the queue is closed.
LS_MUST_USE ls_status ls_queue_try_push(ls_queue *queue, uint64_t generation,
                                        ls_nest item, bool *out_pushed);
// Pops the first nest, which the caller then owns. If the queue is empty or of
// another generation `*out_popped` is false.
//   LS_OUT_OF_RANGE  closed and drained: the end of the data, not a fault.
LS_MUST_USE ls_status ls_queue_try_pop(ls_queue *queue, uint64_t generation,
                                       ls_nest *out_item, bool *out_popped);
// Returns an item that was popped to the front of the queue, which takes it
// over; a full queue has room for as many as its capacity. Returns false if
// there is no room, or the queue is of another generation.
LS_MUST_USE bool ls_queue_put_back(ls_queue *queue, uint64_t generation,
                                   ls_nest item);

// Closes the queue for pushes. Closing again does nothing.
void ls_queue_close(ls_queue *queue);
// Releases all items and opens the queue again, for calls of a generation.
void ls_queue_reset(ls_queue *queue, uint64_t generation);
bool ls_queue_is_closed(ls_queue *queue);
size_t ls_queue_count(ls_queue *queue);  // Number of items now.
const char *ls_queue_name(const ls_queue *queue);

// The two sides of a queue that a task may wait on.
typedef enum ls_queue_side {
  LS_QUEUE_POP,   // An item can be popped, or the end was reached.
  LS_QUEUE_PUSH,  // There is room, or the queue was closed.
} ls_queue_side;

// A task's request for a call. The caller owns its memory and keeps it until
// the waiter was called or withdrawn; registering allocates nothing.
typedef struct ls_queue_waiter ls_queue_waiter;
struct ls_queue_waiter {
  void (*ready)(void *user);
  void *user;
  ls_queue_waiter *next;  // Link of the queue's list. Private.
};

// Registers a waiter: the thread that makes a try on that side worthwhile calls
// waiter->ready(user) once. All waiters of a side are called, in order of
// registration; a waiter that finds another was faster registers again. Returns
// false without registering if a try is worthwhile already.
LS_MUST_USE bool ls_queue_on_ready(ls_queue *queue, ls_queue_side side,
                                   ls_queue_waiter *waiter);
// Calls the waiting readers although no nest came: something else that they
// check has changed.
void ls_queue_tell(ls_queue *queue);
// With the number of calls a reader misses none: it reads the number, looks,
// then registers, which is refused if there was a call since.
uint64_t ls_queue_told(ls_queue *queue);
LS_MUST_USE bool ls_queue_on_told(ls_queue *queue, uint64_t told,
                                  ls_queue_waiter *waiter);
// Withdraws a waiter. Returns false if its call was made or is about to be.
bool ls_queue_withdraw(ls_queue *queue, ls_queue_side side,
                       ls_queue_waiter *waiter);

#endif  // LS_BASE_THREADS_QUEUE_H_
