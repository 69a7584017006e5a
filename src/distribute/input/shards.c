// SPDX-License-Identifier: Apache-2.0
//
// Shards of data sets: pipelines for a host or a rank, made from some of a data
// set's sources, or from a part of each batch.
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "data/dataset.h"
#include "data/streams.h"
#include "distribute/input/feed.h"
#include "distribute/input/input.h"
#include "lockstep/element_spec.h"

// ---- Shard hints ------------------------------------------------------------
static ls_dataset *remake_hint(const ls_dataset *dataset, ls_dataset **inputs) {
  (void)dataset;
  return ls_dataset_shard_hint(inputs[0]);
}

static const ls_dataset_class hint_class = {.name = "shard_hint",
                                            .remake = remake_hint,
                                            .locate = ls_dataset_locate_same,
                                            .stage = &ls_prefetch_stage};

ls_dataset *ls_dataset_shard_hint(ls_dataset *dataset) {
  return LS_DATASET_NEW(ls_dataset, &hint_class, &dataset, 1, ls_ok());
}

// ---- Search -----------------------------------------------------------------
// Returns true for a source whose files can be shared out.
static bool reads_files(const ls_dataset *dataset) {
  return dataset->kind->shard_files != NULL;
}

static bool is_hint(const ls_dataset *dataset) {
  return dataset->kind == &hint_class;
}

static bool has_any(const ls_dataset *dataset,
                    bool (*matches)(const ls_dataset *dataset)) {
  if (matches(dataset)) return true;
  for (size_t i = 0; i < dataset->num_inputs; ++i)
    if (has_any(dataset->inputs[i], matches)) return true;
  return false;
}

bool ls_input_reads_files(const ls_dataset *dataset) {
  return has_any(dataset, reads_files);
}

bool ls_input_has_hint(const ls_dataset *dataset) {
  return has_any(dataset, is_hint);
}

// ---- Shards -----------------------------------------------------------------
typedef struct sharding {
  ls_shard_policy policy;
  int64_t count, index;
} sharding;

static ls_dataset *shards_rebuild(ls_dataset *dataset, const sharding *s);

// Shards the inputs of a data set, and makes the data set anew if an input has
// changed.
static ls_dataset *rebuild_inputs(ls_dataset *dataset, const sharding *s) {
  bool changed = false, failed = false;
  LS_OWN_ARRAY(dataset->allocator, ls_dataset *, inputs, dataset->num_inputs);
  if (inputs == NULL) return NULL;
  for (size_t i = 0; i < dataset->num_inputs; ++i) {
    inputs[i] = shards_rebuild(dataset->inputs[i], s);
    changed = changed || inputs[i] != dataset->inputs[i];
    failed = failed || inputs[i] == NULL;
  }
  ls_dataset *made = NULL;
  if (changed && !failed) {
    made = dataset->kind->remake(dataset, inputs);
  } else {
    if (!failed) made = ls_dataset_retain(dataset);
    for (size_t i = 0; i < dataset->num_inputs; ++i)
      ls_dataset_release(inputs[i]);
  }
  return made;
}

// Shards a data set; the caller releases the result, NULL without memory.
static ls_dataset *shards_rebuild(ls_dataset *dataset, const sharding *s) {
  if (s->policy == LS_SHARD_FILE && reads_files(dataset))
    return dataset->kind->shard_files(dataset, s->count, s->index);
  if (s->policy == LS_SHARD_HINT && is_hint(dataset))
    return ls_dataset_shard(ls_dataset_retain(dataset->inputs[0]), s->count,
                            s->index);
  return dataset->num_inputs == 0 ? ls_dataset_retain(dataset)
                                  : rebuild_inputs(dataset, s);
}

ls_dataset *ls_input_shard(ls_dataset *dataset, ls_shard_policy policy,
                           int64_t count, int64_t index) {
  const sharding s = {policy, count, index};
  if (policy == LS_SHARD_DATA)
    return ls_dataset_shard(ls_dataset_retain(dataset), count, index);
  return policy == LS_SHARD_OFF ? ls_dataset_retain(dataset)
                                : shards_rebuild(dataset, &s);
}

// ---- Batches ----------------------------------------------------------------
static bool is_batch(const ls_dataset *dataset) {
  return strcmp(dataset->kind->name, "batch") == 0;
}

// Finds the last step that makes batches. Buckets do not count, because their
// batches differ in size.
static const ls_dataset *last_batch(const ls_dataset *dataset) {
  if (is_batch(dataset) || strcmp(dataset->kind->name, "bucket") == 0)
    return dataset;
  for (size_t i = 0; i < dataset->num_inputs; ++i) {
    const ls_dataset *found = last_batch(dataset->inputs[i]);
    if (found != NULL) return found;
  }
  return NULL;
}

int64_t ls_input_batch_rows(const ls_dataset *dataset, bool *out_batched) {
  const ls_dataset *batch = last_batch(dataset);
  int64_t rows =
      dataset->num_leaves == 0 ? -1 : dataset->leaves[0].type.shape.dim[0];
  *out_batched = batch != NULL;
  for (size_t i = 0; i < dataset->num_leaves; ++i)
    if (dataset->leaves[i].type.shape.dim[0] != rows) rows = -1;
  if (rows < 0 && batch != NULL && is_batch(batch))
    rows = ((const ls_batch_dataset *)batch)->options.size;
  return rows > 0 ? rows : -1;
}

// ---- Parts ------------------------------------------------------------------
// A data set with some replicas' rows of each batch of another data set. Other
// rows are not read.
typedef struct part_dataset {
  ls_dataset base;  // Has the same input as the data set of batches.
  ls_dataset *batches;
  ls_row_shares shares;
  int64_t size, first, end;
} part_dataset;

static void destroy_part(ls_dataset *dataset) {
  ls_dataset_release(((part_dataset *)dataset)->batches);
}

static void place_part(const part_dataset *self, int64_t index,
                       int64_t *out_rows, int64_t *out_from, int64_t *out_end) {
  const int64_t all = self->base.inputs[0]->size;
  const int64_t left = all - index * self->size;
  const int64_t rows = all >= 0 && left < self->size ? left : self->size;
  *out_rows = rows;
  *out_from = ls_shares_begin(&self->shares, rows, self->first);
  *out_end = ls_shares_begin(&self->shares, rows, self->end);
}

static ls_status get_part(const ls_dataset *dataset, ls_fetch *fetch,
                          int64_t index, ls_nest *element) {
  const part_dataset *self = (const part_dataset *)dataset;
  const size_t count = dataset->num_leaves;
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_ROOM_OR_RETURN(fetch, ls_nest, leaves, count);
  LS_ROOM_OR_RETURN(fetch, ls_type, types, count);
  LS_ROOM_OR_RETURN(fetch, void *, rows, count);
  LS_ROOM_OR_RETURN(fetch, int64_t, indices, (size_t)self->size);
  int64_t num_rows = 0, from = 0, end = 0;
  place_part(self, index, &num_rows, &from, &end);
  for (size_t i = 0; i < count; ++i) {
    types[i] = dataset->leaves[i].type;
    if (i + 1 < count) types[i].shape.dim[0] = end - from;
  }
  LS_RETURN_IF_ERROR(
      ls_element_reuse(dataset->structure, types, count, element));
  ls_nest_flatten(*element, leaves, count);
  for (size_t i = 0; i < count; ++i)
    rows[i] = ls_array_mutable_data(ls_nest_as_array(leaves[i]));
  ls_array_set_i64(ls_nest_as_array(leaves[count - 1]), 0, num_rows);
  for (int64_t i = from; i < end; ++i)
    indices[i - from] = index * self->size + i;
  return ls_dataset_read(dataset->inputs[0], fetch, indices,
                         (size_t)(end - from), rows);
}

static const ls_dataset_class part_class = {.name = "part",
                                            .destroy = destroy_part,
                                            .get = get_part,
                                            .id = ls_dataset_id_own};

static ls_status fill_part(part_dataset *self, ls_dataset *batches) {
  ls_dataset *base = &self->base;
  self->batches = ls_dataset_retain(batches);
  base->size = batches->size;
  base->most = batches->most;
  const ls_nest rows = ls_dataset_spec_nest(batches);
  return ls_dataset_set_spec(
      base, LS_TUPLE(rows, ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)));
}

static ls_dataset *make_part(ls_dataset *batches, int64_t replicas,
                             int64_t first, int64_t end) {
  ls_dataset *input = ls_dataset_retain(batches->inputs[0]);
  part_dataset *self =
      LS_DATASET_NEW(part_dataset, &part_class, &input, 1, ls_ok());
  if (self == NULL || !ls_status_is_ok(self->base.failure))
    return (ls_dataset *)self;
  self->size = ((const ls_batch_dataset *)batches)->options.size;
  self->shares.parts = replicas;
  self->first = first;
  self->end = end;
  return ls_dataset_fail(&self->base, fill_part(self, batches));
}

// Returns true for batches of plain rows, without a mask or counts.
static bool has_parts(const ls_dataset *dataset) {
  if (!is_batch(dataset) || !dataset->indexed) return false;
  const ls_batch_dataset *batch = (const ls_batch_dataset *)dataset;
  return dataset->inputs[0]->rows && batch->options.padded_shapes == NULL &&
         batch->options.remainder != LS_REMAINDER_PAD && !batch->options.ids;
}

ls_dataset *ls_input_part(ls_dataset *dataset, int64_t replicas, int64_t first,
                          int64_t end) {
  if (has_parts(dataset)) return make_part(dataset, replicas, first, end);
  // Refuses other steps, except those that only change the order of batches.
  if (dataset->num_inputs != 1 || !dataset->indexed ||
      dataset->kind->locate == NULL || dataset->kind->remake == NULL)
    return NULL;
  ls_dataset *input = ls_input_part(dataset->inputs[0], replicas, first, end);
  return input == NULL ? NULL : dataset->kind->remake(dataset, &input);
}

// ---- Turns ------------------------------------------------------------------
// A data set of the elements that some replicas get when all take turns. An
// incomplete last group is left out.
typedef struct turn_dataset {
  ls_dataset base;
  int64_t replicas, first, own;
} turn_dataset;

static void locate_turn(const ls_dataset *dataset, const ls_fetch *fetch,
                        const int64_t *indices, size_t count, int64_t *out) {
  (void)fetch;
  const turn_dataset *self = (const turn_dataset *)dataset;
  for (size_t i = 0; i < count; ++i)
    out[i] = indices[i] / self->own * self->replicas + self->first +
             indices[i] % self->own;
}

static const ls_dataset_class turn_class = {.name = "turns",
                                            .locate = locate_turn};

ls_dataset *ls_input_turns(ls_dataset *dataset, int64_t replicas, int64_t first,
                           int64_t end) {
  const int64_t own = end - first;
  if (!dataset->indexed || !dataset->rows || own == 0) return NULL;
  ls_dataset *input = ls_dataset_retain(dataset);
  turn_dataset *self =
      LS_DATASET_NEW(turn_dataset, &turn_class, &input, 1, ls_ok());
  if (self == NULL || !ls_status_is_ok(self->base.failure))
    return (ls_dataset *)self;
  self->replicas = replicas;
  self->first = first;
  self->own = own;
  if (self->base.size >= 0) self->base.size = self->base.size / replicas * own;
  self->base.most = self->base.most / replicas * own;
  return &self->base;
}
