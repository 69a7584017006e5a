// SPDX-License-Identifier: Apache-2.0
// Gzip: whole compressed buffers (the only place with zlib.h).
#ifndef LS_IO_GZIP_H_
#define LS_IO_GZIP_H_

#include "base/allocator.h"

// Whether the bytes begin as a gzip file does.
bool ls_gzip_is(const void *data, size_t size);

// Inflates a gzip file of one or more members into `*out_data`, which the
// caller gives back with ls_release; one byte beyond the end is 0. `name` is
// what messages call the file.
//   LS_DATA_LOSS           cut off, damaged, or followed by something else.
//   LS_RESOURCE_EXHAUSTED  no memory, or more than `limit` bytes come out.
LS_MUST_USE ls_status ls_gzip_inflate(ls_allocator *allocator, const char *name,
                                      const void *data, size_t size,
                                      size_t limit, char **out_data,
                                      size_t *out_size);

#endif  // LS_IO_GZIP_H_
