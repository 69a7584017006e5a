// SPDX-License-Identifier: Apache-2.0
// Draws images on the terminal, side by side. A cell of the terminal is two
// pixels, one above the other.
#ifndef LS_CLI_DRAW_H_
#define LS_CLI_DRAW_H_

#include "cli/cli.h"

typedef enum cli_paint {
  CLI_PAINT_LETTERS,  // Shades of " .:-=+*#%@", from dark to bright.
  CLI_PAINT_256,      // Half blocks in the 256 colors of most terminals.
  CLI_PAINT_TRUE,     // The same in 24-bit colors.
} cli_paint;

// Returns how a file descriptor's terminal can paint, by TERM, COLORTERM,
// NO_COLOR and the locale's variables. Letters if it is no terminal.
cli_paint cli_paint_of(const ls_runtime *runtime, int descriptor);

// Returns true if the locale's variables name UTF-8.
bool cli_speaks_utf8(const ls_runtime *runtime);

// Options for drawing. A zero field means its default.
typedef struct cli_draw_options {
  cli_paint paint;
  int width;  // Columns of the terminal. Default 80.
  int most;   // Most columns of an image. Default: the width.
  // Captions above the images, cut to their widths, one per image. NULL: none.
  const char *const *captions;
} cli_draw_options;

// Draws arrays [h, w] or [h, w, 1 to 4] of numbers: gray, gray and alpha, RGB,
// RGB and alpha (alpha is ignored). The range of u8 is 0 to 255; that of other
// types is from the least to the largest finite number of all images.
//   LS_INVALID_ARGUMENT  an array that is no image: names its type.
LS_MUST_USE ls_status cli_draw(const ls_array *const *images, size_t count,
                               const cli_draw_options *options, FILE *out);

#endif  // LS_CLI_DRAW_H_
