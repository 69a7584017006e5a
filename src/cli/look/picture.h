// SPDX-License-Identifier: Apache-2.0
// Small pictures of examples, for a page: files of BMP, which need no
// compression.
#ifndef LS_CLI_LOOK_PICTURE_H_
#define LS_CLI_LOOK_PICTURE_H_

#include "cli/look/scale.h"

typedef struct cli_picture {
  unsigned char *file;  // NULL: none.
  size_t size;
  int width, height;
} cli_picture;

// Makes a picture of numbers [h, w] or [h, w, 1 to 4]: u8 from 0 to 255, other
// types from the least to the largest of them; alpha is ignored, and of a large
// image every n-th pixel is taken. Other arrays give none.
ls_status cli_picture_make(const ls_array *image, cli_picture *out);
void cli_picture_close(cli_picture *picture);  // Accepts none.
// Writes the picture as an element of HTML.
void cli_picture_write(const cli_picture *picture, FILE *out);

#endif  // LS_CLI_LOOK_PICTURE_H_
