// SPDX-License-Identifier: Apache-2.0
// Numbers of the examples of a batch in the data's source, for reports.
#include "base/text.h"
#include "base/values/nest_internal.h"
#include "data/dataset.h"
#include "data/fetch.h"
#include "data/own.h"
#include "train/loop.h"

// Finds the numbers of the examples of batch `number` of the epoch.
static ls_status find_examples(const ls_loop *loop, int64_t number,
                               int64_t *examples, size_t capacity,
                               size_t *out_count) {
  const ls_train_options *o = &loop->plan.options;
  const ls_dataset *source = loop->batches;  // Perhaps in parts.
  *out_count = 0;
  while (strcmp(source->kind->name, "batch") != 0)
    source = source->inputs[0];
  source = source->inputs[0];
  if (!source->indexed)
    return ls_unimplemented("numbers of the examples of a stream");
  const int64_t first = number * o->batch_size;
  const int64_t left = source->size < 0 ? o->batch_size : source->size - first;
  *out_count = (size_t)(left < o->batch_size ? left : o->batch_size);
  const size_t count = *out_count < capacity ? *out_count : capacity;
  LS_OWN(ls_fetch, fetch) = {0};
  ls_fetch_init(&fetch, ls_runtime_allocator(loop->runtime), (uint64_t)o->seed);
  fetch.epoch = loop->epoch;
  for (size_t i = 0; i < count; ++i)
    examples[i] = first + (int64_t)i;
  ls_dataset_find_ids(source, &fetch, examples, count, examples);
  return ls_ok();
}

ls_status ls_loop_examples(void *user, int64_t *examples, size_t capacity,
                           size_t *out_count) {
  const ls_loop *loop = user;
  return find_examples(loop, ls_loop_epoch_steps(loop) - 1, examples, capacity,
                       out_count);
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
  LS_OWN(ls_text, text) = {0};
  ls_text_init(&text, allocator);
  if (examples == NULL) return status;
  const ls_status found =
      find_examples(loop, ls_loop_epoch_steps(loop), examples, most, &count);
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
