// SPDX-License-Identifier: Apache-2.0
//
// Where a distributed iterator is, in a record.
//
// Of one pipeline it is a number of elements of that, so that replicas and
// hosts may be others when it goes on; of several, a place in each.
#include <stdio.h>
#include <string.h>

#include "base/require.h"
#include "distribute/input/input.h"
#include "distribute/input/sizes.h"
#include "lockstep/record.h"

// Elements of the only pipeline that have been used.
static int64_t input_record_elements_of(const ls_distributed_iterator *it) {
  const ls_distributed_dataset *data = it->data;
  const int64_t each =
      data->cut == LS_INPUT_SPLIT ? 1 : (int64_t)data->num_replicas;
  return it->given * each;
}

static bool is_one(const ls_distributed_iterator *it) {
  return it->data->num_pipelines == 1 && it->data->cut != LS_INPUT_RECUT &&
         it->data->pipelines[0].dataset != NULL;
}

static ls_status check_callables(const ls_distributed_iterator *it,
                                 const char *what) {
  for (size_t i = 0; i < it->data->num_pipelines; ++i)
    if (it->data->pipelines[i].callable != NULL)
      return ls_failed_precondition("%s of iterator '%s': pipeline %zu is a "
                                    "callable, which has no position",
                                    what, it->name, i);
  return ls_ok();
}

// ---- Saving -----------------------------------------------------------------
// Whether nothing is left of the batch that it has, which then need not be read
// again; it may be one that failed.
static bool is_used_up(const ls_distributed_iterator *it,
                       const ls_input_rows *rows) {
  return it->data->cut_rows < 0 ? rows->taken == (int64_t)it->data->num_replicas
                                : rows->next == rows->rows;
}

static ls_status save_rows(const ls_distributed_iterator *it,
                           const ls_input_rows *rows, ls_record *record) {
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "batches", rows->batches));
  LS_RETURN_IF_ERROR(
      ls_record_set_i64(record, "used_up", is_used_up(it, rows)));
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "row", rows->next));
  return ls_record_set_i64(record, "pieces", rows->taken);
}

// Of a batch that is used in part the iterator stands before it.
static ls_status save_pipeline(ls_distributed_iterator *it, size_t i,
                               ls_record *record) {
  char name[32];
  ls_record *inner = NULL, *source = NULL;
  snprintf(name, sizeof(name), "pipeline%zu", i);
  LS_RETURN_IF_ERROR(ls_record_add(record, name, &inner));
  if (it->rows != NULL) return save_rows(it, &it->rows[i], inner);
  LS_RETURN_IF_ERROR(ls_record_add(inner, "source", &source));
  return ls_iterator_save(it->sources[i], source);
}

static ls_status save_one(ls_distributed_iterator *it, ls_record *record) {
  ls_record *source = NULL;
  LS_RETURN_IF_ERROR(
      ls_record_set_i64(record, "position", input_record_elements_of(it)));
  if (ls_dataset_is_indexed(it->data->pipelines[0].dataset)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_record_add(record, "source", &source));
  return ls_iterator_save(it->sources[0], source);
}

ls_status ls_distributed_iterator_save(ls_distributed_iterator *iterator,
                                       ls_record *record) {
  LS_REQUIRE(iterator);
  LS_REQUIRE(record);
  ls_distributed_iterator *it = iterator;
  const ls_distributed_dataset *data = it->data;
  LS_RETURN_IF_ERROR(check_callables(it, "save"));
  LS_RETURN_IF_ERROR(ls_record_set_text(record, "data", data->text));
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "seed", (int64_t)it->seed));
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "epoch", it->epoch));
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "given", it->given));
  if (is_one(it)) return save_one(it, record);
  LS_RETURN_IF_ERROR(
      ls_record_set_i64(record, "pipelines", (int64_t)data->num_pipelines));
  for (size_t i = 0; i < data->num_pipelines; ++i)
    if (it->sources[i] != NULL)
      LS_RETURN_IF_ERROR(save_pipeline(it, i, record));
  return ls_ok();
}

// ---- Restoring --------------------------------------------------------------
static ls_status check_record(const ls_distributed_iterator *it,
                              const ls_record *record) {
  const char *text = NULL;
  int64_t seed = 0;
  LS_RETURN_IF_ERROR(ls_record_get_text(record, "data", &text));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "seed", &seed));
  if (strcmp(text, it->data->text) != 0)
    return ls_invalid_argument("iterator '%s' of %s is restored from a place "
                               "in %s",
                               it->name, it->data->text, text);
  if (seed != (int64_t)it->seed)
    return ls_invalid_argument("iterator '%s' with seed %llu is restored from "
                               "a place with seed %llu",
                               it->name, (unsigned long long)it->seed,
                               (unsigned long long)seed);
  return ls_ok();
}

static ls_status input_record_restore_one(ls_distributed_iterator *it,
                                          const ls_record *record) {
  int64_t position = 0;
  const ls_record *source = NULL;
  const ls_distributed_dataset *data = it->data;
  const int64_t each =
      data->cut == LS_INPUT_SPLIT ? 1 : (int64_t)data->num_replicas;
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "position", &position));
  if (position < 0 || position % each != 0)
    return ls_invalid_argument(
        "iterator '%s' for %zu replicas is restored from element %lld, which "
        "is not where a step begins",
        it->name, data->num_replicas, (long long)position);
  it->given = position / each;
  if (data->is_turns)
    return ls_iterator_seek(
        it->sources[0], it->given * (int64_t)(data->end_own - data->first_own));
  if (ls_dataset_is_indexed(data->pipelines[0].dataset))
    return ls_iterator_seek(it->sources[0], position);
  LS_RETURN_IF_ERROR(ls_record_find(record, "source", &source));
  return ls_iterator_restore(it->sources[0], source);
}

// Records of before have no such entry.
static ls_status get_used_up(const ls_record *record, int64_t *out_used_up) {
  const ls_status status = ls_record_get_i64(record, "used_up", out_used_up);
  if (ls_status_code(status) != LS_NOT_FOUND) return status;
  ls_status_free(status);
  *out_used_up = 0;
  return ls_ok();
}

// How many rows the first pieces of a batch have.
static int64_t rows_of_pieces(const ls_distributed_iterator *it, int64_t rows,
                              int64_t pieces) {
  int64_t sum = 0;
  for (int64_t i = 0; i < pieces; ++i)
    sum += ls_part_rows_up(rows, (int64_t)it->data->num_replicas, i);
  return sum;
}

// Reads the batch that was used in part again.
static ls_status restore_rows(ls_distributed_iterator *it, size_t i,
                              const ls_record *record) {
  ls_input_rows *rows = &it->rows[i];
  int64_t batches = 0, row = 0, taken = 0, used_up = 0;
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "batches", &batches));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "row", &row));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "pieces", &taken));
  LS_RETURN_IF_ERROR(get_used_up(record, &used_up));
  const int64_t most =
      it->data->cut_rows < 0 ? (int64_t)it->data->num_replicas : INT64_MAX / 4;
  const bool whole = used_up == 0 || it->data->cut_rows >= 0 || taken == most;
  if (batches < 0 || row < 0 || taken < 0 || taken > most || !whole)
    return ls_invalid_argument(
        "iterator '%s' is restored from row %lld of batch %lld, piece %lld",
        it->name, (long long)row, (long long)batches, (long long)taken);
  const bool again = batches > 0 && used_up == 0;
  LS_RETURN_IF_ERROR(ls_iterator_seek(it->sources[i], batches - again));
  rows->batches = batches - again;
  if (again) LS_RETURN_IF_ERROR(ls_input_read_batch(it, i));
  rows->taken = taken;
  if (!again) return ls_ok();
  if (row > rows->rows ||
      (it->data->cut_rows < 0 && row != rows_of_pieces(it, rows->rows, taken)))
    return ls_invalid_argument(
        "iterator '%s' is restored from row %lld of a batch of %lld, behind "
        "%lld pieces",
        it->name, (long long)row, (long long)rows->rows, (long long)taken);
  rows->next = row;
  return ls_ok();
}

static ls_status restore_pipeline(ls_distributed_iterator *it, size_t i,
                                  const ls_record *record) {
  char name[32];
  const ls_record *inner = NULL, *source = NULL;
  snprintf(name, sizeof(name), "pipeline%zu", i);
  LS_RETURN_IF_ERROR(ls_record_find(record, name, &inner));
  if (it->rows != NULL) return restore_rows(it, i, inner);
  LS_RETURN_IF_ERROR(ls_record_find(inner, "source", &source));
  return ls_iterator_restore(it->sources[i], source);
}

static ls_status restore_several(ls_distributed_iterator *it,
                                 const ls_record *record) {
  int64_t pipelines = 1, given = 0;
  const size_t count = it->data->num_pipelines;
  const ls_status one = ls_record_get_i64(record, "pipelines", &pipelines);
  if (!ls_status_is_ok(one)) pipelines = 1;
  ls_status_free(one);
  if (pipelines != (int64_t)count)
    return ls_invalid_argument("iterator '%s' of %zu pipelines is restored "
                               "from a place in %lld",
                               it->name, count, (long long)pipelines);
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "given", &given));
  if (given < 0)
    return ls_invalid_argument("iterator '%s' is restored behind %lld elements",
                               it->name, (long long)given);
  for (size_t i = 0; i < count; ++i)
    if (it->sources[i] != NULL)
      LS_RETURN_IF_ERROR(restore_pipeline(it, i, record));
  it->given = given;
  return ls_ok();
}

ls_status ls_distributed_iterator_restore(ls_distributed_iterator *iterator,
                                          const ls_record *record) {
  LS_REQUIRE(iterator);
  LS_REQUIRE(record);
  int64_t epoch = 0;
  LS_RETURN_IF_ERROR(check_callables(iterator, "restore"));
  LS_RETURN_IF_ERROR(check_record(iterator, record));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "epoch", &epoch));
  const int64_t before = iterator->epoch;
  ls_status status = ls_input_start_epoch(iterator, epoch);
  if (ls_status_is_ok(status))
    status = is_one(iterator) ? input_record_restore_one(iterator, record)
                              : restore_several(iterator, record);
  if (ls_status_is_ok(status)) return status;
  return ls_status_join(status, ls_input_start_epoch(iterator, before));
}
