// SPDX-License-Identifier: Apache-2.0
// Curves with axes on a canvas of cells.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    char last[32], text[512];
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
  const int labels = cli_scale_widest(&p.values);
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

// ---- The screen ------------------------------------------------------------
cli_screen cli_screen_find(const ls_runtime *runtime, int width) {
  enum { LEAST = 24, USUAL = 80 };
  cli_screen out = {.terminal = isatty(STDOUT_FILENO) == 1, .width = USUAL};
  const char *term = ls_runtime_environment(runtime, "TERM");
  const char *plain = ls_runtime_environment(runtime, "NO_COLOR");
  const bool is_dumb = term == NULL || strcmp(term, "dumb") == 0;
  const cli_window window = cli_window_of(STDOUT_FILENO);
  out.unicode = out.terminal && cli_speaks_utf8(runtime);
  out.colors = out.terminal && !is_dumb && (plain == NULL || plain[0] == '\0');
  if (out.terminal && window.columns > 0) out.width = window.columns;
  if (out.terminal && !is_dumb) out.rows = window.rows;
  if (width > 0) out.width = width;
  if (out.width < LEAST) out.width = LEAST;
  return out;
}

// ---- A frame ---------------------------------------------------------------
// Returns the sign of a run before its name, as its curves have it.
static const char *find_sign(const cli_canvas *canvas, size_t run,
                             char mark[3]) {
  mark[0] = cli_curve_mark(run);
  mark[1] = ' ';
  mark[2] = '\0';
  if (canvas->unicode && (canvas->colors || mark[0] == '\0')) return "\u2812 ";
  return mark[0] != '\0' ? mark : "* ";
}

// Draws the lines about a run from row `y` on, or only counts them.
static int draw_head(cli_canvas *canvas, const cli_history *history,
                     const char *sign, cli_paragraph line) {
  char text[1024], part[768];
  const int top = line.y;
  cli_history_progress(history, part, sizeof(part));
  snprintf(text, sizeof(text), "%s%s: %s", sign, history->folder, part);
  line.y += cli_canvas_paragraph(canvas, &line, text);
  line.color = CLI_FAINT;
  line.indent = 2;
  cli_history_describe(history, text, sizeof(text));
  line.y += cli_canvas_paragraph(canvas, &line, text);
  cli_history_times(history, text, sizeof(text));
  return line.y + cli_canvas_paragraph(canvas, &line, text) - top;
}

// Draws the lines about each run, or only counts them.
static int draw_heads(cli_canvas *canvas, const cli_histories *histories,
                      bool measure, int width) {
  const bool several = histories->count > 1;
  int y = 0;
  for (size_t r = 0; r < histories->count; ++r) {
    char mark[3];
    const cli_paragraph line = {.y = y,
                                .width = width,
                                .measure = measure,
                                .color = several ? (int)(r % CLI_NUM_COLORS) + 1
                                                 : 0};
    y += draw_head(canvas, &histories->items[r],
                   several ? find_sign(canvas, r, mark) : "", line);
  }
  return y;
}

// Arrangement of charts in columns.
typedef struct chart_grid {
  size_t columns, count;
  int width, height;
} chart_grid;

static chart_grid arrange_charts(const cli_screen *screen, size_t count,
                                 int heads, bool fits) {
  enum { GAP = 3, TWO = 120, USUAL = 12, LEAST = 6, MOST = 24 };
  chart_grid out = {.columns = screen->width >= TWO && count > 1 ? 2 : 1,
                    .count = count,
                    .height = USUAL};
  out.width = (screen->width - GAP * (int)(out.columns - 1)) / (int)out.columns;
  if (!fits || count == 0) return out;
  // All of a live frame must be visible, since it is drawn over the last one.
  const int room = screen->rows - 1 - heads;
  size_t lines = (count + out.columns - 1) / out.columns;
  while (lines > 1 && room / (int)lines < LEAST + 1)
    --lines;
  out.height = room / (int)lines - 1;
  if (out.height > MOST) out.height = MOST;
  if (out.height < LEAST) lines = 0;
  if (out.count > lines * out.columns) out.count = lines * out.columns;
  return out;
}

static void draw_panel(cli_canvas *canvas, const cli_panels *panels, size_t i,
                       const chart_grid *grid, int top) {
  const cli_panel *panel = &panels->items[i];
  const int column = (int)(i % grid->columns);
  const int row = (int)(i / grid->columns);
  cli_chart_draw(canvas,
                 &(cli_chart){.title = panels->compares ? panel->name : NULL,
                              .curves = panel->curves,
                              .num_curves = panel->num_curves,
                              .x = column * (grid->width + 3),
                              .y = top + row * (grid->height + 1),
                              .width = grid->width,
                              .height = grid->height,
                              .steps = panels->steps,
                              .log = panels->log});
}

// Colors tell curves apart without other marks.
static void drop_marks(cli_panels *panels) {
  for (size_t i = 0; i < panels->count; ++i)
    for (size_t k = 0; k < panels->items[i].num_curves; ++k)
      panels->items[i].curves[k].mark = '\0';
}

ls_status cli_frame_draw(const cli_histories *histories, const cli_words *only,
                         const cli_screen *screen, bool log, bool rewrites,
                         int *out_rows) {
  CLI_OWN(cli_panels, panels) = {0};
  CLI_OWN(cli_canvas, canvas) = {.unicode = screen->unicode,
                                 .colors = screen->colors};
  LS_RETURN_IF_ERROR(cli_panels_make(histories, only, &panels));
  panels.log = log;
  if (screen->colors && screen->unicode) drop_marks(&panels);
  const int heads = draw_heads(&canvas, histories, true, screen->width);
  const chart_grid grid = arrange_charts(screen, panels.count, heads, rewrites);
  const size_t lines = (grid.count + grid.columns - 1) / grid.columns;
  int height = heads + (int)lines * (grid.height + 1);
  if (rewrites && height > screen->rows - 1) height = screen->rows - 1;
  LS_RETURN_IF_ERROR(cli_canvas_make(screen->width, height, &canvas));
  (void)draw_heads(&canvas, histories, false, screen->width);
  for (size_t i = 0; i < grid.count; ++i)
    draw_panel(&canvas, &panels, i, &grid, heads + 1);
  cli_canvas_print(&canvas, rewrites, stdout);
  *out_rows = height;
  return ls_ok();
}
