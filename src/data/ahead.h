// SPDX-License-Identifier: Apache-2.0
// Ahead: a queue of elements that input threads make before a caller needs
// them; the caller makes those that no thread has begun. Elements are numbered
// in order: in parallel they are made independently, in series one after
// another.
//
// One thread takes elements and stops the queue; others make them.
#ifndef LS_DATA_AHEAD_H_
#define LS_DATA_AHEAD_H_

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "data/work.h"

typedef struct ls_ahead ls_ahead;

typedef struct ls_ahead_options {
  // Makes element `number`, in-out. In parallel called by any number of threads
  // at once, in series by one at a time and in order.
  ls_status (*make)(void *user, int64_t number, ls_nest *element);
  void *user;
  bool parallel;
  int64_t capacity;  // Elements to make ahead. 0: none.
  int64_t most;      // Limit to which the capacity may grow.
  ls_work *work;
  const ls_dataset *dataset;  // Elements count to this one's buffer.
} ls_ahead_options;

LS_MUST_USE ls_status ls_ahead_create(const ls_ahead_options *options,
                                      ls_ahead **out_ahead);
void ls_ahead_destroy(ls_ahead *ahead);  // Accepts NULL.
LS_OWNED_POINTER(ls_ahead, ls_ahead_destroy)

// Drops the elements made ahead and continues at `number`. `end`, if not
// negative, is the number after the last element, for which `next` returns
// OUT_OF_RANGE. A series ends where `make` returns OUT_OF_RANGE, until the next
// seek.
void ls_ahead_seek(ls_ahead *ahead, int64_t number, int64_t end);
// Stops all work ahead, so that data used by `make` may change; keeps elements
// already made. The next call of `next` continues.
void ls_ahead_pause(ls_ahead *ahead);
int64_t ls_ahead_number(const ls_ahead *ahead);  // Number of the next element.

// Gives the next element, in-out like ls_iterator_next.
LS_MUST_USE ls_status ls_ahead_next(ls_ahead *ahead, ls_nest *element);
// Returns true if `next` would neither wait nor make an element. If not, the
// thread that makes the element calls ready(user) once; with `ready` NULL only
// checks. Without threads returns true, as callers make elements themselves.
bool ls_ahead_is_ready(ls_ahead *ahead, void (*ready)(void *user), void *user);
// Returns true if a thread will make queued elements; without one, a caller of
// `is_ready` would wait for ever.
bool ls_ahead_has_threads(const ls_ahead *ahead);
// Withdraws the `ready` of is_ready. Returns false if it was called or is about
// to be.
bool ls_ahead_withdraw(ls_ahead *ahead);

// ---- Slots -----------------------------------------------------------------
// Slots of a queue of elements that are made ahead: their states, who makes
// them, and their memory. Used by ahead.c only.
// Each number from `next` to `queued` has a slot, which is free, queued for a
// thread, being made, or done. In series one task makes all elements; in
// parallel each slot is a task.

typedef enum ls_ahead_state {
  LS_AHEAD_FREE,
  LS_AHEAD_QUEUED,
  LS_AHEAD_BEGUN,
  LS_AHEAD_DONE
} ls_ahead_state;

typedef struct ls_ahead_cell {
  ls_input_task task;  // Used in parallel.
  ls_ahead *ahead;
  ls_ahead_state state;
  int64_t number;
  ls_nest element;  // Valid in state DONE.
  ls_status status;
  int64_t bytes;  // Counted bytes; a guess until the element is done.
} ls_ahead_cell;

enum { LS_AHEAD_NOBODY = -1, LS_AHEAD_ANY = -2 };

struct ls_ahead {
  ls_ahead_options options;
  ls_allocator *allocator;
  ls_mutex lock;  // Guards the fields below; not held during `make`.
  ls_condition done;
  int64_t awaited;       // Number that a thread waits for, or NOBODY or ANY.
  ls_ahead_cell *slots;  // `options.most` slots.
  ls_nest *spares;       // Elements given back by takers, to be overwritten.
  int64_t num_spares;
  int64_t spare_bytes;  // Bytes counted for spares without a slot.
  int64_t capacity;     // Slots in use now, at most `options.most`.
  int64_t next;         // Number of the next element to give.
  int64_t queued;       // The first number without a slot.
  int64_t end;          // Number after the last; negative if unknown.
  int64_t waiting;      // Slots that wait for a thread.
  int64_t pending;      // Slots that wait or are being made.
  bool was_full;        // A thread had nothing to do for lack of slots.
  bool asks;            // A caller is in `next`, and counts as a thread.
  bool helps;           // The caller makes a later element in a slot.
  int64_t helped;       // Elements that the caller has made itself,
  int64_t seen;         // ... its value when a thread last began one,
  int64_t helped_then;  // ... and when the caller last woke a thread.
  ls_allowance allowance;
  ls_input_task series;  // The task used in series.
  bool series_waits, series_runs;
  bool pausing;
  void (*ready)(void *user);
  void *ready_user;
};

static inline ls_ahead_cell *ls_ahead_slot(const ls_ahead *self,
                                           int64_t number) {
  return &self->slots[number % self->options.most];
}

static inline bool ls_ahead_is_alone(const ls_ahead *self) {
  return self->options.capacity == 0 || self->options.work->threads == NULL;
}

#endif  // LS_DATA_AHEAD_H_
