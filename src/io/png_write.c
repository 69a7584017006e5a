// SPDX-License-Identifier: Apache-2.0
// A PNG writer with zlib alone: each row is stored as differences by whichever
// of the five filters leaves the smallest, and the whole is deflated.
#include "io/png_write.h"

#include <stdlib.h>
#include <zlib.h>

#include "base/memory/own.h"

static void *encoder_allocate(void *allocator, unsigned count, unsigned size) {
  return ls_allocate_zeroed(allocator, count, size);
}

static void encoder_release(void *allocator, void *memory) {
  ls_release(allocator, memory);
}

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
  return put_32(at + 8 + size, (uint32_t)crc32_z(0, at + 4, size + 4));
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
  z_stream stream;
} packing;

static void load_row(packing *self, int64_t y) {
  unsigned char *row = self->previous_row;
  self->previous_row = self->current_row;
  self->current_row = row;
  const unsigned char *from = (const unsigned char *)self->image->data +
                              (size_t)y * self->image->stride;
  memcpy(row, from, self->row_bytes);
  if (self->image->bits == 8) return;
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
static ls_status deflate_rows(packing *self, unsigned char *out, size_t room,
                              size_t *out_size) {
  self->stream.next_out = out;
  self->stream.avail_out = (unsigned)room;
  int result = Z_OK;
  for (int64_t y = 0; y < self->image->height && result == Z_OK; ++y) {
    load_row(self, y);
    filter_row(self);
    self->stream.next_in = self->best;
    self->stream.avail_in = (unsigned)(self->row_bytes + 1);
    const bool last = y == self->image->height - 1;
    result = deflate(&self->stream, last ? Z_FINISH : Z_NO_FLUSH);
  }
  *out_size = room - self->stream.avail_out;
  return result == Z_STREAM_END
             ? ls_ok()
             : ls_internal("deflate gives %d for a PNG", result);
}

static ls_status write_png(packing *self, size_t room, unsigned char *out,
                           size_t *out_size) {
  static const unsigned char signature[] = {0x89, 'P',  'N',  'G',
                                            '\r', '\n', 0x1a, '\n'};
  // Indexed by channels.
  static const unsigned char colors[] = {0, 0, 4, 2, 6};
  memcpy(out, signature, sizeof(signature));
  unsigned char *at = out + sizeof(signature);
  put_32(at + 8, (uint32_t)self->image->width);
  put_32(at + 12, (uint32_t)self->image->height);
  at[16] = (unsigned char)self->image->bits;
  at[17] = colors[self->image->channels];
  memset(at + 18, 0, 3);
  at = put_frame(at, "IHDR", 13);
  size_t size = 0;
  LS_RETURN_IF_ERROR(deflate_rows(self, at + 8, room, &size));
  at = put_frame(at, "IDAT", size);
  at = put_frame(at, "IEND", 0);
  *out_size = (size_t)(at - out);
  return ls_ok();
}

static ls_status encode_png(ls_allocator *allocator, packing *self,
                            unsigned char **out_bytes, size_t *out_size) {
  const size_t row = self->row_bytes;
  const size_t room =
      deflateBound(&self->stream, (row + 1) * (size_t)self->image->height);
  enum { FRAMES = 8 + 25 + 12 + 12 };
  if (room > UINT32_MAX / 2) {
    return ls_invalid_argument("a PNG of %zu bytes is more than 2 GiB",
                               row * (size_t)self->image->height);
  }
  LS_OWN_ARRAY_OR_RETURN(allocator, unsigned char, rows, 4 * (row + 1));
  LS_OWN_MEMORY(allocator, unsigned char, bytes) =
      ls_allocate(allocator, room + FRAMES);
  LS_RETURN_IF_NO_MEMORY(bytes);
  self->current_row = rows;
  self->previous_row = rows + row + 1;
  self->row = rows + 2 * (row + 1);
  self->best = rows + 3 * (row + 1);
  LS_RETURN_IF_ERROR(write_png(self, room, bytes, out_size));
  *out_bytes = ls_give(&bytes);
  return ls_ok();
}

ls_status ls_png_encode(ls_allocator *allocator, const ls_pixels *image,
                        unsigned char **out_bytes, size_t *out_size) {
  *out_bytes = NULL;
  *out_size = 0;
  packing self = {.image = image,
                  .pixel_bytes = (size_t)(image->channels * image->bits / 8),
                  .stream = {.zalloc = encoder_allocate,
                             .zfree = encoder_release,
                             .opaque = allocator}};
  self.row_bytes = (size_t)image->width * self.pixel_bytes;
  if (deflateInit(&self.stream, Z_DEFAULT_COMPRESSION) != Z_OK)
    return ls_out_of_memory();
  const ls_status status = encode_png(allocator, &self, out_bytes, out_size);
  deflateEnd(&self.stream);
  return status;
}
