// SPDX-License-Identifier: Apache-2.0
// Buckets: batches of elements of similar lengths.
//
// An element may wait in its bucket for long. A saved position has, for each
// waiting element, the input's state some elements before it.
#include <stdlib.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/nest_internal.h"
#include "data/streams.h"
#include "lockstep/streams.h"

typedef struct bucket_dataset {
  ls_batch_dataset batch;  // The batch options of all buckets.
  int leaf;
  int64_t (*length)(ls_nest element, void *user);
  int64_t *boundaries, *sizes;
  size_t num_buckets;
} bucket_dataset;

typedef struct waiting {
  ls_nest *elements;
  int64_t *ids, *at;  // Numbers in the source, and by the anchors' count.
  size_t count;
  size_t capacity[3];
} waiting;

typedef struct bucket_stage {
  ls_stage stage;
  ls_anchors anchors;
  waiting *buckets;
  ls_nest input;  // Reused for the input's elements.
  int64_t given;
} bucket_stage;

enum { ANCHOR_DISTANCE = 16 };

static const bucket_dataset *bucket_of(const bucket_stage *self) {
  return (const bucket_dataset *)self->stage.dataset;
}

// ---- Waiting ---------------------------------------------------------------
// Returns the array of a leaf, counted in flattening order.
static const ls_array *find_leaf(ls_nest nest, int *leaf) {
  if (!ls_nest_is_node(nest))
    return (*leaf)-- == 0 ? ls_nest_as_array(nest) : NULL;
  const size_t count = ls_nest_count(nest);
  for (size_t i = 0; i < count; ++i) {
    const ls_array *found = find_leaf(ls_nest_item_sorted(nest, i), leaf);
    if (found != NULL) return found;
  }
  return NULL;
}

static ls_status bucket_choose(const bucket_dataset *dataset, ls_nest element,
                               size_t *out_bucket) {
  int leaf = dataset->leaf;
  int64_t length = -1;
  if (dataset->length != NULL) {
    length = dataset->length(element, dataset->batch.base.user->user);
  } else {
    const ls_array *array = find_leaf(element, &leaf);
    if (array != NULL && ls_array_shape(array).rank > 0)
      length = ls_array_shape(array).dim[0];
  }
  if (length < 0)
    return ls_invalid_argument("bucket: the length of an element is %lld",
                               (long long)length);
  size_t bucket = 0;
  while (bucket + 1 < dataset->num_buckets &&
         length >= dataset->boundaries[bucket])
    ++bucket;
  *out_bucket = bucket;
  return ls_ok();
}

// Makes room in each bucket for one more element before reading it, so that it
// is not lost.
static ls_status bucket_make_room(bucket_stage *self) {
  ls_allocator *allocator = self->stage.work->allocator;
  for (size_t i = 0; i < bucket_of(self)->num_buckets; ++i) {
    waiting *slot = &self->buckets[i];
    const size_t count = slot->count + 1;
    if (!LS_GROW(allocator, slot->elements, slot->capacity[0], count) ||
        !LS_GROW(allocator, slot->ids, slot->capacity[1], count) ||
        !LS_GROW(allocator, slot->at, slot->capacity[2], count))
      return ls_out_of_memory();
  }
  return ls_ok();
}

// Moves the element just read into its bucket.
static ls_status bucket_put(bucket_stage *self, size_t *out_bucket) {
  LS_RETURN_IF_ERROR(bucket_choose(bucket_of(self), self->input, out_bucket));
  waiting *slot = &self->buckets[*out_bucket];
  const ls_nest old = slot->elements[slot->count];
  slot->elements[slot->count] = self->input;
  self->input = old;
  slot->ids[slot->count] = ls_stage_id(self->stage.inputs[0]);
  slot->at[slot->count++] = self->anchors.read - 1;
  ls_anchors_use(&self->anchors, self->anchors.read - 1, 1);
  ls_work_hold(self->stage.work, self->stage.dataset, 1,
               ls_element_bytes(slot->elements[slot->count - 1]));
  return ls_ok();
}

// Empties a bucket but keeps its arrays for reuse.
static void clear(bucket_stage *self, waiting *slot) {
  for (size_t i = 0; i < slot->count; ++i) {
    ls_work_hold(self->stage.work, self->stage.dataset, -1,
                 -ls_element_bytes(slot->elements[i]));
    ls_anchors_use(&self->anchors, slot->at[i], -1);
  }
  slot->count = 0;
  ls_anchors_sweep(&self->anchors);
}

static ls_status bucket_give(bucket_stage *self, size_t bucket,
                             ls_nest *element) {
  const bucket_dataset *dataset = bucket_of(self);
  waiting *slot = &self->buckets[bucket];
  ls_batch_dataset batch = dataset->batch;
  batch.options.size = dataset->sizes[bucket];
  const ls_status status =
      ls_batch_stack(&batch, slot->elements, slot->count, slot->ids, element);
  clear(self, slot);
  ++self->given;
  return status;
}

static ls_status bucket_next(ls_stage *stage, ls_nest *element) {
  bucket_stage *self = (bucket_stage *)stage;
  const bucket_dataset *dataset = bucket_of(self);
  while (!self->anchors.ended) {
    size_t bucket = 0;
    LS_RETURN_IF_ERROR(bucket_make_room(self));
    LS_RETURN_IF_ERROR(ls_anchors_keep(&self->anchors));
    ls_status status = ls_anchors_read(&self->anchors, &self->input);
    if (self->anchors.ended) {
      ls_status_free(status);
      break;
    }
    if (ls_status_is_ok(status)) status = bucket_put(self, &bucket);
    if (!ls_status_is_ok(status)) return status;
    if ((int64_t)self->buckets[bucket].count == dataset->sizes[bucket])
      return bucket_give(self, bucket, element);
  }
  const bool drops = dataset->batch.options.remainder == LS_REMAINDER_DROP;
  for (size_t i = 0; i < dataset->num_buckets && !drops; ++i)
    if (self->buckets[i].count > 0) return bucket_give(self, i, element);
  return ls_out_of_range("no elements are left for a batch");
}

static void bucket_forget(ls_stage *stage) {
  bucket_stage *self = (bucket_stage *)stage;
  for (size_t i = 0; i < bucket_of(self)->num_buckets; ++i)
    clear(self, &self->buckets[i]);
  ls_anchors_reset(&self->anchors);
}

// ---- State -----------------------------------------------------------------
static int bucket_compare(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

// Saves the numbers of all waiting elements in rising order.
static ls_status save_waiting(const bucket_stage *self, ls_record *record) {
  ls_allocator *allocator = self->stage.work->allocator;
  const size_t buckets = bucket_of(self)->num_buckets;
  size_t count = 0, done = 0;
  for (size_t i = 0; i < buckets; ++i)
    count += self->buckets[i].count;
  LS_OWN_ARRAY_OR_RETURN(allocator, int64_t, at, count);
  for (size_t i = 0; i < buckets; ++i)
    for (size_t k = 0; k < self->buckets[i].count; ++k)
      at[done++] = self->buckets[i].at[k];
  qsort(at, count, sizeof(*at), bucket_compare);
  return ls_record_set_bytes(record, "waiting", at, count * sizeof(*at));
}

static ls_status bucket_save(ls_stage *stage, ls_record *record) {
  bucket_stage *self = (bucket_stage *)stage;
  LS_RETURN_IF_ERROR(save_waiting(self, record));
  return ls_anchors_save_all(&self->anchors, record);
}

// Reads the waiting elements again, and the input up to the saved position.
static ls_status bucket_restore(ls_stage *stage, const ls_record *record) {
  bucket_stage *self = (bucket_stage *)stage;
  const void *data = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(ls_record_get_bytes(record, "waiting", &data, &size));
  LS_RETURN_IF_ERROR(ls_anchors_begin_all(&self->anchors, record));
  for (size_t i = 0; i < size / sizeof(int64_t); ++i) {
    int64_t at = 0;
    size_t bucket = 0;
    memcpy(&at, (const char *)data + i * sizeof(at), sizeof(at));
    LS_RETURN_IF_ERROR(ls_anchors_go_to(&self->anchors, at));
    LS_RETURN_IF_ERROR(bucket_make_room(self));
    LS_RETURN_IF_ERROR(ls_anchors_read(&self->anchors, &self->input));
    LS_RETURN_IF_ERROR(bucket_put(self, &bucket));
    if ((int64_t)self->buckets[bucket].count >= bucket_of(self)->sizes[bucket])
      return ls_invalid_argument("more elements wait in bucket %zu than a "
                                 "batch has",
                                 bucket);
  }
  return ls_anchors_end_all(&self->anchors, record);
}

static void bucket_close(ls_stage *stage) {
  bucket_stage *self = (bucket_stage *)stage;
  ls_allocator *allocator = stage->work->allocator;
  if (self->buckets == NULL) return;
  bucket_forget(stage);
  for (size_t i = 0; i < bucket_of(self)->num_buckets; ++i) {
    waiting *slot = &self->buckets[i];
    for (size_t k = 0; k < slot->capacity[0]; ++k)
      ls_nest_release(slot->elements[k]);
    ls_release(allocator, slot->elements);
    ls_release(allocator, slot->ids);
    ls_release(allocator, slot->at);
  }
  ls_nest_release(self->input);
  ls_anchors_deinit(&self->anchors);
  ls_release(allocator, self->buckets);
}

static ls_status bucket_open(ls_stage *stage) {
  bucket_stage *self = (bucket_stage *)stage;
  ls_anchors_init(&self->anchors, stage->inputs[0], ANCHOR_DISTANCE);
  self->buckets = ls_new_array(stage->work->allocator, waiting,
                               bucket_of(self)->num_buckets);
  return self->buckets != NULL ? ls_ok() : ls_out_of_memory();
}

static const ls_stage_class bucket_stage_class = {
    .size = sizeof(bucket_stage),
    .counters = {LS_STAGE_COUNTER(bucket_stage, given)},
    .open = bucket_open,
    .next = bucket_next,
    .forget = bucket_forget,
    .save = bucket_save,
    .restore = bucket_restore,
    .id_after = offsetof(bucket_stage, given),
    .close = bucket_close};

// ---- Making ----------------------------------------------------------------
static void bucket_destroy(ls_dataset *dataset) {
  bucket_dataset *self = (bucket_dataset *)dataset;
  ls_batch_destroy(dataset);
  ls_release(dataset->allocator, self->boundaries);
  ls_release(dataset->allocator, self->sizes);
}

static void bucket_describe(const ls_dataset *dataset, ls_text *text) {
  const bucket_dataset *self = (const bucket_dataset *)dataset;
  const ls_batch_options *o = &self->batch.options;
  if (self->length == NULL)
    ls_text_append_format(text, "leaf %d, ", self->leaf);
  for (size_t i = 0; i < self->num_buckets; ++i) {
    if (i > 0)
      ls_text_append_format(text,
                            " < %lld: ", (long long)self->boundaries[i - 1]);
    ls_text_append_i64(text, self->sizes[i]);
  }
  if (o->remainder != LS_REMAINDER_KEEP)
    ls_text_append(text, o->remainder == LS_REMAINDER_PAD ? ", pad" : ", drop");
  if (o->ids) ls_text_append(text, ", ids");
  for (size_t i = 0; i < o->num_padded_shapes; ++i)
    ls_text_append_format(
        text, ", %s padded with %.17g",
        LS_SHAPE_TEXT(LS_DTYPE_NONE, self->batch.padded_shapes[i]),
        self->batch.padding == NULL ? 0.0 : self->batch.padding[i]);
}

static ls_dataset *bucket_make(ls_dataset *input, const ls_bucket_options *o,
                               ls_user *user);

static ls_dataset *bucket_remake(const ls_dataset *dataset,
                                 ls_dataset **inputs) {
  const bucket_dataset *self = (const bucket_dataset *)dataset;
  const ls_batch_options *batch = &self->batch.options;
  return bucket_make(
      inputs[0],
      &(ls_bucket_options){.leaf = self->leaf,
                           .length = self->length,
                           .boundaries = self->boundaries,
                           .num_boundaries = self->num_buckets - 1,
                           .sizes = self->sizes,
                           .remainder = batch->remainder,
                           .ids = batch->ids,
                           .padded_shapes = batch->padded_shapes,
                           .num_padded_shapes = batch->num_padded_shapes,
                           .padding = batch->padding},
      ls_object_retain(dataset->user));
}

static ls_status bucket_check(const bucket_dataset *self,
                              const ls_bucket_options *o) {
  const ls_dataset *input = self->batch.base.inputs[0];
  if (o->length == NULL &&
      (o->leaf < 0 || (size_t)o->leaf >= input->num_leaves ||
       input->leaves[o->leaf].type.shape.rank == 0))
    return ls_invalid_argument(
        "bucket: leaf %d of %zu has no length; name one with a dimension, or "
        "give a function `length`",
        o->leaf, input->num_leaves);
  if (o->sizes == NULL || (o->boundaries == NULL && o->num_boundaries > 0))
    return ls_invalid_argument("bucket needs boundaries, and one size of "
                               "batches more than of them");
  if ((unsigned)o->remainder > LS_REMAINDER_PAD)
    return ls_invalid_argument("there is no remainder %d", (int)o->remainder);
  for (size_t i = 0; i <= o->num_boundaries; ++i)
    if (o->sizes[i] < 1)
      return ls_invalid_argument("bucket: size %zu is %lld; it must be at "
                                 "least 1",
                                 i, (long long)o->sizes[i]);
  for (size_t i = 0; i < o->num_boundaries; ++i)
    if (o->boundaries[i] <= (i > 0 ? o->boundaries[i - 1] : 0))
      return ls_invalid_argument(
          "bucket: boundary %zu is %lld; boundaries rise, from above 0", i,
          (long long)o->boundaries[i]);
  return ls_ok();
}

// Without given shapes, pads each dimension that differs to the longest.
static ls_status set_shapes(bucket_dataset *self, const ls_bucket_options *o) {
  ls_batch_options *options = &self->batch.options;
  const ls_dataset *input = self->batch.base.inputs[0];
  *options = (ls_batch_options){.size = o->sizes[0],
                                .remainder = o->remainder,
                                .ids = o->ids,
                                .padded_shapes = o->padded_shapes,
                                .num_padded_shapes = o->num_padded_shapes,
                                .padding = o->padding};
  if (o->padded_shapes != NULL) return ls_batch_copy_lists(&self->batch);
  LS_OWN_ARRAY_OR_RETURN(self->batch.base.allocator, ls_shape, shapes,
                         input->num_leaves);
  for (size_t i = 0; i < input->num_leaves; ++i)
    shapes[i] = input->leaves[i].type.shape;
  options->padded_shapes = shapes;
  options->num_padded_shapes = input->num_leaves;
  return ls_batch_copy_lists(&self->batch);
}

static ls_status bucket_fill(bucket_dataset *self, const ls_bucket_options *o) {
  ls_dataset *base = &self->batch.base;
  LS_RETURN_IF_ERROR(bucket_check(self, o));
  self->leaf = o->leaf;
  self->length = o->length;
  self->num_buckets = o->num_boundaries + 1;
  self->boundaries = ls_new_array(base->allocator, int64_t, self->num_buckets);
  self->sizes = ls_new_array(base->allocator, int64_t, self->num_buckets);
  if (self->boundaries == NULL || self->sizes == NULL)
    return ls_out_of_memory();
  bool same = true;
  for (size_t i = 0; i < self->num_buckets; ++i) {
    self->sizes[i] = o->sizes[i];
    if (i < o->num_boundaries) self->boundaries[i] = o->boundaries[i];
    same = same && o->sizes[i] == o->sizes[0];
  }
  base->indexed = false;
  if (base->size > 0) base->size = LS_UNKNOWN_SIZE;
  LS_RETURN_IF_ERROR(set_shapes(self, o));
  const bool full = same && o->remainder != LS_REMAINDER_KEEP;
  return ls_batch_set_spec(&self->batch, full ? o->sizes[0] : LS_UNKNOWN_DIM);
}

static const ls_dataset_class bucket_class = {.name = "bucket",
                                              .destroy = bucket_destroy,
                                              .describe = bucket_describe,
                                              .remake = bucket_remake,
                                              .stage = &bucket_stage_class};

static ls_dataset *bucket_make(ls_dataset *input, const ls_bucket_options *o,
                               ls_user *user) {
  bucket_dataset *self = (bucket_dataset *)ls_dataset_new_with(
      &bucket_class, sizeof(*self), &input, 1, user, ls_ok());
  if (self == NULL || !ls_status_is_ok(self->batch.base.failure))
    return (ls_dataset *)self;
  return ls_dataset_fail(&self->batch.base, bucket_fill(self, o));
}

ls_dataset *ls_dataset_bucket(ls_dataset *dataset,
                              const ls_bucket_options *options) {
  LS_DATASET_REQUIRE(options, bucket_dataset, &bucket_class, &dataset, 1);
  return bucket_make(dataset, options,
                     ls_user_create(options->user, options->release));
}
