// SPDX-License-Identifier: Apache-2.0
#include "cli/look/picture.h"

#include <math.h>
#include <string.h>

static bool is_image(const ls_array *array) {
  const ls_shape shape = ls_array_shape(array);
  const ls_dtype dtype = ls_array_dtype(array);
  enum { MOST = 4096 };
  return (ls_dtype_is_float(dtype) || ls_dtype_is_integer(dtype)) &&
         (shape.rank == 2 ||
          (shape.rank == 3 && shape.dim[2] >= 1 && shape.dim[2] <= 4)) &&
         shape.dim[0] >= 1 && shape.dim[0] <= MOST && shape.dim[1] >= 1 &&
         shape.dim[1] <= MOST;
}

// ---- Files of BMP ----------------------------------------------------------
static void put_le(unsigned char *at, unsigned long value) {
  for (int i = 0; i < 4; ++i)
    at[i] = (unsigned char)(value >> 8 * i);
}

// Writes the pixels of a row, blue first.
static void put_row(const ls_array *image, cli_range range, int64_t y,
                    int64_t step, unsigned char *row, int64_t width) {
  const ls_shape shape = ls_array_shape(image);
  const int64_t channels = shape.rank == 3 ? shape.dim[2] : 1;
  const double span = range.high > range.low ? range.high - range.low : 1;
  for (int64_t x = 0; x < width; ++x) {
    for (int64_t c = 0; c < 3; ++c) {
      const int64_t at = ((y * step) * shape.dim[1] + x * step) * channels +
                         (channels >= 3 ? 2 - c : 0);
      const double value = (ls_array_f64(image, at) - range.low) / span;
      row[3 * x + c] =
          (unsigned char)(isnan(value) ? 0
                                       : fmin(fmax(value, 0), 1) * 255 + 0.5);
    }
  }
}

static cli_range range_of_image(const ls_array *image) {
  if (ls_array_dtype(image) == LS_DTYPE_U8) return (cli_range){0, 255};
  cli_range range = {NAN, NAN};
  for (int64_t i = 0; i < ls_array_num_elements(image); ++i) {
    const double value = ls_array_f64(image, i);
    cli_range_add(&range, &value, 1);
  }
  return isnan(range.low) ? (cli_range){0, 1} : range;
}

ls_status cli_picture_make(const ls_array *image, cli_picture *out) {
  enum { HEAD = 54, MOST = 96 };
  *out = (cli_picture){0};
  if (!is_image(image)) return ls_ok();
  const ls_shape shape = ls_array_shape(image);
  const int64_t larger =
      shape.dim[0] > shape.dim[1] ? shape.dim[0] : shape.dim[1];
  const int64_t step = (larger + MOST - 1) / MOST;
  const int64_t height = (shape.dim[0] + step - 1) / step;
  const int64_t width = (shape.dim[1] + step - 1) / step;
  const size_t stride = ((size_t)width * 3 + 3) / 4 * 4;
  const size_t size = HEAD + stride * (size_t)height;
  const cli_range range = range_of_image(image);
  CLI_OWN_ARRAY_OR_RETURN(unsigned char, file, size);
  memcpy(file, "BM", 2);
  put_le(file + 2, size);
  put_le(file + 10, HEAD);
  put_le(file + 14, 40);
  put_le(file + 18, (unsigned long)width);
  put_le(file + 22, (unsigned long)height);
  file[26] = 1;   // Planes.
  file[28] = 24;  // Bits per pixel.
  // Rows go upwards.
  for (int64_t y = 0; y < height; ++y)
    put_row(image, range, height - 1 - y, step,
            file + HEAD + (size_t)y * stride, width);
  *out = (cli_picture){cli_give(&file), size, (int)width, (int)height};
  return ls_ok();
}

void cli_picture_close(cli_picture *picture) {
  cli_release(picture->file);
  *picture = (cli_picture){0};
}

// ---- Pages -----------------------------------------------------------------
static void put_base64(FILE *out, const unsigned char *bytes, size_t size) {
  static const char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < size; i += 3) {
    const size_t left = size - i;
    const unsigned long word =
        (unsigned long)bytes[i] << 16 |
        (left > 1 ? (unsigned long)bytes[i + 1] << 8 : 0) |
        (left > 2 ? (unsigned long)bytes[i + 2] : 0);
    fputc(digits[word >> 18 & 63], out);
    fputc(digits[word >> 12 & 63], out);
    fputc(left > 1 ? digits[word >> 6 & 63] : '=', out);
    fputc(left > 2 ? digits[word & 63] : '=', out);
  }
}

void cli_picture_write(const cli_picture *picture, FILE *out) {
  fputs("<img alt=\"\" src=\"data:image/bmp;base64,", out);
  put_base64(out, picture->file, picture->size);
  fprintf(out, "\" width=\"%d\" height=\"%d\"/>", picture->width,
          picture->height);
}
