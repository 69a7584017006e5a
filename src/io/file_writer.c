// SPDX-License-Identifier: Apache-2.0
#include "io/file_writer.h"

ls_status ls_file_writer_begin(ls_file_writer *writer, ls_runtime *runtime,
                               const char *path) {
  *writer = (ls_file_writer){.files = *ls_runtime_files(runtime)};
  const ls_file_system *files = &writer->files;
  if (files->create == NULL || files->write_at == NULL || files->finish == NULL)
    return ls_unimplemented("the runtime's file system does not write '%s' in "
                            "parts: its create, write_at or finish is NULL",
                            path);
  return files->create(files->user, path, false, &writer->handle);
}

ls_status ls_file_writer_add(ls_file_writer *writer, const void *data,
                             size_t size) {
  if (size == 0) return ls_ok();
  const ls_status status = writer->files.write_at(
      writer->files.user, writer->handle, writer->written, data, size);
  writer->written += (int64_t)size;
  writer->failed |= !ls_status_is_ok(status);
  return status;
}

ls_status ls_file_writer_end(ls_file_writer *writer, bool keep,
                             ls_status status) {
  keep = keep && !writer->failed && ls_status_is_ok(status);
  return ls_status_join(
      status, writer->files.finish(writer->files.user, writer->handle, keep));
}
