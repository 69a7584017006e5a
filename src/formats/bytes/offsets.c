// SPDX-License-Identifier: Apache-2.0
// File format: "LSOFFS1\n"; kind, and checksum of everything after it, 4 bytes
// each; size and time of the indexed file, number of offsets, 8 bytes each;
// then the offsets, 8 bytes each. Little-endian.
#include "formats/bytes/offsets.h"

#include "base/status_cause.h"
#include "io/bytes.h"
#include "io/crc32c.h"
#include "io/protobuf/tfrecord.h"

enum { MAGIC_SIZE = 8, HEAD_SIZE = 16, ALL_HEAD = 40 };
static const char magic[] = "LSOFFS1\n";

void ls_offsets_init(ls_offsets *offsets, ls_allocator *allocator) {
  *offsets = (ls_offsets){.allocator = allocator};
}

void ls_offsets_deinit(ls_offsets *offsets) {
  ls_release(offsets->allocator, offsets->items);
  *offsets = (ls_offsets){.allocator = offsets->allocator};
}

ls_status ls_offsets_add(ls_offsets *offsets, int64_t offset) {
  if (offsets->size == offsets->capacity &&
      !LS_GROW(offsets->allocator, offsets->items, offsets->capacity,
               offsets->size + 1)) {
    return LS_NO_MEMORY("no memory for the places of more than %zu records",
                        offsets->size);
  }
  offsets->items[offsets->size++] = offset;
  return ls_ok();
}

// ---- Files -----------------------------------------------------------------
ls_status ls_offsets_save(ls_runtime *runtime, const char *path,
                          const ls_file *file, uint32_t kind,
                          const ls_offsets *offsets) {
  const size_t size = ALL_HEAD + offsets->size * 8;
  unsigned char *data = ls_allocate(offsets->allocator, size);
  if (data == NULL) return ls_out_of_memory();
  memcpy(data, magic, MAGIC_SIZE);
  ls_store_le32(data + 8, kind);
  ls_store_le64(data + 16, (uint64_t)file->size);
  ls_store_le64(data + 24, (uint64_t)file->modified);
  ls_store_le64(data + 32, offsets->size);
  for (size_t i = 0; i < offsets->size; ++i)
    ls_store_le64(data + ALL_HEAD + 8 * i, (uint64_t)offsets->items[i]);
  ls_store_le32(data + 12, ls_crc32c(0, data + HEAD_SIZE, size - HEAD_SIZE));
  const ls_file_system *files = ls_runtime_files(runtime);
  const ls_status status = files->write(files->user, path, data, size);
  ls_release(offsets->allocator, data);
  return ls_status_annotate(status, "for the index of records of '%s'",
                            file->path);
}

// Returns true if the bytes are valid for this file and kind: offsets increase
// and end within the file; there is at least the end of the last record.
static bool is_right(const unsigned char *data, size_t size,
                     const ls_file *file, uint32_t kind) {
  if (size < ALL_HEAD + 8 || memcmp(data, magic, MAGIC_SIZE) != 0 ||
      ls_load_le32(data + 8) != kind ||
      ls_load_le32(data + 12) !=
          ls_crc32c(0, data + HEAD_SIZE, size - HEAD_SIZE) ||
      ls_load_le64(data + 16) != (uint64_t)file->size ||
      ls_load_le64(data + 24) != (uint64_t)file->modified ||
      ls_load_le64(data + 32) != (size - ALL_HEAD) / 8 ||
      (size - ALL_HEAD) % 8 != 0)
    return false;
  int64_t last = 0;
  for (size_t at = ALL_HEAD; at < size; at += 8) {
    const int64_t next = (int64_t)ls_load_le64(data + at);
    if (next < last || next > file->size) return false;
    last = next;
  }
  return true;
}

ls_status ls_offsets_load(ls_runtime *runtime, const char *path,
                          const ls_file *file, uint32_t kind,
                          ls_offsets *offsets, bool *out_found) {
  *out_found = false;
  const ls_file_system *files = ls_runtime_files(runtime);
  char *data = NULL;
  size_t size = 0;
  LS_RETURN_OK_IF(LS_NOT_FOUND, files->read(files->user, path, SIZE_MAX,
                                            offsets->allocator, &data, &size));
  ls_status status = ls_ok();
  const unsigned char *bytes = (const unsigned char *)data;
  if (is_right(bytes, size, file, kind)) {
    for (size_t at = ALL_HEAD; at < size && ls_status_is_ok(status); at += 8)
      status = ls_offsets_add(offsets, (int64_t)ls_load_le64(bytes + at));
    *out_found = ls_status_is_ok(status);
  }
  ls_release(offsets->allocator, data);
  return status;
}

// ---- Lines -----------------------------------------------------------------
ls_status ls_lines_scan(const ls_file *file, ls_offsets *offsets) {
  ls_reader reader;
  LS_RETURN_IF_ERROR(ls_reader_open(file, offsets->allocator, NULL, &reader));
  ls_status status = ls_offsets_add(offsets, 0);
  while (ls_status_is_ok(status)) {
    status = ls_reader_need(&reader, 1);
    if (!ls_status_is_ok(status) || reader.size == 0) break;
    const char *at = reader.data, *end = reader.data + reader.size;
    while (ls_status_is_ok(status) &&
           (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
      ++at;
      status = ls_offsets_add(offsets, reader.position + (at - reader.data));
    }
    ls_reader_take(&reader, reader.size);
  }
  ls_reader_close(&reader);
  // Adds the end of the file, unless the last line ends there already.
  if (ls_status_is_ok(status) &&
      offsets->items[offsets->size - 1] != file->size)
    status = ls_offsets_add(offsets, file->size);
  return status;
}

ls_bytes ls_line_trim(const char *data, size_t size) {
  if (size > 0 && data[size - 1] == '\n') {
    --size;
    if (size > 0 && data[size - 1] == '\r') --size;
  }
  return (ls_bytes){data, size};
}

// Refuses a long line of packed data: a few packed bytes may unpack to an
// endless line.
static ls_status too_long(const ls_reader *reader) {
  return ls_invalid_argument(
      "'%s' has a line of more than %d bytes from byte %lld of what is "
      "unpacked on; unpack the file to read it",
      reader->file->path, LS_LINE_PACKED_MOST, (long long)reader->position);
}

ls_status ls_lines_next(ls_reader *reader, ls_bytes *out_line) {
  *out_line = (ls_bytes){0};
  size_t looked = 0;
  for (;;) {
    const char *end =
        reader->size > looked
            ? memchr(reader->data + looked, '\n', reader->size - looked)
            : NULL;
    if (end == NULL && !reader->ended) {
      looked = reader->size;
      if (looked > LS_LINE_PACKED_MOST && reader->inflater != NULL)
        return too_long(reader);
      LS_RETURN_IF_ERROR(ls_reader_more(reader));
      continue;
    }
    const size_t size =
        end != NULL ? (size_t)(end + 1 - reader->data) : reader->size;
    if (size == 0) return ls_out_of_range("'%s' has ended", reader->file->path);
    *out_line = ls_line_trim(reader->data, size);
    ls_reader_take(reader, size);
    return ls_ok();
  }
}

int64_t ls_lines_number(const ls_file *file, int64_t offset) {
  int64_t number = 1;
  char piece[4096];
  for (int64_t at = 0; at < offset;) {
    const int64_t left = offset - at;
    const size_t size =
        left < (int64_t)sizeof(piece) ? (size_t)left : sizeof(piece);
    ls_status status = ls_file_read(file, at, piece, size);
    if (!ls_status_is_ok(status)) {
      ls_status_free(status);
      return 0;
    }
    for (size_t i = 0; i < size; ++i)
      number += piece[i] == '\n';
    at += (int64_t)size;
  }
  return number;
}

// ---- TFRecord files --------------------------------------------------------
// Reads only the heads of records longer than this, in chunks.
enum { LONG_RECORD = 16 << 10, HEADS_CHUNK = 4 << 10 };

ls_status ls_tfrecord_scan(const ls_file *file, ls_offsets *offsets) {
  LS_OWN(ls_reader, reader) = {0};
  LS_RETURN_IF_ERROR(ls_reader_open(file, offsets->allocator, NULL, &reader));
  for (ls_record_place place = {0};; ++place.record) {
    size_t size = 0;
    const ls_status status =
        ls_tfrecord_next_head(&reader, &place, true, &size);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) {
      ls_status_free(status);
      return ls_offsets_add(offsets, file->size);
    }
    LS_RETURN_IF_ERROR(status);
    reader.chunk = size >= LONG_RECORD ? HEADS_CHUNK : LS_READER_CHUNK;
    LS_RETURN_IF_ERROR(ls_offsets_add(offsets, place.offset));
    LS_RETURN_IF_ERROR(
        ls_reader_skip(&reader, (int64_t)size + LS_TFRECORD_FOOT));
  }
}
