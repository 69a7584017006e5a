// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/memory/own.h"
#include "base/plain.h"
#include "io/crc32c.h"
#include "state/checkpoint_file.h"
#include "state/own.h"
#include "state/record.h"

static ls_status damaged(const char *path, const char *noun) {
  return LS_STATUS(LS_DATA_LOSS, "'%s' is damaged: %s", path, noun);
}

// ---- The .json -------------------------------------------------------------
// Verifies the checksum at the end of a .json, which covers all earlier bytes.
static ls_status check_sum(const char *path, const char *text, size_t size) {
  char tail[LS_CHECKPOINT_TAIL_SIZE + 1];
  if (size < LS_CHECKPOINT_TAIL_SIZE) return damaged(path, "it is cut off");
  const size_t body = size - LS_CHECKPOINT_TAIL_SIZE;
  snprintf(tail, sizeof(tail), LS_CHECKPOINT_TAIL, ls_crc32c(0, text, body));
  return memcmp(tail, text + body, LS_CHECKPOINT_TAIL_SIZE) == 0
             ? ls_ok()
             : damaged(path, "its checksum does not match");
}

static bool get_i64(const ls_json *object, const char *key, int64_t *out) {
  const ls_json *member = ls_json_find(object, key);
  if (member == NULL || !member->is_integer) return false;
  *out = member->integer;
  return true;
}

static ls_status check_root(const ls_checkpoint_file *self, int64_t step) {
  int64_t format = 0, of = 0;
  if (!get_i64(self->root, "format", &format) ||
      !get_i64(self->root, "step", &of))
    return damaged(self->path, "it has no format or step");
  if (format != LS_CHECKPOINT_FORMAT)
    return ls_invalid_argument(
        "'%s' has format %lld of another version of Lockstep", self->path,
        (long long)format);
  return of == step ? ls_ok()
                    : damaged(self->path, "it belongs to another step");
}

ls_status ls_checkpoint_file_parse(ls_checkpoint_file *self, const char *text,
                                   size_t size, int64_t step) {
  LS_RETURN_IF_ERROR(check_sum(self->path, text, size));
  // Our writer made the text, as the checksum shows: of any number of values.
  const ls_json_limits limits = {SIZE_MAX, LS_RECORD_LEVELS};
  LS_RETURN_IF_ERROR(ls_json_parse_up_to(&self->arena, self->path, text, size,
                                         limits, &self->root));
  return check_root(self, step);
}

static ls_status read_notes(ls_runtime *runtime, const char *folder,
                            int64_t step, ls_checkpoint_file *out) {
  const ls_file_system *files = ls_runtime_files(runtime);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN_MEMORY(allocator, char, bytes) = NULL;
  size_t size = 0;
  *out = (ls_checkpoint_file){0};
  ls_arena_init(&out->arena, allocator);
  out->path = ls_arena_format(&out->arena, "%s/model.ckpt-%lld.json", folder,
                              (long long)step);
  LS_RETURN_IF_NO_MEMORY(out->path);
  LS_RETURN_IF_ERROR(
      files->read(files->user, out->path, SIZE_MAX, allocator, &bytes, &size));
  return ls_checkpoint_file_parse(out, bytes, size, step);
}

// Releases what was read before a failure.
static ls_status end_reading(ls_checkpoint_file *file, ls_status status) {
  if (!ls_status_is_ok(status)) ls_checkpoint_file_deinit(file);
  return status;
}

ls_status ls_checkpoint_file_read_notes(ls_runtime *runtime, const char *folder,
                                        int64_t step, ls_checkpoint_file *out) {
  return end_reading(out, read_notes(runtime, folder, step, out));
}

// ---- The values ------------------------------------------------------------
static const ls_json *sums_of(const ls_checkpoint_file *self) {
  const ls_json *values = ls_json_find(self->root, "values");
  return values == NULL ? NULL : ls_json_find(values, "crc32c");
}

// Finds the expected checksum of an entry.
static ls_status find_sum(const ls_checkpoint_file *self, const ls_json *sums,
                          const ls_safetensors_entry *entry, int64_t *out_sum) {
  if (get_i64(sums, entry->name, out_sum)) return ls_ok();
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' has array '%s', which '%s' does not list",
                   self->values.path, entry->name, self->path);
}

static ls_status check_sums(const ls_checkpoint_file *self,
                            const ls_safetensors_wish *wishes, size_t count) {
  const ls_json *sums = sums_of(self);
  for (size_t i = 0; i < count; ++i) {
    const ls_safetensors_entry *entry = wishes[i].entry;
    int64_t wanted = -1;
    LS_RETURN_IF_ERROR(find_sum(self, sums, entry, &wanted));
    if (wishes[i].crc != (uint64_t)wanted)
      return LS_STATUS(
          LS_DATA_LOSS,
          "'%s' is damaged: the checksum of array '%s' does not match",
          self->values.path, entry->name);
  }
  return ls_ok();
}

ls_status ls_checkpoint_file_get(const ls_checkpoint_file *self,
                                 ls_workers *workers,
                                 ls_safetensors_wish *wishes, size_t count) {
  LS_RETURN_IF_ERROR(ls_safetensors_get_many(&self->values, workers, wishes,
                                             count, LS_SUMS_ALL));
  return check_sums(self, wishes, count);
}

// Reads entries only to verify their checksums.
ls_status ls_checkpoint_file_check(const ls_checkpoint_file *self, size_t first,
                                   size_t count) {
  const ls_safetensors_file *file = &self->values;
  ls_allocator *allocator = ls_runtime_allocator(file->runtime);
  ls_workers *workers = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_workers(file->runtime, &workers));
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_safetensors_wish, wishes, count);
  for (size_t i = 0; i < count; ++i)
    wishes[i].entry = &file->entries[first + i];
  LS_RETURN_IF_ERROR(
      ls_safetensors_get_many(file, workers, wishes, count, LS_SUMS_ALL));
  return check_sums(self, wishes, count);
}

static size_t count_members(const ls_json *object) {
  size_t count = 0;
  for (const ls_json *at = object->first; at != NULL; at = at->next)
    ++count;
  return count;
}

// Checks that the two files belong together, without reading elements.
static ls_status check_header(const ls_checkpoint_file *self) {
  const ls_json *values = ls_json_find(self->root, "values");
  const ls_json *sums = sums_of(self);
  int64_t header = -1;
  if (sums == NULL || !get_i64(values, "header_crc32c", &header))
    return damaged(self->path, "it has no checksums of values");
  if (header != (int64_t)self->values.header_crc)
    return damaged(self->values.path,
                   "the checksum of its header does not match");
  return count_members(sums) == self->values.num_entries
             ? ls_ok()
             : damaged(self->values.path, "arrays are gone");
}

static ls_status check_values(const ls_checkpoint_file *self) {
  LS_RETURN_IF_ERROR(check_header(self));
  return ls_checkpoint_file_check(self, 0, self->values.num_entries);
}

// Finds the root that fits the values file: a writer that was killed while
// replacing a checkpoint may leave the values of either root in the .json.
static ls_status choose_root(ls_checkpoint_file *self) {
  for (const ls_json *older;
       (older = ls_json_find(self->root, LS_CHECKPOINT_BEFORE)) != NULL;
       self->root = older) {
    const ls_status status = check_values(self);
    if (ls_status_code(status) != LS_DATA_LOSS) return status;
    ls_status_free(status);
  }
  return ls_ok();
}

static ls_status open_values(ls_runtime *runtime, const char *folder,
                             int64_t step, ls_checkpoint_file *out) {
  const char *path = ls_arena_format(
      &out->arena, "%s/model.ckpt-%lld.safetensors", folder, (long long)step);
  LS_RETURN_IF_NO_MEMORY(path);
  LS_RETURN_IF_ERROR(ls_safetensors_open(runtime, path, &out->values));
  LS_RETURN_IF_ERROR(choose_root(out));
  return check_header(out);
}

ls_status ls_checkpoint_file_open(ls_runtime *runtime, const char *folder,
                                  int64_t step, ls_checkpoint_file *out) {
  LS_RETURN_IF_ERROR(ls_checkpoint_file_read_notes(runtime, folder, step, out));
  return end_reading(out, open_values(runtime, folder, step, out));
}

static ls_status read_once(ls_runtime *runtime, const char *folder,
                           int64_t step, ls_checkpoint_file *out) {
  LS_RETURN_IF_ERROR(ls_checkpoint_file_open(runtime, folder, step, out));
  return end_reading(out,
                     ls_checkpoint_file_check(out, 0, out->values.num_entries));
}

// Tries twice, as a failed read does not prove that the file is damaged.
ls_status ls_checkpoint_file_read(ls_runtime *runtime, const char *folder,
                                  int64_t step, ls_checkpoint_file *out) {
  const ls_status status = read_once(runtime, folder, step, out);
  if (ls_status_code(status) != LS_UNAVAILABLE) return status;
  ls_status_free(status);
  return read_once(runtime, folder, step, out);
}

ls_status ls_checkpoint_file_record(const ls_checkpoint_file *self,
                                    const char *key, ls_record **out_record) {
  const ls_json *member = ls_json_find(self->root, key);
  LS_OWN(ls_record, record) = NULL;
  LS_RETURN_IF_ERROR(ls_record_create(&record));
  if (member != NULL)
    LS_RETURN_IF_ERROR(ls_record_read(record, self->path, member));
  return ls_hand_over(&record, out_record);
}

void ls_checkpoint_file_deinit(ls_checkpoint_file *self) {
  ls_safetensors_close(&self->values);
  if (self->arena.allocator != NULL) ls_arena_deinit(&self->arena);
  *self = (ls_checkpoint_file){0};
}

void ls_passed_over_add(ls_passed_over *self, int64_t step, ls_status failure) {
  if (self->count++ > 0) {
    ls_status_free(failure);
    return;
  }
  self->newest = step;
  self->failure = failure;
}

void ls_passed_over_log(ls_passed_over *self, ls_runtime *runtime,
                        const char *folder, int64_t taken) {
  char others[64] = " is";
  if (self->count > 1)
    ls_format(others, sizeof(others), " and %zu other%s are", self->count - 1,
              self->count > 2 ? "s" : "");
  if (self->count > 0)
    ls_runtime_log(runtime, LS_LOG_WARNING, "checkpoint",
                   "'%s/model.ckpt-%lld'%s skipped for '%s/model.ckpt-%lld', "
                   "the newest intact checkpoint: %s",
                   folder, (long long)self->newest, others, folder,
                   (long long)taken, ls_status_message(self->failure));
  ls_passed_over_deinit(self);
}

ls_status ls_passed_over_end(ls_passed_over *self, const char *folder) {
  const ls_status failure = self->failure;
  *self = (ls_passed_over){0};
  return ls_status_code(failure) == LS_DATA_LOSS
             ? ls_status_annotate(failure, "no checkpoint in '%s' is intact",
                                  folder)
             : failure;
}

void ls_passed_over_deinit(ls_passed_over *self) {
  ls_status_free(self->failure);
  *self = (ls_passed_over){0};
}
