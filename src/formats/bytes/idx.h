// SPDX-License-Identifier: Apache-2.0
// IDX: the format of MNIST and similar data sets. Two zero bytes, a type, a
// rank, one big-endian 32-bit size per dimension, then the elements,
// big-endian.
#ifndef LS_FORMATS_BYTES_IDX_H_
#define LS_FORMATS_BYTES_IDX_H_

#include "base/runtime_internal.h"
#include "lockstep/array.h"

// Header of an IDX file.
typedef struct ls_idx_header {
  ls_dtype dtype;  // u8, i8, i16, i32, f32 or f64.
  ls_shape shape;
  size_t data_offset;  // Start of the elements.
} ls_idx_header;

// Reads and checks the header of a whole file's bytes, which must hold exactly
// its elements. `name` names the file in messages.
//   LS_INVALID_ARGUMENT  not an IDX file, or more dimensions than supported.
//   LS_DATA_LOSS         shorter or longer than its header says.
LS_MUST_USE ls_status ls_idx_parse(const char *name, const void *bytes,
                                   size_t size, ls_idx_header *out_header);

// Parses a header like ls_idx_parse, given only the first `size` bytes of a
// file of `file_size` bytes: all of them, or 36.
LS_MUST_USE ls_status ls_idx_parse_head(const char *name, const void *bytes,
                                        size_t size, int64_t file_size,
                                        ls_idx_header *out_header);

// Reads a whole file's bytes, plain or gzip, as an array of the caller's.
LS_MUST_USE ls_status ls_idx_decode(ls_allocator *allocator, const char *name,
                                    const void *bytes, size_t size,
                                    ls_array **out_array);

// Reads a file through the runtime's file system, likewise.
LS_MUST_USE ls_status ls_idx_read(ls_runtime *runtime, const char *path,
                                  ls_array **out_array);

#endif  // LS_FORMATS_BYTES_IDX_H_
