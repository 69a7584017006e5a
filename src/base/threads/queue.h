// SPDX-License-Identifier: Apache-2.0
// Bounded first-in-first-out hand-over of nests between threads.
//
// Infeed and outfeed move their tuples of arrays through queues. Closing one is
// the one way to say "no more": it wakes every waiter, and readers drain what
// is left before they are told of the end. A thread can wait in push and pop; a
// task that must not hold its thread tries, and leaves a waiter behind when it
// was too early.
//
// Thread-safe, except ls_queue_destroy. No user code runs under its lock.
#ifndef LS_BASE_THREADS_QUEUE_H_
#define LS_BASE_THREADS_QUEUE_H_

#include "lockstep/allocator.h"
#include "lockstep/nest.h"

typedef struct ls_queue ls_queue;

// How to make a queue. Zero in a field means its default.
typedef struct ls_queue_options {
  size_t capacity;          // Nests held before a push waits. Default 16.
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

// Puts a nest at the end, waiting while the queue is full. Takes over the
// caller's reference, unless it fails.
//   LS_CANCELLED  the queue is closed.
LS_MUST_USE ls_status ls_queue_push(ls_queue *queue, ls_nest item);
// The same without waiting: `*out_pushed` is false when the queue is full, and
// the reference stays the caller's.
LS_MUST_USE ls_status ls_queue_try_push(ls_queue *queue, ls_nest item,
                                        bool *out_pushed);

// Takes the head, waiting while the queue is empty. The caller owns the result.
//   LS_OUT_OF_RANGE  closed and drained: the end of the data, not a fault.
LS_MUST_USE ls_status ls_queue_pop(ls_queue *queue, ls_nest *out_item);
// The same without waiting: `*out_popped` is false when the queue is empty.
LS_MUST_USE ls_status ls_queue_try_pop(ls_queue *queue, ls_nest *out_item,
                                       bool *out_popped);

// Says that nothing more will come. Closing again does nothing.
void ls_queue_close(ls_queue *queue);
// Releases what is inside and opens the queue again.
void ls_queue_reset(ls_queue *queue);
bool ls_queue_is_closed(ls_queue *queue);
size_t ls_queue_count(ls_queue *queue);  // Nests inside now.
const char *ls_queue_name(const ls_queue *queue);

// What a task waits for.
typedef enum ls_queue_side {
  LS_QUEUE_POP,   // There is a nest to take, or the end.
  LS_QUEUE_PUSH,  // There is room, or the queue was closed.
} ls_queue_side;

// A task's wish to be told. The storage is the caller's, and stays until the
// waiter was called or withdrawn; registering takes no memory.
typedef struct ls_queue_waiter ls_queue_waiter;
struct ls_queue_waiter {
  void (*ready)(void *user);
  void *user;
  ls_queue_waiter *next;  // The queue's.
};

// Registers a waiter: waiter->ready(user) will be called once, by the thread
// that makes a try on that side worth while. All waiters of a side are told, in
// order of registration; who finds another was faster registers again. False
// when a try is worth while already: then nothing was registered. Try again.
LS_MUST_USE bool ls_queue_on_ready(ls_queue *queue, ls_queue_side side,
                                   ls_queue_waiter *waiter);
// Tells the readers that wait, though there is nothing to take: something else
// has changed that they look at as well.
void ls_queue_tell(ls_queue *queue);
// For readers that do: how often they were told so far, noted before they look,
// and a registration that is refused if they were told since.
uint64_t ls_queue_told(ls_queue *queue);
LS_MUST_USE bool ls_queue_on_told(ls_queue *queue, uint64_t told,
                                  ls_queue_waiter *waiter);
// Withdraws a waiter. False when it was already called, or is about to be.
bool ls_queue_withdraw(ls_queue *queue, ls_queue_side side,
                       ls_queue_waiter *waiter);

#endif  // LS_BASE_THREADS_QUEUE_H_
