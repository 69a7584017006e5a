// SPDX-License-Identifier: Apache-2.0
// A caller that needs an element which no thread has begun takes its task back
// and makes the element itself: so no caller waits for a thread that is not
// there, and no thread is needed at all.
//
// Falling asleep and waking up take as long as making a small batch. So a
// caller that would wait makes other elements meanwhile, like one of the
// queue's threads; a thread is woken only for tasks that no one else will
// reach; and the queue gets more slots if a thread had nothing to do for lack
// of slots.
#include "data/ahead.h"

// ---- Slots -----------------------------------------------------------------
enum { SMALL = 8 << 20 };  // Bytes of a queue's elements that fit caches.

// ---- With the lock held ----------------------------------------------------
static ls_nest ahead_take_spare(ls_ahead *self) {
  return self->num_spares > 0 ? self->spares[--self->num_spares] : ls_none();
}

// Counts spares that no queued slot will use: a queued slot's guessed size
// already counts for the spare that it will be made in. In series there is one
// such slot.
static int64_t count_unwanted(const ls_ahead *self) {
  const int64_t wanted = self->options.parallel ? self->waiting : 1;
  return self->num_spares > wanted ? self->num_spares - wanted : 0;
}

// Keeps a taken element's memory for reuse, if there is room. At the end all
// spares are kept for the next start.
static void ahead_give_spare(ls_ahead *self, ls_nest element) {
  if (element.kind == LS_KIND_NONE) return;
  const int64_t room = self->options.parallel ? self->capacity : 1;
  self->spares[self->num_spares++] = element;
  if (self->num_spares <= room &&
      (count_unwanted(self) == 0 || ls_allowance_has_room(&self->allowance)))
    return;
  ls_nest_release(self->spares[--self->num_spares]);
}

// Counts the memory of spares that no slot accounts for.
static void ahead_count_spares(ls_ahead *self) {
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
static void ahead_tell(ls_ahead *self, int64_t number) {
  if (self->awaited == LS_AHEAD_ANY || self->awaited == number)
    ls_condition_signal(&self->done);
}

// Waits for at most `nanos`, INT64_MAX for ever; returns false after that time.
static bool ahead_sleep_for(ls_ahead *self, int64_t number, int64_t nanos) {
  bool told = true;
  self->awaited = number;
  if (nanos == INT64_MAX)
    ls_condition_wait(&self->done, &self->lock);
  else
    told = ls_condition_wait_for(&self->done, &self->lock, nanos);
  self->awaited = LS_AHEAD_NOBODY;
  return told;
}

// Waits until that element is done.
//   LS_FAILED_PRECONDITION  a circular wait: see ls_making_begin_wait.
static ls_status ahead_sleep(ls_ahead *self, int64_t number) {
  LS_RETURN_IF_ERROR(ls_making_begin_wait(self->options.work));
  (void)ahead_sleep_for(self, number, INT64_MAX);
  ls_making_end_wait(self->options.work);
  return ls_ok();
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
  ahead_tell(self, cell->number);
}

// Frees a slot that was not made.
static void ahead_drop(ls_ahead *self, ls_ahead_cell *cell) {
  ls_allowance_count(&self->allowance, -cell->bytes, true);
  self->waiting -= cell->state == LS_AHEAD_QUEUED;
  --self->pending;
  cell->state = LS_AHEAD_FREE;
  cell->bytes = 0;
}

static void ahead_free(ls_ahead *self, ls_ahead_cell *cell) {
  ls_work_buffer(self->options.work, self->options.dataset, -1, -cell->bytes);
  cell->state = LS_AHEAD_FREE;
  cell->bytes = 0;
}

// The next element is done.
static bool ahead_is_done(const ls_ahead *self) {
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
  if (self->ready == NULL || !ahead_is_done(self)) return none;
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

// Queues tasks for the threads without waking one.
static void ahead_top_up(ls_ahead *self) {
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

// Returns the number of elements being made in slots.
static int64_t ahead_count_busy(const ls_ahead *self) {
  return self->pending - (self->options.parallel ? self->waiting : 0);
}

static bool must_be_called(const ls_ahead *self) {
  const bool waits =
      self->options.parallel ? self->waiting > 0 : self->series_waits;
  return waits && ahead_count_busy(self) == 0;
}

// Wakes a thread if tasks wait and no thread makes an element. Called before a
// thread stops making elements.
static void ahead_call(ls_ahead *self) {
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

// Wakes a thread, but if the capacity may grow only once most elements made
// ahead are used up; small elements first get more slots: then one wake-up
// serves several elements.
static void ahead_call_in_time(ls_ahead *self) {
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
    ahead_top_up(self);
  }
  ahead_call(self);
}

// Adds slots if there were too few: two for each thread, which begins another
// element before its last one is taken. With more, elements would no longer
// stay in caches.
static void ahead_grow(ls_ahead *self) {
  const int64_t threads = ls_input_threads_count(self->options.work->threads);
  self->was_full = false;
  if (self->capacity < 2 * threads) grow_to(self, 2 * threads);
}

// ---- On threads ------------------------------------------------------------
// Makes an element; the lock is not held.
static ls_status ahead_call_make(const ls_ahead *self, int64_t number,
                                 ls_nest *element) {
  ls_making making;
  ls_making_enter(&making, self->options.work);
  return ls_making_leave(
      &making, self->options.make(self->options.user, number, element));
}

// Makes the element of a queued slot. The lock is held before and after, and
// released meanwhile.
static void ahead_make(ls_ahead *self, ls_ahead_cell *cell) {
  cell->state = LS_AHEAD_BEGUN;
  --self->waiting;
  ls_nest element = ahead_take_spare(self);
  ls_mutex_unlock(&self->lock);
  const ls_status status = ahead_call_make(self, cell->number, &element);
  ls_mutex_lock(&self->lock);
  set_done(self, cell, element, status);
}

// Tasks of input threads.
static void ahead_run_slot(ls_input_task *task) {
  ls_ahead_cell *cell = (ls_ahead_cell *)(void *)task;
  ls_ahead *self = cell->ahead;
  ls_mutex_lock(&self->lock);
  // Wakes another thread if tasks wait and not all threads are busy. A caller
  // that makes elements, or did since the last check, counts as a busy thread.
  const bool counts =
      !self->helps && (self->asks || self->helped != self->seen);
  const int64_t at_work = ahead_count_busy(self) + 1 + counts;
  ls_input_threads *threads = self->options.work->threads;
  if (self->waiting > 1 && at_work < ls_input_threads_count(threads))
    ls_input_threads_call(threads);
  self->seen = self->helped;
  ahead_make(self, cell);
  if (self->pending == 0)
    ahead_top_up(self);  // The size of an element is known now.
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
  ls_nest element = ahead_take_spare(self);
  ls_mutex_unlock(&self->lock);
  const ls_status status = ahead_call_make(self, cell->number, &element);
  ls_mutex_lock(&self->lock);
  if (ls_status_code(status) == LS_OUT_OF_RANGE) self->end = cell->number;
  set_done(self, cell, element, status);
  return true;
}

static void ahead_run_series(ls_input_task *task) {
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
  ahead_top_up(self);
  if (self->awaited != LS_AHEAD_NOBODY) ls_condition_signal(&self->done);
  ls_mutex_unlock(&self->lock);
  if (wanted.ready != NULL) wanted.ready(wanted.user);
}

// ---- Making ----------------------------------------------------------------
ls_status ls_ahead_create(const ls_ahead_options *options,
                          ls_ahead **out_ahead) {
  *out_ahead = NULL;
  ls_allocator *allocator = options->work->allocator;
  const size_t most =
      (size_t)(options->most > options->capacity ? options->most
                                                 : options->capacity);
  LS_NEW_OR_RETURN(allocator, ls_ahead, self);
  self->allocator = allocator;
  self->options = *options;
  self->options.most = (int64_t)most;
  self->capacity = options->capacity;
  self->end = -1;
  self->awaited = LS_AHEAD_NOBODY;
  self->series.run = ahead_run_series;
  self->allowance = ls_allowance_of(options->work->runtime, options->dataset);
  self->slots = ls_new_array(allocator, ls_ahead_cell, most);
  self->spares = ls_new_array(allocator, ls_nest, most + 1);
  ls_status status = ls_mutex_init(&self->lock);
  if (ls_status_is_ok(status)) status = ls_condition_init(&self->done);
  if (self->slots == NULL || self->spares == NULL)
    status = ls_status_join(status, ls_out_of_memory());
  for (size_t i = 0; i < most && ls_status_is_ok(status); ++i) {
    self->slots[i].ahead = self;
    self->slots[i].task.run = ahead_run_slot;
  }
  if (ls_status_is_ok(status))
    *out_ahead = self;
  else
    ls_ahead_destroy(self);
  return status;
}

// ---- Taking ----------------------------------------------------------------
static ls_status ahead_at_end(const ls_ahead *self) {
  return ls_out_of_range("the end of '%s'", self->options.work->name);
}

// Makes the next element into the caller's element, without a slot.
static ls_status make_here(ls_ahead *self, ls_nest *element) {
  self->asks = true;
  ls_mutex_unlock(&self->lock);
  const ls_status status = ahead_call_make(self, self->next, element);
  ls_mutex_lock(&self->lock);
  self->asks = false;
  if (ls_status_code(status) == LS_OUT_OF_RANGE && !self->options.parallel) {
    self->end = self->next;
  } else {
    if (ls_status_is_ok(status))
      ls_allowance_measure(&self->allowance, ls_element_bytes(*element));
    ++self->next;
    if (self->queued < self->next) self->queued = self->next;
  }
  return status;
}

static ls_status take_slot(ls_ahead *self, ls_nest *element) {
  ls_ahead_cell *cell = ls_ahead_slot(self, self->next);
  const ls_status status = cell->status;
  cell->status = ls_ok();
  if (ls_status_code(status) == LS_OUT_OF_RANGE && !self->options.parallel) {
    ahead_give_spare(self, cell->element);
    cell->element = ls_none();
    ahead_free(self, cell);
    self->queued = self->next;
    return status;
  }
  ls_nest old = cell->element;
  if (ls_status_is_ok(status)) {
    old = *element;
    *element = cell->element;
  }
  cell->element = ls_none();
  ahead_free(self, cell);
  ++self->next;
  ahead_top_up(self);  // First, since its new tasks may take the memory.
  ahead_give_spare(self, old);
  return status;
}

// Prepares to make the next element on this thread: takes its task back if it
// was queued. Returns false if a thread has the task.
static bool can_make_here(ls_ahead *self) {
  ls_input_threads *threads = self->options.work->threads;
  if (self->options.parallel) {
    ls_ahead_cell *cell = ls_ahead_slot(self, self->next);
    if (cell->state != LS_AHEAD_QUEUED ||
        !ls_input_threads_withdraw(threads, &cell->task))
      return false;
    ahead_drop(self, cell);
    return true;
  }
  if (self->series_runs) return false;
  if (self->series_waits && !ls_input_threads_withdraw(threads, &self->series))
    return false;
  self->series_waits = false;
  return true;
}

static ls_status next_here(ls_ahead *self, ls_nest *element) {
  // The caller counts as one of the threads: wakes another only if there may be
  // more.
  const int threads = ls_input_threads_count(self->options.work->threads);
  if (self->options.parallel && threads > 1) ahead_call(self);
  ++self->helped;
  self->series_runs = !self->options.parallel;
  const ls_status status = make_here(self, element);
  self->series_runs = false;
  ahead_top_up(self);
  return status;
}

// Makes a later element while a thread makes the next one. Returns false if no
// element is queued or as many elements as there are threads are being made.
static bool ahead_help(ls_ahead *self) {
  ls_input_threads *threads = self->options.work->threads;
  if (!self->options.parallel ||
      ahead_count_busy(self) >= ls_input_threads_count(threads))
    return false;
  if (self->waiting == 0 && self->queued - self->next >= self->capacity) {
    ahead_grow(self);
    ahead_top_up(self);
  }
  for (int64_t n = self->next + 1; n < self->queued; ++n) {
    ls_ahead_cell *cell = ls_ahead_slot(self, n);
    if (cell->state != LS_AHEAD_QUEUED ||
        !ls_input_threads_withdraw(threads, &cell->task))
      continue;
    ++self->helped;
    self->helps = true;
    ahead_make(self, cell);
    self->helps = false;
    return true;
  }
  return false;
}

static ls_status next_of_line(ls_ahead *self, ls_nest *element) {
  if (self->was_full && !ahead_is_done(self)) ahead_grow(self);
  ahead_top_up(self);
  bool here = false;
  ls_status status = ls_ok();
  self->asks = true;
  while (ls_status_is_ok(status) && !here && !ahead_is_done(self)) {
    here = can_make_here(self);
    if (!here && !ahead_help(self)) status = ahead_sleep(self, self->next);
  }
  if (ls_status_is_ok(status))
    status = here ? next_here(self, element) : take_slot(self, element);
  self->asks = false;
  ahead_count_spares(self);
  ahead_call_in_time(self);
  return status;
}

ls_status ls_ahead_next(ls_ahead *self, ls_nest *element) {
  ls_mutex_lock(&self->lock);
  ls_status status = ls_ok();
  if (self->asks)
    status = ls_failed_precondition(
        "'%s' is read by two threads at the same time: make an iterator for "
        "each",
        self->options.work->name);
  else if (self->end >= 0 && self->next >= self->end)
    status = ahead_at_end(self);
  else if (ls_ahead_is_alone(self))
    status = make_here(self, element);
  else
    status = next_of_line(self, element);
  ls_mutex_unlock(&self->lock);
  return status;
}

bool ls_ahead_is_ready(ls_ahead *self, void (*ready)(void *user), void *user) {
  ls_mutex_lock(&self->lock);
  bool is_ready =
      ls_ahead_is_alone(self) || (self->end >= 0 && self->next >= self->end);
  if (!is_ready) {
    is_ready = ahead_is_done(self);
    if (self->was_full && !is_ready) ahead_grow(self);
    ahead_top_up(self);
    if (!is_ready) ahead_call(self);
  }
  if (!is_ready) {
    self->ready = ready;
    self->ready_user = user;
  }
  ls_mutex_unlock(&self->lock);
  return is_ready;
}

bool ls_ahead_has_threads(const ls_ahead *self) {
  ls_input_threads *threads = self->options.work->threads;
  return threads != NULL && ls_input_threads_are_there(threads);
}

bool ls_ahead_withdraw(ls_ahead *self) {
  ls_mutex_lock(&self->lock);
  const bool there = self->ready != NULL;
  self->ready = NULL;
  ls_mutex_unlock(&self->lock);
  return there;
}

int64_t ls_ahead_number(const ls_ahead *self) { return self->next; }

// ---- Stopping --------------------------------------------------------------
// Logs the user function that does not return. The lock is held, and released
// meanwhile.
static void tell_of_wait(ls_ahead *self) {
  char text[400];
  ls_work *work = self->options.work;
  ls_mutex_unlock(&self->lock);
  ls_work_tell(work, text, sizeof(text));
  ls_runtime_log(
      work->runtime, LS_LOG_WARNING, "data",
      "prefetched elements cannot be released before they are done: %s", text);
  ls_mutex_lock(&self->lock);
}

// Withdraws queued tasks and waits for those that run; the lock is held.
static void pause_work(ls_ahead *self) {
  ls_input_threads *threads = self->options.work->threads;
  if (ls_ahead_is_alone(self)) return;
  self->pausing = true;
  // Lets other threads detect a circular wait for this thread.
  const ls_status waits = ls_making_begin_wait(self->options.work);
  if (self->series_waits && ls_input_threads_withdraw(threads, &self->series))
    self->series_waits = false;
  while (self->options.parallel && self->queued > self->next) {
    ls_ahead_cell *cell = ls_ahead_slot(self, self->queued - 1);
    if (cell->state != LS_AHEAD_QUEUED ||
        !ls_input_threads_withdraw(threads, &cell->task))
      break;
    ahead_drop(self, cell);
    --self->queued;
  }
  while (self->pending > 0 || self->series_waits || self->series_runs)
    if (!ahead_sleep_for(self, LS_AHEAD_ANY,
                         ls_runtime_stall_nanos(self->options.work->runtime)))
      tell_of_wait(self);
  if (ls_status_is_ok(waits)) ls_making_end_wait(self->options.work);
  ls_status_free(waits);
  self->pausing = false;
}

void ls_ahead_pause(ls_ahead *self) {
  ls_mutex_lock(&self->lock);
  pause_work(self);
  ls_mutex_unlock(&self->lock);
}

// Turns the elements made ahead into spares, whose memory is reused.
static void drop_slots(ls_ahead *self) {
  for (int64_t n = self->next; n < self->queued; ++n) {
    ls_ahead_cell *cell = ls_ahead_slot(self, n);
    if (cell->state != LS_AHEAD_DONE) continue;
    ahead_give_spare(self, cell->element);
    cell->element = ls_none();
    ls_status_free(cell->status);
    cell->status = ls_ok();
    ahead_free(self, cell);
  }
}

void ls_ahead_seek(ls_ahead *self, int64_t number, int64_t end) {
  ls_mutex_lock(&self->lock);
  pause_work(self);
  if (self->options.capacity > 0) drop_slots(self);
  self->next = self->queued = number;
  self->end = end;
  ahead_count_spares(self);
  ls_mutex_unlock(&self->lock);
}

void ls_ahead_destroy(ls_ahead *self) {
  if (self == NULL) return;
  if (self->done.made) {
    ls_mutex_lock(&self->lock);
    pause_work(self);
    if (self->options.capacity > 0) drop_slots(self);
    ls_mutex_unlock(&self->lock);
  }
  for (int64_t i = 0; i < self->num_spares; ++i)
    ls_nest_release(self->spares[i]);
  self->num_spares = 0;
  ahead_count_spares(self);
  ls_condition_deinit(&self->done);
  ls_mutex_deinit(&self->lock);
  ls_release(self->allocator, self->slots);
  ls_release(self->allocator, self->spares);
  ls_release(self->allocator, self);
}
