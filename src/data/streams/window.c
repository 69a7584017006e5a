// SPDX-License-Identifier: Apache-2.0
// Window: stacks elements i * shift, i * shift + stride, ... of the input to
// element i.
#include "base/memory/own.h"
#include "base/require.h"
#include "data/streams.h"
#include "lockstep/streams.h"

typedef struct window {
  ls_batch_dataset batch;  // Batch options: batches of `size` elements.
  ls_dataset_window_options options;
  int64_t span;  // Input elements from the first up to and including the last.
} window;

// Counts the elements of a window that come before `end`.
static size_t window_count_of(const window *self, int64_t first, int64_t end) {
  const int64_t size = self->options.size, stride = self->options.stride;
  if (first >= end) return 0;
  const int64_t most = (end - first - 1) / stride + 1;
  return (size_t)(most < size ? most : size);
}

// ---- Windows of indexed data sets ------------------------------------------
static ls_status get_window(const ls_dataset *dataset, ls_fetch *fetch,
                            int64_t index, ls_nest *element) {
  const window *self = (const window *)dataset;
  const ls_dataset *input = dataset->inputs[0];
  const int64_t first = index * self->options.shift;
  const int64_t end = input->size >= 0 ? input->size : first + self->span;
  const size_t count = window_count_of(self, first, end);
  LS_OWN(ls_nests, elements) = {0};
  LS_RETURN_IF_ERROR(ls_nests_init(&elements, dataset->allocator, count));
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_dataset_get(input, fetch,
                                      first + (int64_t)i * self->options.stride,
                                      &elements.items[i]));
  return ls_batch_stack(&self->batch, elements.items, count, NULL, element);
}

// ---- Windows of streams ----------------------------------------------------
typedef struct held {
  ls_nest element;
  ls_status status;  // Result of reading the element.
} held;

// Elements are numbered by the anchors' count; the stage holds those from
// `first` on that were read.
typedef struct window_stage {
  ls_stage stage;
  ls_anchors anchors;
  held *items;  // A ring of `span` items.
  int64_t first, from;
  int64_t given;
} window_stage;

enum { LEAST_DISTANCE = 16 };

static const window *window_of(const ls_stage *stage) {
  return (const window *)stage->dataset;
}

static held *item_of(window_stage *self, int64_t number) {
  return &self->items[number % window_of(&self->stage)->span];
}

static void drop_before(window_stage *self, int64_t number) {
  for (; self->from < number && self->from < self->anchors.read; ++self->from) {
    held *item = item_of(self, self->from);
    ls_status_free(item->status);
    item->status = ls_ok();
  }
  ls_anchors_drop(&self->anchors, number);
}

// Reads the elements of the window, or up to the end.
static ls_status read_window(window_stage *self) {
  const window *dataset = window_of(&self->stage);
  ls_anchors *anchors = &self->anchors;
  while (!anchors->ended && anchors->read < self->first + dataset->span) {
    held *item = item_of(self, anchors->read);
    ls_status status = ls_anchors_next(anchors, &item->element);
    if (anchors->ended)
      ls_status_free(status);
    else
      item->status = status;
    drop_before(self, self->first);  // Drops the elements between two windows.
  }
  return ls_ok();
}

static ls_status stack_window(window_stage *self, size_t count,
                              ls_nest *element) {
  const window *dataset = window_of(&self->stage);
  ls_allocator *allocator = self->stage.work->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, elements, count);
  for (size_t i = 0; i < count; ++i) {
    const held *item =
        item_of(self, self->first + (int64_t)i * dataset->options.stride);
    LS_RETURN_IF_ERROR(ls_status_clone(item->status));
    elements[i] = item->element;
  }
  return ls_batch_stack(&dataset->batch, elements, count, NULL, element);
}

static ls_status window_next(ls_stage *stage, ls_nest *element) {
  window_stage *self = (window_stage *)stage;
  const window *dataset = window_of(stage);
  LS_RETURN_IF_ERROR(read_window(self));
  const size_t count =
      window_count_of(dataset, self->first, self->anchors.read);
  if (count == 0 ||
      (dataset->options.drop && count < (size_t)dataset->options.size))
    return ls_out_of_range("no elements are left for a window");
  const ls_status status = stack_window(self, count, element);
  self->first += dataset->options.shift;
  ++self->given;
  drop_before(self, self->first);
  return status;
}

static void window_forget(ls_stage *stage) {
  window_stage *self = (window_stage *)stage;
  drop_before(self, INT64_MAX);
  ls_anchors_reset(&self->anchors);
  self->first = self->from = 0;
}

static ls_status window_save(ls_stage *stage, ls_record *record) {
  window_stage *self = (window_stage *)stage;
  const int64_t read = self->anchors.read;
  const int64_t at = self->first < read ? self->first : read;
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "gap", self->first - at));
  return ls_anchors_save(&self->anchors, at, record);
}

static ls_status window_restore(ls_stage *stage, const ls_record *record) {
  window_stage *self = (window_stage *)stage;
  LS_RETURN_IF_ERROR(ls_stage_get_count(record, "gap", &self->first));
  if (self->first > window_of(stage)->options.shift)
    return ls_invalid_argument("a window cannot begin %lld elements ahead",
                               (long long)self->first);
  return ls_anchors_restore(&self->anchors, record);
}

static void window_close(ls_stage *stage) {
  window_stage *self = (window_stage *)stage;
  if (self->items == NULL) return;
  window_forget(stage);
  for (int64_t i = 0; i < window_of(stage)->span; ++i)
    ls_nest_release(self->items[i].element);
  ls_anchors_deinit(&self->anchors);
  ls_release(stage->work->allocator, self->items);
}

static ls_status window_open(ls_stage *stage) {
  window_stage *self = (window_stage *)stage;
  const int64_t span = window_of(stage)->span;
  ls_anchors_init(&self->anchors, stage->inputs[0],
                  span > LEAST_DISTANCE ? span : LEAST_DISTANCE);
  self->items = ls_new_array(stage->work->allocator, held, (size_t)span);
  return self->items != NULL ? ls_ok() : ls_out_of_memory();
}

static const ls_stage_class window_stage_class = {
    .size = sizeof(window_stage),
    .counters = {LS_STAGE_COUNTER(window_stage, given)},
    .open = window_open,
    .next = window_next,
    .forget = window_forget,
    .save = window_save,
    .restore = window_restore,
    .id_after = offsetof(window_stage, given),
    .close = window_close};

// ---- Making ----------------------------------------------------------------
static void window_describe(const ls_dataset *dataset, ls_text *text) {
  const ls_dataset_window_options *o = &((const window *)dataset)->options;
  ls_text_append_format(text, "%lld, shift=%lld, stride=%lld%s",
                        (long long)o->size, (long long)o->shift,
                        (long long)o->stride, o->drop ? ", drop" : "");
}

static ls_dataset *window_remake(const ls_dataset *dataset,
                                 ls_dataset **inputs) {
  return ls_dataset_window(inputs[0], &((const window *)dataset)->options);
}

static ls_status window_check(window *self) {
  const ls_dataset_window_options *o = &self->options;
  if (o->size < 1 || o->shift < 1 || o->stride < 1)
    return ls_invalid_argument(
        "a window of %lld elements, shift %lld, stride %lld: all must be at "
        "least 1",
        (long long)o->size, (long long)o->shift, (long long)o->stride);
  if (__builtin_mul_overflow(o->size - 1, o->stride, &self->span) ||
      ++self->span > (1 << 24))
    return ls_invalid_argument("a window of %lld elements, stride %lld, is "
                               "over more than %d elements",
                               (long long)o->size, (long long)o->stride,
                               1 << 24);
  return ls_ok();
}

static ls_status window_fill(window *self) {
  ls_dataset *base = &self->batch.base;
  LS_RETURN_IF_ERROR(window_check(self));
  const int64_t all = base->size, span = self->span;
  const int64_t shift = self->options.shift, size = self->options.size;
  if (all == LS_UNKNOWN_SIZE) base->indexed = false;
  if (all >= 0 && self->options.drop)
    base->size = all < span ? 0 : (all - span) / shift + 1;
  else if (all > 0)
    base->size = (all - 1) / shift + 1;
  base->most = base->most < span ? 0 : (base->most - span) / shift + 1;
  const bool full = self->options.drop || all == LS_INFINITE ||
                    (all > 0 && window_count_of(self, (base->size - 1) * shift,
                                                all) == (size_t)size);
  self->batch.options.size = size;
  return ls_batch_set_spec(&self->batch, full ? size : LS_UNKNOWN_DIM);
}

ls_dataset *ls_dataset_window(ls_dataset *dataset,
                              const ls_dataset_window_options *options) {
  static const ls_dataset_class kind = {.name = "window",
                                        .destroy = ls_batch_destroy,
                                        .describe = window_describe,
                                        .remake = window_remake,
                                        .get = get_window,
                                        .id = ls_dataset_id_own,
                                        .stage = &window_stage_class};
  window *self = LS_DATASET_NEW(
      window, &kind, &dataset, 1,
      options == NULL ? ls_null_argument("ls_dataset_window", "options")
                      : ls_ok());
  if (self == NULL || !ls_status_is_ok(self->batch.base.failure))
    return (ls_dataset *)self;
  self->options = *options;
  if (options->shift == 0) self->options.shift = options->size;
  if (options->stride == 0) self->options.stride = 1;
  return ls_dataset_fail(&self->batch.base, window_fill(self));
}
