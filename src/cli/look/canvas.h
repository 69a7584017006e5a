// SPDX-License-Identifier: Apache-2.0
// Canvas of a terminal's cells: texts, and curves of braille dots, or of plain
// characters where the terminal has no others.
#ifndef LS_CLI_LOOK_CANVAS_H_
#define LS_CLI_LOOK_CANVAS_H_

#include "cli/look/scale.h"

// Colors 1 to 6 are the terminal's own, which its theme defines; 0 is the
// default, CLI_FAINT a faint one.
enum { CLI_NUM_COLORS = 6, CLI_FAINT = 7 };

typedef struct cli_cell {
  char text[5];        // One character in UTF-8; "": blank.
  unsigned char dots;  // Braille dots.
  unsigned char color;
} cli_cell;

typedef struct cli_canvas {
  cli_cell *cells;
  int width, height;
  bool unicode;  // UTF-8: lines and braille dots.
  bool colors;
} cli_canvas;

ls_status cli_canvas_make(int width, int height, cli_canvas *canvas);
void cli_canvas_close(cli_canvas *canvas);
CLI_OWNED_STRUCT(cli_canvas, cli_canvas_close)

// Writes a text from a cell on, cut at `width` columns; control characters
// become '?'. Returns the number of columns used.
int cli_canvas_text(cli_canvas *canvas, int x, int y, int color, int width,
                    const char *text);
// A text in lines that are broken at spaces.
typedef struct cli_paragraph {
  int y, indent, width;  // Further lines are indented by two more columns.
  int color;
  bool measure;  // Only counts the lines.
} cli_paragraph;
// Writes a text, and returns the number of its lines.
int cli_canvas_paragraph(cli_canvas *canvas, const cli_paragraph *paragraph,
                         const char *text);
// Prints all rows without the blanks at their ends. With `rewrites` each row
// clears the rest of its line.
void cli_canvas_print(const cli_canvas *canvas, bool rewrites, FILE *out);

// Returns the number of bytes of the UTF-8 character at `text`; 0 if it is no
// valid one, or a control character.
size_t cli_character_size(const char *text);

// A curve: its points in order of steps.
typedef struct cli_curve {
  const char *label;
  const cli_series *series;
  int color;
  char mark;    // Character of its points; 0: braille dots, or '*'.
  bool points;  // Not joined by lines, unless they are dots.
} cli_curve;

typedef struct cli_chart {
  const char *title;  // Before the curves in the title line. NULL: none.
  const cli_curve *curves;
  size_t num_curves;
  int x, y, width, height;  // With axes and a title line.
  cli_range steps;          // Range of all charts.
  bool log;                 // Logarithmic values, if all are above 0.
} cli_chart;
// Draws curves with axes. The title line has each curve's name and last value.
void cli_chart_draw(cli_canvas *canvas, const cli_chart *chart);

#endif  // LS_CLI_LOOK_CANVAS_H_
