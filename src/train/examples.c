// SPDX-License-Identifier: Apache-2.0
// Numbers of the examples of a batch in the data's source, for reports.
#include <math.h>

#include "base/plain.h"
#include "base/text.h"
#include "base/values/nest_internal.h"
#include "data/dataset.h"
#include "data/fetch.h"
#include "train/input.h"
#include "train/loop.h"

// Finds the numbers in the data's source of the examples from `first` on that
// make a batch of at most `size`, in an epoch of `batches`.
//   LS_UNIMPLEMENTED  the source is a stream.
static ls_status find_batch(ls_allocator *allocator, const ls_dataset *batches,
                            uint64_t seed, int64_t epoch, int64_t first,
                            int64_t size, int64_t *examples, size_t capacity,
                            size_t *out_count) {
  const ls_dataset *source = batches;  // Perhaps in parts.
  *out_count = 0;
  while (strcmp(source->kind->name, "batch") != 0)
    source = source->inputs[0];
  source = source->inputs[0];
  if (!source->indexed)
    return ls_unimplemented("numbers of the examples of a stream");
  const int64_t left = source->size < 0 ? size : source->size - first;
  *out_count = (size_t)(left < size ? left : size);
  const size_t count = *out_count < capacity ? *out_count : capacity;
  LS_OWN(ls_fetch, fetch) = {0};
  ls_fetch_init(&fetch, allocator, seed);
  fetch.epoch = epoch;
  for (size_t i = 0; i < count; ++i)
    examples[i] = first + (int64_t)i;
  ls_dataset_find_ids(source, &fetch, examples, count, examples);
  return ls_ok();
}

ls_status ls_train_name_example(ls_allocator *allocator,
                                const ls_dataset *batches, uint64_t seed,
                                int64_t epoch, int64_t index,
                                ls_status status) {
  int64_t example = 0;
  size_t count = 0;
  const ls_status found = find_batch(allocator, batches, seed, epoch, index, 1,
                                     &example, 1, &count);
  const bool is_known = ls_status_is_ok(found) && count == 1;
  ls_status_free(found);
  return is_known
             ? ls_status_annotate(status,
                                  "example %lld of the data, counted from 0",
                                  (long long)example)
             : status;
}

// Finds the numbers of the examples of step `step` of the run, counted from 0.
static ls_status find_examples(const ls_loop *loop, int64_t step,
                               int64_t *examples, size_t capacity,
                               size_t *out_count) {
  const ls_train_options *o = &loop->plan.options;
  const int64_t epoch = step / loop->plan.steps_per_epoch;
  const int64_t number = step % loop->plan.steps_per_epoch;
  return find_batch(ls_runtime_allocator(loop->runtime), loop->batches,
                    (uint64_t)o->seed, epoch, number * o->batch_size,
                    o->batch_size, examples, capacity, out_count);
}

ls_status ls_loop_examples(void *user, int64_t *examples, size_t capacity,
                           size_t *out_count) {
  const ls_loop *loop = user;
  const int64_t steps = ls_loop_steps(loop);
  return steps > 0
             ? find_examples(loop, steps - 1, examples, capacity, out_count)
             : ls_failed_precondition(
                   "the examples of the last step before the first step");
}

// Finds the row of the batch whose NaN is the first; -1: not known.
static int64_t find_row(const ls_loop *loop, int64_t count) {
  const ls_nan_row *nan = &loop->runtime->nan_row;
  const int64_t parts = ls_strategy_num_replicas(loop->plan.options.strategy);
  int64_t row = nan->row;
  if (row < 0 || nan->replica >= parts ||
      nan->rows != ls_part_rows(count, parts, nan->replica))
    return -1;
  for (int32_t r = 0; r < nan->replica; ++r)
    row += ls_part_rows(count, parts, r);
  return row;
}

ls_status ls_loop_name_examples(const ls_loop *loop, ls_status status) {
  enum { MOST = 8 };
  ls_allocator *allocator = ls_runtime_allocator(loop->runtime);
  const size_t most = (size_t)loop->plan.options.batch_size;
  size_t count = 0;
  LS_OWN_ARRAY(allocator, int64_t, examples, most);
  LS_OWN(ls_text, text) = {.allocator = allocator};
  if (examples == NULL) return status;
  const ls_status found =
      find_examples(loop, ls_loop_steps(loop), examples, most, &count);
  const int64_t row =
      ls_status_is_ok(found) ? find_row(loop, (int64_t)count) : -1;
  if (row >= 0)
    ls_text_append_format(&text, "example %lld; ", (long long)examples[row]);
  ls_text_append(&text, "the batch has examples");
  for (size_t i = 0; i < count && i < MOST; ++i)
    ls_text_append_format(&text, "%s %lld", i == 0 ? "" : ",",
                          (long long)examples[i]);
  if (count > MOST) ls_text_append_format(&text, " and %zu more", count - MOST);
  const bool is_known = ls_status_is_ok(found) && count > 0;
  ls_status_free(found);
  return is_known ? ls_status_annotate(status, "%s", ls_text_data(&text))
                  : status;
}

// Finds the first row of an array with a float that is not finite. Returns -1
// if there is none, else sets *out_value to the float.
static int64_t find_infinite_in(const ls_array *array, double *out_value) {
  if (array == NULL || !ls_dtype_is_float(ls_array_dtype(array))) return -1;
  const ls_shape shape = ls_array_shape(array);
  const int64_t count = ls_array_num_elements(array);
  if (shape.rank < 1 || count == 0) return -1;
  for (int64_t i = 0; i < count; ++i) {
    *out_value = ls_array_f64(array, i);
    if (!isfinite(*out_value)) return i / (count / shape.dim[0]);
  }
  return -1;
}

// Finds the first row of a batch whose example has such a float, and in
// *out_rows the number of rows. Returns -1 if there is none.
static int64_t find_infinite_row(ls_nest batch, int64_t *out_rows,
                                 double *out_value) {
  const ls_nest leaf = ls_nest_item(batch, 0);
  const size_t parts = ls_distributed_count(leaf);
  int64_t found = -1;
  *out_rows = 0;
  for (size_t r = 0; r < (parts > 0 ? parts : 1); ++r) {
    const ls_array *part = ls_nest_as_array(ls_distributed_component(leaf, r));
    if (part == NULL || ls_array_shape(part).rank < 1) return -1;
    const int64_t row = found < 0 ? find_infinite_in(part, out_value) : -1;
    if (row >= 0) found = *out_rows + row;
    *out_rows += ls_array_shape(part).dim[0];
  }
  return found;
}

bool ls_loop_find_infinite(const ls_loop *loop, ls_nest batch, char *buffer,
                           size_t size) {
  int64_t rows = 0;
  double value = 0;
  const int64_t row = find_infinite_row(batch, &rows, &value);
  if (row < 0) return false;
  size_t count = 0;
  LS_OWN_ARRAY(ls_runtime_allocator(loop->runtime), int64_t, examples,
               (size_t)rows);
  const ls_status found = examples == NULL
                              ? ls_out_of_memory()
                              : find_examples(loop, ls_loop_steps(loop),
                                              examples, (size_t)rows, &count);
  const char *what = isnan(value) ? "NaN" : "an infinite number";
  // On ranks, a batch has only this rank's rows.
  if (ls_status_is_ok(found) && (int64_t)count == rows)
    ls_format(buffer, size, "example %lld of the data has %s",
              (long long)examples[row], what);
  else
    ls_format(buffer, size, "an example of the batch has %s", what);
  ls_status_free(found);
  return true;
}
