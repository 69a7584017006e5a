// SPDX-License-Identifier: Apache-2.0
// Curves with axes on a canvas of cells.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/look/canvas.h"

// The area of the curves, without axes; a dot is a part of a cell.
typedef struct plot {
  cli_canvas *canvas;
  int x, y, width, height;  // Cells.
  int dots_x, dots_y;       // Dots in a cell.
  cli_scale steps, values;
} plot;

// ---- Dots ------------------------------------------------------------------
// Sets a dot. Marks of one cell, and of curves drawn later, replace others.
static void set_dot(const plot *p, const cli_curve *curve, int x, int y) {
  static const unsigned char bits[4][2] = {
      {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  const int column = x / p->dots_x, row = y / p->dots_y;
  if (x < 0 || y < 0 || column >= p->width || row >= p->height) return;
  cli_cell *cell =
      &p->canvas->cells[(p->y + row) * p->canvas->width + p->x + column];
  if (p->canvas->unicode && curve->mark == '\0') {
    if (cell->text[0] != '\0') return;
    cell->dots |= bits[y % p->dots_y][x % p->dots_x];
  } else {
    cell->text[0] = curve->mark != '\0' ? curve->mark : '*';
    cell->dots = 0;
  }
  cell->color = (unsigned char)curve->color;
}

// Draws a line between two dots (Bresenham's).
static void draw_segment(const plot *p, const cli_curve *curve, int x0, int y0,
                         int x1, int y1) {
  const int dx = abs(x1 - x0), dy = -abs(y1 - y0);
  const int step_x = x0 < x1 ? 1 : -1, step_y = y0 < y1 ? 1 : -1;
  int error = dx + dy;
  for (;;) {
    set_dot(p, curve, x0, y0);
    if (x0 == x1 && y0 == y1) return;
    const int twice = 2 * error;
    if (twice >= dy) {
      error += dy;
      x0 += step_x;
    }
    if (twice <= dx) {
      error += dx;
      y0 += step_y;
    }
  }
}

// Returns the dot of a part of an axis, of `dots` from its low end on.
static int find_dot(double part, int dots) {
  return (int)(part * (double)(dots - 1) + 0.5);
}

// Draws points and the lines between them; missing values are gaps.
static void draw_curve(const plot *p, const cli_curve *curve) {
  const cli_series *series = curve->series;
  const int width = p->width * p->dots_x, height = p->height * p->dots_y;
  bool joined = false;
  int before_x = 0, before_y = 0;
  for (size_t i = 0; i < series->count; ++i) {
    if (isnan(series->values[i])) {
      joined = false;
      continue;
    }
    const int x = find_dot(cli_scale_place(&p->steps, series->steps[i]), width);
    const int y =
        height - 1 -
        find_dot(cli_scale_place(&p->values, series->values[i]), height);
    if (joined && (curve->mark == '\0' || !curve->points))
      draw_segment(p, curve, before_x, before_y, x, y);
    else
      set_dot(p, curve, x, y);
    joined = true;
    before_x = x;
    before_y = y;
  }
}

// ---- Axes ------------------------------------------------------------------
static void draw_value_axis(const plot *p, int labels_x, int labels_width) {
  const bool unicode = p->canvas->unicode;
  for (int y = 0; y < p->height; ++y)
    cli_canvas_text(p->canvas, p->x - 1, p->y + y, CLI_FAINT, 1,
                    unicode ? "\u2502" : "|");
  for (int k = 0; k < cli_scale_count(&p->values); ++k) {
    char label[32];
    const int y =
        p->height - 1 - find_dot(cli_scale_mark(&p->values, k), p->height);
    cli_scale_label(&p->values, k, label, sizeof(label));
    const int size = (int)strlen(label);
    cli_canvas_text(p->canvas, labels_x + labels_width - size, p->y + y,
                    CLI_FAINT, labels_width, label);
    cli_canvas_text(p->canvas, p->x - 1, p->y + y, CLI_FAINT, 1,
                    unicode ? "\u2524" : "+");
  }
}

static void draw_step_axis(const plot *p) {
  const bool unicode = p->canvas->unicode;
  const int y = p->y + p->height, right = p->x + p->width;
  cli_canvas_text(p->canvas, p->x - 1, y, CLI_FAINT, 1,
                  unicode ? "\u2514" : "+");
  for (int x = p->x; x < right; ++x)
    cli_canvas_text(p->canvas, x, y, CLI_FAINT, 1, unicode ? "\u2500" : "-");
  int free_from = 0;
  for (int k = 0; k < cli_scale_count(&p->steps); ++k) {
    char label[32];
    const int x = p->x + find_dot(cli_scale_mark(&p->steps, k), p->width);
    cli_scale_label(&p->steps, k, label, sizeof(label));
    const int size = (int)strlen(label);
    int at = x - size / 2;
    if (at + size > right) at = right - size;
    cli_canvas_text(p->canvas, x, y, CLI_FAINT, 1, unicode ? "\u252c" : "+");
    if (at < free_from) continue;
    cli_canvas_text(p->canvas, at, y + 1, CLI_FAINT, size, label);
    free_from = at + size + 1;
  }
}

// ---- A chart ---------------------------------------------------------------
// Writes the curves' marks, names and last values.
static void draw_title(cli_canvas *canvas, const cli_chart *chart) {
  const int right = chart->x + chart->width;
  int x = chart->x;
  if (chart->title != NULL)
    x += cli_canvas_text(canvas, x, chart->y, 0, right - x, chart->title) + 2;
  for (size_t i = 0; i < chart->num_curves && x < right; ++i) {
    const cli_curve *curve = &chart->curves[i];
    char last[32], text[160];
    const char mark[] = {curve->mark, '\0'};
    const char *sign = mark[0] != '\0'   ? mark
                       : canvas->unicode ? "\u2812"
                                         : "*";
    cli_print_value(cli_series_last(curve->series), last, sizeof(last));
    // Runs are named above the charts.
    const bool signs = chart->num_curves > 1 || chart->title != NULL;
    snprintf(text, sizeof(text), "%s%s%s%s%s", signs ? sign : "",
             signs ? " " : "", chart->title == NULL ? curve->label : "",
             chart->title == NULL ? " " : "", last);
    x += cli_canvas_text(canvas, x, chart->y, curve->color, right - x, text);
    x += 2;
  }
}

// Returns the columns of the longest label of a scale.
static int measure_labels(const cli_scale *scale) {
  int widest = 1;
  for (int k = 0; k < cli_scale_count(scale); ++k) {
    char label[32];
    cli_scale_label(scale, k, label, sizeof(label));
    if ((int)strlen(label) > widest) widest = (int)strlen(label);
  }
  return widest;
}

void cli_chart_draw(cli_canvas *canvas, const cli_chart *chart) {
  enum { TITLE = 1, AXIS = 2 };
  cli_range values = {NAN, NAN};
  for (size_t i = 0; i < chart->num_curves; ++i)
    cli_range_add(&values, chart->curves[i].series->values,
                  chart->curves[i].series->count);
  const int height = chart->height - TITLE - AXIS;
  plot p = {.canvas = canvas,
            .y = chart->y + TITLE,
            .height = height,
            .dots_x = canvas->unicode ? 2 : 1,
            .dots_y = canvas->unicode ? 4 : 1};
  p.values =
      cli_scale_values(values.low, values.high, height > 6 ? 4 : 2, chart->log);
  const int labels = measure_labels(&p.values);
  p.x = chart->x + labels + 1;
  p.width = chart->width - labels - 1;
  if (p.width < 4 || p.height < 2) return;
  p.steps = cli_scale_exact(chart->steps.low, chart->steps.high,
                            p.width / 12 > 1 ? p.width / 12 : 1);
  draw_title(canvas, chart);
  draw_value_axis(&p, chart->x, labels);
  draw_step_axis(&p);
  for (size_t i = 0; i < chart->num_curves; ++i)
    draw_curve(&p, &chart->curves[i]);
  if (isnan(values.low))
    cli_canvas_text(canvas, p.x + 1, p.y + p.height / 2, CLI_FAINT, p.width - 1,
                    "no finite value");
}
