// SPDX-License-Identifier: Apache-2.0
// A file that is written from its start to its end, and becomes visible when it
// is whole.
//
// Thread-compatible.
#ifndef LS_IO_FILE_WRITER_H_
#define LS_IO_FILE_WRITER_H_

#include "base/export.h"
#include "base/files.h"

typedef struct ls_file_writer {
  ls_file_system files;
  void *handle;
  int64_t written;  // Bytes written so far.
  bool failed;      // A write has failed; the file will not be kept.
} ls_file_writer;

// Begins a file, which the caller ends.
//   LS_UNIMPLEMENTED  the runtime's file system does not write in parts.
LS_PRIVATE_API LS_MUST_USE ls_status ls_file_writer_begin(
    ls_file_writer *writer, ls_runtime *runtime, const char *path);
// Appends bytes.
LS_PRIVATE_API LS_MUST_USE ls_status ls_file_writer_add(ls_file_writer *writer,
                                                        const void *data,
                                                        size_t size);
// Ends the file; it becomes visible if `keep`, `status` is OK and no write has
// failed. Returns the first failure; takes over `status`.
LS_PRIVATE_API LS_MUST_USE ls_status ls_file_writer_end(ls_file_writer *writer,
                                                        bool keep,
                                                        ls_status status);

#endif  // LS_IO_FILE_WRITER_H_
