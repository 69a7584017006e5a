// SPDX-License-Identifier: Apache-2.0
#include "formats/bytes/tfrecord_file.h"

#include "io/protobuf/tfrecord.h"

// ---- Reading ---------------------------------------------------------------
// With long records only the heads are read.
enum { LONG_RECORD = 16 << 10, HEADS_CHUNK = 4 << 10 };

ls_status ls_tfrecord_scan(const ls_file *file, ls_offsets *offsets) {
  ls_reader reader;
  LS_RETURN_IF_ERROR(ls_reader_open(file, offsets->allocator, NULL, &reader));
  ls_record_place place = {0};
  ls_status status = ls_ok();
  while (ls_status_is_ok(status)) {
    size_t size = 0;
    status = ls_tfrecord_next_head(&reader, &place, true, &size);
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
