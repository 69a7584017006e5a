// SPDX-License-Identifier: Apache-2.0
// Layer: formats
//
// Images: the pixels of PNG and JPEG files, and what a map over them does.
//
// Link with liblockstep-io (pkg-config lockstep-io).
//
//   ls_array *photo = NULL, *small = ...;  // u8 [224, 224, 3]
//   ls_status status = ls_decode_image(
//       bytes, size, &(ls_image_options){.channels = 3, .name = path}, &photo);
//   ...
//   status = ls_resize_image(photo, NULL, small);
//
// An image is an array [height, width, channels], rows from the top; 1 channel
// is gray, 2 are gray and alpha, 3 red, green, blue, 4 those and alpha.
//
// Threads: no call keeps anything; any number of threads may call with arrays
// that nobody writes meanwhile.
#ifndef LOCKSTEP_IMAGE_H_
#define LOCKSTEP_IMAGE_H_

#include "lockstep/array.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Files -----------------------------------------------------------------
// How to read a file. Zero in a field means its default.
typedef struct ls_image_options {
  // 1 to 4. Color becomes gray as 0.299 R + 0.587 G + 0.114 B, rounded; of a
  // JPEG it is the brightness that the file has. Alpha that the file does not
  // have is opaque; that which is not asked for is left out. Default: as in the
  // file, where a palette has 3, or 4 if some of it is transparent.
  int channels;
  // u8 or u16: 16 bits become 8 by their high byte, 8 become 16 by 257 times as
  // much. Default u8.
  ls_dtype dtype;
  // A larger image is refused, before any memory is taken. Default 2^26.
  int64_t most_pixels;
  // Of a JPEG that is cut off or damaged, take what is there; the rest is gray
  // or made up. Default: it is refused.
  bool allow_damaged;
  const char *name;  // What messages call it. Default "image".
} ls_image_options;

// The shape that ls_decode_image gives, from the file's head alone. `options`
// may be NULL.
//   LS_INVALID_ARGUMENT  neither a PNG nor a JPEG, or more pixels than
//                        `most_pixels`.
//   LS_DATA_LOSS         cut off, or damaged. Also where a file is too small
//                        for the pixels that its head promises.
//   LS_UNIMPLEMENTED     a JPEG of more than 8 bits, lossless or hierarchical.
LS_API LS_MUST_USE ls_status ls_image_shape(const void *bytes, size_t size,
                                            const ls_image_options *options,
                                            ls_shape *out_shape);
// The pixels of a whole file's bytes, of any kind of PNG, or a JPEG that is
// gray, color or CMYK, baseline or progressive. Neither gamma nor color
// profiles nor the orientation that a camera notes are applied. `options` may
// be NULL. The caller owns the array.
//   as ls_image_shape; also
//   LS_UNIMPLEMENTED  this build has no library for such files: names it.
LS_API LS_MUST_USE ls_status ls_decode_image(const void *bytes, size_t size,
                                             const ls_image_options *options,
                                             ls_array **out_image);
// The same into an array of the caller's, whose channels and type count where
// `options` does not say.
//   LS_INVALID_ARGUMENT  also if the image is not of the array's size.
LS_API LS_MUST_USE ls_status
ls_decode_image_into(const void *bytes, size_t size,
                     const ls_image_options *options, ls_array *image);

// ---- Sizes -----------------------------------------------------------------
// How to resize. Zero in a field means its default.
typedef struct ls_resize_options {
  // Which part of the image, as if it had been cut out first. Default, where
  // the sizes are 0: all of it.
  int64_t top, left, height, width;
  // Off: where an image shrinks only the pixels nearest to each place count,
  // so that some are passed over. Default on.
  ls_flag antialias;
} ls_resize_options;
// Resizes into `out`, another array of as many channels and of the same type,
// u8 or f32. Along each axis, of n pixels to m, result i is the mean of pixels
// j of weights max(0, 1 - |j + 1/2 - (i + 1/2) n / m| / s), where s is n / m,
// but at least 1, and 1 without antialiasing: where it grows, linear
// interpolation; where it shrinks, a mean of all that is there. Rows are
// resized first, then columns. u8 are rounded to nearest behind each, from
// weights of 22 bits: what Pillow's BILINEAR gives in these two steps. f32 are
// added in the order of j, by weights rounded to f32.
//   LS_INVALID_ARGUMENT  types, ranks or channels that differ or are others,
//                        nothing to resize, a part that is not inside.
LS_API LS_MUST_USE ls_status ls_resize_image(const ls_array *image,
                                             const ls_resize_options *options,
                                             ls_array *out);

// What to cut out. Zero in a field means its default.
typedef struct ls_crop_options {
  // Where the first pixel of the result is in the image: also above it, left of
  // it, or such that the result reaches beyond it. Default: so that the middles
  // meet, rounded towards the first pixel.
  ls_opt top, left;
  double fill;  // Pixels that are not in the image.
} ls_crop_options;
// Cuts out, or pads, to the size of `out`, another array of as many channels
// and of the same type, of numbers.
//   LS_INVALID_ARGUMENT  types, ranks or channels that differ.
LS_API LS_MUST_USE ls_status ls_crop_image(const ls_array *image,
                                           const ls_crop_options *options,
                                           ls_array *out);
// Swaps left and right; `out` may be the image itself.
//   LS_INVALID_ARGUMENT  types or shapes that differ.
LS_API LS_MUST_USE ls_status ls_flip_image(const ls_array *image,
                                           ls_array *out);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_IMAGE_H_
