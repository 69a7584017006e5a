// SPDX-License-Identifier: Apache-2.0
// Pixels in memory, and PNG files written from them.
#ifndef LS_IO_PNG_WRITE_H_
#define LS_IO_PNG_WRITE_H_

#include "base/memory/allocator.h"
#include "lockstep/shape.h"

// Pixels in memory: rows from the top, samples of a pixel side by side.
typedef struct ls_pixels {
  void *data;
  size_t stride;  // Bytes from row to row.
  int64_t width, height;
  int64_t channels;  // Images: 1 gray, 2 gray and alpha, 3 RGB, 4 with alpha.
  ls_dtype dtype;    // u8 or u16; f32 for resizing.
} ls_pixels;

// Packs an image; the caller releases the bytes with ls_release.
//   LS_UNIMPLEMENTED  built without zlib.
LS_PRIVATE_API LS_MUST_USE ls_status ls_png_encode(ls_allocator *allocator,
                                                   const ls_pixels *image,
                                                   unsigned char **out_bytes,
                                                   size_t *out_size);

#endif  // LS_IO_PNG_WRITE_H_
