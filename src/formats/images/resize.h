// SPDX-License-Identifier: Apache-2.0
// Resizes pixels at any strides; see ls_resize_image.
#ifndef LS_FORMATS_IMAGES_RESIZE_H_
#define LS_FORMATS_IMAGES_RESIZE_H_

#include "base/memory/allocator.h"
#include "lockstep/shape.h"

// Rows of u8 or f32 samples.
typedef struct ls_raster {
  void *data;
  size_t stride;  // Bytes between starts of rows.
  int64_t height, width, channels;
  ls_dtype dtype;
} ls_raster;

// Resizes from one raster into another of the same channels and dtype, neither
// empty; they must not overlap.
LS_MUST_USE ls_status ls_raster_resize(ls_allocator *allocator,
                                       const ls_raster *from, bool antialias,
                                       const ls_raster *to);

#endif  // LS_FORMATS_IMAGES_RESIZE_H_
