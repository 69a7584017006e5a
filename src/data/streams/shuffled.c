// SPDX-License-Identifier: Apache-2.0
// Shuffle of streams, by blocks as large as the buffer: a block is given in the
// order of a permutation chosen by the block's number, as for an indexed data
// set.
//
// Each given element frees its slot for an element of the next block. A saved
// position has the input's state at the start of the block and how many of it
// were given: a restore reads the block again, and the next block catches up
// gradually.
#include "data/ahead.h"
#include "data/own.h"
#include "data/streams.h"

typedef struct shuffle_slot {
  ls_nest element;
  ls_status status;  // Result of reading the element.
  int64_t id;
  int64_t bytes;  // Counted bytes.
  bool full;
} shuffle_slot;

// The elements of a block, in the order in which they were read.
typedef struct arrivals {
  ls_record *start;  // The input's state before the first element; or NULL.
  int64_t *slots;    // The slot of each element.
  int64_t count;
  size_t capacity;
} arrivals;

typedef struct shuffle_stage {
  ls_stage stage;
  shuffle_slot *slots;  // One slot per element of the buffer, made as needed.
  size_t num_slots;
  arrivals now, then;   // Blocks: the one being given, and the next.
  ls_permutation order;
  int64_t block, dealt;
  bool filled;  // False: must read the block, then drop `dealt` elements.
  bool ended;   // The input has ended.
  int64_t id;
} shuffle_stage;

static const ls_shuffle_dataset *shuffle_of(const shuffle_stage *self) {
  return (const ls_shuffle_dataset *)self->stage.dataset;
}

static int64_t capacity_of(const shuffle_stage *self) {
  return shuffle_of(self)->options.buffer;
}

// ---- Slots -----------------------------------------------------------------
static void count_bytes(shuffle_stage *self, shuffle_slot *slot, bool full) {
  if (slot->full == full) return;
  slot->bytes = full ? ls_element_bytes(slot->element) : slot->bytes;
  ls_work_hold(self->stage.work, self->stage.dataset, full ? 1 : -1,
               full ? slot->bytes : -slot->bytes);
  slot->full = full;
}

static ls_status save_start(ls_stage *input, ls_record **start) {
  LS_OWN(ls_record, record) = NULL;
  LS_RETURN_IF_ERROR(ls_record_create(&record));
  LS_RETURN_IF_ERROR(ls_stage_save(input, record));
  ls_record_destroy(*start);
  return ls_hand_over(&record, start);
}

// Reads the input's next element into a free slot. Fails only before the read.
static ls_status read_into(shuffle_stage *self, arrivals *to, int64_t number) {
  ls_stage *input = self->stage.inputs[0];
  ls_allocator *allocator = self->stage.work->allocator;
  if (!LS_GROW(allocator, self->slots, self->num_slots, (size_t)number + 1) ||
      !LS_GROW(allocator, to->slots, to->capacity, (size_t)to->count + 1))
    return ls_out_of_memory();
  shuffle_slot *slot = &self->slots[number];
  if (to->count == 0) LS_RETURN_IF_ERROR(save_start(input, &to->start));
  const ls_status status = ls_stage_next(input, &slot->element);
  if (ls_status_code(status) == LS_OUT_OF_RANGE) {
    ls_status_free(status);
    self->ended = true;
    return ls_ok();
  }
  slot->status = status;
  slot->id = ls_stage_id(input);
  to->slots[to->count++] = number;
  count_bytes(self, slot, true);
  return ls_ok();
}

// Reads up to `count` elements of the next block into freed slots.
static ls_status read_behind(shuffle_stage *self, int64_t count) {
  for (; count > 0 && !self->ended && self->then.count < self->dealt; --count) {
    const uint64_t from =
        ls_permutation_at(&self->order, (uint64_t)self->then.count);
    LS_RETURN_IF_ERROR(read_into(self, &self->then, self->now.slots[from]));
  }
  return ls_ok();
}

static void set_order(shuffle_stage *self) {
  self->order =
      ls_shuffle_order(shuffle_of(self), self->stage.work->seed,
                       self->stage.epoch, self->block, self->now.count);
}

// Reads the current block, and drops the elements already given.
static ls_status fill_block(shuffle_stage *self) {
  while (self->now.count < capacity_of(self) && !self->ended)
    LS_RETURN_IF_ERROR(read_into(self, &self->now, self->now.count));
  self->filled = true;
  // The source may be shorter now than when the position was saved.
  if (self->dealt > self->now.count) self->dealt = self->now.count;
  if (self->now.count == 0) return ls_ok();
  set_order(self);
  for (int64_t k = 0; k < self->dealt; ++k) {
    const uint64_t from = ls_permutation_at(&self->order, (uint64_t)k);
    shuffle_slot *slot = &self->slots[self->now.slots[from]];
    ls_status_free(slot->status);
    slot->status = ls_ok();
    count_bytes(self, slot, false);
  }
  return ls_ok();
}

// Moves on to the next block once this one is used up.
static ls_status shuffled_go_on(shuffle_stage *self) {
  LS_RETURN_IF_ERROR(read_behind(self, capacity_of(self)));
  const arrivals last = self->now;
  self->now = self->then;
  self->then = last;
  self->then.count = 0;
  self->dealt = 0;
  ++self->block;
  if (self->now.count > 0) set_order(self);
  return ls_ok();
}

// ---- Giving elements -------------------------------------------------------
static ls_status shuffled_next(ls_stage *stage, ls_nest *element) {
  shuffle_stage *self = (shuffle_stage *)stage;
  if (!self->filled) LS_RETURN_IF_ERROR(fill_block(self));
  if (self->dealt == self->now.count && !(self->ended && self->then.count == 0))
    LS_RETURN_IF_ERROR(shuffled_go_on(self));
  if (self->dealt == self->now.count)
    return ls_out_of_range("the end of a shuffle's input");
  const uint64_t from = ls_permutation_at(&self->order, (uint64_t)self->dealt);
  shuffle_slot *slot = &self->slots[self->now.slots[from]];
  const ls_status status = slot->status;
  slot->status = ls_ok();
  self->id = slot->id;
  count_bytes(self, slot, false);
  if (ls_status_is_ok(status)) {
    const ls_nest old = *element;
    *element = slot->element;
    slot->element = old;  // Reuses its memory.
  }
  ++self->dealt;
  // Reads one element, and one more to catch up; failures are retried later.
  ls_status_free(read_behind(self, 2));
  return status;
}

// ---- State -----------------------------------------------------------------
static void shuffled_forget(ls_stage *stage) {
  shuffle_stage *self = (shuffle_stage *)stage;
  for (size_t i = 0; i < self->num_slots; ++i) {
    ls_status_free(self->slots[i].status);
    self->slots[i].status = ls_ok();
    count_bytes(self, &self->slots[i], false);
  }
  self->now.count = self->then.count = 0;
  self->block = self->dealt = 0;
  self->filled = self->ended = false;
}

// A position at a block's end is saved as the start of the next block.
static ls_status shuffled_save(ls_stage *stage, ls_record *record) {
  shuffle_stage *self = (shuffle_stage *)stage;
  const bool behind =
      self->filled && self->dealt == self->now.count && self->then.count > 0;
  const arrivals *from = behind ? &self->then : &self->now;
  ls_record *inner = NULL;
  LS_RETURN_IF_ERROR(
      ls_record_set_i64(record, "block", self->block + (behind ? 1 : 0)));
  LS_RETURN_IF_ERROR(
      ls_record_set_i64(record, "dealt", behind ? 0 : self->dealt));
  if (from->count == 0) return ls_stage_save_input(stage, 0, record);
  LS_RETURN_IF_ERROR(ls_record_add(record, "input0", &inner));
  return ls_record_copy(inner, from->start);
}

static ls_status shuffled_restore(ls_stage *stage, const ls_record *record) {
  shuffle_stage *self = (shuffle_stage *)stage;
  LS_RETURN_IF_ERROR(ls_stage_get_count(record, "block", &self->block));
  LS_RETURN_IF_ERROR(ls_stage_get_count(record, "dealt", &self->dealt));
  return ls_stage_restore_input(stage, 0, record);
}

static void shuffled_close(ls_stage *stage) {
  shuffle_stage *self = (shuffle_stage *)stage;
  ls_allocator *allocator = stage->work->allocator;
  for (size_t i = 0; i < self->num_slots; ++i) {
    count_bytes(self, &self->slots[i], false);
    ls_status_free(self->slots[i].status);
    ls_nest_release(self->slots[i].element);
  }
  ls_release(allocator, self->slots);
  ls_release(allocator, self->now.slots);
  ls_release(allocator, self->then.slots);
  ls_record_destroy(self->now.start);
  ls_record_destroy(self->then.start);
}

const ls_stage_class ls_shuffle_stage = {.size = sizeof(shuffle_stage),
                                         .next = shuffled_next,
                                         .forget = shuffled_forget,
                                         .save = shuffled_save,
                                         .restore = shuffled_restore,
                                         .id_field =
                                             offsetof(shuffle_stage, id),
                                         .close = shuffled_close};

// ---- Prefetch --------------------------------------------------------------
enum { ANCHOR_DISTANCE = 64 };

typedef struct prefetch_stage {
  ls_stage stage;
  ls_anchors anchors;  // The maker's; others read them only while it pauses.
  ls_ahead *ahead;     // NULL: elements are passed through.
  int64_t capacity;
  int64_t *ids;   // Ids of elements in the queue, by number.
  int64_t given;  // Elements that the maker has given.
  int64_t id;
} prefetch_stage;

// Reads one element; called by any thread, one at a time.
static ls_status prefetched_make(void *user, int64_t number, ls_nest *element) {
  prefetch_stage *self = user;
  ls_anchors *anchors = &self->anchors;
  ls_anchors_drop(anchors, __atomic_load_n(&self->given, __ATOMIC_RELAXED));
  const ls_status status = ls_anchors_next(anchors, element);
  self->ids[number % (self->capacity + 2)] = ls_stage_id(self->stage.inputs[0]);
  return status;
}

static ls_status prefetched_next(ls_stage *stage, ls_nest *element) {
  prefetch_stage *self = (prefetch_stage *)stage;
  if (self->ahead == NULL) {
    const ls_status status = ls_stage_next(stage->inputs[0], element);
    self->id = ls_stage_id(stage->inputs[0]);
    return status;
  }
  const int64_t number = ls_ahead_number(self->ahead);
  const ls_status status = ls_ahead_next(self->ahead, element);
  if (ls_ahead_number(self->ahead) > number)
    self->id = self->ids[number % (self->capacity + 2)];
  __atomic_store_n(&self->given, ls_ahead_number(self->ahead),
                   __ATOMIC_RELAXED);
  return status;
}

// Drops elements read ahead, before the input's position changes.
static void drain_ahead(ls_stage *stage) {
  prefetch_stage *self = (prefetch_stage *)stage;
  if (self->ahead == NULL) return;
  ls_ahead_seek(self->ahead, 0, -1);
  self->given = 0;
  ls_anchors_reset(&self->anchors);
}

static ls_status prefetched_save(ls_stage *stage, ls_record *record) {
  prefetch_stage *self = (prefetch_stage *)stage;
  if (self->ahead == NULL)
    return ls_anchors_save(&self->anchors, 0, record);  // Passes through.
  ls_ahead_pause(self->ahead);
  return ls_anchors_save(&self->anchors, ls_ahead_number(self->ahead), record);
}

static ls_status prefetched_restore(ls_stage *stage, const ls_record *record) {
  return ls_anchors_restore(&((prefetch_stage *)stage)->anchors, record);
}

static void prefetched_close(ls_stage *stage) {
  prefetch_stage *self = (prefetch_stage *)stage;
  ls_ahead_destroy(self->ahead);
  ls_anchors_deinit(&self->anchors);
  ls_release(stage->work->allocator, self->ids);
}

static ls_status prefetched_open(ls_stage *stage) {
  prefetch_stage *self = (prefetch_stage *)stage;
  ls_work *work = stage->work;
  ls_anchors_init(&self->anchors, stage->inputs[0], ANCHOR_DISTANCE);
  const bool is_last = work->stages[work->num_stages - 1] == stage->dataset;
  self->capacity = stage->dataset->prefetch;
  if (is_last || work->threads == NULL || self->capacity == 0) return ls_ok();
  stage->inputs[0]->outer = NULL;  // Another thread spends its time.
  LS_SET_ARRAY_OR_RETURN(work->allocator, int64_t, self->ids,
                         (size_t)self->capacity + 2);
  LS_RETURN_IF_ERROR(
      ls_ahead_create(&(ls_ahead_options){.make = prefetched_make,
                                          .user = self,
                                          .capacity = self->capacity,
                                          .work = work,
                                          .dataset = stage->dataset},
                      &self->ahead));
  ls_ahead_seek(self->ahead, 0, -1);
  return ls_ok();
}

const ls_stage_class ls_prefetch_stage = {.size = sizeof(prefetch_stage),
                                          .open = prefetched_open,
                                          .next = prefetched_next,
                                          .forget = drain_ahead,
                                          .save = prefetched_save,
                                          .restore = prefetched_restore,
                                          .id_field =
                                              offsetof(prefetch_stage, id),
                                          .close = prefetched_close};
