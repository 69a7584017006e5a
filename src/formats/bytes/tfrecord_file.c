// SPDX-License-Identifier: Apache-2.0
#include "formats/bytes/offsets.h"

#include "base/files.h"
#include "io/protobuf/tfrecord.h"

// ---- Reading ---------------------------------------------------------------
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

// ---- Writing ---------------------------------------------------------------
enum { WRITE_BUFFER = 256 << 10 };

struct ls_tfrecord_output {
  ls_allocator *allocator;
  ls_file_writer file;
  size_t size;
  unsigned char buffer[WRITE_BUFFER];
};

ls_status ls_tfrecord_output_open(ls_runtime *runtime, const char *path,
                                  ls_tfrecord_output **out_writer) {
  *out_writer = NULL;
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN_MEMORY(allocator, ls_tfrecord_output, writer) =
      ls_allocate(allocator, sizeof(*writer));
  LS_RETURN_IF_NO_MEMORY(writer);
  writer->allocator = allocator;
  writer->size = 0;
  LS_RETURN_IF_ERROR(ls_file_writer_begin(&writer->file, runtime, path));
  return ls_hand_over(&writer, out_writer);
}

static ls_status append_bytes(ls_tfrecord_output *writer, const void *data,
                              size_t size) {
  if (size > WRITE_BUFFER - writer->size) {
    const size_t held = writer->size;
    writer->size = 0;
    LS_RETURN_IF_ERROR(ls_file_writer_add(&writer->file, writer->buffer, held));
    if (size >= WRITE_BUFFER)
      return ls_file_writer_add(&writer->file, data, size);
  }
  if (size > 0) memcpy(writer->buffer + writer->size, data, size);
  writer->size += size;
  return ls_ok();
}

ls_status ls_tfrecord_output_add(ls_tfrecord_output *writer, const void *data,
                                 size_t size) {
  unsigned char head[LS_TFRECORD_HEAD], foot[LS_TFRECORD_FOOT];
  if (writer->file.failed) {
    return ls_failed_precondition(
        "an earlier write of records failed; this file will not be kept");
  }
  ls_tfrecord_frame(data, size, head, foot);
  LS_RETURN_IF_ERROR(append_bytes(writer, head, sizeof(head)));
  LS_RETURN_IF_ERROR(append_bytes(writer, data, size));
  return append_bytes(writer, foot, sizeof(foot));
}

ls_status ls_tfrecord_output_close(ls_tfrecord_output *writer, bool keep) {
  if (writer == NULL) return ls_ok();
  ls_status status = ls_ok();
  if (keep && !writer->file.failed)
    status = ls_file_writer_add(&writer->file, writer->buffer, writer->size);
  status = ls_file_writer_end(&writer->file, keep, status);
  ls_release(writer->allocator, writer);
  return status;
}
