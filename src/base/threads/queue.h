// SPDX-License-Identifier: Apache-2.0
// Bounded first-in-first-out hand-over of nests between threads.
//
// Infeed and outfeed move their tuples of arrays through queues. Closing one
// ends it: that calls every waiter, and readers drain what is left before they
// get the end. Nobody waits inside: a task that was too early registers a
// waiter, and a thread waits for an event (threads.h) that its waiter sets.
//
// Thread-safe, except ls_queue_destroy. No user code runs under its lock.
#ifndef LS_BASE_THREADS_QUEUE_H_
#define LS_BASE_THREADS_QUEUE_H_

#include "lockstep/allocator.h"
#include "lockstep/nest.h"

typedef struct ls_queue ls_queue;

// How to make a queue. Zero in a field means its default.
typedef struct ls_queue_options {
  size_t capacity;          // Nests held before it is full. Default 16.
  const char *name;         // Shown in errors. Copied. Default "queue".
  ls_allocator *allocator;  // Outlives the queue. Default: the system's.
} ls_queue_options;

// Creates an open, empty queue. `options` may be NULL: all defaults.
// The caller owns `*out_queue`, which is NULL on failure.
//   LS_RESOURCE_EXHAUSTED  no memory for `capacity` slots.
LS_MUST_USE ls_status ls_queue_create(const ls_queue_options *options,
                                      ls_queue **out_queue);
// Releases the nests still inside. Nobody may be waiting. NULL is fine.
void ls_queue_destroy(ls_queue *queue);

// Puts a nest at the end and takes over the caller's reference. If the queue is
// full or closed `*out_pushed` is false, and the reference stays the caller's.
//   LS_CANCELLED  the queue is closed.
LS_MUST_USE ls_status ls_queue_try_push(ls_queue *queue, ls_nest item,
                                        bool *out_pushed);
// Takes the head, which the caller then owns. If the queue is empty
// `*out_popped` is false.
//   LS_OUT_OF_RANGE  closed and drained: the end of the data, not a fault.
LS_MUST_USE ls_status ls_queue_try_pop(ls_queue *queue, ls_nest *out_item,
                                       bool *out_popped);

// Ends the queue: nothing more will come. Closing again does nothing.
void ls_queue_close(ls_queue *queue);
// Releases what is inside and opens the queue again.
void ls_queue_reset(ls_queue *queue);
bool ls_queue_is_closed(ls_queue *queue);
size_t ls_queue_count(ls_queue *queue);  // Nests inside now.
const char *ls_queue_name(const ls_queue *queue);

// The kinds of change that a task waits for.
typedef enum ls_queue_side {
  LS_QUEUE_POP,   // There is a nest to take, or the end.
  LS_QUEUE_PUSH,  // There is room, or the queue was closed.
} ls_queue_side;

// A task's request to be called. The storage is the caller's, and stays until
// the waiter was called or withdrawn; registering takes no memory.
typedef struct ls_queue_waiter ls_queue_waiter;
struct ls_queue_waiter {
  void (*ready)(void *user);
  void *user;
  ls_queue_waiter *next;  // The queue's.
};

// Registers a waiter: waiter->ready(user) will be called once, by the thread
// that makes a try on that side worth while. All waiters of a side are called,
// in order of registration; one that finds another was faster registers again.
// False when a try is worth while already: then nothing was registered.
LS_MUST_USE bool ls_queue_on_ready(ls_queue *queue, ls_queue_side side,
                                   ls_queue_waiter *waiter);
// Calls the readers that wait, though there is nothing to take: something else
// has changed that they look at as well.
void ls_queue_tell(ls_queue *queue);
// For readers that do: how often they were called so, noted before they look,
// and a registration that is refused if they were called since.
uint64_t ls_queue_told(ls_queue *queue);
LS_MUST_USE bool ls_queue_on_told(ls_queue *queue, uint64_t told,
                                  ls_queue_waiter *waiter);
// Withdraws a waiter. False when it was already called, or is about to be.
bool ls_queue_withdraw(ls_queue *queue, ls_queue_side side,
                       ls_queue_waiter *waiter);

#endif  // LS_BASE_THREADS_QUEUE_H_
