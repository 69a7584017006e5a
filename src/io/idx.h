// SPDX-License-Identifier: Apache-2.0
// IDX: the format of MNIST and its kin. Two zero bytes, a type, a rank, one
// big-endian 32-bit size per dimension, then the elements, big-endian.
#ifndef LS_IO_IDX_H_
#define LS_IO_IDX_H_

#include "base/runtime_internal.h"
#include "lockstep/array.h"

// What an IDX file says of itself.
typedef struct ls_idx_header {
  ls_dtype dtype;  // u8, i8, i16, i32, f32 or f64.
  ls_shape shape;
  size_t data_offset;  // Where the elements begin.
} ls_idx_header;

// Reads and checks the header of a whole file's bytes: the elements are there,
// all of them, and nothing else. `name` is what messages call the file.
//   LS_INVALID_ARGUMENT  not an IDX file, or of more dimensions than we have.
//   LS_DATA_LOSS         shorter or longer than its header says.
LS_MUST_USE ls_status ls_idx_parse(const char *name, const void *bytes,
                                   size_t size, ls_idx_header *out_header);

// The same of the first `size` bytes of a file of `file_size`: all there are,
// or 36.
LS_MUST_USE ls_status ls_idx_parse_head(const char *name, const void *bytes,
                                        size_t size, int64_t file_size,
                                        ls_idx_header *out_header);

// A whole file's bytes, plain or gzip, as an array of the caller's.
LS_MUST_USE ls_status ls_idx_decode(ls_allocator *allocator, const char *name,
                                    const void *bytes, size_t size,
                                    ls_array **out_array);

// The same from a file, through the runtime's file system.
LS_MUST_USE ls_status ls_idx_read(ls_runtime *runtime, const char *path,
                                  ls_array **out_array);

#endif  // LS_IO_IDX_H_
