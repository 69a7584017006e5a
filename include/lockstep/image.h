// SPDX-License-Identifier: Apache-2.0
// Layer: formats
//
// Images: decodes PNG and JPEG files, writes PNG files, and resizes, crops and
// flips pixels, as in a map over a data set.
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
// is gray, 2 are gray and alpha, 3 red, green, blue, 4 these and alpha.
//
// Threads: calls keep no state; any number of threads may call them with arrays
// that no thread writes meanwhile.
#ifndef LOCKSTEP_IMAGE_H_
#define LOCKSTEP_IMAGE_H_

#include "lockstep/array.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Files -----------------------------------------------------------------
// Options for decoding. Zero in a field means its default.
typedef struct ls_image_options {
  // 1 to 4. Color becomes gray as 0.299 R + 0.587 G + 0.114 B, rounded; of a
  // JPEG its stored luma is used. Alpha missing in the file is opaque; alpha
  // that is not requested is dropped. Default: as in the file, where a palette
  // has 3, or 4 if some of it is transparent.
  int channels;
  // u8 or u16: 16 bits become 8 by their high byte, 8 become 16 by multiplying
  // with 257. Default u8.
  ls_dtype dtype;
  // Refuses a larger image before allocating memory. Default 2^26.
  int64_t most_pixels;
  // Returns the decodable part of a truncated or damaged JPEG; the rest is gray
  // or made up. Default: it is refused.
  bool allow_damaged;
  const char *name;  // Name in messages. Default "image".
  // Returns the numbers that a PNG of one channel stores, as files of classes
  // have them: indices into its palette, and gray of fewer than 8 bits without
  // scaling. Color, alpha, 16 bits and JPEG are refused. Default: colors.
  bool indices;
} ls_image_options;

// Reads the shape that ls_decode_image will return, from the file's header
// alone. `options` may be NULL.
//   LS_INVALID_ARGUMENT  neither a PNG nor a JPEG, or more pixels than
//                        `most_pixels`.
//   LS_DATA_LOSS         truncated or damaged, or too small for the pixels that
//                        its header promises.
//   LS_UNIMPLEMENTED     a JPEG of more than 8 bits, lossless or hierarchical.
LS_API LS_MUST_USE ls_status ls_image_shape(const void *bytes, size_t size,
                                            const ls_image_options *options,
                                            ls_shape *out_shape);
// Decodes the bytes of a whole file: any kind of PNG, or a JPEG that is gray,
// color or CMYK, baseline or progressive. Gamma, color profiles and the
// camera's orientation are not applied. `options` may be NULL. The caller owns
// the array.
//   as ls_image_shape; also
//   LS_UNIMPLEMENTED  this build has no library for such files: names it.
LS_API LS_MUST_USE ls_status ls_decode_image(const void *bytes, size_t size,
                                             const ls_image_options *options,
                                             ls_array **out_image);
// Decodes into the caller's array, whose channels and type apply where
// `options` has none.
//   LS_INVALID_ARGUMENT  also if the image is not of the array's size.
LS_API LS_MUST_USE ls_status
ls_decode_image_into(const void *bytes, size_t size,
                     const ls_image_options *options, ls_array *image);

// Writes an image of u8 or u16 as a PNG file, which becomes visible when it is
// complete and replaces an existing one.
//   LS_INVALID_ARGUMENT  another type, or other than 1 to 4 channels.
//   LS_UNIMPLEMENTED     this build has no zlib.
LS_API LS_MUST_USE ls_status ls_png_write(const char *path,
                                          const ls_array *image);

// ---- Sizes -----------------------------------------------------------------
// Options for resizing. Zero in a field means its default.
typedef struct ls_resize_options {
  // Part of the image to use, as if it had been cropped first. Default, if the
  // sizes are 0: all of it.
  int64_t top, left, height, width;
  // Off: where an image shrinks, only the pixels nearest to each result are
  // used, so that some are skipped. Default on.
  ls_flag antialias;
} ls_resize_options;
// Resizes into `out`, another array of as many channels and of the same type,
// u8 or f32. Along each axis, of n pixels to m, result i is the mean of pixels
// j with weights max(0, 1 - |j + 1/2 - (i + 1/2) n / m| / s), where s is n / m,
// but at least 1, and 1 without antialiasing: enlarging interpolates linearly;
// shrinking averages all pixels. Rows are resized first, then columns. u8
// values are rounded to nearest after each, with weights of 22 bits: the result
// of Pillow's BILINEAR in these two steps. f32 values are added in the order of
// j, with weights rounded to f32.
//   LS_INVALID_ARGUMENT  types, ranks or channels that differ or are not
//                        supported, nothing to resize, a part that is not
//                        inside.
LS_API LS_MUST_USE ls_status ls_resize_image(const ls_array *image,
                                             const ls_resize_options *options,
                                             ls_array *out);

// Options for cropping. Zero in a field means its default.
typedef struct ls_crop_options {
  // Position of the result's first pixel in the image, which may be above it or
  // left of it; the result may also reach beyond the image. Default: centers
  // the result, rounded towards the first pixel.
  ls_opt top, left;
  double fill;  // Value of pixels outside the image.
} ls_crop_options;
// Crops, or pads, to the size of `out`, another array of as many channels and
// of the same type, of numbers.
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
