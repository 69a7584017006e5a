// SPDX-License-Identifier: Apache-2.0
// A frame: what the terminal shows of some runs.
#ifndef LS_CLI_LOOK_FRAME_H_
#define LS_CLI_LOOK_FRAME_H_

#include "cli/look/panels.h"

// Standard output as a screen.
typedef struct cli_screen {
  bool terminal, unicode, colors;
  int width;
  int rows;  // Rows of a terminal that can move its cursor; 0: none.
} cli_screen;

// Finds out how standard output can be drawn on, by TERM, NO_COLOR and the
// locale's variables. `width` 0: the terminal's, 80 without one.
cli_screen cli_screen_find(const ls_runtime *runtime, int width);

// Draws the runs to standard output, with logarithmic values where `log` is set
// and all are above 0, and sets the number of rows. With
// `rewrites` they fit the screen's rows.
//   LS_NOT_FOUND  a pattern of `only` fits no metric.
ls_status cli_frame_draw(const cli_histories *histories, const cli_words *only,
                         const cli_screen *screen, bool log, bool rewrites,
                         int *out_rows);

#endif  // LS_CLI_LOOK_FRAME_H_
