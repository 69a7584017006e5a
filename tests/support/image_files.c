// SPDX-License-Identifier: Apache-2.0
#include "support/image_files.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "support/expect.h"
#include "support/safetensors.h"

ls_image_file image_file_open(const char *folder, const char *name) {
  char path[1024];
  char *data = NULL;
  ls_image_file file = {.name = name, .most_pixels = 1 << 20};
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  const ls_file_system *files = ls_file_system_system();
  expect_ok(files->read(files->user, path, SIZE_MAX, ls_allocator_system(),
                        &data, &file.size));
  file.bytes = (const unsigned char *)data;
  return file;
}

void image_file_close(const ls_image_file *file) {
  ls_release(ls_allocator_system(), file->bytes);
}

ls_array *image_reference(const char *folder, const char *name) {
  char path[1024];
  LS_OWN(ls_safetensors_file, file) = {0};
  snprintf(path, sizeof(path), "%s/pillow.safetensors", folder);
  expect_ok(ls_safetensors_open(ls_runtime_current(), path, &file));
  ls_array *array = safetensors_array(&file, name);
  if (array == NULL) fail_msg("no reference '%s'", name);
  return array;
}

bool image_is_read(const char *name) {
  // The smallest whole head of each format; what follows does not matter.
  static const unsigned char png[] = {
      0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13,
      'I',  'H', 'D', 'R', 0,    0,    0,    1,    0, 0, 0, 1,
      8,    0,   0,   0,   0,    0,    0,    0,    0, 0, 0, 0,
      0,    'I', 'D', 'A', 'T',  0,    0,    0,    0};
  static const unsigned char jpeg[] = {0xff, 0xd8, 0xff, 0xc0, 0, 11,   8,
                                       0,    1,    0,    1,    1, 1,    17,
                                       0,    0xff, 0xda, 0,    2, 0xff, 0xd9};
  const bool is_png = strstr(name, ".png") != NULL;
  const ls_image_file file = {.name = name,
                              .bytes = is_png ? png : jpeg,
                              .size = is_png ? sizeof(png) : sizeof(jpeg),
                              .most_pixels = 1};
  unsigned char pixel = 0;
  const ls_pixels out = {&pixel, 1, 1, 1, 1, LS_DTYPE_U8};
  LS_OWN(ls_status, status) =
      ls_image_decode(ls_allocator_system(), &file, &out);
  return ls_status_code(status) != LS_UNIMPLEMENTED;
}
