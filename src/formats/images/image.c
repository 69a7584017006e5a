// SPDX-License-Identifier: Apache-2.0
#include "formats/images/image.h"

#include <inttypes.h>

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
