// SPDX-License-Identifier: Apache-2.0
// Any bytes give the pixels of a JPEG or a status; all pixels, if damage is not
// allowed.
#include <stdlib.h>
#include <string.h>

#include "formats/images/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // In the ways that the file's size chooses.
  const ls_image_file file = {.name = "fuzz",
                              .bytes = data,
                              .size = size,
                              .most_pixels = 1 << 16,
                              .allow_damaged = size % 16 >= 8};
  ls_image_header header;
  ls_status status = ls_ok();
  if (ls_jpeg_is(data, size)) status = ls_jpeg_parse(&file, &header);
  if (!ls_jpeg_is(data, size) || !ls_status_is_ok(status)) {
    ls_status_free(status);
    return 0;
  }
  if (header.width < 1 || header.height < 1 ||
      (header.channels != 1 && header.channels != 3))
    abort();
  ls_pixels out = {.width = header.width,
                   .height = header.height,
                   .channels = 1 + (int)(size % 4),
                   .dtype = size % 8 < 4 ? LS_DTYPE_U8 : LS_DTYPE_U16};
  out.stride = (size_t)(out.width * out.channels) * ls_dtype_size(out.dtype);
  // Twice, on different ground: what is not written differs.
  unsigned char *pixels[2];
  const size_t bytes = out.stride * (size_t)out.height;
  ls_code codes[2];
  for (int i = 0; i < 2; ++i) {
    pixels[i] = malloc(bytes);
    if (pixels[i] == NULL) abort();
    memset(pixels[i], i == 0 ? 0x55 : 0xaa, bytes);
    out.data = pixels[i];
    status = ls_jpeg_decode(ls_allocator_system(), &file, &out);
    codes[i] = ls_status_code(status);
    ls_status_free(status);
  }
  if (codes[0] != codes[1]) abort();
  if (codes[0] == LS_OK && memcmp(pixels[0], pixels[1], bytes) != 0) abort();
  free(pixels[0]);
  free(pixels[1]);
  return 0;
}
