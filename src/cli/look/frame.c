// SPDX-License-Identifier: Apache-2.0
// A frame: what the terminal shows of some runs, a few lines about each and
// charts of their metrics.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/draw.h"
#include "cli/look/frame.h"

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
  line.y += cli_canvas_paragraph(canvas, &line, text);
  if (history->num_garbage == 0) return line.y - top;
  snprintf(text, sizeof(text), "%lld line%s of metrics.jsonl cannot be read",
           (long long)history->num_garbage,
           history->num_garbage == 1 ? "" : "s");
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
