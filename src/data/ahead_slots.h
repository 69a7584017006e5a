// SPDX-License-Identifier: Apache-2.0
// The slots of a line of elements that are made ahead: what is in them, who
// makes them and in what memory. For ahead.c alone.
//
// Each number below `queued` has a slot, which is free, waits for a thread, is
// being made, or is done. In series one task makes all; in parallel each slot
// is a task.
#ifndef LS_DATA_AHEAD_SLOTS_H_
#define LS_DATA_AHEAD_SLOTS_H_

#include "base/runtime_internal.h"
#include "data/ahead.h"
#include "data/allowance.h"

typedef enum ls_ahead_state {
  LS_AHEAD_FREE,
  LS_AHEAD_QUEUED,
  LS_AHEAD_BEGUN,
  LS_AHEAD_DONE
} ls_ahead_state;

typedef struct ls_ahead_cell {
  ls_input_task task;  // In parallel.
  ls_ahead *ahead;
  ls_ahead_state state;
  int64_t number;
  ls_nest element;  // Once done.
  ls_status status;
  int64_t bytes;  // Counted in the runtime's; until it is done a guess.
} ls_ahead_cell;

enum { LS_AHEAD_NOBODY = -1, LS_AHEAD_ANY = -2 };

struct ls_ahead {
  ls_ahead_options options;
  ls_allocator *allocator;
  ls_mutex lock;  // Guards what follows; not held while elements are made.
  ls_condition done;
  int64_t awaited;       // The number that somebody sleeps for; NOBODY, ANY.
  ls_ahead_cell *slots;  // `most`.
  ls_nest *spares;  // Given back by who takes elements, to be written anew.
  int64_t num_spares;
  int64_t spare_bytes;  // Counted, of spares that no slot waits for.
  int64_t capacity;     // Of `most` slots, now.
  int64_t next;         // To be given.
  int64_t queued;       // The first number that is not in a slot.
  int64_t end;          // Below 0: not known.
  int64_t waiting;      // Slots that wait for a thread.
  int64_t pending;      // Those, and those that are being made.
  bool was_full;        // A thread had nothing to do for want of slots.
  bool asks;            // Somebody does: he is as one of the threads,
  bool helps;           // ... and makes one in a slot.
  int64_t helped;       // Times that who asks has made one,
  int64_t seen;         // ... when a thread began one last,
  int64_t helped_then;  // ... when he called one last.
  ls_allowance allowance;
  ls_input_task series;  // In series.
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

// On threads.
void ls_ahead_run_slot(ls_input_task *task);
void ls_ahead_run_series(ls_input_task *task);

// With the lock held, from here on.
// Memory to write elements into anew, from who takes them.
void ls_ahead_give_spare(ls_ahead *self, ls_nest element);
void ls_ahead_count_spares(ls_ahead *self);
bool ls_ahead_is_done(const ls_ahead *self);  // The next to be given.
void ls_ahead_drop(ls_ahead *self,
                   ls_ahead_cell *it);  // One that was not made.
void ls_ahead_free(ls_ahead *self, ls_ahead_cell *it);
// Makes one that waits, without the lock meanwhile.
void ls_ahead_make(ls_ahead *self, ls_ahead_cell *it);
// Puts tasks in the threads' line, and calls nobody.
void ls_ahead_top_up(ls_ahead *self);
// Those that are being made in slots.
int64_t ls_ahead_count_busy(const ls_ahead *self);
// Calls a thread to what waits, if none is there; for who goes away.
void ls_ahead_call(ls_ahead *self);
// The same, where nobody has said how many shall be there not before most of
// what was is used up, and with more slots if elements are small: one call
// serves for several of them then.
void ls_ahead_call_in_time(ls_ahead *self);
// More slots, where there have been too few: for each thread to begin the next
// one before its last one is taken.
void ls_ahead_grow(ls_ahead *self);
// Makes an element, with the lock not held.
LS_MUST_USE ls_status ls_ahead_call_make(const ls_ahead *self, int64_t number,
                                         ls_nest *element);
// Sleeps until that one is done.
//   LS_FAILED_PRECONDITION  that would be for ever: see ls_making_begin_wait.
LS_MUST_USE ls_status ls_ahead_sleep(ls_ahead *self, int64_t number);
// For at most so long, INT64_MAX for ever; false: that long.
bool ls_ahead_sleep_for(ls_ahead *self, int64_t number, int64_t nanos);

#endif  // LS_DATA_AHEAD_SLOTS_H_
