// SPDX-License-Identifier: Apache-2.0
//
// Reads the scalars of a folder's event files, in the order of the files'
// names, each up to its first incomplete record.
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/memory/arena.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/status_cause.h"
#include "base/text.h"
#include "io/protobuf/events.h"
#include "io/protobuf/tfrecord.h"
#include "lockstep/events.h"
#include "train/own.h"

typedef struct number {
  ls_event_number number;
  size_t order;  // Position in the files.
} number;

typedef struct numbers {
  ls_event_numbers numbers;  // The caller's view.
  ls_allocator *allocator;
  ls_arena memory;  // Memory of the tags.
  const char *tag;  // While reading: the only tag to keep; NULL: all.
  number *items;
  size_t count, capacity;
  int64_t last_step;  // The last step wanted.
  bool failed;        // Out of memory.
} numbers;

// ---- Records ---------------------------------------------------------------
static bool is_text(ls_bytes bytes, const char *text) {
  return bytes.size == strlen(text) &&
         (bytes.size == 0 || memcmp(bytes.data, text, bytes.size) == 0);
}

// Returns a copy of the tag; usually one that exists already.
static const char *tag_of(numbers *self, ls_bytes tag) {
  enum { LOOK_BACK = 32 };
  for (size_t i = 1; i <= LOOK_BACK && i <= self->count; ++i) {
    const char *known = self->items[self->count - i].number.tag;
    if (is_text(tag, known)) return known;
  }
  char *copy = ls_arena_allocate(&self->memory, tag.size + 1);
  if (copy == NULL) return NULL;
  if (tag.size > 0) memcpy(copy, tag.data, tag.size);
  copy[tag.size] = '\0';
  return copy;
}

static void add_scalar(void *user, ls_event_time at, ls_bytes tag,
                       double value) {
  numbers *self = user;
  if (self->failed || (self->tag != NULL && !is_text(tag, self->tag))) return;
  const char *name = tag_of(self, tag);
  self->failed = name == NULL || !LS_GROW(self->allocator, self->items,
                                          self->capacity, self->count + 1);
  if (self->failed) return;
  self->items[self->count] =
      (number){{name, at.step, value, at.seconds}, self->count};
  ++self->count;
  if (at.step > self->last_step) self->last_step = at.step;
}

// Drops events of this and later steps.
static void begin_again(void *user, ls_event_time at) {
  numbers *self = user;
  size_t kept = 0;
  if (at.step > self->last_step) return;
  for (size_t i = 0; i < self->count; ++i)
    if (self->items[i].number.step < at.step)
      self->items[kept++] = self->items[i];
  self->count = kept;
  self->last_step = at.step;
}

// ---- Files -----------------------------------------------------------------
// Accepts a file that ends within a record, as it may be being written, and a
// file that was deleted meanwhile.
static ls_status end_of_file(ls_runtime *runtime, const char *path,
                             ls_status status) {
  const ls_code code = ls_status_code(status);
  if (code != LS_OUT_OF_RANGE && code != LS_DATA_LOSS && code != LS_NOT_FOUND)
    return status;
  if (code == LS_DATA_LOSS)
    ls_log_limited(runtime, path, 1, LS_LOG_WARNING, "train",
                   "%s; skipping the rest", ls_status_message(status));
  ls_status_free(status);
  return ls_ok();
}

static ls_status open_and_read(numbers *self, ls_runtime *runtime,
                               const char *path) {
  LS_OWN(ls_file, file) = NULL;
  LS_OWN(ls_reader, reader) = {0};
  LS_RETURN_IF_ERROR(ls_file_open(runtime, path, &file));
  LS_RETURN_IF_ERROR(ls_reader_open(file, self->allocator, NULL, &reader));
  const ls_events_visitor visitor = {add_scalar, begin_again, self};
  ls_record_place place = {.file = file->path};
  for (;;) {
    ls_bytes record;
    LS_RETURN_IF_ERROR(ls_tfrecord_next(&reader, &place, true, &record));
    const char *wrong = ls_events_visit(record, &visitor);
    if (wrong != NULL)
      return LS_STATUS(LS_DATA_LOSS,
                       "'%s' record %lld at byte %lld is no event: %s",
                       place.file, (long long)place.record - 1,
                       (long long)place.offset, wrong);
    if (self->failed) return ls_out_of_memory();
  }
}

// A folder that does not exist has no files.
static ls_status read_folder(numbers *self, ls_runtime *runtime,
                             const char *folder) {
  const ls_file_system *files = ls_runtime_files(runtime);
  LS_OWN_MEMORY(self->allocator, ls_file_entry, entries) = NULL;
  size_t count = 0;
  if (files->list == NULL)
    return ls_unimplemented("the runtime's file system does not list folders, "
                            "as of event files in '%s'",
                            folder);
  LS_RETURN_OK_IF(LS_NOT_FOUND, files->list(files->user, folder,
                                            self->allocator, &entries, &count));
  LS_OWN(ls_text, path) = {.allocator = self->allocator};
  for (size_t i = 0; i < count; ++i) {
    if (entries[i].is_folder || strstr(entries[i].name, ".tfevents.") == NULL)
      continue;
    ls_text_clear(&path);
    ls_text_append_format(&path, "%s/%s", folder, entries[i].name);
    LS_RETURN_IF_ERROR(ls_text_status(&path));
    LS_RETURN_IF_ERROR(end_of_file(runtime, path.data,
                                   open_and_read(self, runtime, path.data)));
  }
  return ls_ok();
}

// ---- The table -------------------------------------------------------------
static int event_reader_compare(const void *a, const void *b) {
  const number *x = a, *y = b;
  if (x->number.step != y->number.step)
    return x->number.step < y->number.step ? -1 : 1;
  const int by_tag = strcmp(x->number.tag, y->number.tag);
  if (by_tag != 0) return by_tag;
  return x->order < y->order ? -1 : x->order > y->order;
}

// Sorts by step and tag; of duplicates keeps the last.
static ls_status arrange(numbers *self) {
  LS_ARENA_ARRAY_OR_RETURN(&self->memory, ls_event_number, sorted,
                           self->count + 1);
  if (self->count > 0)
    qsort(self->items, self->count, sizeof(*self->items), event_reader_compare);
  for (size_t i = 0; i < self->count; ++i) {
    const ls_event_number *event = &self->items[i].number;
    const ls_event_number *before =
        self->numbers.count > 0 ? &sorted[self->numbers.count - 1] : NULL;
    const bool again = before != NULL && before->step == event->step &&
                       strcmp(before->tag, event->tag) == 0;
    sorted[again ? self->numbers.count - 1 : self->numbers.count++] = *event;
  }
  self->numbers.items = sorted;
  ls_release(self->allocator, self->items);
  self->items = NULL;
  return ls_ok();
}

ls_status ls_events_read(const char *folder, const char *tag,
                         ls_event_numbers **out_numbers) {
  LS_REQUIRE_OUT(out_numbers, folder);
  ls_runtime *runtime = ls_runtime_current();
  ls_allocator *allocator = ls_current_allocator();
  LS_NEW_OR_RETURN(allocator, numbers, self);
  self->allocator = allocator;
  self->tag = tag;
  self->last_step = INT64_MIN;
  ls_arena_init(&self->memory, allocator);
  LS_OWN(ls_event_numbers, made) = &self->numbers;
  LS_RETURN_IF_ERROR(read_folder(self, runtime, folder));
  LS_RETURN_IF_ERROR(arrange(self));
  return ls_hand_over(&made, out_numbers);
}

void ls_event_numbers_destroy(ls_event_numbers *table) {
  numbers *self = (numbers *)table;
  if (self == NULL) return;
  ls_arena_deinit(&self->memory);
  ls_release(self->allocator, self->items);
  ls_release(self->allocator, self);
}
