// SPDX-License-Identifier: Apache-2.0
// Prefetch within a pipeline of streams: an input thread reads elements ahead.
// A prefetch at the end of a pipeline is done by the iterator.
#include "data/ahead.h"
#include "data/streams.h"
#include "data/streams/anchors.h"

enum { ANCHOR_DISTANCE = 64 };

typedef struct prefetch_stage {
  ls_stage stage;
  ls_anchors anchors;  // The maker's; others read them only while it pauses.
  ls_ahead *ahead;     // NULL: elements are passed through.
  int64_t capacity;
  int64_t *ids;   // Ids of elements in the queue, by number.
  int64_t begun;  // Makes that failed before reading an element.
  int64_t given;  // Elements that the maker has given.
  int64_t id;
} prefetch_stage;

// Reads one element; called by any thread, one at a time.
static ls_status prefetched_make(void *user, int64_t number, ls_nest *element) {
  prefetch_stage *self = user;
  ls_anchors *anchors = &self->anchors;
  ls_anchors_drop(anchors, __atomic_load_n(&self->given, __ATOMIC_RELAXED) -
                               self->begun);
  const ls_status kept = ls_anchors_keep(anchors);
  if (!ls_status_is_ok(kept)) {
    ++self->begun;
    return kept;
  }
  const ls_status status = ls_anchors_read(anchors, element);
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
static void drain_ahead(prefetch_stage *self) {
  if (self->ahead == NULL) return;
  ls_ahead_seek(self->ahead, 0, -1);
  self->begun = self->given = 0;
  ls_anchors_reset(&self->anchors);
}

static ls_status prefetched_restart(ls_stage *stage, int64_t epoch) {
  drain_ahead((prefetch_stage *)stage);
  return ls_stage_restart(stage->inputs[0], epoch);
}

static ls_status prefetched_save(ls_stage *stage, ls_record *record) {
  prefetch_stage *self = (prefetch_stage *)stage;
  if (self->ahead == NULL)
    return ls_anchors_save(&self->anchors, 0, record);  // Passes through.
  ls_ahead_pause(self->ahead);
  const int64_t at = ls_ahead_number(self->ahead) - self->begun;
  return ls_anchors_save(&self->anchors, at > 0 ? at : 0, record);
}

static ls_status prefetched_restore(ls_stage *stage, const ls_record *record) {
  prefetch_stage *self = (prefetch_stage *)stage;
  drain_ahead(self);
  return ls_anchors_restore(&self->anchors, record);
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
  self->ids =
      ls_new_array(work->allocator, int64_t, (size_t)self->capacity + 2);
  if (self->ids == NULL) return ls_out_of_memory();
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
                                          .restart = prefetched_restart,
                                          .save = prefetched_save,
                                          .restore = prefetched_restore,
                                          .id_field =
                                              offsetof(prefetch_stage, id),
                                          .close = prefetched_close};
