// SPDX-License-Identifier: Apache-2.0
// Canvas of a terminal's cells: texts, and curves of braille dots, or of plain
// characters where the terminal has no others.
#ifndef LS_CLI_LOOK_CANVAS_H_
#define LS_CLI_LOOK_CANVAS_H_

#include "cli/cli.h"
#include "cli/look/history.h"
#include "cli/words.h"

// ---- Scales ----------------------------------------------------------------
// An axis from `low` to `high`, with marks at multiples of `step`. That of a
// logarithmic one are powers of ten.
typedef struct cli_scale {
  double low, high, step;
  bool log;  // The fields above are logarithms to base 10.
} cli_scale;

// Returns a scale that begins and ends at a mark, with about `marks` intervals
// at most, for values from `low` to `high`; both may be NaN (no values).
cli_scale cli_scale_round(double low, double high, int marks);
// The same, but from `low` to `high` exactly: marks lie inside.
cli_scale cli_scale_exact(double low, double high, int marks);
// The same as round, but logarithmic if `log` is set and all values are above
// 0.
cli_scale cli_scale_values(double low, double high, int marks, bool log);

// Returns the number of marks; the position of one, and of a value, as a part
// of the axis from 0 to 1; and writes the label of a mark.
int cli_scale_count(const cli_scale *scale);
double cli_scale_mark(const cli_scale *scale, int index);
double cli_scale_place(const cli_scale *scale, double value);
void cli_scale_label(const cli_scale *scale, int index, char *text,
                     size_t size);
int cli_scale_widest(const cli_scale *scale);  // Columns of the longest label.
// Writes a value for people, with about 4 digits; "nan" if it is none.
void cli_print_value(double value, char *text, size_t size);

// Range of values; both NaN for none.
typedef struct cli_range {
  double low, high;
} cli_range;
// Widens the range by the finite values of an array.
void cli_range_add(cli_range *range, const double *values, size_t count);

// ---- The canvas ------------------------------------------------------------
// Colors 1 to 6 are the terminal's own, which its theme defines; 0 is the
// default, CLI_FAINT a faint one.
enum { CLI_NUM_COLORS = 6, CLI_FAINT = 7 };
enum { CLI_TAKEN = 1 };

typedef struct cli_cell {
  // One character in UTF-8; "": blank; CLI_TAKEN: the one before is wide.
  char text[5];
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

// ---- Panels ----------------------------------------------------------------
// Panels: which curves stand in one chart. Those of a single run have training
// and test values together; those of several runs compare one metric.

typedef struct cli_panel {
  const char *name;  // Lent by the series.
  cli_curve *curves;
  size_t num_curves;
} cli_panel;

typedef struct cli_panels {
  cli_panel *items;
  size_t count;
  cli_range steps;  // Range of the steps of all curves.
  bool log;         // Logarithmic values, where all are above 0; by the caller.
  bool compares;    // There are several runs, whose names label curves.
} cli_panels;

// Checks that each pattern fits a metric of one of the runs.
//   LS_NOT_FOUND  one fits none: lists the metrics.
ls_status cli_panels_check(const cli_histories *histories,
                           const cli_words *only);
// Makes panels of the metrics that fit `only`. The series are lent, so the
// histories must outlive the panels.
ls_status cli_panels_make(const cli_histories *histories, const cli_words *only,
                          cli_panels *out);
void cli_panels_close(cli_panels *panels);  // Accepts zeroed panels.
CLI_OWNED_STRUCT(cli_panels, cli_panels_close)

// Returns the mark of a run's curves, or of the k-th curve of a panel, where
// colors do not tell them apart; 0 for the first: dots.
char cli_curve_mark(size_t index);

// ---- Whole pictures --------------------------------------------------------
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

// ---- Images -----------------------------------------------------------------
// Draws images on the terminal, side by side. A cell of the terminal is two
// pixels, one above the other.
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

#endif  // LS_CLI_LOOK_CANVAS_H_
