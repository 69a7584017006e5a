// SPDX-License-Identifier: Apache-2.0
// Ahead: a line of elements that are made before they are asked for, by input
// threads, and by who asks where they have not come to it. Elements are numbers
// in order: in parallel each is made on its own, in series one after another.
//
// One thread takes elements and stops the line; others make them.
#ifndef LS_DATA_AHEAD_H_
#define LS_DATA_AHEAD_H_

#include "base/memory/own.h"
#include "data/work.h"

typedef struct ls_ahead ls_ahead;

typedef struct ls_ahead_options {
  // Makes element `number`, in-out. In parallel from any threads at the same
  // time, in series from one at a time and in order.
  ls_status (*make)(void *user, int64_t number, ls_nest *element);
  void *user;
  bool parallel;
  int64_t capacity;  // Elements made before they are asked for. 0: none is.
  int64_t most;      // What it may become, where it turns out to be too few.
  ls_work *work;
  const ls_dataset *dataset;  // Whose buffer it is.
} ls_ahead_options;

LS_MUST_USE ls_status ls_ahead_create(const ls_ahead_options *options,
                                      ls_ahead **out_ahead);
void ls_ahead_destroy(ls_ahead *ahead);  // Stops it. NULL is fine.
LS_OWNED_POINTER(ls_ahead, ls_ahead_destroy)

// Drops what was made and goes to `number`; with `end`, not below 0, as the
// number behind the last element: who asks for it is told OUT_OF_RANGE. A
// series ends where `make` says so, until the next seek.
void ls_ahead_seek(ls_ahead *ahead, int64_t number, int64_t end);
// Ends all work ahead, so that what `make` uses may be changed; what was made
// stays, and the next call of `next` goes on.
void ls_ahead_pause(ls_ahead *ahead);
int64_t ls_ahead_number(const ls_ahead *ahead);  // Of the next to be given.

// The next element, in-out, as ls_iterator_next.
LS_MUST_USE ls_status ls_ahead_next(ls_ahead *ahead, ls_nest *element);
// Whether `next` would not have to wait or make; if not, ready(user) is called
// once, by the thread that has made it. False and `ready` NULL: just asks.
// With no threads it is true: who asks makes it.
bool ls_ahead_is_ready(ls_ahead *ahead, void (*ready)(void *user), void *user);
// Whether somebody comes to what is to be made; if not, who has asked
// `is_ready` would wait for ever.
bool ls_ahead_has_threads(const ls_ahead *ahead);
// Takes the wish back: false if it was called, or is about to be.
bool ls_ahead_withdraw(ls_ahead *ahead);

#endif  // LS_DATA_AHEAD_H_
