// SPDX-License-Identifier: Apache-2.0
// Each number below `queued` has a slot, which is free, waits for a thread, is
// being made, or is done. In series one task makes all; in parallel each slot
// is a task. Who asks for an element that no thread has begun takes the task
// back and makes it: so nobody waits for a thread that has not come, and no
// thread is needed at all.
#include "data/ahead.h"

#include "base/runtime_internal.h"

typedef enum slot_state { FREE, QUEUED, BEGUN, DONE } slot_state;

typedef struct slot {
  ls_input_task task;  // In parallel.
  ls_ahead *ahead;
  slot_state state;
  int64_t number;
  ls_nest element;  // Once done.
  ls_status status;
  int64_t bytes;  // Counted in the runtime's; until it is done a guess.
} slot;

struct ls_ahead {
  ls_ahead_options options;
  ls_allocator *allocator;
  ls_mutex lock;  // Guards what follows; not held while elements are made.
  ls_condition done;
  slot *slots;      // `capacity`.
  ls_nest *spares;  // Given back by who takes elements, to be written anew.
  int64_t num_spares;
  int64_t next;      // To be given.
  int64_t queued;    // The first number that is not in a slot.
  int64_t end;       // Below 0: not known.
  int64_t waiting;   // Slots that wait for a thread.
  int64_t pending;   // Those, and those that are being made.
  bool is_measured;  // Some element was made: what one takes is, in bytes, ...
  int64_t guess;     // ... at most about this.
  ls_input_task series;  // In series.
  bool series_waits, series_runs;
  bool pausing;
  void (*ready)(void *user);
  void *ready_user;
};

// ---- Making ----------------------------------------------------------------
static void run_slot(ls_input_task *task);
static void run_series(ls_input_task *task);
static void guess_size(ls_ahead *self);

ls_status ls_ahead_create(const ls_ahead_options *options,
                          ls_ahead **out_ahead) {
  *out_ahead = NULL;
  ls_allocator *allocator = options->work->allocator;
  const size_t capacity = (size_t)options->capacity;
  ls_ahead *self = ls_new(allocator, ls_ahead);
  if (self == NULL) return ls_out_of_memory();
  self->allocator = allocator;
  self->options = *options;
  self->end = -1;
  self->series.run = run_series;
  guess_size(self);
  self->slots = ls_new_array(allocator, slot, capacity);
  self->spares = ls_new_array(allocator, ls_nest, capacity + 1);
  ls_status status = ls_mutex_init(&self->lock);
  if (ls_status_is_ok(status)) status = ls_condition_init(&self->done);
  if (self->slots == NULL || self->spares == NULL)
    status = ls_status_join(status, ls_out_of_memory());
  for (size_t i = 0; i < capacity && ls_status_is_ok(status); ++i) {
    self->slots[i].ahead = self;
    self->slots[i].task.run = run_slot;
  }
  if (ls_status_is_ok(status))
    *out_ahead = self;
  else
    ls_ahead_destroy(self);
  return status;
}

// What an element takes, where its spec says so.
static void guess_size(ls_ahead *self) {
  const ls_dataset *dataset = self->options.dataset;
  self->is_measured = dataset->rows;
  for (size_t i = 0; dataset->rows && i < dataset->num_leaves; ++i)
    self->guess += (int64_t)dataset->row_sizes[i];
}

static slot *slot_of(ls_ahead *self, int64_t number) {
  return &self->slots[number % self->options.capacity];
}

// ---- With the lock held ----------------------------------------------------
static ls_nest take_spare(ls_ahead *self) {
  return self->num_spares > 0 ? self->spares[--self->num_spares] : ls_none();
}

// One for each slot that waits for a thread, which will take it: what such a
// slot counts for is its memory. Another one would be memory that nobody
// counts; in series the one slot after the next to be given waits.
static void give_spare(ls_ahead *self, ls_nest element) {
  const int64_t most = self->options.parallel ? self->waiting : 1;
  if (element.kind != LS_KIND_NONE && self->num_spares < most)
    self->spares[self->num_spares++] = element;
  else
    ls_nest_release(element);
}

// Counts `bytes` more in the runtime's; `must`: even if it is too much.
static bool count_bytes(const ls_ahead *self, int64_t bytes, bool must) {
  ls_runtime *runtime = self->options.work->runtime;
  const int64_t held =
      __atomic_add_fetch(&runtime->input_buffered, bytes, __ATOMIC_RELAXED);
  if (must || held <= runtime->input_bytes) return true;
  __atomic_sub_fetch(&runtime->input_buffered, bytes, __ATOMIC_RELAXED);
  return false;
}

// Gives number `queued` a slot, if it may be made ahead; the one to be given
// next always may. Before it is known what an element takes there is one at a
// time.
static slot *begin_slot(ls_ahead *self, slot_state state) {
  if (self->pausing || (self->end >= 0 && self->queued >= self->end) ||
      self->queued - self->next >= self->options.capacity)
    return NULL;
  const bool must = self->queued == self->next;
  if (!must && !self->is_measured) return NULL;
  if (!count_bytes(self, self->guess, must)) return NULL;
  slot *it = slot_of(self, self->queued);
  it->number = self->queued++;
  it->state = state;
  it->bytes = self->guess;
  self->waiting += state == QUEUED;
  ++self->pending;
  return it;
}

// The guess follows at once where elements grow, slowly where they shrink.
static void measure(ls_ahead *self, int64_t bytes) {
  self->guess -= self->guess / 8;
  if (bytes > self->guess) self->guess = bytes;
  self->is_measured = true;
}

static void set_done(ls_ahead *self, slot *it, ls_nest element,
                     ls_status status) {
  const int64_t bytes = ls_element_bytes(element);
  if (ls_status_is_ok(status)) measure(self, bytes);
  count_bytes(self, -it->bytes, true);  // The guess.
  it->element = element;
  it->status = status;
  it->bytes = bytes;
  it->state = DONE;
  --self->pending;
  ls_work_buffer(self->options.work, self->options.dataset, 1, bytes);
  ls_condition_broadcast(&self->done);
}

// One that was not made.
static void drop_slot(ls_ahead *self, slot *it) {
  count_bytes(self, -it->bytes, true);
  self->waiting -= it->state == QUEUED;
  --self->pending;
  it->state = FREE;
  it->bytes = 0;
}

static void set_free(ls_ahead *self, slot *it) {
  ls_work_buffer(self->options.work, self->options.dataset, -1, -it->bytes);
  it->state = FREE;
  it->bytes = 0;
}

// The wish of who waits for the next one, if it can be given now.
typedef struct wish {
  void (*ready)(void *user);
  void *user;
} wish;

static wish take_wish(ls_ahead *self) {
  const bool given = self->options.capacity > 0 && self->next < self->queued &&
                     slot_of(self, self->next)->state == DONE;
  const wish none = {0};
  if (self->ready == NULL || !given) return none;
  const wish it = {self->ready, self->ready_user};
  self->ready = NULL;
  return it;
}

// Whether a series may go on, as far as can be said without counting.
static bool has_room(const ls_ahead *self) {
  const ls_runtime *runtime = self->options.work->runtime;
  const int64_t held =
      __atomic_load_n(&runtime->input_buffered, __ATOMIC_RELAXED);
  return !self->pausing && (self->end < 0 || self->queued < self->end) &&
         self->queued - self->next < self->options.capacity &&
         (self->queued == self->next ||
          (self->is_measured && held + self->guess <= runtime->input_bytes));
}

// Sets threads to work.
static void top_up(ls_ahead *self) {
  if (self->options.work->threads == NULL) return;
  if (!self->options.parallel) {
    if (self->series_waits || self->series_runs || !has_room(self)) return;
    self->series_waits = true;
    ls_input_threads_submit(self->options.work->threads, &self->series);
    return;
  }
  slot *it = NULL;
  while ((it = begin_slot(self, QUEUED)) != NULL)
    ls_input_threads_submit(self->options.work->threads, &it->task);
}

// ---- On threads ------------------------------------------------------------
static void run_slot(ls_input_task *task) {
  slot *it = (slot *)(void *)task;
  ls_ahead *self = it->ahead;
  ls_mutex_lock(&self->lock);
  it->state = BEGUN;
  --self->waiting;
  ls_nest element = take_spare(self);
  ls_mutex_unlock(&self->lock);
  const ls_status status =
      self->options.make(self->options.user, it->number, &element);
  ls_mutex_lock(&self->lock);
  set_done(self, it, element, status);
  if (self->pending == 0) top_up(self);  // Now that it knows how large one is.
  const wish wanted = take_wish(self);
  ls_mutex_unlock(&self->lock);
  if (wanted.ready != NULL) wanted.ready(wanted.user);
}

// Makes number `queued`, if it may; the lock is held before and after.
static bool make_next(ls_ahead *self) {
  slot *it = begin_slot(self, BEGUN);
  if (it == NULL) return false;
  ls_nest element = take_spare(self);
  ls_mutex_unlock(&self->lock);
  const ls_status status =
      self->options.make(self->options.user, it->number, &element);
  ls_mutex_lock(&self->lock);
  if (ls_status_code(status) == LS_OUT_OF_RANGE) self->end = it->number;
  set_done(self, it, element, status);
  return true;
}

static void run_series(ls_input_task *task) {
  ls_ahead *self =
      (ls_ahead *)(void *)((char *)task - offsetof(ls_ahead, series));
  ls_mutex_lock(&self->lock);
  self->series_waits = false;
  self->series_runs = true;
  wish wanted = {0};
  // Others have a turn before it goes on. Who waits is told last, as he may
  // drop the whole line.
  while (make_next(self)) {
    wanted = take_wish(self);
    if (wanted.ready != NULL ||
        ls_input_threads_are_wanted(self->options.work->threads))
      break;
  }
  self->series_runs = false;
  top_up(self);
  ls_condition_broadcast(&self->done);
  ls_mutex_unlock(&self->lock);
  if (wanted.ready != NULL) wanted.ready(wanted.user);
}

// ---- Taking ----------------------------------------------------------------
static ls_status at_end(const ls_ahead *self) {
  return ls_out_of_range("the end of '%s'", self->options.work->name);
}

// Without a slot, where the caller's element is.
static ls_status make_here(ls_ahead *self, ls_nest *element) {
  ls_mutex_unlock(&self->lock);
  const ls_status status =
      self->options.make(self->options.user, self->next, element);
  ls_mutex_lock(&self->lock);
  if (ls_status_code(status) == LS_OUT_OF_RANGE && !self->options.parallel) {
    self->end = self->next;
  } else {
    if (ls_status_is_ok(status)) measure(self, ls_element_bytes(*element));
    ++self->next;
    if (self->queued < self->next) self->queued = self->next;
  }
  return status;
}

static ls_status take_slot(ls_ahead *self, ls_nest *element) {
  slot *it = slot_of(self, self->next);
  const ls_status status = it->status;
  it->status = ls_ok();
  if (ls_status_code(status) == LS_OUT_OF_RANGE && !self->options.parallel) {
    give_spare(self, it->element);
    it->element = ls_none();
    set_free(self, it);
    self->queued = self->next;
    return status;
  }
  ls_nest old = it->element;
  if (ls_status_is_ok(status)) {
    old = *element;
    *element = it->element;
  }
  it->element = ls_none();
  set_free(self, it);
  ++self->next;
  top_up(self);  // First: what is begun now wants the memory.
  give_spare(self, old);
  return status;
}

// Takes the next one's task back, or begins it: false, a thread has it.
static bool can_make_here(ls_ahead *self) {
  ls_input_threads *threads = self->options.work->threads;
  if (self->options.parallel) {
    slot *it = slot_of(self, self->next);
    if (it->state != QUEUED || !ls_input_threads_withdraw(threads, &it->task))
      return false;
    drop_slot(self, it);
    return true;
  }
  if (self->series_runs) return false;
  if (self->series_waits && !ls_input_threads_withdraw(threads, &self->series))
    return false;
  self->series_waits = false;
  return true;
}

static ls_status next_here(ls_ahead *self, ls_nest *element) {
  self->series_runs = !self->options.parallel;
  const ls_status status = make_here(self, element);
  self->series_runs = false;
  top_up(self);
  return status;
}

ls_status ls_ahead_next(ls_ahead *self, ls_nest *element) {
  ls_mutex_lock(&self->lock);
  ls_status status = ls_ok();
  if (self->end >= 0 && self->next >= self->end) {
    status = at_end(self);
  } else if (self->options.capacity == 0 ||
             self->options.work->threads == NULL) {
    status = make_here(self, element);
  } else {
    top_up(self);
    bool here = false;
    while (!here && (self->next >= self->queued ||
                     slot_of(self, self->next)->state != DONE)) {
      here = can_make_here(self);
      if (!here) ls_condition_wait(&self->done, &self->lock);
    }
    status = here ? next_here(self, element) : take_slot(self, element);
  }
  ls_mutex_unlock(&self->lock);
  return status;
}

bool ls_ahead_is_ready(ls_ahead *self, void (*ready)(void *user), void *user) {
  ls_mutex_lock(&self->lock);
  const bool alone =
      self->options.capacity == 0 || self->options.work->threads == NULL;
  bool is = alone || (self->end >= 0 && self->next >= self->end);
  if (!is) {
    top_up(self);
    is = self->next < self->queued && slot_of(self, self->next)->state == DONE;
  }
  if (!is) {
    self->ready = ready;
    self->ready_user = user;
  }
  ls_mutex_unlock(&self->lock);
  return is;
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
// With the lock held: ends what threads do, and what waits for them.
static void pause_work(ls_ahead *self) {
  ls_input_threads *threads = self->options.work->threads;
  if (threads == NULL || self->options.capacity == 0) return;
  self->pausing = true;
  if (self->series_waits && ls_input_threads_withdraw(threads, &self->series))
    self->series_waits = false;
  while (self->options.parallel && self->queued > self->next) {
    slot *it = slot_of(self, self->queued - 1);
    if (it->state != QUEUED || !ls_input_threads_withdraw(threads, &it->task))
      break;
    drop_slot(self, it);
    --self->queued;
  }
  while (self->pending > 0 || self->series_waits || self->series_runs)
    ls_condition_wait(&self->done, &self->lock);
  self->pausing = false;
}

void ls_ahead_pause(ls_ahead *self) {
  ls_mutex_lock(&self->lock);
  pause_work(self);
  ls_mutex_unlock(&self->lock);
}

// What was made becomes memory to be written anew.
static void drop_slots(ls_ahead *self) {
  for (int64_t n = self->next; n < self->queued; ++n) {
    slot *it = slot_of(self, n);
    if (it->state != DONE) continue;
    give_spare(self, it->element);
    it->element = ls_none();
    ls_status_free(it->status);
    it->status = ls_ok();
    set_free(self, it);
  }
}

void ls_ahead_seek(ls_ahead *self, int64_t number, int64_t end) {
  ls_mutex_lock(&self->lock);
  pause_work(self);
  if (self->options.capacity > 0) drop_slots(self);
  self->next = self->queued = number;
  self->end = end;
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
  ls_condition_deinit(&self->done);
  ls_mutex_deinit(&self->lock);
  ls_release(self->allocator, self->slots);
  ls_release(self->allocator, self->spares);
  ls_release(self->allocator, self);
}
