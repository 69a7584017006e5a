// SPDX-License-Identifier: Apache-2.0
#include "io/protobuf/tfrecord.h"

#include "io/bytes.h"
#include "io/crc32c.h"

static uint32_t masked_crc(const void *data, size_t size) {
  return ls_crc32c_mask(ls_crc32c(0, data, size));
}

// ---- Frames ----------------------------------------------------------------
// Reads the size from a head; `left` is how many bytes of the file follow it,
// -1: unknown.
static ls_status read_head(const ls_record_place *place,
                           const unsigned char *head, int64_t left, bool check,
                           size_t *out_size) {
  const uint64_t size = ls_load_le64(head);
  *out_size = 0;
  if (check && ls_load_le32(head + 8) != masked_crc(head, 8)) {
    return LS_STATUS(
        LS_DATA_LOSS,
        "'%s' record %lld at byte %lld: the checksum of its length is %08x, "
        "its length, %llu, makes %08x%s",
        place->file, (long long)place->record, (long long)place->offset,
        (unsigned)ls_load_le32(head + 8), (unsigned long long)size,
        (unsigned)masked_crc(head, 8),
        place->record == 0 ? "; is this a TFRecord file?" : "");
  }
  const uint64_t most =
      left >= LS_TFRECORD_FOOT ? (uint64_t)(left - LS_TFRECORD_FOOT) : 0;
  if (left >= 0 && (size > most || left < LS_TFRECORD_FOOT)) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' record %lld at byte %lld is cut off: it has %llu "
                     "bytes and a checksum of 4, the file has %lld more",
                     place->file, (long long)place->record,
                     (long long)place->offset, (unsigned long long)size,
                     (long long)left);
  }
  if (left < 0 && size > LS_TFRECORD_PACKED_MOST) {
    return ls_invalid_argument(
        "'%s' record %lld at byte %lld (unpacked) has %llu bytes; of a packed "
        "file records of at most %d are read",
        place->file, (long long)place->record, (long long)place->offset,
        (unsigned long long)size, LS_TFRECORD_PACKED_MOST);
  }
  *out_size = (size_t)size;
  return ls_ok();
}

static ls_status check_data(const ls_record_place *place,
                            const unsigned char *data, size_t size) {
  const uint32_t want = ls_load_le32(data + size);
  const uint32_t found = masked_crc(data, size);
  if (want == found) return ls_ok();
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' record %lld at byte %lld is damaged: the checksum of "
                   "its %zu bytes is %08x, they make %08x",
                   place->file, (long long)place->record,
                   (long long)place->offset, size, (unsigned)want,
                   (unsigned)found);
}

ls_status ls_tfrecord_open_frame(const ls_record_place *place,
                                 const void *frame, size_t size, bool check,
                                 ls_bytes *out_bytes) {
  const unsigned char *head = frame;
  size_t found = 0;
  *out_bytes = (ls_bytes){0};
  if (size < LS_TFRECORD_HEAD + LS_TFRECORD_FOOT) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' record %lld at byte %lld has %zu bytes in all; the "
                     "least is 16",
                     place->file, (long long)place->record,
                     (long long)place->offset, size);
  }
  LS_RETURN_IF_ERROR(read_head(place, head, (int64_t)(size - LS_TFRECORD_HEAD),
                               check, &found));
  if (found != size - LS_TFRECORD_HEAD - LS_TFRECORD_FOOT) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' record %lld at byte %lld has %zu bytes; %zu when "
                     "the file was opened: it has changed",
                     place->file, (long long)place->record,
                     (long long)place->offset, found,
                     size - LS_TFRECORD_HEAD - LS_TFRECORD_FOOT);
  }
  if (check)
    LS_RETURN_IF_ERROR(check_data(place, head + LS_TFRECORD_HEAD, found));
  *out_bytes = (ls_bytes){(const char *)head + LS_TFRECORD_HEAD, found};
  return ls_ok();
}

void ls_tfrecord_frame(const void *data, size_t size,
                       unsigned char head[LS_TFRECORD_HEAD],
                       unsigned char foot[LS_TFRECORD_FOOT]) {
  ls_store_le64(head, size);
  ls_store_le32(head + 8, masked_crc(head, 8));
  ls_store_le32(foot, masked_crc(data, size));
}

// ---- Reading ---------------------------------------------------------------
static ls_status cut_head(const ls_record_place *place, size_t size) {
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' record %lld at byte %lld is cut off: its head has 12 "
                   "bytes, the file %zu more",
                   place->file, (long long)place->record,
                   (long long)place->offset, size);
}

// Reads the head at the reader's position and moves after it. Returns
// OUT_OF_RANGE at the end.
static ls_status next_head(ls_reader *reader, ls_record_place *place,
                           bool check, size_t *out_size) {
  place->file = reader->file->path;
  place->offset = reader->position;
  LS_RETURN_IF_ERROR(ls_reader_need(reader, LS_TFRECORD_HEAD));
  if (reader->size == 0)
    return ls_out_of_range("'%s' has %lld records", place->file,
                           (long long)place->record);
  if (reader->size < LS_TFRECORD_HEAD) return cut_head(place, reader->size);
  const int64_t left = reader->inflater != NULL
                           ? -1
                           : reader->end - reader->position - LS_TFRECORD_HEAD;
  LS_RETURN_IF_ERROR(read_head(place, (const unsigned char *)reader->data, left,
                               check, out_size));
  ls_reader_take(reader, LS_TFRECORD_HEAD);
  return ls_ok();
}

ls_status ls_tfrecord_next(ls_reader *reader, ls_record_place *place,
                           bool check, ls_bytes *out_bytes) {
  size_t size = 0;
  *out_bytes = (ls_bytes){0};
  LS_RETURN_IF_ERROR(next_head(reader, place, check, &size));
  LS_RETURN_IF_ERROR(ls_reader_need(reader, size + LS_TFRECORD_FOOT));
  if (reader->size < size + LS_TFRECORD_FOOT) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' record %lld at byte %lld (unpacked) is cut off: it "
                     "has %zu bytes and a checksum of 4, the file has %zu more",
                     place->file, (long long)place->record,
                     (long long)place->offset, size, reader->size);
  }
  const unsigned char *data = (const unsigned char *)reader->data;
  if (check) LS_RETURN_IF_ERROR(check_data(place, data, size));
  *out_bytes = (ls_bytes){(const char *)data, size};
  ls_reader_take(reader, size + LS_TFRECORD_FOOT);
  ++place->record;
  return ls_ok();
}

// With long records only the heads are read.
enum { LONG_RECORD = 16 << 10, HEADS_CHUNK = 4 << 10 };

ls_status ls_tfrecord_scan(const ls_file *file, ls_offsets *offsets) {
  ls_reader reader;
  LS_RETURN_IF_ERROR(ls_reader_open(file, offsets->allocator, NULL, &reader));
  ls_record_place place = {0};
  ls_status status = ls_ok();
  while (ls_status_is_ok(status)) {
    size_t size = 0;
    status = next_head(&reader, &place, true, &size);
    if (!ls_status_is_ok(status)) break;
    reader.chunk = size >= LONG_RECORD ? HEADS_CHUNK : LS_READER_CHUNK;
    status = ls_offsets_add(offsets, place.offset);
    if (ls_status_is_ok(status))
      status = ls_reader_skip(&reader, (int64_t)size + LS_TFRECORD_FOOT);
    ++place.record;
  }
  ls_reader_close(&reader);
  if (ls_status_code(status) != LS_OUT_OF_RANGE) return status;
  ls_status_free(status);
  return ls_offsets_add(offsets, file->size);
}

// ---- Writing ---------------------------------------------------------------
enum { WRITE_BUFFER = 256 << 10 };

struct ls_tfrecord_output {
  ls_allocator *allocator;
  ls_file_system files;
  void *file;
  int64_t written;  // Bytes of the file handed on so far.
  bool failed;
  size_t size;
  unsigned char buffer[WRITE_BUFFER];
};

ls_status ls_tfrecord_output_open(ls_runtime *runtime, const char *path,
                                  ls_tfrecord_output **out_writer) {
  *out_writer = NULL;
  const ls_file_system *files = ls_runtime_files(runtime);
  if (files->create == NULL || files->write_at == NULL ||
      files->finish == NULL) {
    return ls_unimplemented("the runtime's file system does not write '%s' in "
                            "parts: its create, write_at or finish is NULL",
                            path);
  }
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  ls_tfrecord_output *writer = ls_allocate(allocator, sizeof(*writer));
  if (writer == NULL) return ls_out_of_memory();
  writer->allocator = allocator;
  writer->files = *files;
  writer->written = 0;
  writer->failed = false;
  writer->size = 0;
  const ls_status status =
      files->create(files->user, path, false, &writer->file);
  if (ls_status_is_ok(status))
    *out_writer = writer;
  else
    ls_release(allocator, writer);
  return status;
}

static ls_status hand_on(ls_tfrecord_output *writer, const void *data,
                         size_t size) {
  const ls_status status = writer->files.write_at(
      writer->files.user, writer->file, writer->written, data, size);
  writer->written += (int64_t)size;
  writer->failed |= !ls_status_is_ok(status);
  return status;
}

static ls_status append_bytes(ls_tfrecord_output *writer, const void *data,
                              size_t size) {
  if (size > WRITE_BUFFER - writer->size) {
    const size_t held = writer->size;
    writer->size = 0;
    LS_RETURN_IF_ERROR(hand_on(writer, writer->buffer, held));
    if (size >= WRITE_BUFFER) return hand_on(writer, data, size);
  }
  if (size > 0) memcpy(writer->buffer + writer->size, data, size);
  writer->size += size;
  return ls_ok();
}

ls_status ls_tfrecord_output_add(ls_tfrecord_output *writer, const void *data,
                                 size_t size) {
  unsigned char head[LS_TFRECORD_HEAD], foot[LS_TFRECORD_FOOT];
  if (writer->failed) {
    return ls_failed_precondition(
        "writing records failed before; this file will not be kept");
  }
  ls_tfrecord_frame(data, size, head, foot);
  LS_RETURN_IF_ERROR(append_bytes(writer, head, sizeof(head)));
  LS_RETURN_IF_ERROR(append_bytes(writer, data, size));
  return append_bytes(writer, foot, sizeof(foot));
}

ls_status ls_tfrecord_output_close(ls_tfrecord_output *writer, bool keep) {
  if (writer == NULL) return ls_ok();
  keep = keep && !writer->failed;
  ls_status status =
      keep ? hand_on(writer, writer->buffer, writer->size) : ls_ok();
  status = ls_status_join(
      status, writer->files.finish(writer->files.user, writer->file,
                                   keep && ls_status_is_ok(status)));
  ls_release(writer->allocator, writer);
  return status;
}
