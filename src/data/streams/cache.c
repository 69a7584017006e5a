// SPDX-License-Identifier: Apache-2.0
// Caches: elements made once, as an iterator with seed 0 gives them in epoch 0,
// so that all readers get the same elements in any order of reading.
//
// In memory, an element of an indexed data set is made when first requested,
// and a stream is read up to the largest request. An element that failed is
// made again when it is next requested. A file is written whole by the first
// reader, while others wait.
#include "base/files.h"
#include "base/require.h"
#include "base/status_cause.h"
#include "base/values/digest.h"
#include "data/own.h"
#include "data/streams.h"
#include "data/streams/cache_file.h"
#include "lockstep/streams.h"

typedef struct kept {
  ls_nest element;   // Empty: the element is not made yet.
  ls_status status;  // Result of reading the element from a stream.
} kept;

typedef struct cache {
  ls_dataset dataset;
  char *path;     // NULL: cached in memory.
  ls_mutex lock;  // Guards the fields below.
  kept *items;
  size_t count, capacity;  // Elements read so far from a stream.
  ls_iterator *source;     // Iterator on a stream.
  bool ended;              // The stream has ended.
  ls_iterator *again;      // Iterator on a stream for elements that failed.
  ls_cache_file *file;
} cache;

// ---- In memory -------------------------------------------------------------
static ls_status cache_make_element(const cache *self, int64_t index,
                                    ls_nest *element) {
  LS_OWN(ls_fetch, fetch) = {0};
  ls_fetch_init(&fetch, self->dataset.allocator, 0);
  return ls_dataset_get(self->dataset.inputs[0], &fetch, index, element);
}

// Two threads may make the same element; one copy is kept.
static ls_status get_indexed(cache *self, int64_t index, ls_nest *element) {
  kept *item = &self->items[index];
  ls_mutex_lock(&self->lock);
  ls_nest found = ls_nest_retain(item->element);
  ls_mutex_unlock(&self->lock);
  if (found.kind == LS_KIND_NONE) {
    LS_RETURN_IF_ERROR(cache_make_element(self, index, &found));
    ls_mutex_lock(&self->lock);
    if (item->element.kind == LS_KIND_NONE)
      item->element = ls_nest_retain(found);
    ls_mutex_unlock(&self->lock);
  }
  return ls_element_replace(found, element);
}

// Reads one more element of a stream; the lock is held.
static ls_status read_more(cache *self) {
  if (self->source == NULL)
    LS_RETURN_IF_ERROR(
        ls_iterator_create(self->dataset.inputs[0], NULL, &self->source));
  LS_RETURN_IF_NO_MEMORY(LS_GROW(self->dataset.allocator, self->items,
                                 self->capacity, self->count + 1));
  kept *item = &self->items[self->count];
  const ls_status status = ls_iterator_next(self->source, &item->element);
  if (ls_status_code(status) == LS_OUT_OF_RANGE) {
    ls_status_free(status);
    ls_iterator_release(self->source);
    self->source = NULL;
    self->ended = true;
    return ls_ok();
  }
  // A failure may be of the call, not of the element.
  if (ls_iterator_position(self->source) == (int64_t)self->count) return status;
  item->status = status;
  ++self->count;
  return ls_ok();
}

// Reads an element of a stream that failed once more; the lock is held. The
// elements before it are read, too, from the start or the last such element.
static ls_status read_again(cache *self, int64_t index) {
  kept *item = &self->items[index];
  if (self->again != NULL && ls_iterator_position(self->again) > index) {
    ls_iterator_release(self->again);
    self->again = NULL;
  }
  if (self->again == NULL)
    LS_RETURN_IF_ERROR(
        ls_iterator_create(self->dataset.inputs[0], NULL, &self->again));
  ls_status status = ls_ok();
  for (int64_t at; (at = ls_iterator_position(self->again)) <= index;) {
    ls_status_free(status);
    status = ls_iterator_next(self->again, &item->element);
    // The end, or a failure of the call.
    if (ls_iterator_position(self->again) == at) return ls_stage_no_end(status);
  }
  ls_status_free(item->status);
  item->status = status;
  return ls_ok();
}

// Finds element `index` of a stream, retained; the lock is held.
static ls_status find_streamed(cache *self, int64_t index, ls_nest *found) {
  const bool is_first = (int64_t)self->count <= index;
  while (!self->ended && (int64_t)self->count <= index)
    LS_RETURN_IF_ERROR(read_more(self));
  if ((int64_t)self->count <= index)
    return ls_out_of_range("the end of a cache");
  if (!is_first && !ls_status_is_ok(self->items[index].status))
    LS_RETURN_IF_ERROR(read_again(self, index));
  LS_RETURN_IF_ERROR(ls_status_clone(self->items[index].status));
  *found = ls_nest_retain(self->items[index].element);
  return ls_ok();
}

static ls_status get_streamed(cache *self, int64_t index, ls_nest *element) {
  ls_nest found = ls_none();
  ls_mutex_lock(&self->lock);
  const ls_status status = find_streamed(self, index, &found);
  ls_mutex_unlock(&self->lock);
  return ls_status_is_ok(status) ? ls_element_replace(found, element) : status;
}

// ---- In a file -------------------------------------------------------------
static ls_status find_digest(const cache *self, uint64_t out[2]) {
  const ls_dataset *input = self->dataset.inputs[0];
  LS_OWN(ls_text, text) = {.allocator = self->dataset.allocator};
  LS_OWN(ls_text, elements) = {.allocator = self->dataset.allocator};
  LS_RETURN_IF_ERROR(ls_dataset_status(input));
  ls_dataset_describe(input, &text);
  if (input->num_leaves > 0)
    ls_structure_print(input->structure, input->leaves, &elements);
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  LS_RETURN_IF_ERROR(ls_text_status(&elements));
  ls_digest digest;
  ls_digest_begin(&digest);
  ls_digest_add_text(&digest, ls_text_data(&text));
  ls_digest_add_text(&digest, ls_text_data(&elements));
  ls_digest_end(&digest, out);
  return ls_ok();
}

// Opens the cache file, after writing it if needed, unless another reader is
// writing it; the lock is held.
static ls_status open_file(cache *self, bool *out_is_busy) {
  uint64_t digest[2];
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(find_digest(self, digest));
  ls_allocator *allocator = self->dataset.allocator;
  for (;;) {
    const ls_status status =
        ls_cache_file_open(runtime, self->path, digest, allocator, &self->file);
    if (ls_status_is_ok(status)) break;
    LS_RETURN_IF_ERROR(ls_status_unless(status, LS_NOT_FOUND));
    LS_RETURN_IF_ERROR(ls_cache_file_build(runtime, self->path, digest,
                                           allocator, self->dataset.inputs[0],
                                           out_is_busy));
    if (*out_is_busy) return ls_ok();
  }
  const int64_t size = self->dataset.size;
  if (size < 0 || self->file->count == size) return ls_ok();
  ls_cache_file_close(self->file);
  self->file = NULL;
  return ls_internal("a cache of %lld elements", (long long)size);
}

// Waits a little until another reader has written the file.
static ls_status wait_for_writer(const cache *self) {
  enum { WAIT_NANOS = 20000000 };
  const ls_cancel *cancel = ls_cancel_current();
  if (ls_making_ends() || (cancel != NULL && ls_cancel_is_requested(cancel)))
    return ls_status_because(
        LS_STATUS(LS_CANCELLED, "the wait until '%s' is written was cancelled",
                  self->path),
        LS_CAUSE_CANCEL);
  ls_runtime_sleep(ls_runtime_current(), WAIT_NANOS);
  return ls_ok();
}

static ls_status get_filed(cache *self, int64_t index, ls_nest *element) {
  for (bool is_busy = true, was_busy = false; is_busy; was_busy = true) {
    is_busy = false;
    ls_mutex_lock(&self->lock);
    const ls_status status =
        self->file == NULL ? open_file(self, &is_busy) : ls_ok();
    ls_mutex_unlock(&self->lock);
    LS_RETURN_IF_ERROR(status);
    if (is_busy && !was_busy)
      ls_runtime_log(ls_runtime_current(), LS_LOG_INFO, "data",
                     "waiting until another reader has written '%s'",
                     self->path);
    if (is_busy) LS_RETURN_IF_ERROR(wait_for_writer(self));
  }
  if (index >= self->file->count) return ls_out_of_range("the end of a cache");
  return ls_cache_file_read(self->file, index, &self->dataset, element);
}

// ---- Reading ---------------------------------------------------------------
// Reads element `index`; OUT_OF_RANGE after the end.
static ls_status cache_read_element(const ls_dataset *dataset, int64_t index,
                                    ls_nest *element) {
  cache *self = (cache *)(uintptr_t)dataset;
  if (self->path != NULL) return get_filed(self, index, element);
  return dataset->indexed ? get_indexed(self, index, element)
                          : get_streamed(self, index, element);
}

static ls_status cache_get(const ls_dataset *dataset, ls_fetch *fetch,
                           int64_t index, ls_nest *element) {
  (void)fetch;
  return ls_stage_no_end(cache_read_element(dataset, index, element));
}

typedef struct cache_stage {
  ls_stage stage;
  int64_t position;
} cache_stage;

static ls_status cache_next(ls_stage *stage, ls_nest *element) {
  cache_stage *self = (cache_stage *)stage;
  const ls_status status =
      cache_read_element(stage->dataset, self->position, element);
  self->position += ls_status_code(status) != LS_OUT_OF_RANGE;
  return status;
}

static ls_status cache_skip(ls_stage *stage, int64_t count) {
  cache_stage *self = (cache_stage *)stage;
  if (__builtin_add_overflow(self->position, count, &self->position))
    self->position = INT64_MAX;
  return ls_ok();
}

static const ls_stage_class cache_stage_class = {
    .size = sizeof(cache_stage),
    .counters = {LS_STAGE_COUNTER(cache_stage, position)},
    .keeps_inputs_closed = true,
    .next = cache_next,
    .skip = cache_skip,
    .id_after = offsetof(cache_stage, position)};

// Finds the numbers that elements had when they were made.
static void cache_find_ids(const ls_dataset *dataset, const ls_fetch *fetch,
                           const int64_t *indices, size_t count, int64_t *out) {
  ls_fetch then = *fetch;
  then.seed = 0;
  then.epoch = 0;
  ls_dataset_find_ids(dataset->inputs[0], &then, indices, count, out);
}

// ---- Making ----------------------------------------------------------------
static void cache_destroy(ls_dataset *dataset) {
  cache *self = (cache *)dataset;
  const size_t count =
      dataset->indexed ? (size_t)dataset->size : self->capacity;
  for (size_t i = 0; self->items != NULL && i < count; ++i) {
    ls_nest_release(self->items[i].element);
    ls_status_free(self->items[i].status);
  }
  ls_iterator_release(self->source);
  ls_iterator_release(self->again);
  ls_cache_file_close(self->file);
  ls_mutex_deinit(&self->lock);
  ls_release(dataset->allocator, self->items);
  ls_release(dataset->allocator, self->path);
}

// Not described, as the path does not change the elements.
static ls_dataset *cache_remake(const ls_dataset *dataset,
                                ls_dataset **inputs) {
  return ls_dataset_cache(inputs[0], ((const cache *)dataset)->path);
}

// Returns true if a data set caches in the file: while another one is written
// to it, its elements would wait for themselves.
static bool has_cache_file(const ls_dataset *dataset, const char *path) {
  const char *own = dataset->kind->stage == &cache_stage_class
                        ? ((const cache *)dataset)->path
                        : NULL;
  if (own != NULL && ls_files_are_same(own, path)) return true;
  for (size_t i = 0; i < dataset->num_inputs; ++i)
    if (has_cache_file(dataset->inputs[i], path)) return true;
  return false;
}

static ls_status cache_fill(cache *self, const char *path) {
  ls_dataset *base = &self->dataset;
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  if (path != NULL && has_cache_file(base->inputs[0], path))
    return ls_invalid_argument(
        "the input of a cache in '%s' has a cache in the same file", path);
  if (base->size == LS_INFINITE)
    return ls_invalid_argument("a cache of a data set without an end");
  if (base->size == LS_UNKNOWN_SIZE) base->indexed = false;
  if (path != NULL) return ls_keep_text(base->allocator, path, &self->path);
  if (!base->indexed) return ls_ok();
  self->items = ls_new_array(base->allocator, kept, (size_t)base->size);
  return self->items == NULL ? ls_out_of_memory() : ls_ok();
}

ls_dataset *ls_dataset_cache(ls_dataset *dataset, const char *file) {
  static const ls_dataset_class kind = {.name = "cache",
                                        .destroy = cache_destroy,
                                        .remake = cache_remake,
                                        .get = cache_get,
                                        .find_ids = cache_find_ids,
                                        .stage = &cache_stage_class};
  cache *self = LS_DATASET_NEW(cache, &kind, &dataset, 1, ls_ok());
  if (self == NULL || !ls_status_is_ok(self->dataset.failure))
    return (ls_dataset *)self;
  return ls_dataset_fail(&self->dataset, cache_fill(self, file));
}
