// SPDX-License-Identifier: Apache-2.0
// Image files: parts shared by the readers of all formats, and one reader for
// all.
//
// Reading takes two steps: the header gives the size of the image, then the
// caller has the pixels written to its own memory. No allocation trusts a
// header: a file too small for its pixels, however well they are packed, is
// refused first.
#ifndef LS_FORMATS_IMAGES_IMAGE_H_
#define LS_FORMATS_IMAGES_IMAGE_H_

#include <stddef.h>
#include <stdint.h>

#include "base/memory/allocator.h"
#include "io/png_write.h"
#include "lockstep/image.h"
#include "lockstep/shape.h"

// The bytes of a whole image file.
typedef struct ls_image_file {
  const char *name;  // Name of the file in messages.
  const unsigned char *bytes;
  size_t size;
  int64_t most_pixels;  // Images with more pixels are refused.
  bool allow_damaged;   // Accepts the readable part of a damaged JPEG.
  bool indices;         // Numbers as stored; see ls_image_options.
} ls_image_file;

typedef struct ls_image_header {
  int64_t width, height;  // At least 1.
  int channels;           // 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha.
  int bits;               // Bits of a sample in the file: 1 to 16.
} ls_image_header;

// Reads the header of a PNG or JPEG file.
//   LS_INVALID_ARGUMENT  neither format, or more pixels than are wanted.
//   LS_DATA_LOSS         cut off, or damaged.
//   LS_UNIMPLEMENTED     a kind that is not supported.
LS_MUST_USE ls_status ls_image_parse(const ls_image_file *file,
                                     ls_image_header *out_header);

// Returns the pixels of an array, which only a caller that may write them
// writes.
ls_pixels ls_pixels_of(const ls_array *image);

// Writes the image into `out`, which has the image's width and height, and any
// number of channels, of u8 or u16; padding between rows stays unchanged.
//   LS_UNIMPLEMENTED  this build has no library for the format.
LS_MUST_USE ls_status ls_image_decode(ls_allocator *allocator,
                                      const ls_image_file *file,
                                      const ls_pixels *out);

// Checks a header: refuses more pixels than `most_pixels`, and more than a file
// of this size can hold if `pixels_a_byte` pixels take at least a byte (0: no
// limit).
LS_MUST_USE ls_status ls_image_check(const ls_image_file *file,
                                     const char *format,
                                     const ls_image_header *header,
                                     int64_t pixels_a_byte);

// Returns the brightness of a color as in JPEG and Pillow: 0.299 R + 0.587 G +
// 0.114 B, rounded to nearest.
static inline uint32_t ls_image_gray(uint32_t r, uint32_t g, uint32_t b) {
  return (19595 * r + 38470 * g + 7471 * b + 0x8000) >> 16;
}

// Checks the options (NULL: defaults) of `function` and applies them.
LS_MUST_USE ls_status ls_image_open(const char *function, const void *bytes,
                                    size_t size,
                                    const ls_image_options *options,
                                    ls_image_file *file);

// ---- PNG -------------------------------------------------------------------
// PNG (ISO 15948): images packed without loss. All kinds are supported: gray,
// color and palette, with and without alpha, of 1 to 16 bits, interlaced or
// not.
//
// libpng unpacks them (the only place with png.h); its longjmp on errors ends
// in one function here. Gamma and color profiles are not applied, as usual in
// training pipelines; a transparent color counts as alpha if alpha is
// requested, or if the image has a palette.
bool ls_png_is(const void *bytes, size_t size);

// The parser and decoder behind ls_image_parse and ls_image_decode. 16 bits
// become 8 by their high byte, and 8 become 16 by multiplying with 257; color
// becomes gray by ls_image_gray.
LS_MUST_USE ls_status ls_png_parse(const ls_image_file *file,
                                   ls_image_header *out_header);
LS_MUST_USE ls_status ls_png_decode(ls_allocator *allocator,
                                    const ls_image_file *file,
                                    const ls_pixels *out);

// ---- JPEG ------------------------------------------------------------------
// JPEG (ITU T.81), baseline and progressive, of 8 bits: gray, YCbCr, RGB, and
// CMYK, which becomes RGB.
//
// libjpeg-turbo unpacks them, through its TurboJPEG API (only jpeg.c includes
// turbojpeg.h), with the methods that are its own default and Pillow's: exact
// integer cosine transform, smooth upsampling. So the pixels are the same.
bool ls_jpeg_is(const void *bytes, size_t size);

// The parser and decoder behind ls_image_parse and ls_image_decode. Gray is the
// image's luminance; a requested alpha is opaque; 8 bits become 16 by
// multiplying with 257.
LS_MUST_USE ls_status ls_jpeg_parse(const ls_image_file *file,
                                    ls_image_header *out_header);
// LS_DATA_LOSS  also if the decoder guesses pixels, unless damaged files are
//                allowed: then a truncated file is gray after its end.
LS_MUST_USE ls_status ls_jpeg_decode(ls_allocator *allocator,
                                     const ls_image_file *file,
                                     const ls_pixels *out);

// ---- Resizing --------------------------------------------------------------
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

// Resizes u8 or f32 pixels into others of the same channels and dtype, neither
// empty; they must not overlap.
LS_MUST_USE ls_status ls_pixels_resize(ls_allocator *allocator,
                                       const ls_pixels *from, bool antialias,
                                       const ls_pixels *to);

#endif  // LS_FORMATS_IMAGES_IMAGE_H_
