// SPDX-License-Identifier: Apache-2.0
#include "data/streams.h"

#include <stdio.h>

#include "base/status_cause.h"
#include "base/values/numbers.h"
#include "data/own.h"

void ls_anchors_init(ls_anchors *anchors, ls_stage *input, int64_t every) {
  *anchors = (ls_anchors){
      .allocator = input->work->allocator, .input = input, .every = every};
}

void ls_anchors_deinit(ls_anchors *anchors) {
  ls_anchors_reset(anchors);
  ls_release(anchors->allocator, anchors->items);
  anchors->items = NULL;
  anchors->capacity = 0;
}

void ls_anchors_reset(ls_anchors *anchors) {
  for (size_t i = 0; i < anchors->count; ++i)
    ls_record_destroy(anchors->items[i].record);
  anchors->count = 0;
  anchors->read = 0;
  anchors->ended = false;
}

static ls_status add_place(ls_anchors *anchors) {
  LS_OWN(ls_record, record) = NULL;
  LS_RETURN_IF_NO_MEMORY(LS_GROW(anchors->allocator, anchors->items,
                                 anchors->capacity, anchors->count + 1));
  LS_RETURN_IF_ERROR(ls_record_create(&record));
  LS_RETURN_IF_ERROR(ls_stage_save(anchors->input, record));
  anchors->items[anchors->count++] =
      (ls_anchor_place){.at = anchors->read, .record = ls_give(&record)};
  return ls_ok();
}

ls_status ls_anchors_keep(ls_anchors *anchors) {
  const size_t count = anchors->count;
  if (count == 0) return add_place(anchors);
  if (anchors->read - anchors->items[count - 1].at >= anchors->every)
    ls_status_free(add_place(anchors));  // The previous one suffices.
  return ls_ok();
}

ls_status ls_anchors_read(ls_anchors *anchors, ls_nest *element) {
  const ls_status status = ls_stage_next(anchors->input, element);
  if (ls_status_code(status) == LS_OUT_OF_RANGE)
    anchors->ended = true;
  else
    ++anchors->read;
  return status;
}

ls_status ls_anchors_next(ls_anchors *anchors, ls_nest *element) {
  const ls_status kept = ls_anchors_keep(anchors);
  const ls_status status = ls_anchors_read(anchors, element);
  if (!anchors->ended) return ls_status_join(kept, status);
  ls_status_free(kept);
  return status;
}

// Returns the index of the last anchor at or before `at`, or anchors->count.
static size_t anchors_find(const ls_anchors *anchors, int64_t at) {
  if (anchors->count == 0) return 0;
  const size_t before = ls_count_up_to(
      &anchors->items->at, sizeof(*anchors->items), anchors->count, at);
  return before > 0 ? before - 1 : anchors->count;
}

static void remove_at(ls_anchors *anchors, size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i)
    ls_record_destroy(anchors->items[i].record);
  anchors->count -= count;
  memmove(anchors->items + first, anchors->items + first + count,
          (anchors->count - first) * sizeof(*anchors->items));
}

void ls_anchors_drop(ls_anchors *anchors, int64_t at) {
  const size_t needed = anchors_find(anchors, at);
  if (needed > 0 && needed < anchors->count) remove_at(anchors, 0, needed);
}

void ls_anchors_use(ls_anchors *anchors, int64_t at, int64_t uses) {
  const size_t i = anchors_find(anchors, at);
  LS_ASSERT(i < anchors->count);
  anchors->items[i].uses += uses;
}

void ls_anchors_sweep(ls_anchors *anchors) {
  size_t kept = 0;
  for (size_t i = 0; i < anchors->count; ++i) {
    // Keeps the last anchor for the elements that are read next.
    if (anchors->items[i].uses > 0 || i + 1 == anchors->count)
      anchors->items[kept++] = anchors->items[i];
    else
      ls_record_destroy(anchors->items[i].record);
  }
  anchors->count = kept;
}

ls_status ls_anchors_save(ls_anchors *anchors, int64_t at, ls_record *record) {
  const size_t i = anchors_find(anchors, at);
  ls_record *inner = NULL;
  if (i == anchors->count && at < anchors->read) return ls_out_of_memory();
  if (i == anchors->count) {  // No element has been read yet.
    LS_RETURN_IF_ERROR(ls_record_add(record, "input0", &inner));
    LS_RETURN_IF_ERROR(ls_stage_save(anchors->input, inner));
    return ls_record_set_i64(record, "again", 0);
  }
  LS_RETURN_IF_ERROR(ls_record_add(record, "input0", &inner));
  LS_RETURN_IF_ERROR(ls_record_copy(inner, anchors->items[i].record));
  return ls_record_set_i64(record, "again", at - anchors->items[i].at);
}

ls_status ls_anchors_restore(ls_anchors *anchors, const ls_record *record) {
  const ls_record *inner = NULL;
  int64_t again = 0;
  ls_anchors_reset(anchors);
  LS_RETURN_IF_ERROR(ls_record_find(record, "input0", &inner));
  LS_RETURN_IF_ERROR(ls_stage_get_count(record, "again", &again));
  LS_RETURN_IF_ERROR(ls_stage_restore(anchors->input, inner));
  return ls_stage_skip(anchors->input, again);
}

// ---- Saving all anchors ----------------------------------------------------
static ls_status save_place(const ls_anchor_place *place, size_t number,
                            ls_record *places) {
  char name[32];
  ls_record *inner = NULL, *state = NULL;
  snprintf(name, sizeof(name), "%zu", number);
  LS_RETURN_IF_ERROR(ls_record_add(places, name, &inner));
  LS_RETURN_IF_ERROR(ls_record_set_i64(inner, "at", place->at));
  LS_RETURN_IF_ERROR(ls_record_add(inner, "state", &state));
  return ls_record_copy(state, place->record);
}

ls_status ls_anchors_save_all(ls_anchors *anchors, ls_record *record) {
  ls_record *places = NULL;
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "read", anchors->read));
  LS_RETURN_IF_ERROR(ls_record_add(record, "places", &places));
  for (size_t i = 0; i < anchors->count; ++i)
    LS_RETURN_IF_ERROR(save_place(&anchors->items[i], i, places));
  if (anchors->count > 0) return ls_ok();
  LS_RETURN_IF_ERROR(ls_record_add(record, "input0", &places));
  return ls_stage_save(anchors->input, places);
}

// Restores one anchor; sets `*out_found` to false if the record has none.
static ls_status restore_place(ls_anchors *anchors, const ls_record *places,
                               bool *out_found) {
  char name[32];
  const ls_record *inner = NULL, *state = NULL;
  LS_OWN(ls_record, copy) = NULL;
  int64_t at = 0;
  snprintf(name, sizeof(name), "%zu", anchors->count);
  ls_status status = ls_record_find(places, name, &inner);
  *out_found = ls_status_is_ok(status);
  LS_RETURN_OK_IF(LS_NOT_FOUND, status);
  LS_RETURN_IF_ERROR(ls_stage_get_count(inner, "at", &at));
  if (anchors->count > 0 && at <= anchors->items[anchors->count - 1].at)
    return ls_invalid_argument(
        "the position's entry at %lld is not after %lld", (long long)at,
        (long long)anchors->items[anchors->count - 1].at);
  LS_RETURN_IF_ERROR(ls_record_find(inner, "state", &state));
  LS_RETURN_IF_NO_MEMORY(LS_GROW(anchors->allocator, anchors->items,
                                 anchors->capacity, anchors->count + 1));
  LS_RETURN_IF_ERROR(ls_record_create(&copy));
  LS_RETURN_IF_ERROR(ls_record_copy(copy, state));
  anchors->items[anchors->count++] =
      (ls_anchor_place){.at = at, .record = ls_give(&copy)};
  return ls_ok();
}

ls_status ls_anchors_begin_all(ls_anchors *anchors, const ls_record *record) {
  const ls_record *places = NULL;
  bool found = true;
  ls_anchors_reset(anchors);
  LS_RETURN_IF_ERROR(ls_record_find(record, "places", &places));
  while (found)
    LS_RETURN_IF_ERROR(restore_place(anchors, places, &found));
  anchors->read = -1;  // The input has no position yet.
  return ls_ok();
}

ls_status ls_anchors_go_to(ls_anchors *anchors, int64_t at) {
  const size_t i = anchors_find(anchors, at);
  if (i == anchors->count)
    return ls_invalid_argument("the position has no entry before element %lld",
                               (long long)at);
  const ls_anchor_place *place = &anchors->items[i];
  if (anchors->read < place->at) {
    LS_RETURN_IF_ERROR(ls_stage_restore(anchors->input, place->record));
    anchors->read = place->at;
  }
  const int64_t left = at - anchors->read;
  if (left < 0)
    return ls_invalid_argument("the position's element %lld is after %lld",
                               (long long)at, (long long)anchors->read);
  if (left > 0) LS_RETURN_IF_ERROR(ls_stage_skip(anchors->input, left));
  anchors->read = at;
  return ls_ok();
}

ls_status ls_anchors_end_all(ls_anchors *anchors, const ls_record *record) {
  const ls_record *input = NULL;
  int64_t read = 0;
  LS_RETURN_IF_ERROR(ls_stage_get_count(record, "read", &read));
  if (anchors->count > 0) return ls_anchors_go_to(anchors, read);
  LS_RETURN_IF_ERROR(ls_record_find(record, "input0", &input));
  anchors->read = read;
  return ls_stage_restore(anchors->input, input);
}
