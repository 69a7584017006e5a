// SPDX-License-Identifier: Apache-2.0
// Cache files, which hold the elements of a data set: a header that identifies
// the pipeline, the elements, each with its checksum, and their offsets.
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
  int64_t count;  // Number of elements.
  int64_t *offsets;
} ls_cache_file;

// Opens a file that was built for this digest of a pipeline.
//   LS_NOT_FOUND         no such file.
//   LS_INVALID_ARGUMENT  not a cache file, or of another pipeline.
//   LS_DATA_LOSS         it is damaged.
LS_MUST_USE ls_status ls_cache_file_open(ls_runtime *runtime, const char *path,
                                         const uint64_t digest[2],
                                         ls_allocator *allocator,
                                         ls_cache_file **out_file);
void ls_cache_file_close(ls_cache_file *file);  // Accepts NULL.
LS_OWNED_POINTER(ls_cache_file, ls_cache_file_close)
// Writes all elements of a data set; the file appears once it is whole. Writes
// nothing, and sets `*out_is_busy`, while another writer does.
LS_MUST_USE ls_status ls_cache_file_build(ls_runtime *runtime, const char *path,
                                          const uint64_t digest[2],
                                          ls_allocator *allocator,
                                          ls_dataset *source,
                                          bool *out_is_busy);
// Reads element `index` with the structure of those of `like`, in-out. Any
// thread.
//   LS_DATA_LOSS  names file and element.
LS_MUST_USE ls_status ls_cache_file_read(const ls_cache_file *file,
                                         int64_t index, const ls_dataset *like,
                                         ls_nest *element);

#endif  // LS_DATA_STREAMS_CACHE_FILE_H_
