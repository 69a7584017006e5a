// SPDX-License-Identifier: Apache-2.0
// Gzip: whole compressed buffers. Piece by piece: inflate.h.
#ifndef LS_IO_GZIP_H_
#define LS_IO_GZIP_H_

#include "base/memory/allocator.h"

// Whether the bytes begin as a gzip file does.
bool ls_gzip_is(const void *data, size_t size);

// The most bytes that `size` bytes of gzip data can become.
size_t ls_gzip_most(size_t size);

// Checks that what is to be unpacked whole, to `size` bytes, costs memory in
// proportion to the file: at most 256 MiB, or a hundred times its packed bytes.
// `advice` is how to save it unpacked.
//   LS_RESOURCE_EXHAUSTED  it does not.
LS_MUST_USE ls_status ls_gzip_check_proportion(const char *name,
                                               uint64_t packed_size,
                                               uint64_t size,
                                               const char *advice);

// Inflates a gzip file of one or more members into `out`, as far as there is
// room: a small file may become a very large one, so it is the caller who says
// how much it wants. If less comes out than there is room for, it was all, and
// the file is whole; what stands behind a full room is not looked at. `name` is
// what messages call the file.
//   LS_DATA_LOSS  cut off, damaged, or followed by something else.
LS_MUST_USE ls_status ls_gzip_inflate(ls_allocator *allocator, const char *name,
                                      const void *data, size_t size, void *out,
                                      size_t room, size_t *out_size);

#endif  // LS_IO_GZIP_H_
