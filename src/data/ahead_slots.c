// SPDX-License-Identifier: Apache-2.0
#include "data/ahead.h"

enum { SMALL = 8 << 20 };  // Bytes of a queue's elements that fit caches.

// ---- With the lock held ----------------------------------------------------
static ls_nest ahead_slots_take_spare(ls_ahead *self) {
  return self->num_spares > 0 ? self->spares[--self->num_spares] : ls_none();
}

// Counts spares that no queued slot will use: a queued slot's guessed size
// already counts for the spare that it will be made in. In series there is one
// such slot.
static int64_t count_unwanted(const ls_ahead *self) {
  const int64_t wanted = self->options.parallel ? self->waiting : 1;
  return self->num_spares > wanted ? self->num_spares - wanted : 0;
}

// Keeps an element's memory for reuse, if there is room. At the end all spares
// are kept for the next start.
void ls_ahead_give_spare(ls_ahead *self, ls_nest element) {
  if (element.kind == LS_KIND_NONE) return;
  const int64_t room = self->options.parallel ? self->capacity : 1;
  self->spares[self->num_spares++] = element;
  if (self->num_spares <= room &&
      (count_unwanted(self) == 0 || ls_allowance_has_room(&self->allowance)))
    return;
  ls_nest_release(self->spares[--self->num_spares]);
}

// Counts the memory of spares that no slot accounts for.
void ls_ahead_count_spares(ls_ahead *self) {
  const int64_t bytes = count_unwanted(self) * self->allowance.guess;
  ls_allowance_count(&self->allowance, bytes - self->spare_bytes, true);
  self->spare_bytes = bytes;
}

// Gives number `queued` a slot, if it may be made ahead; the next element to be
// given always may. Until the size of an element is known, one is made at a
// time.
static ls_ahead_cell *begin_slot(ls_ahead *self, ls_ahead_state state) {
  if (self->pausing || (self->end >= 0 && self->queued >= self->end) ||
      self->queued - self->next >= self->capacity)
    return NULL;
  const bool must = self->queued == self->next;
  if (!must && !self->allowance.is_measured) return NULL;
  if (!ls_allowance_count(&self->allowance, self->allowance.guess, must))
    return NULL;
  ls_ahead_cell *cell = ls_ahead_slot(self, self->queued);
  cell->number = self->queued++;
  cell->state = state;
  cell->bytes = self->allowance.guess;
  self->waiting += state == LS_AHEAD_QUEUED;
  ++self->pending;
  return cell;
}

// Wakes the thread that waits for that number.
static void ahead_slots_tell(ls_ahead *self, int64_t number) {
  if (self->awaited == LS_AHEAD_ANY || self->awaited == number)
    ls_condition_signal(&self->done);
}

ls_status ls_ahead_sleep(ls_ahead *self, int64_t number) {
  LS_RETURN_IF_ERROR(ls_making_begin_wait(self->options.work));
  (void)ls_ahead_sleep_for(self, number, INT64_MAX);
  ls_making_end_wait(self->options.work);
  return ls_ok();
}

bool ls_ahead_sleep_for(ls_ahead *self, int64_t number, int64_t nanos) {
  bool told = true;
  self->awaited = number;
  if (nanos == INT64_MAX)
    ls_condition_wait(&self->done, &self->lock);
  else
    told = ls_condition_wait_for(&self->done, &self->lock, nanos);
  self->awaited = LS_AHEAD_NOBODY;
  return told;
}

static void set_done(ls_ahead *self, ls_ahead_cell *cell, ls_nest element,
                     ls_status status) {
  const int64_t bytes = ls_element_bytes(element);
  if (ls_status_is_ok(status)) ls_allowance_measure(&self->allowance, bytes);
  ls_allowance_count(&self->allowance, -cell->bytes, true);  // The guess.
  cell->element = element;
  cell->status = status;
  cell->bytes = bytes;
  cell->state = LS_AHEAD_DONE;
  --self->pending;
  ls_work_buffer(self->options.work, self->options.dataset, 1, bytes);
  ahead_slots_tell(self, cell->number);
}

void ls_ahead_drop(ls_ahead *self, ls_ahead_cell *cell) {
  ls_allowance_count(&self->allowance, -cell->bytes, true);
  self->waiting -= cell->state == LS_AHEAD_QUEUED;
  --self->pending;
  cell->state = LS_AHEAD_FREE;
  cell->bytes = 0;
}

void ls_ahead_free(ls_ahead *self, ls_ahead_cell *cell) {
  ls_work_buffer(self->options.work, self->options.dataset, -1, -cell->bytes);
  cell->state = LS_AHEAD_FREE;
  cell->bytes = 0;
}

bool ls_ahead_is_done(const ls_ahead *self) {
  return self->next < self->queued &&
         ls_ahead_slot(self, self->next)->state == LS_AHEAD_DONE;
}

// A callback to make once the next element is done.
typedef struct wish {
  void (*ready)(void *user);
  void *user;
} wish;

static wish take_wish(ls_ahead *self) {
  const wish none = {0};
  if (self->ready == NULL || !ls_ahead_is_done(self)) return none;
  const wish wanted = {self->ready, self->ready_user};
  self->ready = NULL;
  return wanted;
}

// Returns true if a series may make another element, judged without counting
// its memory.
static bool has_room(const ls_ahead *self) {
  return !self->pausing && (self->end < 0 || self->queued < self->end) &&
         self->queued - self->next < self->capacity &&
         (self->queued == self->next ||
          ls_allowance_has_room(&self->allowance));
}

void ls_ahead_top_up(ls_ahead *self) {
  ls_input_threads *threads = self->options.work->threads;
  if (threads == NULL) return;
  if (!self->options.parallel) {
    if (self->series_waits || self->series_runs || !has_room(self)) return;
    self->series_waits = true;
    ls_input_threads_add(threads, &self->series);
    return;
  }
  ls_ahead_cell *cell = NULL;
  while ((cell = begin_slot(self, LS_AHEAD_QUEUED)) != NULL)
    ls_input_threads_add(threads, &cell->task);
}

int64_t ls_ahead_count_busy(const ls_ahead *self) {
  return self->pending - (self->options.parallel ? self->waiting : 0);
}

static bool must_be_called(const ls_ahead *self) {
  const bool waits =
      self->options.parallel ? self->waiting > 0 : self->series_waits;
  return waits && ls_ahead_count_busy(self) == 0;
}

void ls_ahead_call(ls_ahead *self) {
  if (must_be_called(self)) ls_input_threads_call(self->options.work->threads);
}

// Doubles the number of slots, up to `most`, if that takes little of the memory
// for input.
static void grow_to(ls_ahead *self, int64_t most) {
  if (most > self->options.most) most = self->options.most;
  const int64_t wanted = 2 * self->capacity < most ? 2 * self->capacity : most;
  if (wanted > self->capacity &&
      ls_allowance_is_small(&self->allowance, wanted))
    self->capacity = wanted;
}

void ls_ahead_call_in_time(ls_ahead *self) {
  const int64_t there = self->queued - self->next - self->pending;
  const bool fixed = self->options.most == self->options.capacity;
  if (!fixed && there > (self->capacity < 8 ? 1 : self->capacity / 4)) return;
  if (!fixed && !must_be_called(self)) return;
  // Grows and tops up first, so that the woken thread has enough to do. Not
  // after the caller itself made elements: then a longer queue would not help.
  const bool waited = self->helped != self->helped_then;
  self->helped_then = self->helped;
  if (!fixed && !waited &&
      self->allowance.guess <= SMALL / self->options.most) {
    grow_to(self, self->options.most);
    ls_ahead_top_up(self);
  }
  ls_ahead_call(self);
}

// Grows to two slots per thread: with more, elements would no longer stay in
// caches.
void ls_ahead_grow(ls_ahead *self) {
  const int64_t threads = ls_input_threads_count(self->options.work->threads);
  self->was_full = false;
  if (self->capacity < 2 * threads) grow_to(self, 2 * threads);
}

// ---- On threads ------------------------------------------------------------
ls_status ls_ahead_call_make(const ls_ahead *self, int64_t number,
                             ls_nest *element) {
  ls_making making;
  ls_making_enter(&making, self->options.work);
  return ls_making_leave(
      &making, self->options.make(self->options.user, number, element));
}

// The lock is held before and after, but released while an element is made.
void ls_ahead_make(ls_ahead *self, ls_ahead_cell *cell) {
  cell->state = LS_AHEAD_BEGUN;
  --self->waiting;
  ls_nest element = ahead_slots_take_spare(self);
  ls_mutex_unlock(&self->lock);
  const ls_status status = ls_ahead_call_make(self, cell->number, &element);
  ls_mutex_lock(&self->lock);
  set_done(self, cell, element, status);
}

void ls_ahead_run_slot(ls_input_task *task) {
  ls_ahead_cell *cell = (ls_ahead_cell *)(void *)task;
  ls_ahead *self = cell->ahead;
  ls_mutex_lock(&self->lock);
  // Wakes another thread if tasks wait and not all threads are busy. A caller
  // that makes elements, or did since the last check, counts as a busy thread.
  const bool counts =
      !self->helps && (self->asks || self->helped != self->seen);
  const int64_t at_work = ls_ahead_count_busy(self) + 1 + counts;
  ls_input_threads *threads = self->options.work->threads;
  if (self->waiting > 1 && at_work < ls_input_threads_count(threads))
    ls_input_threads_call(threads);
  self->seen = self->helped;
  ls_ahead_make(self, cell);
  if (self->pending == 0)
    ls_ahead_top_up(self);  // The size of an element is known now.
  if (self->waiting == 0 && self->queued - self->next >= self->capacity)
    self->was_full = true;
  const wish wanted = take_wish(self);
  ls_mutex_unlock(&self->lock);
  if (wanted.ready != NULL) wanted.ready(wanted.user);
}

// Makes number `queued` if it may; the lock is held before and after.
static bool make_next(ls_ahead *self) {
  ls_ahead_cell *cell = begin_slot(self, LS_AHEAD_BEGUN);
  if (cell == NULL) return false;
  ls_nest element = ahead_slots_take_spare(self);
  ls_mutex_unlock(&self->lock);
  const ls_status status = ls_ahead_call_make(self, cell->number, &element);
  ls_mutex_lock(&self->lock);
  if (ls_status_code(status) == LS_OUT_OF_RANGE) self->end = cell->number;
  set_done(self, cell, element, status);
  return true;
}

void ls_ahead_run_series(ls_input_task *task) {
  ls_ahead *self =
      (ls_ahead *)(void *)((char *)task - offsetof(ls_ahead, series));
  ls_mutex_lock(&self->lock);
  self->series_waits = false;
  self->series_runs = true;
  wish wanted = {0};
  // Lets other tasks of the threads run in between. Calls `ready` last, since
  // that may destroy the queue.
  while (make_next(self)) {
    wanted = take_wish(self);
    if (wanted.ready != NULL ||
        ls_input_threads_are_wanted(self->options.work->threads))
      break;
  }
  self->series_runs = false;
  if (self->queued - self->next >= self->capacity) self->was_full = true;
  ls_ahead_top_up(self);
  if (self->awaited != LS_AHEAD_NOBODY) ls_condition_signal(&self->done);
  ls_mutex_unlock(&self->lock);
  if (wanted.ready != NULL) wanted.ready(wanted.user);
}
