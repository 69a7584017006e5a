// SPDX-License-Identifier: Apache-2.0
// Stores each row as differences by whichever of the five filters leaves the
// smallest ones, and deflates the whole.
#include "io/png_write.h"

#include <stdlib.h>

#include "base/memory/own.h"
#include "io/inflate.h"

static unsigned char *put_32(unsigned char *at, uint32_t value) {
  for (int i = 0; i < 4; ++i)
    at[i] = (unsigned char)(value >> (24 - 8 * i));
  return at + 4;
}

// Frames a chunk whose `size` bytes are at `at` + 8.
static unsigned char *put_frame(unsigned char *at, const char *type,
                                size_t size) {
  put_32(at, (uint32_t)size);
  memcpy(at + 4, type, 4);
  return put_32(at + 8 + size, ls_crc32(0, at + 4, size + 4));
}

// ---- Filters ---------------------------------------------------------------
static int predict_paeth(int left, int up, int corner) {
  const int guess = left + up - corner;
  const int by_left = abs(guess - left), by_up = abs(guess - up);
  const int by_corner = abs(guess - corner);
  if (by_left <= by_up && by_left <= by_corner) return left;
  return by_up <= by_corner ? up : corner;
}

// Returns the prediction of filter `type`, from which the difference is stored.
static int predict_byte(int type, int left, int up, int corner) {
  switch (type) {
  case 0:
    return 0;
  case 1:
    return left;
  case 2:
    return up;
  case 3:
    return (left + up) / 2;
  default:
    return predict_paeth(left, up, corner);
  }
}

typedef struct packing {
  const ls_pixels *image;
  size_t row_bytes, pixel_bytes;
  unsigned char *current_row,
      *previous_row;          // Rows in the file's order of bytes.
  unsigned char *row, *best;  // Filtered, with the filter's type in front.
} packing;

static void load_row(packing *self, int64_t y) {
  unsigned char *row = self->previous_row;
  self->previous_row = self->current_row;
  self->current_row = row;
  const unsigned char *from = (const unsigned char *)self->image->data +
                              (size_t)y * self->image->stride;
  memcpy(row, from, self->row_bytes);
  if (self->image->dtype == LS_DTYPE_U8) return;
  for (size_t i = 0; i < self->row_bytes; i += 2) {
    uint16_t sample;
    memcpy(&sample, from + i, sizeof(sample));
    row[i] = (unsigned char)(sample >> 8);
    row[i + 1] = (unsigned char)sample;
  }
}

// Leaves the row with the smallest differences in `best`.
static void filter_row(packing *self) {
  uint64_t least = UINT64_MAX;
  for (int type = 0; type < 5; ++type) {
    uint64_t sum = 0;
    self->row[0] = (unsigned char)type;
    for (size_t i = 0; i < self->row_bytes; ++i) {
      const bool first = i < self->pixel_bytes;
      const size_t before = first ? 0 : i - self->pixel_bytes;
      const int left = first ? 0 : self->current_row[before];
      const int corner = first ? 0 : self->previous_row[before];
      const unsigned char difference =
          (unsigned char)(self->current_row[i] -
                          predict_byte(type, left, self->previous_row[i],
                                       corner));
      self->row[1 + i] = difference;
      sum += difference < 128 ? difference : 256u - difference;
    }
    if (sum >= least) continue;
    least = sum;
    unsigned char *best = self->row;
    self->row = self->best;
    self->best = best;
  }
}

// ---- The file --------------------------------------------------------------
static void filter_rows(packing *self, unsigned char *out) {
  for (int64_t y = 0; y < self->image->height; ++y) {
    load_row(self, y);
    filter_row(self);
    memcpy(out, self->best, self->row_bytes + 1);
    out += self->row_bytes + 1;
  }
}

static size_t write_png(const packing *self, const char *packed,
                        size_t packed_size, unsigned char *out) {
  static const unsigned char signature[] = {0x89, 'P',  'N',  'G',
                                            '\r', '\n', 0x1a, '\n'};
  // Indexed by channels.
  static const unsigned char colors[] = {0, 0, 4, 2, 6};
  memcpy(out, signature, sizeof(signature));
  unsigned char *at = out + sizeof(signature);
  put_32(at + 8, (uint32_t)self->image->width);
  put_32(at + 12, (uint32_t)self->image->height);
  at[16] = self->image->dtype == LS_DTYPE_U8 ? 8 : 16;
  at[17] = colors[self->image->channels];
  memset(at + 18, 0, 3);
  at = put_frame(at, "IHDR", 13);
  memcpy(at + 8, packed, packed_size);
  at = put_frame(at, "IDAT", packed_size);
  at = put_frame(at, "IEND", 0);
  return (size_t)(at - out);
}

ls_status ls_png_encode(ls_allocator *allocator, const ls_pixels *image,
                        unsigned char **out_bytes, size_t *out_size) {
  *out_bytes = NULL;
  *out_size = 0;
  packing self = {.image = image,
                  .pixel_bytes =
                      (size_t)image->channels * ls_dtype_size(image->dtype)};
  self.row_bytes = (size_t)image->width * self.pixel_bytes;
  const size_t row = self.row_bytes + 1;
  const size_t size = row * (size_t)image->height;
  if (size > UINT32_MAX / 2) {
    return ls_invalid_argument("a PNG of %zu bytes is more than 2 GiB", size);
  }
  LS_OWN_ARRAY_OR_RETURN(allocator, unsigned char, rows, 4 * row);
  LS_OWN_ARRAY_OR_RETURN(allocator, unsigned char, filtered, size);
  self.current_row = rows;
  self.previous_row = rows + row;
  self.row = rows + 2 * row;
  self.best = rows + 3 * row;
  filter_rows(&self, filtered);
  size_t packed_size = 0;
  LS_OWN_MEMORY(allocator, char, packed) = NULL;
  LS_RETURN_IF_ERROR(ls_deflate(allocator, LS_PACKING_ZLIB, filtered, size,
                                &packed, &packed_size));
  enum { FRAMES = 8 + 25 + 12 + 12 };
  unsigned char *bytes = ls_allocate(allocator, packed_size + FRAMES);
  LS_RETURN_IF_NO_MEMORY(bytes);
  *out_size = write_png(&self, packed, packed_size, bytes);
  *out_bytes = bytes;
  return ls_ok();
}
