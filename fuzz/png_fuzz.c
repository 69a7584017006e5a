// SPDX-License-Identifier: Apache-2.0
// Any bytes give the pixels of a PNG or a status; no memory is taken beyond a
// multiple of the file's size.
#include <stdlib.h>

#include "io/png.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const ls_image_file file = {
      .name = "fuzz", .bytes = data, .size = size, .most_pixels = 1 << 16};
  ls_image_header header;
  ls_status status = ls_ok();
  if (ls_png_is(data, size)) status = ls_png_parse(&file, &header);
  if (!ls_png_is(data, size) || !ls_status_is_ok(status)) {
    ls_status_free(status);
    return 0;
  }
  if (header.width < 1 || header.height < 1 || header.channels < 1 ||
      header.channels > 4 || header.bits > 16)
    abort();
  // In the ways that the file's size chooses.
  ls_pixels out = {.width = header.width,
                   .height = header.height,
                   .channels = 1 + (int)(size % 4),
                   .bits = size % 8 < 4 ? 8 : 16};
  out.stride = (size_t)(out.width * out.channels * out.bits / 8);
  out.data = malloc(out.stride * (size_t)out.height);
  if (out.data == NULL) abort();
  ls_status_free(ls_png_decode(ls_allocator_system(), &file, &out));
  free(out.data);
  return 0;
}
