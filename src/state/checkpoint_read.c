// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "io/crc32c.h"
#include "state/checkpoint_file.h"

static ls_status damaged(const char *path, const char *what) {
  return LS_STATUS(LS_DATA_LOSS, "'%s' is damaged: %s", path, what);
}

// ---- The .json -------------------------------------------------------------
// Its last bytes are the checksum of all before them.
static ls_status check_sum(const char *path, const char *text, size_t size) {
  char tail[LS_CHECKPOINT_TAIL_SIZE + 1];
  if (size < LS_CHECKPOINT_TAIL_SIZE) return damaged(path, "it is cut off");
  const size_t body = size - LS_CHECKPOINT_TAIL_SIZE;
  snprintf(tail, sizeof(tail), LS_CHECKPOINT_TAIL, ls_crc32c(0, text, body));
  return memcmp(tail, text + body, LS_CHECKPOINT_TAIL_SIZE) == 0
             ? ls_ok()
             : damaged(path, "its checksum is another");
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
    return ls_invalid_argument("'%s' has format %lld, which is not read; it is "
                               "of another version of Lockstep",
                               self->path, (long long)format);
  return of == step ? ls_ok() : damaged(self->path, "it is of another step");
}

ls_status ls_checkpoint_file_read_notes(ls_runtime *runtime, const char *folder,
                                        int64_t step, ls_checkpoint_file *out) {
  const ls_file_system *files = ls_runtime_files(runtime);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  char *bytes = NULL;
  size_t size = 0;
  *out = (ls_checkpoint_file){0};
  ls_arena_init(&out->arena, allocator);
  out->path = ls_arena_format(&out->arena, "%s/model.ckpt-%lld.json", folder,
                              (long long)step);
  ls_status status = out->path == NULL ? ls_out_of_memory() : ls_ok();
  if (ls_status_is_ok(status))
    status =
        files->read(files->user, out->path, SIZE_MAX, allocator, &bytes, &size);
  if (ls_status_is_ok(status)) status = check_sum(out->path, bytes, size);
  if (ls_status_is_ok(status))
    status = ls_json_parse(&out->arena, out->path, bytes, size, &out->root);
  if (ls_status_is_ok(status)) status = check_root(out, step);
  ls_release(allocator, bytes);
  if (!ls_status_is_ok(status)) ls_checkpoint_file_deinit(out);
  return status;
}

// ---- The values ------------------------------------------------------------
static ls_status check_entry(const ls_checkpoint_file *self,
                             const ls_json *sums,
                             const ls_safetensors_entry *entry, char *piece,
                             size_t piece_size) {
  int64_t wanted = -1;
  uint32_t crc = 0;
  if (!get_i64(sums, entry->name, &wanted))
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' has array '%s', of which '%s' says "
                     "nothing",
                     self->values.path, entry->name, self->path);
  for (size_t at = 0; at < entry->size; at += piece_size) {
    ls_safetensors_entry part = *entry;
    uint32_t got = 0;
    part.offset += (int64_t)at;
    part.size = entry->size - at < piece_size ? entry->size - at : piece_size;
    LS_RETURN_IF_ERROR(ls_safetensors_get(&self->values, &part, piece, NULL));
    got = ls_crc32c(crc, piece, part.size);
    crc = got;
  }
  return crc == (uint64_t)wanted
             ? ls_ok()
             : LS_STATUS(LS_DATA_LOSS,
                         "'%s' is damaged: array '%s' has another checksum",
                         self->values.path, entry->name);
}

static size_t count_members(const ls_json *object) {
  size_t count = 0;
  for (const ls_json *at = object->first; at != NULL; at = at->next)
    ++count;
  return count;
}

static ls_status check_values(const ls_checkpoint_file *self) {
  enum { PIECE = 1 << 20 };
  const ls_json *values = ls_json_find(self->root, "values");
  const ls_json *sums = values == NULL ? NULL : ls_json_find(values, "crc32c");
  int64_t header = -1;
  if (sums == NULL || !get_i64(values, "header_crc32c", &header))
    return damaged(self->path, "it has no checksums of values");
  if (header != (int64_t)self->values.header_crc)
    return damaged(self->values.path, "its header has another checksum");
  if (count_members(sums) != self->values.num_entries)
    return damaged(self->values.path, "arrays are gone");
  ls_allocator *allocator = ls_runtime_allocator(self->values.runtime);
  char *piece = ls_allocate(allocator, PIECE);
  ls_status status = piece == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; i < self->values.num_entries && ls_status_is_ok(status);
       ++i)
    status = check_entry(self, sums, &self->values.entries[i], piece, PIECE);
  ls_release(allocator, piece);
  return status;
}

ls_status ls_checkpoint_file_read(ls_runtime *runtime, const char *folder,
                                  int64_t step, ls_checkpoint_file *out) {
  LS_RETURN_IF_ERROR(ls_checkpoint_file_read_notes(runtime, folder, step, out));
  const char *path = ls_arena_format(
      &out->arena, "%s/model.ckpt-%lld.safetensors", folder, (long long)step);
  ls_status status = path == NULL
                         ? ls_out_of_memory()
                         : ls_safetensors_open(runtime, path, &out->values);
  if (ls_status_is_ok(status)) status = check_values(out);
  if (!ls_status_is_ok(status)) ls_checkpoint_file_deinit(out);
  return status;
}

void ls_checkpoint_file_deinit(ls_checkpoint_file *self) {
  ls_safetensors_close(&self->values);
  if (self->arena.allocator != NULL) ls_arena_deinit(&self->arena);
  *self = (ls_checkpoint_file){0};
}
