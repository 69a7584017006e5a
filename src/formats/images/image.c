// SPDX-License-Identifier: Apache-2.0
#include "formats/images/image.h"

#include <inttypes.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "lockstep/image.h"

static ls_status refuse_other(const ls_image_file *file) {
  if (file->size == 0)
    return LS_STATUS(LS_DATA_LOSS, "'%s' is empty; an image has bytes",
                     file->name);
  const unsigned char *at = file->bytes;
  return ls_invalid_argument(
      "'%s' is no image that is read: it begins with %02x %02x, a PNG with 89 "
      "50 4e 47 and a JPEG with ff d8 ff",
      file->name, at[0], file->size > 1 ? at[1] : 0);
}

ls_status ls_image_parse(const ls_image_file *file,
                         ls_image_header *out_header) {
  if (ls_png_is(file->bytes, file->size)) return ls_png_parse(file, out_header);
  if (ls_jpeg_is(file->bytes, file->size)) {
    if (!file->indices) return ls_jpeg_parse(file, out_header);
    return ls_invalid_argument("'%s' is a JPEG, whose pixels are colors that "
                               "compression changes; give a PNG",
                               file->name);
  }
  *out_header = (ls_image_header){0};
  return refuse_other(file);
}

ls_status ls_image_decode(ls_allocator *allocator, const ls_image_file *file,
                          const ls_pixels *out) {
  if (ls_png_is(file->bytes, file->size))
    return ls_png_decode(allocator, file, out);
  if (ls_jpeg_is(file->bytes, file->size))
    return ls_jpeg_decode(allocator, file, out);
  return refuse_other(file);
}

ls_status ls_image_check(const ls_image_file *file, const char *format,
                         const ls_image_header *header, int64_t pixels_a_byte) {
  const int64_t width = header->width, height = header->height;
  if (width <= 0 || height <= 0) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' is a %s of %" PRId64 " x %" PRId64
                     " pixels; it has to have some",
                     file->name, format, width, height);
  }
  if (width > file->most_pixels / height) {
    return ls_invalid_argument("'%s' is a %s of %" PRId64 " x %" PRId64
                               " pixels, in %zu bytes; at most %" PRId64
                               " pixels are allowed (most_pixels)",
                               file->name, format, width, height, file->size,
                               file->most_pixels);
  }
  const int64_t pixels = width * height;
  if (pixels_a_byte > 0 && file->size < (size_t)(pixels / pixels_a_byte)) {
    return LS_STATUS(
        LS_DATA_LOSS,
        "'%s' is cut off: it is a %s of %" PRId64 " x %" PRId64
        " pixels, which take %" PRId64 " bytes at least, and has %zu",
        file->name, format, width, height, pixels / pixels_a_byte, file->size);
  }
  return ls_ok();
}

// ---- Arrays ----------------------------------------------------------------
static ls_dtype decode_dtype_of(const ls_image_options *options) {
  const bool given = options != NULL && options->dtype != LS_DTYPE_NONE;
  return given ? options->dtype : LS_DTYPE_U8;
}

ls_status ls_image_open(const char *function, const void *bytes, size_t size,
                        const ls_image_options *options, ls_image_file *file) {
  const ls_image_options given =
      options != NULL ? *options : (ls_image_options){0};
  *file = (ls_image_file){
      .name = given.name != NULL ? given.name : "image",
      .bytes = bytes,
      .size = size,
      .most_pixels = given.most_pixels != 0 ? given.most_pixels : 1 << 26,
      .allow_damaged = given.allow_damaged,
      .indices = given.indices};
  if (given.channels < 0 || given.channels > 4) {
    return ls_invalid_argument(
        "%s: '%s' with %d channels; give 1 to 4, or 0 for those of the file",
        function, file->name, given.channels);
  }
  if (given.dtype != LS_DTYPE_NONE && given.dtype != LS_DTYPE_U8 &&
      given.dtype != LS_DTYPE_U16) {
    return ls_invalid_argument("%s: '%s' is to be %s; images are read as u8 or "
                               "u16",
                               function, file->name,
                               ls_dtype_name(given.dtype));
  }
  if (file->most_pixels < 0) {
    return ls_invalid_argument("%s: most_pixels is %" PRId64
                               "; it is a number of pixels",
                               function, file->most_pixels);
  }
  if (given.indices && (given.channels > 1 || given.dtype == LS_DTYPE_U16)) {
    return ls_invalid_argument("%s: '%s' as indices with %d channels of %s; "
                               "these are u8 of one channel",
                               function, file->name, given.channels,
                               ls_dtype_name(decode_dtype_of(&given)));
  }
  return ls_ok();
}

static ls_status decode_shape_of(const ls_image_file *file,
                                 const ls_image_options *options,
                                 ls_shape *out_shape) {
  ls_image_header header = {0};
  LS_RETURN_IF_ERROR(ls_image_parse(file, &header));
  const int channels = options != NULL && options->channels != 0
                           ? options->channels
                           : header.channels;
  *out_shape = LS_SHAPE(header.height, header.width, channels);
  return ls_ok();
}

ls_pixels ls_pixels_of(const ls_array *image) {
  const ls_shape shape = ls_array_shape(image);
  const ls_dtype dtype = ls_array_dtype(image);
  return (ls_pixels){.data = (void *)(uintptr_t)ls_array_data(image),
                     .stride = (size_t)(shape.dim[1] * shape.dim[2]) *
                               ls_dtype_size(dtype),
                     .height = shape.dim[0],
                     .width = shape.dim[1],
                     .channels = shape.dim[2],
                     .dtype = dtype};
}

ls_status ls_image_shape(const void *bytes, size_t size,
                         const ls_image_options *options, ls_shape *out_shape) {
  LS_REQUIRE_OUT(out_shape);
  *out_shape = LS_SHAPE_UNKNOWN;
  LS_REQUIRE_ITEMS(bytes, size);
  ls_image_file file;
  LS_RETURN_IF_ERROR(ls_image_open(__func__, bytes, size, options, &file));
  return decode_shape_of(&file, options, out_shape);
}

ls_status ls_decode_image(const void *bytes, size_t size,
                          const ls_image_options *options,
                          ls_array **out_image) {
  LS_REQUIRE_OUT(out_image);
  LS_REQUIRE_ITEMS(bytes, size);
  ls_image_file file;
  ls_shape shape;
  LS_RETURN_IF_ERROR(ls_image_open(__func__, bytes, size, options, &file));
  LS_RETURN_IF_ERROR(decode_shape_of(&file, options, &shape));
  LS_OWN(ls_array, image) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(decode_dtype_of(options), shape, &image));
  const ls_pixels pixels = ls_pixels_of(image);
  LS_RETURN_IF_ERROR(ls_image_decode(ls_current_allocator(), &file, &pixels));
  return ls_hand_over(&image, out_image);
}

// Fills options that are not set from the array.
static ls_status decode_options_of(const ls_array *image,
                                   const ls_image_options *options,
                                   ls_image_options *out) {
  *out = options != NULL ? *options : (ls_image_options){0};
  const ls_shape shape = ls_array_shape(image);
  const ls_dtype dtype = ls_array_dtype(image);
  if (shape.rank != 3 || shape.dim[2] < 1 || shape.dim[2] > 4 ||
      (dtype != LS_DTYPE_U8 && dtype != LS_DTYPE_U16)) {
    return ls_invalid_argument(
        "ls_decode_image_into: image is %s; it has to be u8 or u16 [height, "
        "width, 1 to 4]",
        LS_SHAPE_TEXT(dtype, shape));
  }
  if (out->channels == 0) out->channels = (int)shape.dim[2];
  if (out->dtype == LS_DTYPE_NONE) out->dtype = dtype;
  return ls_ok();
}

ls_status ls_decode_image_into(const void *bytes, size_t size,
                               const ls_image_options *options,
                               ls_array *image) {
  LS_REQUIRE_ITEMS(bytes, size);
  LS_REQUIRE(image);
  ls_image_options wanted;
  ls_image_file file;
  ls_shape shape;
  LS_RETURN_IF_ERROR(decode_options_of(image, options, &wanted));
  LS_RETURN_IF_ERROR(ls_image_open(__func__, bytes, size, &wanted, &file));
  LS_RETURN_IF_ERROR(decode_shape_of(&file, &wanted, &shape));
  if (!ls_shape_equal(shape, ls_array_shape(image)) ||
      wanted.dtype != ls_array_dtype(image)) {
    return ls_invalid_argument(
        "ls_decode_image_into: '%s' is %s, the array for it %s", file.name,
        LS_SHAPE_TEXT(wanted.dtype, shape),
        LS_SHAPE_TEXT(ls_array_dtype(image), ls_array_shape(image)));
  }
  const ls_pixels pixels = ls_pixels_of(image);
  return ls_image_decode(ls_current_allocator(), &file, &pixels);
}

// ---- Writing ---------------------------------------------------------------
static ls_status write_png(const char *path, const ls_array *image) {
  const ls_shape shape = ls_array_shape(image);
  const ls_dtype dtype = ls_array_dtype(image);
  if (shape.rank != 3 || shape.dim[0] < 1 || shape.dim[1] < 1 ||
      shape.dim[2] < 1 || shape.dim[2] > 4 ||
      (dtype != LS_DTYPE_U8 && dtype != LS_DTYPE_U16))
    return ls_invalid_argument("a PNG is u8 or u16 [height, width, 1 to 4], "
                               "got %s",
                               LS_SHAPE_TEXT(dtype, shape));
  ls_allocator *allocator = ls_current_allocator();
  const ls_file_system *files = ls_runtime_files(ls_runtime_current());
  const ls_pixels pixels = ls_pixels_of(image);
  LS_OWN_MEMORY(allocator, unsigned char, bytes) = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(ls_png_encode(allocator, &pixels, &bytes, &size));
  return files->write(files->user, path, bytes, size);
}

ls_status ls_png_write(const char *path, const ls_array *image) {
  LS_REQUIRE(path, image);
  return ls_status_annotate(write_png(path, image), "while writing '%s'", path);
}
