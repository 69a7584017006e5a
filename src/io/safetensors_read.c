// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/memory/own.h"
#include "io/bytes.h"
#include "io/crc32c.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "lockstep/shape_rules.h"

// The format's limit: longer headers are damaged.
static const uint64_t header_limit = 100 * 1000 * 1000;

// State of reading a header.
typedef struct reader {
  const char *name;
  int64_t data_offset;  // Offset of the elements,
  size_t data_size;     // and their number of bytes.
  size_t covered;       // Bytes of the arrays read so far.
  ls_allocator *allocator;
  ls_arena *arena;
  ls_safetensors_entry *entries;
  size_t num_entries, capacity;
  ls_safetensors_note *notes;
  size_t num_notes;
} reader;

// ---- One array -------------------------------------------------------------
static ls_status bad_entry(const reader *r, const ls_json *entry,
                           const char *problem) {
  return ls_invalid_argument("'%s': array '%s' %s", r->name, entry->key,
                             problem);
}

static ls_status parse_dtype(const reader *r, const ls_json *entry,
                             ls_dtype *out_dtype) {
  const ls_json *dtype = ls_json_find(entry, "dtype");
  if (dtype == NULL || dtype->kind != LS_JSON_STRING)
    return bad_entry(r, entry, "has no dtype");
  for (int i = 0; i < LS_DTYPE_COUNT; ++i) {
    const char *name = ls_safetensors_dtype_name((ls_dtype)i);
    if (name != NULL && strcmp(name, dtype->string) == 0) {
      *out_dtype = (ls_dtype)i;
      return ls_ok();
    }
  }
  return LS_STATUS(LS_UNIMPLEMENTED,
                   "'%s': array '%s' has dtype '%s', which is not read",
                   r->name, entry->key, dtype->string);
}

static ls_status parse_shape(const reader *r, const ls_json *entry,
                             ls_shape *out_shape) {
  const ls_json *shape = ls_json_find(entry, "shape");
  if (shape == NULL || shape->kind != LS_JSON_ARRAY)
    return bad_entry(r, entry, "has no shape");
  *out_shape = LS_SCALAR;
  for (const ls_json *dim = shape->first; dim != NULL; dim = dim->next) {
    if (!dim->is_integer || dim->integer < 0)
      return bad_entry(r, entry, "has a size that is no count");
    if (out_shape->rank == LS_MAX_RANK)
      return bad_entry(r, entry, "has more than 8 dimensions");
    out_shape->dim[out_shape->rank++] = dim->integer;
  }
  return ls_status_annotate(ls_shape_check(*out_shape), "array '%s' of '%s'",
                            entry->key, r->name);
}

static ls_status parse_span(const reader *r, const ls_json *entry,
                            ls_safetensors_entry *out) {
  const ls_dtype dtype = out->dtype;
  const ls_shape shape = out->shape;
  const ls_json *offsets = ls_json_find(entry, "data_offsets");
  const ls_json *from =
      offsets != NULL && offsets->kind == LS_JSON_ARRAY ? offsets->first : NULL;
  const ls_json *end = from != NULL ? from->next : NULL;
  if (end == NULL || end->next != NULL || !from->is_integer || !end->is_integer)
    return bad_entry(r, entry, "has no two data_offsets");
  const uint64_t wanted =
      (uint64_t)ls_shape_num_elements(shape) * ls_dtype_size(dtype);
  if (from->integer < 0 || end->integer < from->integer ||
      (uint64_t)(end->integer - from->integer) != wanted)
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s': array '%s' is %s, which is %llu bytes; its "
                     "data_offsets are %lld and %lld",
                     r->name, entry->key, LS_SHAPE_TEXT(dtype, shape),
                     (unsigned long long)wanted, (long long)from->integer,
                     (long long)end->integer);
  if ((uint64_t)end->integer > r->data_size)
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' is cut off: array '%s' ends at byte %lld of the "
                     "elements, which are %zu",
                     r->name, entry->key, (long long)end->integer,
                     r->data_size);
  // Bounds the total size; overlaps are found at the end.
  if (wanted > r->data_size - r->covered)
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s': array '%s' overlaps others: with it they have more "
                     "than the %zu bytes of elements",
                     r->name, entry->key, r->data_size);
  out->offset = r->data_offset + from->integer;
  out->size = (size_t)wanted;
  return ls_ok();
}

static ls_status parse_entry(reader *r, const ls_json *entry) {
  ls_safetensors_entry found = {.name = entry->key};
  if (!ls_json_is_utf8(found.name))
    return bad_entry(r, entry, "has a name that is no UTF-8");
  LS_RETURN_IF_ERROR(parse_dtype(r, entry, &found.dtype));
  LS_RETURN_IF_ERROR(parse_shape(r, entry, &found.shape));
  LS_RETURN_IF_ERROR(parse_span(r, entry, &found));
  LS_PUSH_OR_RETURN(r->allocator, r->entries, r->num_entries, r->capacity,
                    found);
  r->covered += found.size;
  return ls_ok();
}

static int compare_entries(const void *a, const void *b) {
  const ls_safetensors_entry *const *x = a, *const *y = b;
  if ((*x)->offset != (*y)->offset) return (*x)->offset < (*y)->offset ? -1 : 1;
  return (*x)->size < (*y)->size ? -1 : (*x)->size > (*y)->size;
}

// Checks that arrays cover all bytes of the elements exactly once.
static ls_status check_sorted(const reader *r,
                              const ls_safetensors_entry *const *sorted) {
  int64_t next = r->data_offset;
  for (size_t i = 0; i < r->num_entries; ++i) {
    if (sorted[i]->offset != next)
      return LS_STATUS(LS_DATA_LOSS,
                       "'%s': array '%s' begins at byte %lld of the elements, "
                       "where byte %lld is the next",
                       r->name, sorted[i]->name,
                       (long long)(sorted[i]->offset - r->data_offset),
                       (long long)(next - r->data_offset));
    next += (int64_t)sorted[i]->size;
  }
  const int64_t had = next - r->data_offset;
  if ((uint64_t)had == r->data_size) return ls_ok();
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' has %zu bytes of elements, its arrays have %lld",
                   r->name, r->data_size, (long long)had);
}

static ls_status check_spans(const reader *r) {
  LS_OWN_ARRAY_OR_RETURN(r->allocator, const ls_safetensors_entry *, sorted,
                         r->num_entries + 1);
  for (size_t i = 0; i < r->num_entries; ++i)
    sorted[i] = &r->entries[i];
  if (r->num_entries > 0)
    qsort(sorted, r->num_entries, sizeof(*sorted), compare_entries);
  return check_sorted(r, sorted);
}

// ---- Headers ---------------------------------------------------------------
static ls_status parse_notes(reader *r, const ls_json *notes) {
  size_t count = 0;
  for (const ls_json *found = notes->first; found != NULL;
       found = found->next) {
    if (found->key == NULL || found->kind != LS_JSON_STRING)
      return ls_invalid_argument(
          "'%s': __metadata__ has values that are not texts", r->name);
    ++count;
  }
  LS_ARENA_SET_OR_RETURN(r->arena, ls_safetensors_note, r->notes, count + 1);
  for (const ls_json *found = notes->first; found != NULL;
       found = found->next) {
    ls_safetensors_note *note = &r->notes[r->num_notes];
    note->key = ls_arena_string(r->arena, found->key);
    note->value = ls_arena_string(r->arena, found->string);
    if (note->key == NULL || note->value == NULL) return ls_out_of_memory();
    ++r->num_notes;
  }
  return ls_ok();
}

// ---- Checksums -------------------------------------------------------------
static bool read_digits(const char *text, uint32_t *out_crc) {
  *out_crc = 0;
  for (int i = 0; i < LS_SAFETENSORS_DIGITS; ++i) {
    const char c = text[i];
    const bool decimal = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'f';
    if (!decimal && !letter) return false;
    *out_crc = *out_crc << 4 | (uint32_t)(decimal ? c - '0' : c - 'a' + 10);
  }
  return true;
}

static ls_status header_damaged(const reader *r) {
  return LS_STATUS(
      LS_DATA_LOSS,
      "'%s' is damaged: the checksum of its header does not match its entry "
      "'" LS_SAFETENSORS_SUMS
      "'; a program that writes other arrays must remove that entry",
      r->name);
}

// Verifies the checksum of a header with its size before it, and stores those
// of its arrays. Other writers' headers have no checksums.
static ls_status read_sums(reader *r, const unsigned char *bytes8,
                           const char *text, size_t size) {
  static const char begin[] = LS_SAFETENSORS_SUMS_BEGIN;
  static const char zeros[] = "00000000";
  const size_t at = sizeof(begin) - 1;
  const size_t needed = at + LS_SAFETENSORS_DIGITS * (r->num_entries + 1) + 1;
  uint32_t stored = 0;
  if (size < at || memcmp(text, begin, at) != 0) return ls_ok();
  if (r->num_notes == 0 || strcmp(r->notes[0].key, LS_SAFETENSORS_SUMS) != 0 ||
      size < needed || text[needed - 1] != '"' ||
      !read_digits(text + at, &stored))
    return header_damaged(r);
  uint32_t crc = ls_crc32c(0, bytes8, 8);
  crc = ls_crc32c(crc, text, at);
  crc = ls_crc32c(crc, zeros, LS_SAFETENSORS_DIGITS);
  crc = ls_crc32c(crc, text + at + LS_SAFETENSORS_DIGITS,
                  size - at - LS_SAFETENSORS_DIGITS);
  if (crc != stored) return header_damaged(r);
  for (size_t i = 0; i < r->num_entries; ++i) {
    ls_safetensors_entry *found = &r->entries[i];
    found->has_crc =
        read_digits(text + at + LS_SAFETENSORS_DIGITS * (i + 1), &found->crc);
    if (!found->has_crc) return header_damaged(r);
  }
  // Removes the checksums from the file's notes.
  --r->num_notes;
  memmove(r->notes, r->notes + 1, r->num_notes * sizeof(*r->notes));
  return ls_ok();
}

ls_status ls_safetensors_check(const ls_safetensors_file *file,
                               const ls_safetensors_entry *entry,
                               uint32_t crc) {
  if (!entry->has_crc || crc == entry->crc) return ls_ok();
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' is damaged: the checksum of array '%s' does not match",
                   file->path, entry->name);
}

static ls_status parse_member(void *user, const ls_json *member) {
  reader *r = user;
  return strcmp(member->key, "__metadata__") == 0 ? parse_notes(r, member)
                                                  : parse_entry(r, member);
}

// Reads the header's size from the first 8 bytes of a file of `file_size`
// bytes.
static ls_status parse_size(const char *name, const unsigned char *bytes,
                            uint64_t file_size, uint64_t *out_size) {
  *out_size = file_size >= 8 ? ls_load_le64(bytes) : 0;
  if (file_size >= 8 && *out_size <= header_limit && *out_size <= file_size - 8)
    return ls_ok();
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' is cut off or no safetensors file: %llu bytes, with "
                   "a header of %llu",
                   name, (unsigned long long)file_size,
                   (unsigned long long)*out_size);
}

static ls_status parse_header(reader *r, const unsigned char *first,
                              const char *text, uint64_t size,
                              uint64_t file_size) {
  r->data_offset = 8 + (int64_t)size;
  r->data_size = (size_t)(file_size - 8 - size);
  LS_RETURN_IF_ERROR(
      ls_json_visit(r->arena, r->name, text, (size_t)size, parse_member, r));
  LS_RETURN_IF_ERROR(read_sums(r, first, text, (size_t)size));
  return check_spans(r);
}

// ---- In parts --------------------------------------------------------------
// Reads bytes piece by piece, so that they are in a cache for their checksum.
static ls_status read_pieces_at(const ls_safetensors_file *file, int64_t offset,
                                char *data, size_t size, uint32_t *crc) {
  enum { PIECE = 1 << 20 };
  const ls_file_system *files = ls_runtime_files(file->runtime);
  while (size > 0) {
    const size_t most = size < PIECE ? size : PIECE;
    size_t got = 0;
    LS_RETURN_IF_ERROR(
        files->read_at(files->user, file->handle, offset, data, most, &got));
    if (got == 0)
      return LS_STATUS(LS_DATA_LOSS,
                       "'%s' is cut off: there is nothing at byte %lld",
                       file->path, (long long)offset);
    if (crc != NULL) *crc = ls_crc32c(*crc, data, got);
    offset += (int64_t)got;
    data += got;
    size -= got;
  }
  return ls_ok();
}

static ls_status read_file_header(ls_safetensors_file *file,
                                  int64_t file_size) {
  ls_allocator *allocator = file->arena.allocator;
  unsigned char first[8] = {0};
  uint64_t size = 0;
  if (file_size >= 8)
    LS_RETURN_IF_ERROR(read_pieces_at(file, 0, (char *)first, sizeof(first),
                                      &file->header_crc));
  LS_RETURN_IF_ERROR(parse_size(file->path, first, (uint64_t)file_size, &size));
  LS_OWN_MEMORY(allocator, char, text) =
      ls_allocate(allocator, (size_t)size + 1);
  LS_RETURN_IF_NO_MEMORY(text);
  text[size] = '\0';
  LS_RETURN_IF_ERROR(
      read_pieces_at(file, 8, text, (size_t)size, &file->header_crc));
  reader r = {
      .name = file->path, .allocator = allocator, .arena = &file->arena};
  const ls_status status =
      parse_header(&r, first, text, size, (uint64_t)file_size);
  file->entries = r.entries;
  file->num_entries = r.num_entries;
  file->notes = r.notes;
  file->num_notes = r.num_notes;
  return status;
}

ls_status ls_safetensors_open(ls_runtime *runtime, const char *path,
                              ls_safetensors_file *out_file) {
  const ls_file_system *files = ls_runtime_files(runtime);
  ls_file_info info = {0};
  *out_file = (ls_safetensors_file){.runtime = runtime};
  if (files->open == NULL)
    return ls_unimplemented("reading '%s': the file system has no reading in "
                            "parts",
                            path);
  LS_OWN(ls_safetensors_file,
         file) = {.runtime = runtime,
                  .arena = {.allocator = ls_runtime_allocator(runtime)}};
  file.path = ls_arena_string(&file.arena, path);
  LS_RETURN_IF_NO_MEMORY(file.path);
  LS_RETURN_IF_ERROR(files->open(files->user, path, &file.handle, &info));
  LS_RETURN_IF_ERROR(read_file_header(&file, info.size));
  return ls_hand_over(&file, out_file);
}

void ls_safetensors_close(ls_safetensors_file *file) {
  if (file->runtime == NULL) return;
  const ls_file_system *files = ls_runtime_files(file->runtime);
  if (file->handle != NULL) files->close(files->user, file->handle);
  ls_release(file->arena.allocator, file->entries);
  ls_arena_deinit(&file->arena);
  *file = (ls_safetensors_file){0};
}

ls_status ls_safetensors_get(const ls_safetensors_file *file,
                             const ls_safetensors_entry *entry, void *data,
                             uint32_t *out_crc) {
  uint32_t crc = 0;
  const bool sums = out_crc != NULL || entry->has_crc;
  const ls_status status =
      ls_status_annotate(read_pieces_at(file, entry->offset, data, entry->size,
                                        sums ? &crc : NULL),
                         "while reading array '%s'", entry->name);
  if (out_crc != NULL) *out_crc = crc;
  LS_RETURN_IF_ERROR(status);
  return ls_safetensors_check(file, entry, crc);
}

const ls_safetensors_entry *
ls_safetensors_entry_of(const ls_safetensors_file *file, const char *name) {
  for (size_t i = 0; i < file->num_entries; ++i) {
    if (strcmp(file->entries[i].name, name) == 0) return &file->entries[i];
  }
  return NULL;
}
