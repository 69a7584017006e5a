// SPDX-License-Identifier: Apache-2.0
// Selections of a data set's elements, or all in another order: for indexed
// data sets a function from indices to indices.
#include "data/dataset.h"
#include "data/streams.h"

static int64_t select_least(int64_t a, int64_t b) { return a < b ? a : b; }

// Returns the number of elements that have an index.
static int64_t most_of(const ls_dataset *dataset) {
  return dataset->size == LS_INFINITE ? dataset->most : dataset->size;
}

// Returns `a` times `b`, or the largest number if that overflows.
static int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// ---- Take, skip, shard -----------------------------------------------------
typedef ls_part_dataset part_dataset;

static void locate_part(const ls_dataset *dataset, const ls_fetch *fetch,
                        const int64_t *indices, size_t count, int64_t *out) {
  (void)fetch;
  const part_dataset *self = (const part_dataset *)dataset;
  for (size_t i = 0; i < count; ++i)
    out[i] = self->first + indices[i] * self->stride;
}

static void describe_take(const ls_dataset *dataset, ls_text *text) {
  ls_text_append_i64(text, ((const part_dataset *)dataset)->count);
}

static void describe_skip(const ls_dataset *dataset, ls_text *text) {
  ls_text_append_i64(text, ((const part_dataset *)dataset)->first);
}

static void describe_shard(const ls_dataset *dataset, ls_text *text) {
  const part_dataset *self = (const part_dataset *)dataset;
  ls_text_append_format(text, "%lld of %lld", (long long)self->first,
                        (long long)self->stride);
}

static ls_dataset *remake_take(const ls_dataset *dataset, ls_dataset **inputs) {
  return ls_dataset_take(inputs[0], ((const part_dataset *)dataset)->count);
}
static ls_dataset *remake_skip(const ls_dataset *dataset, ls_dataset **inputs) {
  return ls_dataset_skip(inputs[0], ((const part_dataset *)dataset)->first);
}
static ls_dataset *remake_shard(const ls_dataset *dataset,
                                ls_dataset **inputs) {
  const part_dataset *self = (const part_dataset *)dataset;
  return ls_dataset_shard(inputs[0], self->stride, self->first);
}

#define PART_CLASS(part)                                                       \
  .name = #part, .is_quick = true, .describe = describe_##part,                \
  .remake = remake_##part, .locate = locate_part, .stage = &ls_##part##_stage
static const ls_dataset_class take_class = {PART_CLASS(take)};
static const ls_dataset_class skip_class = {PART_CLASS(skip)};
static const ls_dataset_class shard_class = {PART_CLASS(shard)};

static part_dataset *new_part(const ls_dataset_class *kind, ls_dataset *input) {
  part_dataset *self = LS_DATASET_NEW(part_dataset, kind, &input, 1, ls_ok());
  if (self != NULL) self->stride = 1;
  return self;
}

ls_dataset *ls_dataset_take(ls_dataset *dataset, int64_t count) {
  part_dataset *self = new_part(&take_class, dataset);
  if (self == NULL) return NULL;
  self->count = count;
  int64_t *size = &self->base.size;
  if (count < 0 || *size == LS_UNKNOWN_SIZE) return &self->base;
  *size = select_least(most_of(&self->base), count);
  return &self->base;
}

ls_dataset *ls_dataset_skip(ls_dataset *dataset, int64_t count) {
  part_dataset *self = new_part(&skip_class, dataset);
  if (self == NULL) return NULL;
  self->first = self->count = count;
  int64_t *size = &self->base.size;
  if (count < 0 && *size != LS_UNKNOWN_SIZE) *size = 0;
  if (*size >= 0) *size -= select_least(*size, count < 0 ? *size : count);
  if (count > 0) self->base.most -= select_least(self->base.most, count);
  return &self->base;
}

ls_dataset *ls_dataset_shard(ls_dataset *dataset, int64_t count,
                             int64_t index) {
  part_dataset *self = new_part(&shard_class, dataset);
  if (self == NULL) return NULL;
  self->first = index;
  self->stride = count;
  if (count < 1 || index < 0 || index >= count)
    return ls_dataset_fail(
        &self->base,
        ls_invalid_argument("shard %lld of %lld: they count from 0",
                            (long long)index, (long long)count));
  int64_t *size = &self->base.size;
  if (*size >= 0) *size = *size / count + (*size % count > index);
  self->base.most = (self->base.most - 1 - index) / count;
  return &self->base;
}

// ---- Repeat ----------------------------------------------------------------
typedef ls_repeat_dataset repeat_dataset;

// Finds the repetition that an index belongs to, and the index in it.
// Repetitions are numbered across epochs; an endless repeat has 2^31 numbers
// per epoch.
static int64_t enter_time(const ls_dataset *dataset, const ls_fetch *fetch,
                          int64_t index, int64_t *out_inner) {
  const repeat_dataset *self = (const repeat_dataset *)dataset;
  const int64_t size = dataset->inputs[0]->size;
  const int64_t time = size > 0 ? index / size : 0;
  *out_inner = size > 0 ? index % size : index;
  const uint64_t times = self->times > 0 ? (uint64_t)self->times : INT32_MAX;
  return (int64_t)((uint64_t)fetch->epoch * times + (uint64_t)time);
}

static ls_status get_repeated(const ls_dataset *dataset, ls_fetch *fetch,
                              int64_t index, ls_nest *element) {
  const int64_t outer = fetch->epoch;
  int64_t inner = 0;
  fetch->epoch = enter_time(dataset, fetch, index, &inner);
  const ls_status status =
      ls_dataset_get(dataset->inputs[0], fetch, inner, element);
  fetch->epoch = outer;
  return status;
}

// Reads indices of one repetition together.
static ls_status read_repeated(const ls_dataset *dataset, ls_fetch *fetch,
                               const int64_t *indices, size_t count,
                               void *const *rows) {
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_ROOM_OR_RETURN(fetch, int64_t, inner, count);
  LS_ROOM_OR_RETURN(fetch, void *, at, dataset->num_leaves);
  const int64_t outer = fetch->epoch;
  for (size_t begin = 0, end; begin < count; begin = end) {
    const int64_t time =
        enter_time(dataset, fetch, indices[begin], &inner[begin]);
    for (end = begin + 1; end < count; ++end) {
      if (enter_time(dataset, fetch, indices[end], &inner[end]) != time) break;
    }
    ls_rows_at(dataset, rows, begin, at);
    fetch->epoch = time;
    const ls_status status = ls_dataset_read(dataset->inputs[0], fetch,
                                             inner + begin, end - begin, at);
    fetch->epoch = outer;
    LS_RETURN_IF_ERROR(status);
  }
  return ls_ok();
}

static void find_repeated_ids(const ls_dataset *dataset, const ls_fetch *fetch,
                              const int64_t *indices, size_t count,
                              int64_t *out) {
  ls_fetch then = *fetch;
  for (size_t begin = 0, end; begin < count; begin = end) {
    int64_t inner = 0;
    then.epoch = enter_time(dataset, fetch, indices[begin], &inner);
    for (end = begin; end < count; ++end) {
      if (enter_time(dataset, fetch, indices[end], &inner) != then.epoch) break;
      out[end] = inner;
    }
    ls_dataset_find_ids(dataset->inputs[0], &then, out + begin, end - begin,
                        out + begin);
  }
}

static void describe_repeat(const ls_dataset *dataset, ls_text *text) {
  ls_text_append_i64(text, ((const repeat_dataset *)dataset)->times);
}

static ls_dataset *remake_repeat(const ls_dataset *dataset,
                                 ls_dataset **inputs) {
  return ls_dataset_repeat(inputs[0], ((const repeat_dataset *)dataset)->times);
}

static const ls_dataset_class repeat_class = {.name = "repeat",
                                              .is_quick = true,
                                              .describe = describe_repeat,
                                              .remake = remake_repeat,
                                              .get_other = get_repeated,
                                              .read = read_repeated,
                                              .find_ids = find_repeated_ids,
                                              .stage = &ls_repeat_stage};

ls_dataset *ls_dataset_repeat(ls_dataset *dataset, int64_t count) {
  repeat_dataset *self =
      LS_DATASET_NEW(repeat_dataset, &repeat_class, &dataset, 1, ls_ok());
  if (self == NULL) return NULL;
  self->times = count;
  int64_t *size = &self->base.size;
  if (count == 0) *size = 0;
  if (*size > 0) *size = count < 0 ? LS_INFINITE : times(*size, count);
  return &self->base;
}

// ---- Shuffle ---------------------------------------------------------------
typedef ls_shuffle_dataset shuffle_dataset;

ls_permutation ls_shuffle_order(const shuffle_dataset *self, uint64_t seed,
                                int64_t epoch, int64_t block, int64_t size) {
  const bool fixed = self->options.fixed;
  const bool one_order = fixed || self->options.each_epoch == LS_FLAG_OFF;
  const uint64_t mixed =
      self->options.seed + (uint64_t)block * UINT64_C(0x9E3779B97F4A7C15);
  return ls_permutation_make((uint64_t)size, mixed, fixed ? 0 : seed,
                             one_order ? 0 : (uint64_t)epoch);
}

// With a buffer each block of its size is shuffled on its own.
static void locate_shuffled(const ls_dataset *dataset, const ls_fetch *fetch,
                            const int64_t *indices, size_t count,
                            int64_t *out) {
  const shuffle_dataset *self = (const shuffle_dataset *)dataset;
  const int64_t size = dataset->size;
  const int64_t all = self->options.buffer > 0 ? self->options.buffer : size;
  for (size_t begin = 0, end; begin < count; begin = end) {
    const int64_t block = indices[begin] / all, first = block * all;
    const int64_t some = size >= 0 ? select_least(all, size - first) : all;
    for (end = begin; end < count && indices[end] / all == block; ++end)
      out[end] = indices[end] - first;
    const ls_permutation order =
        ls_shuffle_order(self, fetch->seed, fetch->epoch, block, some);
    ls_permutation_map(&order, out + begin, end - begin, out + begin);
    for (size_t i = begin; i < end && first > 0; ++i)
      out[i] += first;
  }
}

// Reads block by block, and announces that all of a block will be read.
static ls_status read_blocks(const ls_dataset *dataset, ls_fetch *fetch,
                             const int64_t *indices, size_t count,
                             void *const *rows) {
  const ls_dataset *input = dataset->inputs[0];
  const int64_t all = ((const shuffle_dataset *)dataset)->options.buffer;
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_ROOM_OR_RETURN(fetch, int64_t, inner, count);
  LS_ROOM_OR_RETURN(fetch, void *, at, dataset->num_leaves);
  const ls_fetch_soon outer = fetch->soon;
  locate_shuffled(dataset, fetch, indices, count, inner);
  for (size_t i = 0, some; i < count; i += some) {
    const int64_t block = indices[i] / all, first = block * all;
    for (some = 1; i + some < count && indices[i + some] / all == block;)
      ++some;
    ls_rows_at(dataset, rows, i, at);
    fetch->soon.dataset = input;
    fetch->soon.first = first;
    fetch->soon.count =
        dataset->size >= 0 ? select_least(all, dataset->size - first) : all;
    const ls_status status = ls_dataset_read(input, fetch, inner + i, some, at);
    fetch->soon = outer;
    LS_RETURN_IF_ERROR(status);
  }
  return ls_ok();
}

static void describe_shuffle(const ls_dataset *dataset, ls_text *text) {
  const ls_shuffle_options *options =
      &((const shuffle_dataset *)dataset)->options;
  ls_text_append_format(text, "seed=%llu", (unsigned long long)options->seed);
  if (options->buffer > 0)
    ls_text_append_format(text, ", buffer=%lld", (long long)options->buffer);
  if (options->fixed)
    ls_text_append(text, ", fixed");
  else if (options->each_epoch == LS_FLAG_OFF)
    ls_text_append(text, ", one order");
}

static ls_dataset *remake_shuffle(const ls_dataset *dataset,
                                  ls_dataset **inputs) {
  return ls_dataset_shuffle(inputs[0],
                            &((const shuffle_dataset *)dataset)->options);
}

#define SHUFFLE_CLASS                                                          \
  .name = "shuffle", .is_quick = true, .describe = describe_shuffle,           \
  .remake = remake_shuffle, .locate = locate_shuffled,                         \
  .stage = &ls_shuffle_stage
static const ls_dataset_class shuffle_class = {SHUFFLE_CLASS};
static const ls_dataset_class shuffle_blocks_class = {SHUFFLE_CLASS,
                                                      .read = read_blocks};

static ls_status check_shuffle(shuffle_dataset *self) {
  const ls_shuffle_options *options = &self->options;
  if (options->buffer < 0)
    return ls_invalid_argument("a shuffle with a buffer of %lld elements",
                               (long long)options->buffer);
  if (options->buffer > 0) {  // An endless data set is cut to whole blocks.
    self->base.most -= self->base.most % options->buffer;
    return ls_ok();
  }
  if (self->base.indexed && self->base.size >= 0) return ls_ok();
  return ls_invalid_argument(
      "a shuffle of all elements needs their number, and any at any time; of a "
      "stream, or one without end, it needs a buffer (ls_shuffle_options)");
}

ls_dataset *ls_dataset_shuffle(ls_dataset *dataset,
                               const ls_shuffle_options *options) {
  shuffle_dataset *self =
      LS_DATASET_NEW(shuffle_dataset, &shuffle_class, &dataset, 1, ls_ok());
  if (self == NULL || !ls_status_is_ok(self->base.failure))
    return (ls_dataset *)self;
  if (options != NULL) self->options = *options;
  if (self->options.buffer > 0 && self->base.indexed && self->base.rows)
    self->base.kind = &shuffle_blocks_class;
  return ls_dataset_fail(&self->base, check_shuffle(self));
}
