// SPDX-License-Identifier: Apache-2.0
// Zip files, also of more than 4 GiB: the directory at their end, members that
// are stored or deflated. A stored one can be read in ranges where it lies.
//
// Thread-safe, but for writers.
#ifndef LS_IO_ZIP_H_
#define LS_IO_ZIP_H_

#include "base/files.h"

typedef struct ls_zip_entry {
  const char *name;     // With a zero at its end; the directory's.
  bool deflated;        // Else stored.
  uint32_t crc;         // Of its bytes, unpacked.
  int64_t packed_size;  // In the file.
  int64_t size;
  int64_t header;  // Where its own header lies.
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
//   LS_UNIMPLEMENTED     in several parts, encrypted, or packed otherwise.
//   LS_DATA_LOSS         cut off or damaged: names file, entry and byte.
LS_MUST_USE ls_status ls_zip_open(const ls_file *file, ls_allocator *allocator,
                                  ls_zip *out_zip);
void ls_zip_close(ls_zip *zip);
// By name; NULL: there is none. Of two of one name the last.
const ls_zip_entry *ls_zip_find(const ls_zip *zip, const char *name);

// Where a member's bytes lie in the file, `packed_size` of them.
LS_MUST_USE ls_status ls_zip_locate(const ls_zip *zip,
                                    const ls_zip_entry *entry,
                                    int64_t *out_offset);
// A member's bytes, unpacked, its checksum right: a block of the caller's of
// entry->size bytes. What is declared is all that comes out, and no more than
// deflate can make of what is there.
LS_MUST_USE ls_status ls_zip_read(const ls_zip *zip, const ls_zip_entry *entry,
                                  ls_allocator *allocator, char **out_data);

// ---- Writing ---------------------------------------------------------------
typedef struct ls_zip_writer ls_zip_writer;

// Begins a file, which is seen when the writer is closed; the caller closes it.
LS_MUST_USE ls_status ls_zip_writer_open(ls_runtime *runtime, const char *path,
                                         ls_zip_writer **out_writer);
// Adds a member of two pieces, one behind the other.
LS_MUST_USE ls_status ls_zip_add(ls_zip_writer *writer, const char *name,
                                 bool deflated, const void *head,
                                 size_t head_size, const void *data,
                                 size_t size);
// Ends it. The file is there if `keep` and all went well. NULL is fine.
LS_MUST_USE ls_status ls_zip_writer_close(ls_zip_writer *writer, bool keep);

#endif  // LS_IO_ZIP_H_
