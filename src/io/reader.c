// SPDX-License-Identifier: Apache-2.0
#include "io/reader.h"

#include "base/status_cause.h"

enum { PACKED_CHUNK = 64 << 10 };

ls_status ls_reader_open(const ls_file *file, ls_allocator *allocator,
                         const ls_reader_options *options,
                         ls_reader *out_reader) {
  const ls_reader_options opts =
      options != NULL ? *options : (ls_reader_options){0};
  *out_reader = (ls_reader){0};
  LS_OWN(ls_reader,
         reader) = {.file = file,
                    .allocator = allocator,
                    .chunk = opts.chunk != 0 ? opts.chunk : LS_READER_CHUNK,
                    .next = opts.from,
                    .end = opts.size != 0 ? opts.from + opts.size : file->size};
  if (opts.packing != LS_PACKING_NONE) {
    LS_RETURN_IF_ERROR(
        ls_inflater_create(allocator, opts.packing, &reader.inflater));
    reader.packed = ls_allocate(allocator, PACKED_CHUNK);
    LS_RETURN_IF_NO_MEMORY(reader.packed);
  }
  return ls_hand_over(&reader, out_reader);
}

void ls_reader_close(ls_reader *reader) {
  ls_inflater_destroy(reader->inflater);
  ls_release(reader->allocator, reader->packed);
  ls_release(reader->allocator, reader->buffer);
  *reader = (ls_reader){0};
}

// ---- The window ------------------------------------------------------------
// Makes room for `num_bytes` bytes after the window.
static ls_status extend_buffer(ls_reader *reader, size_t num_bytes) {
  const size_t at =
      reader->buffer == NULL ? 0 : (size_t)(reader->data - reader->buffer);
  if (reader->capacity - at - reader->size >= num_bytes) return ls_ok();
  if (reader->capacity - reader->size >= num_bytes && at >= reader->size) {
    // The copy is rarely large: at most the bytes that were taken.
    if (reader->size > 0) memcpy(reader->buffer, reader->data, reader->size);
    reader->data = reader->buffer;
    return ls_ok();
  }
  size_t wanted = 0;
  if (__builtin_add_overflow(reader->size, num_bytes, &wanted))
    return ls_out_of_memory();
  if (wanted < 2 * reader->size) wanted = 2 * reader->size;
  char *grown = ls_allocate(reader->allocator, wanted);
  if (grown == NULL) {
    return LS_NO_MEMORY("no memory for %zu bytes of '%s'", wanted,
                        reader->file->path);
  }
  if (reader->size > 0) memcpy(grown, reader->data, reader->size);
  ls_release(reader->allocator, reader->buffer);
  reader->buffer = reader->data = grown;
  reader->capacity = wanted;
  return ls_ok();
}

static ls_status read_plain(ls_reader *reader, size_t size) {
  const int64_t left = reader->end - reader->next;
  if ((int64_t)size > left) size = left > 0 ? (size_t)left : 0;
  if (size > 0) {
    LS_RETURN_IF_ERROR(extend_buffer(reader, size));
    LS_RETURN_IF_ERROR(ls_file_read(reader->file, reader->next,
                                    reader->data + reader->size, size));
    reader->size += size;
    reader->next += (int64_t)size;
  }
  reader->ended = reader->next >= reader->end;
  return ls_ok();
}

// Moves unused packed bytes to the front, and reads the file's next bytes after
// them.
static ls_status reader_read_packed(ls_reader *reader) {
  const size_t kept = reader->packed_size - reader->packed_at;
  if (kept > 0)
    memmove(reader->packed, reader->packed + reader->packed_at, kept);
  reader->packed_at = 0;
  reader->packed_size = kept;
  size_t size = PACKED_CHUNK - kept;
  if ((int64_t)size > reader->end - reader->next)
    size = (size_t)(reader->end - reader->next);
  LS_RETURN_IF_ERROR(
      ls_file_read(reader->file, reader->next, reader->packed + kept, size));
  reader->packed_size += size;
  reader->next += (int64_t)size;
  return ls_ok();
}

// Unpacks up to `size` bytes, at least one unless the data have ended.
static ls_status unpack_some(ls_reader *reader, size_t size) {
  LS_RETURN_IF_ERROR(extend_buffer(reader, size));
  const size_t before = reader->size;
  while (reader->size == before && !reader->ended) {
    const size_t left = reader->packed_size - reader->packed_at;
    ls_inflation inflation = {
        .name = reader->file->path,
        .position = reader->next - (int64_t)left,
        .in = reader->packed + reader->packed_at,
        .in_size = left,
        .is_last = reader->next >= reader->end,
        .out = reader->data + reader->size,
        .room = size,
    };
    LS_RETURN_IF_ERROR(
        ls_inflater_run(reader->inflater, &inflation, &reader->ended));
    reader->packed_at = reader->packed_size - inflation.in_size;
    reader->size += size - inflation.room;
    if (reader->size == before && !reader->ended)
      LS_RETURN_IF_ERROR(reader_read_packed(reader));
  }
  return ls_ok();
}

ls_status ls_reader_more(ls_reader *reader) {
  if (reader->ended) return ls_ok();
  return reader->inflater != NULL ? unpack_some(reader, reader->chunk)
                                  : read_plain(reader, reader->chunk);
}

ls_status ls_reader_need(ls_reader *reader, size_t size) {
  while (reader->size < size && !reader->ended) {
    const size_t lacks = size - reader->size;
    if (reader->inflater != NULL)
      LS_RETURN_IF_ERROR(unpack_some(reader, reader->chunk));
    else
      LS_RETURN_IF_ERROR(
          read_plain(reader, lacks > reader->chunk ? lacks : reader->chunk));
  }
  return ls_ok();
}

void ls_reader_take(ls_reader *reader, size_t size) {
  LS_ASSERT(size <= reader->size);
  if (size == 0) return;  // An empty window may be NULL.
  reader->data += size;
  reader->size -= size;
  reader->position += (int64_t)size;
}

ls_status ls_reader_skip(ls_reader *reader, int64_t size) {
  if (size <= (int64_t)reader->size) {
    ls_reader_take(reader, (size_t)size);
    return ls_ok();
  }
  size -= (int64_t)reader->size;
  ls_reader_take(reader, reader->size);
  if (reader->inflater == NULL) {
    const int64_t left = reader->end - reader->next;
    const int64_t step = size < left ? size : left;
    reader->next += step;
    reader->position += step;
    reader->ended = reader->next >= reader->end;
    return ls_ok();
  }
  while (size > 0 && !(reader->ended && reader->size == 0)) {
    LS_RETURN_IF_ERROR(ls_reader_need(reader, 1));
    const size_t step =
        size < (int64_t)reader->size ? (size_t)size : reader->size;
    ls_reader_take(reader, step);
    size -= (int64_t)step;
  }
  return ls_ok();
}
