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
  self->series.run = ls_ahead_run_series;
  self->allowance = ls_allowance_of(options->work->runtime, options->dataset);
  self->slots = ls_new_array(allocator, ls_ahead_cell, most);
  self->spares = ls_new_array(allocator, ls_nest, most + 1);
  ls_status status = ls_mutex_init(&self->lock);
  if (ls_status_is_ok(status)) status = ls_condition_init(&self->done);
  if (self->slots == NULL || self->spares == NULL)
    status = ls_status_join(status, ls_out_of_memory());
  for (size_t i = 0; i < most && ls_status_is_ok(status); ++i) {
    self->slots[i].ahead = self;
    self->slots[i].task.run = ls_ahead_run_slot;
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
  const ls_status status = ls_ahead_call_make(self, self->next, element);
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
    ls_ahead_give_spare(self, cell->element);
    cell->element = ls_none();
    ls_ahead_free(self, cell);
    self->queued = self->next;
    return status;
  }
  ls_nest old = cell->element;
  if (ls_status_is_ok(status)) {
    old = *element;
    *element = cell->element;
  }
  cell->element = ls_none();
  ls_ahead_free(self, cell);
  ++self->next;
  ls_ahead_top_up(self);  // First, since its new tasks may take the memory.
  ls_ahead_give_spare(self, old);
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
    ls_ahead_drop(self, cell);
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
  if (self->options.parallel && threads > 1) ls_ahead_call(self);
  ++self->helped;
  self->series_runs = !self->options.parallel;
  const ls_status status = make_here(self, element);
  self->series_runs = false;
  ls_ahead_top_up(self);
  return status;
}

// Makes a later element while a thread makes the next one. Returns false if no
// element is queued or as many elements as there are threads are being made.
static bool ahead_help(ls_ahead *self) {
  ls_input_threads *threads = self->options.work->threads;
  if (!self->options.parallel ||
      ls_ahead_count_busy(self) >= ls_input_threads_count(threads))
    return false;
  if (self->waiting == 0 && self->queued - self->next >= self->capacity) {
    ls_ahead_grow(self);
    ls_ahead_top_up(self);
  }
  for (int64_t n = self->next + 1; n < self->queued; ++n) {
    ls_ahead_cell *cell = ls_ahead_slot(self, n);
    if (cell->state != LS_AHEAD_QUEUED ||
        !ls_input_threads_withdraw(threads, &cell->task))
      continue;
    ++self->helped;
    self->helps = true;
    ls_ahead_make(self, cell);
    self->helps = false;
    return true;
  }
  return false;
}

static ls_status next_of_line(ls_ahead *self, ls_nest *element) {
  if (self->was_full && !ls_ahead_is_done(self)) ls_ahead_grow(self);
  ls_ahead_top_up(self);
  bool here = false;
  ls_status status = ls_ok();
  self->asks = true;
  while (ls_status_is_ok(status) && !here && !ls_ahead_is_done(self)) {
    here = can_make_here(self);
    if (!here && !ahead_help(self)) status = ls_ahead_sleep(self, self->next);
  }
  if (ls_status_is_ok(status))
    status = here ? next_here(self, element) : take_slot(self, element);
  self->asks = false;
  ls_ahead_count_spares(self);
  ls_ahead_call_in_time(self);
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
    is_ready = ls_ahead_is_done(self);
    if (self->was_full && !is_ready) ls_ahead_grow(self);
    ls_ahead_top_up(self);
    if (!is_ready) ls_ahead_call(self);
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
    ls_ahead_drop(self, cell);
    --self->queued;
  }
  while (self->pending > 0 || self->series_waits || self->series_runs)
    if (!ls_ahead_sleep_for(
            self, LS_AHEAD_ANY,
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
    ls_ahead_give_spare(self, cell->element);
    cell->element = ls_none();
    ls_status_free(cell->status);
    cell->status = ls_ok();
    ls_ahead_free(self, cell);
  }
}

void ls_ahead_seek(ls_ahead *self, int64_t number, int64_t end) {
  ls_mutex_lock(&self->lock);
  pause_work(self);
  if (self->options.capacity > 0) drop_slots(self);
  self->next = self->queued = number;
  self->end = end;
  ls_ahead_count_spares(self);
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
  ls_ahead_count_spares(self);
  ls_condition_deinit(&self->done);
  ls_mutex_deinit(&self->lock);
  ls_release(self->allocator, self->slots);
  ls_release(self->allocator, self->spares);
  ls_release(self->allocator, self);
}
