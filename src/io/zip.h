// SPDX-License-Identifier: Apache-2.0
// Zip files, also of more than 4 GiB, with stored or deflated members. Ranges
// of a stored member can be read directly.
//
// Thread-safe, but for writers.
#ifndef LS_IO_ZIP_H_
#define LS_IO_ZIP_H_

#include "base/export.h"
#include "base/files.h"
#include "base/memory/own.h"

typedef struct ls_zip_entry {
  const char *name;     // Zero-terminated; owned by the directory.
  bool deflated;        // False: stored.
  uint32_t crc;         // CRC-32 of the unpacked bytes.
  int64_t packed_size;  // Size in the file.
  int64_t size;
  int64_t header;  // Position of its own header.
} ls_zip_entry;

typedef struct ls_zip {
  ls_allocator *allocator;
  const ls_file *file;  // Lent.
  ls_zip_entry *entries;
  size_t count;
  char *names;
} ls_zip;

// Reads the directory. Zeroed directories may be closed.
//   LS_INVALID_ARGUMENT  no zip file.
//   LS_UNIMPLEMENTED     in several parts, encrypted, or packed with another
//                     method.
//   LS_DATA_LOSS         cut off or damaged: names file, entry and byte.
LS_PRIVATE_API LS_MUST_USE ls_status ls_zip_open(const ls_file *file,
                                                 ls_allocator *allocator,
                                                 ls_zip *out_zip);
LS_PRIVATE_API void ls_zip_close(ls_zip *zip);
LS_OWNED_STRUCT(ls_zip, ls_zip_close)

// Finds the position of a member's bytes in the file, `packed_size` of them.
LS_PRIVATE_API LS_MUST_USE ls_status ls_zip_locate(const ls_zip *zip,
                                                   const ls_zip_entry *entry,
                                                   int64_t *out_offset);
// Reads a member's bytes, unpacked and with their checksum verified, into a
// block of entry->size bytes that the caller frees. Refuses sizes other than
// declared, and sizes that deflate cannot reach.
LS_PRIVATE_API LS_MUST_USE ls_status ls_zip_read(const ls_zip *zip,
                                                 const ls_zip_entry *entry,
                                                 ls_allocator *allocator,
                                                 char **out_data);

// ---- Writing ---------------------------------------------------------------
typedef struct ls_zip_writer ls_zip_writer;

// Begins a file, which becomes visible when the writer is closed; the caller
// closes it.
LS_PRIVATE_API LS_MUST_USE ls_status ls_zip_writer_open(
    ls_runtime *runtime, const char *path, ls_zip_writer **out_writer);
// Adds a member whose contents are two pieces, concatenated.
LS_PRIVATE_API LS_MUST_USE ls_status ls_zip_add(ls_zip_writer *writer,
                                                const char *name, bool deflated,
                                                const void *head,
                                                size_t head_size,
                                                const void *data, size_t size);
// Ends the file; it becomes visible if `keep` and nothing failed. Accepts NULL.
LS_PRIVATE_API LS_MUST_USE ls_status ls_zip_writer_close(ls_zip_writer *writer,
                                                         bool keep);

#endif  // LS_IO_ZIP_H_
