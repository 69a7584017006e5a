// SPDX-License-Identifier: Apache-2.0
// Queue: a ring of nests under one lock.
//
// Each change collects the waiters that become ready under the lock, and calls
// them after releasing it.
#include "base/threads/queue.h"

#include "base/memory/own.h"
#include "base/threads/locked.h"
#include "base/threads/threads.h"

enum { DEFAULT_CAPACITY = 16 };
LS_OWNED_POINTER(ls_queue, ls_queue_destroy)

// A list of waiters in order of registration.
typedef struct waiter_list {
  ls_queue_waiter *first;
  ls_queue_waiter **end;  // Link for the next one; NULL if there is none.
} waiter_list;

struct ls_queue {
  ls_allocator *allocator;
  char *name;
  size_t capacity;   // Most items that pushes fill.
  size_t num_slots;  // Twice as many, for items put back.
  ls_mutex lock;     // Guards the fields below.
  ls_nest *slots;
  size_t head;
  size_t count;
  bool closed;
  uint64_t generation;
  uint64_t told;           // Calls of ls_queue_tell.
  waiter_list waiters[2];  // Indexed by ls_queue_side.
};

static ls_queue_options queue_with_defaults(const ls_queue_options *options) {
  ls_queue_options result = {0};
  if (options != NULL) result = *options;
  if (result.capacity == 0) result.capacity = DEFAULT_CAPACITY;
  if (result.name == NULL) result.name = "queue";
  if (result.allocator == NULL) result.allocator = ls_allocator_system();
  return result;
}

static ls_status queue_begin(ls_queue *queue, const ls_queue_options *options) {
  LS_RETURN_IF_ERROR(ls_mutex_init(&queue->lock));
  LS_RETURN_IF_ERROR(
      ls_keep_text(queue->allocator, options->name, &queue->name));
  queue->slots = ls_new_array(queue->allocator, ls_nest, queue->num_slots);
  if (queue->slots != NULL) return ls_ok();
  return ls_status_annotate(LS_STATUS(LS_RESOURCE_EXHAUSTED,
                                      "no memory for %zu slots",
                                      options->capacity),
                            "creating queue '%s'", options->name);
}

ls_status ls_queue_create(const ls_queue_options *options,
                          ls_queue **out_queue) {
  *out_queue = NULL;
  const ls_queue_options opts = queue_with_defaults(options);
  LS_OWN_NEW_OR_RETURN(opts.allocator, ls_queue, queue);
  queue->allocator = opts.allocator;
  queue->capacity = opts.capacity;
  queue->num_slots =
      opts.capacity < SIZE_MAX / 2 ? 2 * opts.capacity : opts.capacity;
  queue->generation = opts.generation;

  LS_RETURN_IF_ERROR(queue_begin(queue, &opts));
  return ls_hand_over(&queue, out_queue);
}

void ls_queue_destroy(ls_queue *queue) {
  if (queue == NULL) return;
  for (size_t i = 0; i < queue->count; ++i)
    ls_nest_release(queue->slots[(queue->head + i) % queue->num_slots]);
  ls_release(queue->allocator, queue->slots);
  ls_release(queue->allocator, queue->name);
  ls_mutex_deinit(&queue->lock);
  ls_release(queue->allocator, queue);
}

// ---- Waiters ---------------------------------------------------------------
// Returns true if a try on that side would succeed or fail for good. The lock
// is held.
static bool queue_is_ready(const ls_queue *queue, ls_queue_side side) {
  if (queue->closed) return true;
  return side == LS_QUEUE_POP ? queue->count > 0
                              : queue->count < queue->capacity;
}

// Takes the whole list of waiters; the lock is held.
static ls_queue_waiter *take_waiters(ls_queue *queue, ls_queue_side side) {
  ls_queue_waiter *first = queue->waiters[side].first;
  queue->waiters[side] = (waiter_list){0};
  return first;
}

// Calls waiters without the lock. After its call a waiter may be freed or
// registered again.
static void call_waiters(ls_queue_waiter *waiter) {
  while (waiter != NULL) {
    ls_queue_waiter *next = waiter->next;
    waiter->ready(waiter->user);
    waiter = next;
  }
}

// Appends a waiter; the lock is held.
static void add_waiter(ls_queue *queue, ls_queue_side side,
                       ls_queue_waiter *waiter) {
  waiter_list *list = &queue->waiters[side];
  waiter->next = NULL;
  *(list->end == NULL ? &list->first : list->end) = waiter;
  list->end = &waiter->next;
}

bool ls_queue_on_ready(ls_queue *queue, ls_queue_side side,
                       ls_queue_waiter *waiter) {
  ls_mutex_lock(&queue->lock);
  const bool ready = queue_is_ready(queue, side);
  if (!ready) add_waiter(queue, side, waiter);
  ls_mutex_unlock(&queue->lock);
  return !ready;
}

bool ls_queue_on_told(ls_queue *queue, uint64_t told, ls_queue_waiter *waiter) {
  ls_mutex_lock(&queue->lock);
  const bool ready = queue_is_ready(queue, LS_QUEUE_POP) || queue->told != told;
  if (!ready) add_waiter(queue, LS_QUEUE_POP, waiter);
  ls_mutex_unlock(&queue->lock);
  return !ready;
}

void ls_queue_tell(ls_queue *queue) {
  ls_mutex_lock(&queue->lock);
  ++queue->told;
  ls_queue_waiter *readers = take_waiters(queue, LS_QUEUE_POP);
  ls_mutex_unlock(&queue->lock);
  call_waiters(readers);
}

uint64_t ls_queue_told(ls_queue *queue) {
  return LS_LOCKED(&queue->lock, queue->told);
}

bool ls_queue_withdraw(ls_queue *queue, ls_queue_side side,
                       ls_queue_waiter *waiter) {
  ls_mutex_lock(&queue->lock);
  waiter_list *list = &queue->waiters[side];
  ls_queue_waiter **link = &list->first;
  while (*link != NULL && *link != waiter)
    link = &(*link)->next;
  const bool found = *link == waiter;
  if (found) {
    *link = waiter->next;
    if (waiter->next == NULL) list->end = link;
    if (list->first == NULL) list->end = NULL;
  }
  ls_mutex_unlock(&queue->lock);
  return found;
}

// ---- Push and pop ----------------------------------------------------------
// Appends an item; the lock is held and there is room. Returns the waiters to
// call without the lock.
static ls_queue_waiter *queue_put(ls_queue *queue, ls_nest item) {
  queue->slots[(queue->head + queue->count) % queue->num_slots] = item;
  ++queue->count;
  return take_waiters(queue, LS_QUEUE_POP);
}

// Takes the first item; the lock is held and the queue is not empty. Returns
// the waiters to call without the lock.
static ls_queue_waiter *queue_take(ls_queue *queue, ls_nest *out_item) {
  *out_item = queue->slots[queue->head];
  queue->head = (queue->head + 1) % queue->num_slots;
  --queue->count;
  return take_waiters(queue, LS_QUEUE_PUSH);
}

static ls_status closed_status(const ls_queue *queue) {
  return LS_STATUS(LS_CANCELLED, "push into queue '%s', which is closed",
                   queue->name);
}

static ls_status end_status(const ls_queue *queue) {
  return ls_out_of_range("queue '%s' is closed and drained", queue->name);
}

ls_status ls_queue_try_push(ls_queue *queue, uint64_t generation, ls_nest item,
                            bool *out_pushed) {
  *out_pushed = false;
  ls_mutex_lock(&queue->lock);
  const bool is_of = queue->generation == generation;
  const bool closed = is_of && queue->closed;
  ls_queue_waiter *ready = NULL;
  if (is_of && !closed && queue_is_ready(queue, LS_QUEUE_PUSH)) {
    ready = queue_put(queue, item);
    *out_pushed = true;
  }
  ls_mutex_unlock(&queue->lock);
  call_waiters(ready);
  return closed ? closed_status(queue) : ls_ok();
}

ls_status ls_queue_try_pop(ls_queue *queue, uint64_t generation,
                           ls_nest *out_item, bool *out_popped) {
  *out_item = ls_none();
  ls_mutex_lock(&queue->lock);
  const bool is_of = queue->generation == generation;
  const bool ended = is_of && queue->closed && queue->count == 0;
  ls_queue_waiter *ready = NULL;
  *out_popped = is_of && queue->count > 0;
  if (*out_popped) ready = queue_take(queue, out_item);
  ls_mutex_unlock(&queue->lock);
  call_waiters(ready);
  return ended ? end_status(queue) : ls_ok();
}

bool ls_queue_put_back(ls_queue *queue, uint64_t generation, ls_nest item) {
  ls_mutex_lock(&queue->lock);
  const bool fits =
      queue->generation == generation && queue->count < queue->num_slots;
  ls_queue_waiter *ready = NULL;
  if (fits) {
    queue->head = (queue->head + queue->num_slots - 1) % queue->num_slots;
    queue->slots[queue->head] = item;
    ++queue->count;
    ready = take_waiters(queue, LS_QUEUE_POP);
  }
  ls_mutex_unlock(&queue->lock);
  call_waiters(ready);
  return fits;
}

void ls_queue_close(ls_queue *queue) {
  ls_mutex_lock(&queue->lock);
  queue->closed = true;
  ls_queue_waiter *readers = take_waiters(queue, LS_QUEUE_POP);
  ls_queue_waiter *writers = take_waiters(queue, LS_QUEUE_PUSH);
  ls_mutex_unlock(&queue->lock);
  call_waiters(readers);
  call_waiters(writers);
}

// Keeps items that waiting writers push during the reset.
void ls_queue_reset(ls_queue *queue, uint64_t generation) {
  ls_mutex_lock(&queue->lock);
  queue->closed = false;
  queue->generation = generation;
  const size_t count = queue->count;
  ls_mutex_unlock(&queue->lock);
  for (size_t i = 0; i < count; ++i) {
    ls_nest item = ls_none();
    bool popped = false;
    ls_status_free(ls_queue_try_pop(queue, generation, &item, &popped));
    ls_nest_release(item);
  }
}

bool ls_queue_is_closed(ls_queue *queue) {
  return LS_LOCKED(&queue->lock, queue->closed);
}

size_t ls_queue_count(ls_queue *queue) {
  return LS_LOCKED(&queue->lock, queue->count);
}

const char *ls_queue_name(const ls_queue *queue) { return queue->name; }
