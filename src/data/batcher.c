// SPDX-License-Identifier: Apache-2.0
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "data/shuffle.h"
#include "lockstep/data.h"

struct ls_batcher {
  ls_allocator *allocator;
  ls_examples *dataset;
  ls_batcher_options options;
  int64_t width, labels;  // Elements of an example, and labels of it.
  int64_t num_batches;    // In an epoch.
  int64_t epoch, batch;   // Of the next one.
  uint32_t *order;        // Of the examples in `ordered_epoch`; NULL: as they
  int64_t ordered_epoch;  // stand.
};

// ---- Making ----------------------------------------------------------------
// What the examples are dealt in: the options' type, where that can be.
static ls_status choose_dtype(const ls_examples *dataset,
                              ls_batcher_options *options) {
  const ls_dtype has = ls_array_dtype(ls_examples_examples(dataset));
  if (options->dtype == LS_DTYPE_NONE)
    options->dtype = has == LS_DTYPE_I32 ? LS_DTYPE_I32 : LS_DTYPE_F32;
  if (options->dtype == has && has != LS_DTYPE_U8) return ls_ok();
  if (has == LS_DTYPE_U8 &&
      (options->dtype == LS_DTYPE_F32 || options->dtype == LS_DTYPE_I32))
    return ls_ok();
  return ls_invalid_argument(
      "the dataset's examples are %s, which cannot be dealt in %s: %s",
      ls_dtype_name(has), ls_dtype_name(options->dtype),
      has == LS_DTYPE_U8 ? "u8 can be in f32 or i32"
                         : "only u8 can be in another type");
}

static ls_status with_defaults(const ls_examples *dataset,
                               const ls_batcher_options *options,
                               ls_batcher_options *out) {
  *out = options != NULL ? *options : (ls_batcher_options){0};
  if (out->batch_size == 0) out->batch_size = 32;
  const int64_t size = ls_examples_size(dataset);
  if (out->batch_size < 1)
    return ls_invalid_argument("a batch size must be at least 1, got %lld",
                               (long long)out->batch_size);
  if (out->replicas < 0)
    return ls_invalid_argument("batches for %lld replicas: 1 or more can have "
                               "parts of them, 0 stands for whole batches",
                               (long long)out->replicas);
  if (out->drop_remainder && out->batch_size > size)
    return ls_invalid_argument(
        "batches of %lld from %lld examples: no batch would be full, and those "
        "that are not shall be dropped",
        (long long)out->batch_size, (long long)size);
  LS_RETURN_IF_ERROR(choose_dtype(dataset, out));
  const ls_shape own = ls_examples_example_shape(dataset);
  if (out->example_shape.rank == 0) out->example_shape = own;
  if (!ls_shape_is_known(out->example_shape) ||
      out->example_shape.rank >= LS_MAX_RANK ||
      ls_shape_num_elements(out->example_shape) != ls_shape_num_elements(own))
    return ls_invalid_argument(
        "the dataset's examples are %s, which cannot be made %s",
        LS_SHAPE_TEXT(out->dtype, own),
        LS_SHAPE_TEXT(out->dtype, out->example_shape));
  if (size > UINT32_MAX && out->shuffle)
    return LS_STATUS(LS_UNIMPLEMENTED,
                     "shuffling %lld examples: at most 2^32 - 1 can be",
                     (long long)size);
  return ls_ok();
}

ls_status ls_batcher_create(ls_examples *dataset,
                            const ls_batcher_options *options,
                            ls_batcher **out_batcher) {
  LS_REQUIRE(dataset);
  LS_REQUIRE(out_batcher);
  *out_batcher = NULL;
  ls_batcher_options opts;
  LS_RETURN_IF_ERROR(with_defaults(dataset, options, &opts));
  ls_allocator *allocator = ls_current_allocator();
  ls_batcher *batcher = ls_new(allocator, ls_batcher);
  if (batcher == NULL) return ls_out_of_memory();
  const int64_t size = ls_examples_size(dataset);
  batcher->allocator = allocator;
  batcher->dataset = ls_examples_retain(dataset);
  batcher->options = opts;
  batcher->width = ls_shape_num_elements(opts.example_shape);
  batcher->labels = ls_shape_num_elements(ls_examples_label_shape(dataset));
  batcher->num_batches = size / opts.batch_size;
  if (size % opts.batch_size != 0 && !opts.drop_remainder)
    ++batcher->num_batches;
  batcher->ordered_epoch = -1;
  if (opts.shuffle) {
    batcher->order = ls_new_array(allocator, uint32_t, (size_t)size);
    if (batcher->order == NULL) {
      ls_batcher_destroy(batcher);
      return ls_out_of_memory();
    }
  }
  *out_batcher = batcher;
  return ls_ok();
}

void ls_batcher_destroy(ls_batcher *batcher) {
  if (batcher == NULL) return;
  ls_examples_release(batcher->dataset);
  ls_release(batcher->allocator, batcher->order);
  ls_release(batcher->allocator, batcher);
}

// ---- Where it stands -------------------------------------------------------
int64_t ls_batcher_num_batches(const ls_batcher *batcher) {
  return batcher->num_batches;
}

int64_t ls_batcher_epoch(const ls_batcher *batcher) { return batcher->epoch; }
int64_t ls_batcher_batch(const ls_batcher *batcher) { return batcher->batch; }

ls_status ls_batcher_seek(ls_batcher *batcher, int64_t epoch, int64_t batch) {
  LS_REQUIRE(batcher);
  if (epoch < 0 || batch < 0 || batch > batcher->num_batches)
    return ls_invalid_argument(
        "there is no batch %lld of epoch %lld: an epoch has %lld, and both "
        "count from 0",
        (long long)batch, (long long)epoch, (long long)batcher->num_batches);
  batcher->epoch = epoch;
  batcher->batch = batch;
  return ls_ok();
}

// ---- Dealing ---------------------------------------------------------------
static bool can_fill(const ls_batcher *batcher, ls_nest item, ls_dtype dtype,
                     ls_shape shape) {
  const ls_array *array = ls_nest_as_array(item);
  return array != NULL &&
         (batcher->options.in_place || ls_array_is_unique(array)) &&
         ls_array_dtype(array) == dtype &&
         ls_shape_equal(ls_array_shape(array), shape);
}

// The same of parts: one behind the other in memory, as views of one array are.
static bool can_fill_parts(const ls_batcher *batcher, ls_nest item,
                           ls_dtype dtype, ls_shape shape) {
  const int64_t parts = batcher->options.replicas, rows = shape.dim[0];
  if (ls_distributed_count(item) != (size_t)parts ||
      !(batcher->options.in_place || ls_object_is_unique(item.as.ref)))
    return false;
  const char *expected = ls_nest_data(ls_distributed_component(item, 0), 0);
  for (int64_t i = 0; i < parts; ++i) {
    const ls_nest part = ls_distributed_component(item, (size_t)i);
    shape.dim[0] = ls_part_rows(rows, parts, i);
    if (!can_fill(batcher, part, dtype, shape)) return false;
    const ls_array *array = ls_nest_as_array(part);
    if (ls_array_data(array) != expected) return false;
    expected += ls_array_size(array);
  }
  return true;
}

static bool can_fill_item(const ls_batcher *batcher, ls_nest item,
                          ls_dtype dtype, ls_shape shape) {
  return batcher->options.replicas == 0
             ? can_fill(batcher, item, dtype, shape)
             : can_fill_parts(batcher, item, dtype, shape);
}

// An array, whole or in parts.
static ls_nest new_item(const ls_batcher *batcher, ls_dtype dtype,
                        ls_shape shape) {
  const int64_t parts = batcher->options.replicas;
  ls_array *array = NULL;
  ls_nest split = ls_none();
  ls_status status = ls_array_create(dtype, shape, &array);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (parts == 0) return ls_nest_array(array);
  status = ls_array_split(array, parts, &split);
  ls_array_release(array);
  return ls_status_is_ok(status) ? split : ls_fail(status);
}

// Where the elements of an item begin: the first part is never empty.
static void *data_of(const ls_batcher *batcher, ls_nest item) {
  return ls_nest_data(
      batcher->options.replicas == 0 ? item : ls_distributed_component(item, 0),
      0);
}

// Makes `*batch` a tuple of two arrays, or their parts, that may be written.
static ls_status prepare(const ls_batcher *batcher, ls_nest *batch,
                         ls_shape examples, ls_shape labels) {
  const ls_dtype dtype = batcher->options.dtype;
  if (batch->kind == LS_KIND_TUPLE && ls_nest_count(*batch) == 2 &&
      (batcher->options.in_place || ls_object_is_unique(batch->as.ref)) &&
      can_fill_item(batcher, ls_nest_item(*batch, 0), dtype, examples) &&
      can_fill_item(batcher, ls_nest_item(*batch, 1), LS_DTYPE_I32, labels))
    return ls_ok();
  ls_nest_release(*batch);
  *batch = ls_none();
  return ls_take_nest(LS_TUPLE(new_item(batcher, dtype, examples),
                               new_item(batcher, LS_DTYPE_I32, labels)),
                      batch);
}

static void scale_u8(float *to, const uint8_t *from, size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] = (float)from[i] * (1.0F / 255.0F);
}

static void widen_u8(int32_t *to, const uint8_t *from, size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] = from[i];
}

// Copies example `from` of the dataset to row `to`.
static void copy_example(const ls_batcher *batcher, int64_t from, void *x,
                         int32_t *y, int64_t to) {
  const ls_array *examples = ls_examples_examples(batcher->dataset);
  const char *data = ls_array_data(examples);
  const size_t width = (size_t)batcher->width;
  const size_t source = (size_t)from * width, target = (size_t)to * width;
  if (ls_array_dtype(examples) != LS_DTYPE_U8)  // f32 or i32, as it is dealt.
    memcpy((char *)x + target * 4, data + source * 4, width * 4);
  else if (batcher->options.dtype == LS_DTYPE_I32)
    widen_u8((int32_t *)x + target, (const uint8_t *)data + source, width);
  else
    scale_u8((float *)x + target, (const uint8_t *)data + source, width);
  const int32_t *labels = ls_array_data(ls_examples_labels(batcher->dataset));
  const size_t count = (size_t)batcher->labels;
  memcpy(y + (size_t)to * count, labels + (size_t)from * count, count * 4);
}

// [size, shape...]
static ls_shape with_rows(int64_t size, ls_shape shape) {
  ls_shape whole = {.rank = shape.rank + 1, .dim = {size}};
  for (int i = 0; i < shape.rank; ++i)
    whole.dim[i + 1] = shape.dim[i];
  return whole;
}

ls_status ls_batcher_next(ls_batcher *batcher, ls_nest *batch) {
  LS_REQUIRE(batcher);
  LS_REQUIRE(batch);
  if (batcher->batch == batcher->num_batches) {
    ++batcher->epoch;
    batcher->batch = 0;
    return ls_out_of_range("the end of epoch %lld",
                           (long long)batcher->epoch - 1);
  }
  const ls_batcher_options *opts = &batcher->options;
  const int64_t total = ls_examples_size(batcher->dataset);
  const int64_t first = batcher->batch * opts->batch_size;
  const int64_t size =
      total - first < opts->batch_size ? total - first : opts->batch_size;
  LS_RETURN_IF_ERROR(
      prepare(batcher, batch, with_rows(size, opts->example_shape),
              with_rows(size, ls_examples_label_shape(batcher->dataset))));
  if (batcher->order != NULL && batcher->ordered_epoch != batcher->epoch) {
    ls_shuffle((uint64_t)opts->seed, (uint64_t)batcher->epoch, batcher->order,
               (size_t)total);
    batcher->ordered_epoch = batcher->epoch;
  }
  void *x = data_of(batcher, ls_nest_item(*batch, 0));
  int32_t *y = data_of(batcher, ls_nest_item(*batch, 1));
  for (int64_t i = 0; i < size; ++i) {
    const int64_t at = first + i;
    copy_example(batcher, batcher->order != NULL ? batcher->order[at] : at, x,
                 y, i);
  }
  ++batcher->batch;
  return ls_ok();
}
