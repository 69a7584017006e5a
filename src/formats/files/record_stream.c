// SPDX-License-Identifier: Apache-2.0
// Reads files sequentially, as packed ones must be. A position is the file and
// the number of its records given so far; to restore it the file is read from
// its start.
#include "base/status_cause.h"
#include "data/stage.h"
#include "formats/files/source.h"

typedef struct record_stage {
  ls_stage base;
  int64_t file;    // Number of files: the end.
  int64_t record;  // Number of the next record in the file.
  int64_t id;      // Number of the next record among all.
  bool is_open;
  ls_reader reader;
} record_stage;

static const ls_record_source *source_of(const record_stage *self) {
  return (const ls_record_source *)self->base.dataset;
}

static void close_reader(record_stage *self) {
  if (self->is_open) ls_reader_close(&self->reader);
  self->is_open = false;
}

static ls_status open_reader(record_stage *self) {
  const ls_source_file *file = source_of(self)->files[self->file];
  LS_RETURN_IF_ERROR(ls_reader_open(
      file->file, self->base.work->allocator,
      &(ls_reader_options){.packing = file->packing}, &self->reader));
  self->is_open = true;
  return ls_ok();
}

// Reads the next record's bytes, in this or a later file, and moves behind it;
// OUT_OF_RANGE at the end.
static ls_status next_bytes(record_stage *self, ls_record_at *at, char **bytes,
                            size_t *size) {
  const ls_record_source *source = source_of(self);
  while (self->file < (int64_t)source->num_files) {
    if (!self->is_open) LS_RETURN_IF_ERROR(open_reader(self));
    *at = (ls_record_at){.file = source->files[self->file]->file,
                         .record = self->record,
                         .opened = true};
    const ls_status status = source->decoder->format->next(
        source->decoder, &self->reader, at, bytes, size);
    if (ls_status_is_ok(status)) {
      ++self->record;
      ++self->id;
      return status;
    }
    close_reader(self);
    // A damaged file ends here.
    ++self->file;
    self->record = 0;
    if (ls_status_code(status) != LS_OUT_OF_RANGE) return status;
    ls_status_free(status);
  }
  return ls_out_of_range("the end of data set '%s'",
                         source->decoder->format->name);
}

static ls_status next_record(ls_stage *stage, ls_nest *element) {
  record_stage *self = (record_stage *)stage;
  ls_record_at at;
  char *bytes = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(next_bytes(self, &at, &bytes, &size));
  ls_fetch *fetch = ls_work_take_fetch(stage->work);
  if (fetch == NULL) return ls_out_of_memory();
  const ls_status status = ls_record_source_element(source_of(self), fetch, &at,
                                                    bytes, size, element);
  ls_work_give_fetch(stage->work, fetch);
  return status;
}

static ls_status skip_record(record_stage *self) {
  ls_record_at at;
  char *bytes = NULL;
  size_t size = 0;
  return next_bytes(self, &at, &bytes, &size);
}

static ls_status skip_records(ls_stage *stage, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    LS_RETURN_OK_IF(LS_OUT_OF_RANGE,
                    ls_stage_skipped(skip_record((record_stage *)stage)));
  return ls_ok();
}

static ls_status restart_records(ls_stage *stage, int64_t epoch) {
  (void)epoch;
  close_reader((record_stage *)stage);
  return ls_ok();
}

static ls_status restore_records(ls_stage *stage, const ls_record *record) {
  (void)record;
  record_stage *self = (record_stage *)stage;
  const ls_record_source *source = source_of(self);
  const int64_t files = (int64_t)source->num_files;
  const int64_t file = self->file, number = self->record, id = self->id;
  close_reader(self);
  self->record = 0;
  if (file > files || (file == files && number > 0)) {
    self->file = files;
    return ls_invalid_argument(
        "a place in file %lld, record %lld, of %zu files", (long long)file,
        (long long)number, source->num_files);
  }
  while (self->record < number && self->file == file)
    LS_RETURN_IF_ERROR(ls_status_unless(skip_record(self), LS_OUT_OF_RANGE));
  if (self->file != file || self->record != number)
    return ls_invalid_argument("'%s' has no record %lld",
                               source->files[file]->file->path,
                               (long long)number);
  self->id = id;
  return ls_ok();
}

static void close_records(ls_stage *stage) {
  close_reader((record_stage *)stage);
}

const ls_stage_class ls_record_stage = {
    .size = sizeof(record_stage),
    .counters = {LS_STAGE_COUNTER(record_stage, file),
                 LS_STAGE_COUNTER(record_stage, record),
                 LS_STAGE_COUNTER(record_stage, id)},
    .next = next_record,
    .restart = restart_records,
    .restore = restore_records,
    .skip = skip_records,
    .id_after = offsetof(record_stage, id),
    .close = close_records};
