// SPDX-License-Identifier: Apache-2.0
// Packed data unpacked piece by piece, and buffers packed, by zlib. A build
// without zlib fails with LS_UNIMPLEMENTED; ls_crc32 works there too.
//
// Thread-compatible.
#ifndef LS_IO_INFLATE_H_
#define LS_IO_INFLATE_H_

#include "base/memory/allocator.h"
#include "base/memory/own.h"

typedef enum ls_packing {
  LS_PACKING_NONE,
  LS_PACKING_GZIP,     // One or more members.
  LS_PACKING_DEFLATE,  // Without a header, as in zip files.
  LS_PACKING_ZLIB,     // With zlib's own header, as in PNG files; ls_deflate.
} ls_packing;

typedef struct ls_inflater ls_inflater;

// Takes LS_PACKING_GZIP or LS_PACKING_DEFLATE.
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

#endif  // LS_IO_INFLATE_H_
