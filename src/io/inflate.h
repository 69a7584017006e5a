// SPDX-License-Identifier: Apache-2.0
// Packed data unpacked piece by piece, and buffers packed, by zlib. A build
// without zlib fails with LS_UNIMPLEMENTED; ls_crc32 works there too.
//
// Thread-compatible.
#ifndef LS_IO_INFLATE_H_
#define LS_IO_INFLATE_H_

#include "base/export.h"
#include "base/memory/allocator.h"
#include "base/memory/own.h"

typedef enum ls_packing {
  LS_PACKING_NONE,
  LS_PACKING_GZIP,     // One or more members.
  LS_PACKING_DEFLATE,  // Without a header, as in zip files.
  LS_PACKING_ZLIB,     // With zlib's own header, as in PNG files; ls_deflate.
} ls_packing;

typedef struct ls_inflater ls_inflater;

// Takes any packing but LS_PACKING_NONE.
LS_MUST_USE ls_status ls_inflater_create(ls_allocator *allocator,
                                         ls_packing packing,
                                         ls_inflater **out_inflater);
void ls_inflater_destroy(ls_inflater *inflater);  // Accepts NULL.
LS_OWNED_POINTER(ls_inflater, ls_inflater_destroy)

// Input and output of one call, advanced by what was used.
typedef struct ls_inflation {
  const char *name;  // Name of the file in messages.
  int64_t position;  // Position of `in` in the file.
  const unsigned char *in;
  size_t in_size;
  bool is_last;  // Nothing follows `in`.
  char *out;
  size_t room;
} ls_inflation;

// Unpacks until the input or the room is used up, or the data have ended, which
// sets `*out_ended` and has verified their checksum. Needs more input if there
// is room left and they have not ended.
//   LS_DATA_LOSS  damaged, cut off, or, gzip, followed by something else.
LS_MUST_USE ls_status ls_inflater_run(ls_inflater *inflater,
                                      ls_inflation *inflation, bool *out_ended);

// Packs a buffer into one that the caller releases.
LS_MUST_USE ls_status ls_deflate(ls_allocator *allocator, ls_packing packing,
                                 const void *data, size_t size, char **out_data,
                                 size_t *out_size);

// Computes zlib's CRC-32, for zip files; arguments as in ls_crc32c.
uint32_t ls_crc32(uint32_t crc, const void *data, size_t size);

// ---- Whole gzip files ------------------------------------------------------
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

#endif  // LS_IO_INFLATE_H_
