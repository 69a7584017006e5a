// SPDX-License-Identifier: Apache-2.0
// Any bytes give the pixels of a PNG or a status; no memory is taken beyond a
// multiple of the file's size. Checksums of chunks are made right first, for
// else a fuzzer would hardly get behind them.
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "formats/images/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make_right(uint8_t *bytes, size_t size) {
  for (size_t at = 8; size - at >= 12;) {
    const size_t length = (size_t)bytes[at] << 24 |
                          (size_t)bytes[at + 1] << 16 |
                          (size_t)bytes[at + 2] << 8 | bytes[at + 3];
    if (length > size - at - 12) return;
    const uint32_t sum = (uint32_t)crc32_z(0, bytes + at + 4, length + 4);
    for (size_t i = 0; i < 4; ++i)
      bytes[at + 8 + length + i] = (uint8_t)(sum >> (24 - 8 * i));
    at += 12 + length;
  }
}

static void read_png(const uint8_t *data, size_t size) {
  const ls_image_file file = {
      .name = "fuzz", .bytes = data, .size = size, .most_pixels = 1 << 16,
      .indices = size % 16 == 15};
  ls_image_header header;
  ls_status status = ls_png_parse(&file, &header);
  if (!ls_status_is_ok(status)) {
    ls_status_free(status);
    return;
  }
  if (header.width < 1 || header.height < 1 || header.channels < 1 ||
      header.channels > 4 || header.bits > 16)
    abort();
  // In the ways that the file's size chooses.
  ls_pixels out = {.width = header.width,
                   .height = header.height,
                   .channels = file.indices ? 1 : 1 + (int)(size % 4),
                   .dtype = file.indices || size % 8 < 4 ? LS_DTYPE_U8
                                                         : LS_DTYPE_U16};
  out.stride = (size_t)(out.width * out.channels) * ls_dtype_size(out.dtype);
  out.data = malloc(out.stride * (size_t)out.height);
  if (out.data == NULL) abort();
  ls_status_free(ls_png_decode(ls_allocator_system(), &file, &out));
  free(out.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!ls_png_is(data, size)) return 0;
  read_png(data, size);
  uint8_t *right = malloc(size);
  if (right == NULL) abort();
  memcpy(right, data, size);
  make_right(right, size);
  read_png(right, size);
  free(right);
  return 0;
}
