// SPDX-License-Identifier: Apache-2.0
#include "formats/bytes/offsets.h"

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
