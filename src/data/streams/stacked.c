// SPDX-License-Identifier: Apache-2.0
// Batch of streams.
#include "data/streams.h"

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
  *out_count = *out_failed = 0;
  while (*out_count + *out_failed < size) {
    const size_t at = *out_count;
    if (!ls_grow(allocator, &self->elements, &self->capacity, at + 1,
                 sizeof(*self->elements)) ||
        !ls_grow(allocator, &self->ids, &self->ids_capacity, at + 1,
                 sizeof(*self->ids)))
      return ls_status_join(first, ls_out_of_memory());
    ls_status status = ls_stage_next(stage->inputs[0], &self->elements[at]);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) {
      ls_status_free(status);
      break;
    }
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
    if (!ls_status_is_ok(status)) return status;
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
