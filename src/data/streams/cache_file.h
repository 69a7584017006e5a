// SPDX-License-Identifier: Apache-2.0
// Files that keep the elements of a data set: a header that says of which, the
// elements, each with its checksum, and where they are.
//
//   "LSCACHE1", digest u64[2], count i64, index i64, crc u32, 0 u32, 0 u64[2]
//   elements: of each leaf dtype i32, rank i32, dim i64[rank], bytes (of each
//             string its size i64 before them); then crc u32 of all that
//   index: offset i64[count + 1], crc u32
//
// Numbers are little-endian, checksums CRC-32C.
#ifndef LS_DATA_STREAMS_CACHE_FILE_H_
#define LS_DATA_STREAMS_CACHE_FILE_H_

#include "base/files.h"
#include "base/memory/own.h"
#include "data/dataset.h"
#include "lockstep/iterator.h"

typedef struct ls_cache_file {
  ls_allocator *allocator;
  ls_file *file;
  int64_t count;  // Elements.
  int64_t *offsets;
} ls_cache_file;

// Opens a file that was built for this digest of a pipeline.
//   LS_NOT_FOUND         there is none.
//   LS_INVALID_ARGUMENT  it is something else, or another pipeline's.
//   LS_DATA_LOSS         it is damaged.
LS_MUST_USE ls_status ls_cache_file_open(ls_runtime *runtime, const char *path,
                                         const uint64_t digest[2],
                                         ls_allocator *allocator,
                                         ls_cache_file **out_file);
void ls_cache_file_close(ls_cache_file *file);  // NULL is fine.
LS_OWNED_POINTER(ls_cache_file, ls_cache_file_close)
// Writes all that the iterator gives; nobody sees the file before it is whole.
LS_MUST_USE ls_status ls_cache_file_build(ls_runtime *runtime, const char *path,
                                          const uint64_t digest[2],
                                          ls_allocator *allocator,
                                          ls_iterator *source);
// Element `index`, as those of `like`, in-out. From any thread.
//   LS_DATA_LOSS  names file and element.
LS_MUST_USE ls_status ls_cache_file_read(const ls_cache_file *file,
                                         int64_t index, const ls_dataset *like,
                                         ls_nest *element);

#endif  // LS_DATA_STREAMS_CACHE_FILE_H_
