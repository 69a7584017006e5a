// SPDX-License-Identifier: Apache-2.0
// Map and batch of streams.
//
// The caller reads elements in order; input threads map them, several at a
// time; results are given in order. A caller that needs a result which no
// thread has begun computes it, so that it never waits for a thread that is not
// there.
#include "base/runtime_internal.h"
#include "data/streams.h"
#include "data/work.h"

enum { MOST_SLOTS = 64, ANCHOR_DISTANCE = 64 };

typedef struct map_slot {
  ls_input_task task;
  struct map_stage *owner;
  bool queued;  // Accessed by the stage's thread only.
  bool done;
  ls_nest input, result;
  ls_map_call call;
  ls_status status;
  int64_t bytes;  // Counted bytes of the result.
} map_slot;

typedef struct map_stage {
  ls_stage stage;
  ls_anchors anchors;
  int64_t capacity;  // 0: no threads.
  map_slot *slots;   // At least one slot.
  int64_t next;      // Number of the next result, as anchors count.
  int64_t id;
  int64_t last_bytes;
  ls_mutex lock;  // Guards `done`.
  ls_condition made;
} map_stage;

static const ls_map_dataset *map_of(const map_stage *self) {
  return (const ls_map_dataset *)self->stage.dataset;
}

static map_slot *slot_of(map_stage *self, int64_t number) {
  return &self->slots[self->capacity == 0 ? 0 : number % self->capacity];
}

// ---- Results ---------------------------------------------------------------
static void make_result(map_slot *slot) {
  ls_making making;
  ls_making_enter(&making, slot->owner->stage.work);
  const ls_status status = ls_map_apply(map_of(slot->owner), slot->input,
                                        &slot->call, &slot->result);
  slot->status = ls_making_leave(&making, ls_stage_no_end(status));
}

static void run_slot(ls_input_task *task) {
  map_slot *slot = (map_slot *)(void *)task;
  map_stage *self = slot->owner;
  make_result(slot);
  ls_runtime_note_input(self->stage.work->runtime);
  ls_mutex_lock(&self->lock);
  slot->done = true;
  ls_condition_broadcast(&self->made);
  ls_mutex_unlock(&self->lock);
}

// Reads the input's next element into its slot.
static ls_status read_slot(map_stage *self, map_slot *slot) {
  ls_stage *input = self->stage.inputs[0];
  slot->status = self->capacity > 0
                     ? ls_anchors_next(&self->anchors, &slot->input)
                     : ls_anchors_read(&self->anchors, &slot->input);
  if (self->anchors.ended) {
    const ls_status status = slot->status;
    slot->status = ls_ok();
    return status;
  }
  slot->call =
      ls_map_call_make(self->stage.work->seed, map_of(self)->options.stream,
                       self->stage.epoch, ls_stage_id(input));
  return ls_ok();
}

// Returns true if one more element may be read ahead; the next one to be given
// always may.
static bool may_read(const map_stage *self) {
  const int64_t ahead = self->anchors.read - self->next;
  if (self->anchors.ended || ahead >= self->capacity) return false;
  if (ahead == 0) return true;
  const ls_runtime *runtime = self->stage.work->runtime;
  const int64_t held =
      __atomic_load_n(&runtime->input_buffered, __ATOMIC_RELAXED);
  return held + self->last_bytes <= runtime->input_bytes;
}

// Reads ahead and queues tasks. Reports a failure for the next element to be
// given only; others will recur when their turn comes.
static ls_status top_up(map_stage *self) {
  while (may_read(self)) {
    const int64_t number = self->anchors.read;
    map_slot *slot = slot_of(self, number);
    const ls_status status = read_slot(self, slot);
    if (!ls_status_is_ok(status) && number == self->next) return status;
    ls_status_free(status);
    if (!ls_status_is_ok(status)) break;
    slot->done = !ls_status_is_ok(slot->status);
    slot->queued = !slot->done;
    slot->bytes = self->last_bytes;
    ls_work_buffer(self->stage.work, self->stage.dataset, 1, slot->bytes);
    if (slot->queued)
      ls_input_threads_submit(self->stage.work->threads, &slot->task);
  }
  if (self->next < self->anchors.read) return ls_ok();
  return ls_out_of_range("the end of the map's input");
}

static void wait_for_slot(map_stage *self, const map_slot *slot) {
  ls_mutex_lock(&self->lock);
  while (!slot->done)
    ls_condition_wait(&self->made, &self->lock);
  ls_mutex_unlock(&self->lock);
}

// Takes a slot's task back from the threads, if none has begun it.
static bool withdraw_slot(const map_stage *self, map_slot *slot) {
  return ls_input_threads_withdraw(self->stage.work->threads, &slot->task);
}

static void end_slot(map_stage *self, map_slot *slot) {
  slot->queued = false;
  ls_work_buffer(self->stage.work, self->stage.dataset, -1, -slot->bytes);
}

// Waits for a slot's result, or computes it here. A refused wait leaves the
// slot unchanged.
static ls_status finish_slot(map_stage *self, map_slot *slot) {
  if (slot->queued && withdraw_slot(self, slot)) {
    make_result(slot);
  } else if (slot->queued) {
    LS_RETURN_IF_ERROR(ls_making_begin_wait(self->stage.work));
    wait_for_slot(self, slot);
    ls_making_end_wait(self->stage.work);
  }
  end_slot(self, slot);
  return ls_ok();
}

static void drop_slot(map_stage *self, map_slot *slot) {
  if (slot->queued && !withdraw_slot(self, slot)) wait_for_slot(self, slot);
  end_slot(self, slot);
  ls_status_free(slot->status);
  slot->status = ls_ok();
}

static ls_status give_result(map_stage *self, map_slot *slot,
                             ls_nest *element) {
  const ls_status status = slot->status;
  slot->status = ls_ok();
  self->id = slot->call.id;
  if (!ls_status_is_ok(status)) return status;
  const ls_nest old = *element;
  *element = slot->result;
  slot->result = old;  // Reuses its memory.
  self->last_bytes = ls_element_bytes(*element);
  return ls_ok();
}

static ls_status next_mapped(ls_stage *stage, ls_nest *element) {
  map_stage *self = (map_stage *)stage;
  if (self->capacity == 0) {
    map_slot *slot = slot_of(self, 0);
    LS_RETURN_IF_ERROR(read_slot(self, slot));
    self->next = self->anchors.read;
    if (ls_status_is_ok(slot->status)) make_result(slot);
    return give_result(self, slot, element);
  }
  LS_RETURN_IF_ERROR(top_up(self));
  map_slot *slot = slot_of(self, self->next);
  LS_RETURN_IF_ERROR(finish_slot(self, slot));
  ++self->next;
  ls_anchors_drop(&self->anchors, self->next);
  return give_result(self, slot, element);
}

// ---- State -----------------------------------------------------------------
// Drops results and elements read ahead.
static void drain_slots(ls_stage *stage) {
  map_stage *self = (map_stage *)stage;
  for (; self->next < self->anchors.read && self->capacity > 0; ++self->next) {
    drop_slot(self, slot_of(self, self->next));
  }
  ls_anchors_reset(&self->anchors);
  self->next = 0;
}

static ls_status save_mapped(ls_stage *stage, ls_record *record) {
  map_stage *self = (map_stage *)stage;
  return ls_anchors_save(&self->anchors, self->next, record);
}

static ls_status restore_mapped(ls_stage *stage, const ls_record *record) {
  return ls_anchors_restore(&((map_stage *)stage)->anchors, record);
}

// Skips elements without mapping them.
static ls_status skip_mapped(ls_stage *stage, int64_t count) {
  map_stage *self = (map_stage *)stage;
  for (; count > 0 && self->next < self->anchors.read && self->capacity > 0;
       --count) {
    map_slot *slot = slot_of(self, self->next++);
    self->id = slot->call.id;
    drop_slot(self, slot);
  }
  if (count == 0) return ls_ok();
  drain_slots(stage);
  return ls_stage_skip(stage->inputs[0], count);
}

static void close_mapped(ls_stage *stage) {
  map_stage *self = (map_stage *)stage;
  if (self->slots == NULL) return;
  drain_slots(stage);
  for (int64_t i = 0; i == 0 || i < self->capacity; ++i) {
    ls_nest_release(self->slots[i].input);
    ls_nest_release(self->slots[i].result);
  }
  ls_anchors_deinit(&self->anchors);
  ls_condition_deinit(&self->made);
  ls_mutex_deinit(&self->lock);
  ls_release(stage->work->allocator, self->slots);
}

static ls_status open_mapped(ls_stage *stage) {
  map_stage *self = (map_stage *)stage;
  ls_work *work = self->stage.work;
  const int64_t threads =
      work->threads == NULL ? 0 : ls_input_threads_count(work->threads);
  self->capacity = threads * 2 < MOST_SLOTS ? threads * 2 : MOST_SLOTS;
  ls_anchors_init(&self->anchors, self->stage.inputs[0], ANCHOR_DISTANCE);
  LS_SET_ARRAY_OR_RETURN(work->allocator, map_slot, self->slots,
                         (size_t)self->capacity + (self->capacity == 0));
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  LS_RETURN_IF_ERROR(ls_condition_init(&self->made));
  for (int64_t i = 0; i == 0 || i < self->capacity; ++i) {
    self->slots[i].task.run = run_slot;
    self->slots[i].owner = self;
  }
  return ls_ok();
}

const ls_stage_class ls_map_stage = {.size = sizeof(map_stage),
                                     .open = open_mapped,
                                     .next = next_mapped,
                                     .forget = drain_slots,
                                     .save = save_mapped,
                                     .restore = restore_mapped,
                                     .skip = skip_mapped,
                                     .id_field = offsetof(map_stage, id),
                                     .close = close_mapped};

// ---- Batches ---------------------------------------------------------------
typedef struct batch_stage {
  ls_stage stage;
  int64_t given;      // Batches given.
  ls_nest *elements;  // Elements of a batch, reused for the next.
  int64_t *ids;
  size_t capacity, ids_capacity;
} batch_stage;

static const ls_batch_dataset *batch_of(const ls_stage *stage) {
  return (const ls_batch_dataset *)stage->dataset;
}

// Reads the elements of a batch. An element that fails makes its batch fail and
// still takes its position, as in a batch of an indexed data set.
static ls_status read_elements(batch_stage *self, size_t *out_count,
                               size_t *out_failed) {
  ls_stage *stage = &self->stage;
  const size_t size = (size_t)batch_of(stage)->options.size;
  ls_allocator *allocator = stage->work->allocator;
  ls_status first = ls_ok();
  LS_OWN(ls_nest, spare) = ls_none();  // For an element without room.
  *out_count = *out_failed = 0;
  while (*out_count + *out_failed < size) {
    const size_t at = *out_count;
    const bool has_room =
        LS_GROW(allocator, self->elements, self->capacity, at + 1) &&
        LS_GROW(allocator, self->ids, self->ids_capacity, at + 1);
    ls_status status = ls_stage_next(stage->inputs[0],
                                     has_room ? &self->elements[at] : &spare);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) {
      ls_status_free(status);
      break;
    }
    if (ls_status_is_ok(status) && !has_room) status = ls_out_of_memory();
    if (ls_status_is_ok(status)) {
      self->ids[at] = ls_stage_id(stage->inputs[0]);
      ++*out_count;
    } else {
      first = ls_status_join(first, status);
      ++*out_failed;
    }
  }
  return first;
}

static ls_status stacked_next(ls_stage *stage, ls_nest *element) {
  batch_stage *self = (batch_stage *)stage;
  const ls_batch_dataset *batch = batch_of(stage);
  size_t count = 0, failed = 0;
  const ls_status status = read_elements(self, &count, &failed);
  const bool full = (int64_t)(count + failed) == batch->options.size;
  const bool drops = batch->options.remainder == LS_REMAINDER_DROP;
  if (count + failed == 0 || (!full && drops)) {
    ls_status_free(status);
    return ls_out_of_range("no elements are left for a batch");
  }
  ++self->given;
  if (!ls_status_is_ok(status)) return status;
  return ls_batch_stack(batch, self->elements, count, self->ids, element);
}

static ls_status stacked_skip(ls_stage *stage, int64_t count) {
  int64_t elements = 0;
  if (__builtin_mul_overflow(count, batch_of(stage)->options.size, &elements))
    elements = INT64_MAX;
  ((batch_stage *)stage)->given += count;
  return ls_stage_skip(stage->inputs[0], elements);
}

static void stacked_close(ls_stage *stage) {
  batch_stage *self = (batch_stage *)stage;
  for (size_t i = 0; i < self->capacity; ++i)
    ls_nest_release(self->elements[i]);
  ls_release(stage->work->allocator, self->elements);
  ls_release(stage->work->allocator, self->ids);
}

const ls_stage_class ls_batch_stage = {
    .size = sizeof(batch_stage),
    .counters = {LS_STAGE_COUNTER(batch_stage, given)},
    .next = stacked_next,
    .skip = stacked_skip,
    .id_after = offsetof(batch_stage, given),
    .close = stacked_close};
