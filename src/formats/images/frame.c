// SPDX-License-Identifier: Apache-2.0
// Resize, crop and flip of images: the public calls.
#include <inttypes.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "formats/images/image.h"
#include "lockstep/image.h"

// Checks that two images differ only in height and width.
static ls_status frame_check_pair(const char *function, const ls_array *image,
                                  const ls_array *out) {
  const ls_shape from = ls_array_shape(image), to = ls_array_shape(out);
  const ls_dtype dtype = ls_array_dtype(image);
  const bool numbers = ls_dtype_is_float(dtype) || ls_dtype_is_integer(dtype);
  if (from.rank == 3 && to.rank == 3 && from.dim[2] == to.dim[2] &&
      dtype == ls_array_dtype(out) && numbers)
    return ls_ok();
  return ls_invalid_argument("%s: image is %s and out %s; both have to be "
                             "[height, width, channels], of one type and as "
                             "many channels",
                             function, LS_SHAPE_TEXT(dtype, from),
                             LS_SHAPE_TEXT(ls_array_dtype(out), to));
}

static ls_status check_other(const char *function, const ls_array *image,
                             const ls_array *out) {
  if (ls_array_data(image) != ls_array_data(out) || ls_array_size(out) == 0)
    return ls_ok();
  return ls_invalid_argument("%s: image and out are the same array", function);
}

// ---- Resize ----------------------------------------------------------------
// Cuts the pixels to the part given by the options.
static ls_status cut_part(const ls_resize_options *part, ls_pixels *pixels) {
  if (part->top == 0 && part->left == 0 && part->height == 0 &&
      part->width == 0)
    return ls_ok();
  if (part->top < 0 || part->left < 0 || part->height < 1 || part->width < 1 ||
      part->height > pixels->height - part->top ||
      part->width > pixels->width - part->left) {
    return ls_invalid_argument(
        "ls_resize_image: the part is %" PRId64 " x %" PRId64 " (height x "
        "width) at (%" PRId64 ", %" PRId64 "); it has to be inside of an image "
        "of %" PRId64 " x %" PRId64,
        part->height, part->width, part->top, part->left, pixels->height,
        pixels->width);
  }
  pixels->data =
      (char *)pixels->data + (size_t)part->top * pixels->stride +
      (size_t)(part->left * pixels->channels) * ls_dtype_size(pixels->dtype);
  pixels->height = part->height;
  pixels->width = part->width;
  return ls_ok();
}

ls_status ls_resize_image(const ls_array *image,
                          const ls_resize_options *options, ls_array *out) {
  LS_REQUIRE(image, out);
  LS_RETURN_IF_ERROR(frame_check_pair(__func__, image, out));
  LS_RETURN_IF_ERROR(check_other(__func__, image, out));
  const ls_resize_options given =
      options != NULL ? *options : (ls_resize_options){0};
  ls_pixels from = ls_pixels_of(image);
  const ls_pixels to = ls_pixels_of(out);
  if (from.dtype != LS_DTYPE_U8 && from.dtype != LS_DTYPE_F32) {
    return ls_invalid_argument(
        "%s: image is %s; u8 and f32 are resized", __func__,
        LS_SHAPE_TEXT(from.dtype, ls_array_shape(image)));
  }
  LS_RETURN_IF_ERROR(cut_part(&given, &from));
  if (ls_array_size(out) == 0) return ls_ok();
  if (ls_array_size(image) == 0) {
    return ls_invalid_argument(
        "%s: image is %s, from which no pixels can be made for %s", __func__,
        LS_SHAPE_TEXT(from.dtype, ls_array_shape(image)),
        LS_SHAPE_TEXT(to.dtype, ls_array_shape(out)));
  }
  return ls_pixels_resize(ls_current_allocator(), &from,
                          given.antialias != LS_FLAG_OFF, &to);
}

// ---- Crop ------------------------------------------------------------------
// How an axis of the result is filled: `before` pixels of padding, `count`
// pixels of the image from pixel `first` on, padding after them.
typedef struct overlap {
  int64_t before, first, count;
} overlap;

static overlap overlap_of(ls_opt start, int64_t from, int64_t to) {
  const int64_t first = start.set ? start.value : (from - to) / 2;
  overlap result = {0};
  // The image is entirely outside of the result.
  if (first >= from || first <= -to) return result;
  result.first = first > 0 ? first : 0;
  result.before = first < 0 ? -first : 0;
  result.count = to - result.before;
  if (result.count > from - result.first) result.count = from - result.first;
  return result;
}

static void fill_all(ls_array *out, double fill) {
  const size_t sample = ls_dtype_size(ls_array_dtype(out));
  char *data = ls_array_mutable_data(out);
  ls_array_set_f64(out, 0, fill);
  for (size_t at = sample; at < ls_array_size(out); at += sample)
    memcpy(data + at, data, sample);
}

ls_status ls_crop_image(const ls_array *image, const ls_crop_options *options,
                        ls_array *out) {
  LS_REQUIRE(image, out);
  LS_RETURN_IF_ERROR(frame_check_pair(__func__, image, out));
  LS_RETURN_IF_ERROR(check_other(__func__, image, out));
  if (ls_array_size(out) == 0) return ls_ok();
  const ls_crop_options given =
      options != NULL ? *options : (ls_crop_options){0};
  const ls_pixels from = ls_pixels_of(image), to = ls_pixels_of(out);
  const overlap down = overlap_of(given.top, from.height, to.height);
  const overlap across = overlap_of(given.left, from.width, to.width);
  const size_t pixel = ls_dtype_size(to.dtype) * (size_t)to.channels;
  if (down.count < to.height || across.count < to.width)
    fill_all(out, given.fill);
  for (int64_t y = 0; y < down.count; ++y) {
    memcpy((char *)to.data + (size_t)(down.before + y) * to.stride +
               (size_t)across.before * pixel,
           (const char *)from.data + (size_t)(down.first + y) * from.stride +
               (size_t)across.first * pixel,
           (size_t)across.count * pixel);
  }
  return ls_ok();
}

// ---- Flip ------------------------------------------------------------------
// Reads a pixel at each end before writing them, so that the rows may be the
// same.
static inline __attribute__((always_inline)) void
flip_row(const unsigned char *from, size_t width, size_t pixel,
         unsigned char *to) {
  for (size_t x = 0; x < (width + 1) / 2; ++x) {
    const size_t left = x * pixel, right = (width - 1 - x) * pixel;
    for (size_t i = 0; i < pixel; ++i) {
      const unsigned char first = from[left + i], last = from[right + i];
      to[left + i] = last;
      to[right + i] = first;
    }
  }
}

ls_status ls_flip_image(const ls_array *image, ls_array *out) {
  LS_REQUIRE(image, out);
  LS_RETURN_IF_ERROR(frame_check_pair(__func__, image, out));
  if (!ls_shape_equal(ls_array_shape(image), ls_array_shape(out))) {
    return ls_invalid_argument(
        "%s: image is %s and out %s; they have to be of one size", __func__,
        LS_SHAPE_TEXT(ls_array_dtype(image), ls_array_shape(image)),
        LS_SHAPE_TEXT(ls_array_dtype(out), ls_array_shape(out)));
  }
  const ls_pixels from = ls_pixels_of(image), to = ls_pixels_of(out);
  const size_t pixel = (size_t)to.channels * ls_dtype_size(to.dtype);
  for (int64_t y = 0; y < to.height; ++y) {
    const unsigned char *row =
        (const unsigned char *)from.data + (size_t)y * from.stride;
    unsigned char *into = (unsigned char *)to.data + (size_t)y * to.stride;
    const size_t width = (size_t)to.width;
    switch (pixel) {
    case 1:
      flip_row(row, width, 1, into);
      break;
    case 3:
      flip_row(row, width, 3, into);
      break;
    case 4:
      flip_row(row, width, 4, into);
      break;
    default:
      flip_row(row, width, pixel, into);
    }
  }
  return ls_ok();
}
