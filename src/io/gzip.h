// SPDX-License-Identifier: Apache-2.0
// Gzip: whole packed buffers. inflate.h unpacks piece by piece.
#ifndef LS_IO_GZIP_H_
#define LS_IO_GZIP_H_

#include "base/export.h"
#include "base/memory/allocator.h"

// Returns true if the bytes begin like a gzip file.
LS_PRIVATE_API bool ls_gzip_is(const void *data, size_t size);

// Returns the most bytes that `size` bytes of gzip data can become.
LS_PRIVATE_API size_t ls_gzip_most(size_t size);

// Checks that unpacking a file whole, to `size` bytes, takes memory in
// proportion to the file: at most 256 MiB, or a hundred times its packed bytes.
// `advice` tells users how to save it unpacked.
//   LS_RESOURCE_EXHAUSTED  it would take more.
LS_PRIVATE_API LS_MUST_USE ls_status ls_gzip_check_proportion(
    const char *name, uint64_t packed_size, uint64_t size, const char *advice);

// Unpacks a gzip file of one or more members into `out`, up to its size: a
// small file may become a very large one, so the caller says how much it wants.
// If fewer bytes come out, they are all and the file is complete; data after a
// full `out` are not read. `name` names the file in messages.
//   LS_DATA_LOSS  cut off, damaged, or followed by something else.
LS_PRIVATE_API LS_MUST_USE ls_status
ls_gzip_inflate(ls_allocator *allocator, const char *name, const void *data,
                size_t size, void *out, size_t room, size_t *out_size);

#endif  // LS_IO_GZIP_H_
