// SPDX-License-Identifier: Apache-2.0
//
// Positions of distributed iterators in checkpoints.
//
// A single pipeline saves its number of elements, so that a run may continue
// with other replicas and hosts. Of several pipelines, each saves a position.
#include <stdio.h>
#include <string.h>

#include "base/require.h"
#include "distribute/input/feed.h"
#include "distribute/input/input.h"
#include "lockstep/record.h"

// Returns how many elements of the single pipeline a step uses.
static int64_t elements_per_step(const ls_distributed_iterator *self) {
  return self->data->cut == LS_INPUT_SPLIT ? 1
                                           : (int64_t)self->data->num_replicas;
}

// Returns the number of elements of the single pipeline; below 0: not known, or
// endless.
static int64_t count_elements(const ls_distributed_iterator *self) {
  return self->data->is_turns
             ? self->data->elements
             : ls_dataset_cardinality(self->data->pipelines[0].dataset);
}

static bool is_one(const ls_distributed_iterator *self) {
  return self->data->num_pipelines == 1 &&
         self->data->cut != LS_INPUT_REBATCH &&
         self->data->pipelines[0].dataset != NULL;
}

static ls_status check_callables(const ls_distributed_iterator *self,
                                 const char *what) {
  for (size_t i = 0; i < self->data->num_pipelines; ++i)
    if (self->data->pipelines[i].callable != NULL)
      return ls_failed_precondition("%s of iterator '%s': pipeline %zu is a "
                                    "callable, which has no position",
                                    what, self->name, i);
  return ls_ok();
}

// ---- Save -------------------------------------------------------------------
// Returns true if all rows of the current batch were used, so that it need not
// be read again after a restore; it may have failed.
static bool is_used_up(const ls_distributed_iterator *self,
                       const ls_input_rows *rows) {
  return self->data->batch_rows < 0
             ? rows->taken == (int64_t)self->data->num_replicas
             : rows->next == rows->rows;
}

static ls_status save_rows(const ls_distributed_iterator *self,
                           const ls_input_rows *rows, ls_record *record) {
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "batches", rows->batches));
  LS_RETURN_IF_ERROR(
      ls_record_set_i64(record, "used_up", is_used_up(self, rows)));
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "row", rows->next));
  return ls_record_set_i64(record, "pieces", rows->taken);
}

// Saves a pipeline's position, and how many rows of its current batch were
// used.
static ls_status save_pipeline(ls_distributed_iterator *self, size_t i,
                               ls_record *record) {
  char name[32];
  ls_record *inner = NULL, *source = NULL;
  snprintf(name, sizeof(name), "pipeline%zu", i);
  LS_RETURN_IF_ERROR(ls_record_add(record, name, &inner));
  if (self->rows != NULL) return save_rows(self, &self->rows[i], inner);
  LS_RETURN_IF_ERROR(ls_record_add(inner, "source", &source));
  return ls_iterator_save(self->sources[i], source);
}

static ls_status save_one(ls_distributed_iterator *self, ls_record *record) {
  ls_record *source = NULL;
  const int64_t elements = count_elements(self);
  int64_t position = self->given * elements_per_step(self);
  // The last step may lack elements for some replicas.
  if (elements >= 0 && position > elements) position = elements;
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "position", position));
  if (ls_dataset_is_indexed(self->data->pipelines[0].dataset)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_record_add(record, "source", &source));
  return ls_iterator_save(self->sources[0], source);
}

ls_status ls_distributed_iterator_save(ls_distributed_iterator *iterator,
                                       ls_record *record) {
  LS_REQUIRE(iterator, record);
  ls_distributed_iterator *self = iterator;
  const ls_distributed_dataset *data = self->data;
  LS_RETURN_IF_ERROR(check_callables(self, "save"));
  LS_RETURN_IF_ERROR(ls_record_set_text(record, "data", data->text));
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "seed", (int64_t)self->seed));
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "epoch", self->epoch));
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "given", self->given));
  if (is_one(self)) return save_one(self, record);
  LS_RETURN_IF_ERROR(
      ls_record_set_i64(record, "pipelines", (int64_t)data->num_pipelines));
  for (size_t i = 0; i < data->num_pipelines; ++i)
    if (self->sources[i] != NULL)
      LS_RETURN_IF_ERROR(save_pipeline(self, i, record));
  return ls_ok();
}

// ---- Restore ----------------------------------------------------------------
static ls_status check_record(const ls_distributed_iterator *self,
                              const ls_record *record) {
  const char *text = NULL;
  int64_t seed = 0;
  LS_RETURN_IF_ERROR(ls_record_get_text(record, "data", &text));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "seed", &seed));
  if (strcmp(text, self->data->text) != 0)
    return ls_invalid_argument(
        "iterator '%s' of %s is restored from a place in %s", self->name,
        self->data->text, text);
  if (seed != (int64_t)self->seed)
    return ls_invalid_argument(
        "iterator '%s' with seed %llu is restored from a place with seed %llu",
        self->name, (unsigned long long)self->seed, (unsigned long long)seed);
  return ls_ok();
}

static ls_status input_record_restore_one(ls_distributed_iterator *self,
                                          const ls_record *record) {
  int64_t position = 0;
  const ls_record *source = NULL;
  const ls_distributed_dataset *data = self->data;
  const int64_t each = elements_per_step(self);
  const int64_t elements = count_elements(self);
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "position", &position));
  // Older checkpoints count elements that the last step lacked.
  if (elements >= 0 && position > elements && position - elements < each)
    position = elements;
  if (position < 0 || (position % each != 0 && position != elements))
    return ls_invalid_argument(
        "iterator '%s' for %zu replicas is restored from element %lld, which "
        "is not where a step begins",
        self->name, data->num_replicas, (long long)position);
  self->given = position / each + (position % each > 0);
  if (data->is_turns)
    return ls_iterator_seek(self->sources[0],
                            self->given *
                                (int64_t)(data->end_own - data->first_own));
  if (ls_dataset_is_indexed(data->pipelines[0].dataset))
    return ls_iterator_seek(self->sources[0], position);
  LS_RETURN_IF_ERROR(ls_record_find(record, "source", &source));
  return ls_iterator_restore(self->sources[0], source);
}

// Reads the entry "used_up", which older checkpoints lack.
static ls_status get_used_up(const ls_record *record, int64_t *out_used_up) {
  const ls_status status = ls_record_get_i64(record, "used_up", out_used_up);
  if (ls_status_code(status) != LS_NOT_FOUND) return status;
  ls_status_free(status);
  *out_used_up = 0;
  return ls_ok();
}

// Reads a partly used batch again.
static ls_status restore_rows(ls_distributed_iterator *self, size_t i,
                              const ls_record *record) {
  ls_input_rows *rows = &self->rows[i];
  int64_t batches = 0, row = 0, taken = 0, used_up = 0;
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "batches", &batches));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "row", &row));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "pieces", &taken));
  LS_RETURN_IF_ERROR(get_used_up(record, &used_up));
  const int64_t most = self->data->batch_rows < 0
                           ? (int64_t)self->data->num_replicas
                           : INT64_MAX / 4;
  const bool whole =
      used_up == 0 || self->data->batch_rows >= 0 || taken == most;
  if (batches < 0 || row < 0 || taken < 0 || taken > most || !whole)
    return ls_invalid_argument(
        "iterator '%s' is restored from row %lld of batch %lld, piece %lld",
        self->name, (long long)row, (long long)batches, (long long)taken);
  const bool again = batches > 0 && used_up == 0;
  LS_RETURN_IF_ERROR(ls_iterator_seek(self->sources[i], batches - again));
  rows->batches = batches - again;
  if (again) LS_RETURN_IF_ERROR(ls_input_read_batch(self, i));
  rows->taken = taken;
  if (!again) return ls_ok();
  if (row > rows->rows ||
      (self->data->batch_rows < 0 &&
       row != ls_shares_begin(&self->data->shares, rows->rows, taken)))
    return ls_invalid_argument("iterator '%s' is restored from row %lld of a "
                               "batch of %lld, after %lld pieces",
                               self->name, (long long)row,
                               (long long)rows->rows, (long long)taken);
  rows->next = row;
  return ls_ok();
}

static ls_status restore_pipeline(ls_distributed_iterator *self, size_t i,
                                  const ls_record *record) {
  char name[32];
  const ls_record *inner = NULL, *source = NULL;
  snprintf(name, sizeof(name), "pipeline%zu", i);
  LS_RETURN_IF_ERROR(ls_record_find(record, name, &inner));
  if (self->rows != NULL) return restore_rows(self, i, inner);
  LS_RETURN_IF_ERROR(ls_record_find(inner, "source", &source));
  return ls_iterator_restore(self->sources[i], source);
}

static ls_status restore_several(ls_distributed_iterator *self,
                                 const ls_record *record) {
  int64_t pipelines = 1, given = 0;
  const size_t count = self->data->num_pipelines;
  const ls_status one = ls_record_get_i64(record, "pipelines", &pipelines);
  if (!ls_status_is_ok(one)) pipelines = 1;
  ls_status_free(one);
  if (pipelines != (int64_t)count)
    return ls_invalid_argument(
        "iterator '%s' of %zu pipelines is restored from a place in %lld",
        self->name, count, (long long)pipelines);
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "given", &given));
  if (given < 0)
    return ls_invalid_argument("iterator '%s' is restored after %lld elements",
                               self->name, (long long)given);
  for (size_t i = 0; i < count; ++i)
    if (self->sources[i] != NULL)
      LS_RETURN_IF_ERROR(restore_pipeline(self, i, record));
  self->given = given;
  return ls_ok();
}

static ls_status restore_position(ls_distributed_iterator *self,
                                  const ls_record *record, int64_t epoch) {
  LS_RETURN_IF_ERROR(ls_input_start_epoch(self, epoch));
  return is_one(self) ? input_record_restore_one(self, record)
                      : restore_several(self, record);
}

ls_status ls_distributed_iterator_restore(ls_distributed_iterator *iterator,
                                          const ls_record *record) {
  LS_REQUIRE(iterator, record);
  int64_t epoch = 0;
  LS_RETURN_IF_ERROR(check_callables(iterator, "restore"));
  LS_RETURN_IF_ERROR(check_record(iterator, record));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "epoch", &epoch));
  const int64_t before = iterator->epoch;
  const ls_status status = restore_position(iterator, record, epoch);
  if (ls_status_is_ok(status)) return status;
  return ls_status_join(status, ls_input_start_epoch(iterator, before));
}
