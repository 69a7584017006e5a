// SPDX-License-Identifier: Apache-2.0
// Resizes pixels at any strides; see ls_resize_image.
#ifndef LS_FORMATS_IMAGES_RESIZE_H_
#define LS_FORMATS_IMAGES_RESIZE_H_

#include <stddef.h>
#include <stdint.h>

#include "base/memory/allocator.h"
#include "lockstep/shape.h"

// ---- Taps ------------------------------------------------------------------
// Taps are the weighted input pixels of an output pixel. Loops over bytes use
// AVX2 if the processor has it; results are the same with and without.
//
// Fixed-point weights of u8, in units of 2^-22: 255 times that fits 32 bits.
enum { LS_TAP_BITS = 22 };

typedef struct ls_tap {
  int64_t first;        // First input pixel.
  int32_t count;        // Number of input pixels, each with a weight.
  const void *weights;  // int32_t for u8, float for f32.
} ls_tap;

// Computes `count` output pixels of a row from a row of `width` pixels.
void ls_taps_row_u8(const ls_tap *taps, int64_t count,
                    const unsigned char *from, int64_t width, int64_t channels,
                    unsigned char *to);
// Computes `count` samples of an output row from the input rows of the tap.
void ls_taps_column_u8(const ls_tap *tap, const unsigned char *from,
                       size_t stride, size_t count, unsigned char *to);

// Do the same without AVX2.
void ls_taps_row_u8_portable(const ls_tap *taps, int64_t count,
                             const unsigned char *from, int64_t width,
                             int64_t channels, unsigned char *to);
void ls_taps_column_u8_portable(const ls_tap *tap, const unsigned char *from,
                                size_t stride, size_t count, unsigned char *to);

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
