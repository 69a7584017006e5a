// SPDX-License-Identifier: Apache-2.0
// Charts of a page: curves with axes as SVG.
#include <math.h>
#include <stdio.h>

#include "cli/look/report.h"

// Coordinates of the drawing, which a browser scales to its figure's width.
enum { WIDTH = 400, HEIGHT = 230, TOP = 8, RIGHT = 12, BOTTOM = 22 };

typedef struct drawing {
  FILE *out;
  cli_scale steps, values;
  double left;  // Begin of the curves, after the labels.
} drawing;

static double find_x(const drawing *d, double part) {
  return d->left + part * (WIDTH - RIGHT - d->left);
}

static double find_y(double part) {
  return HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - TOP);
}

static double place_x(const drawing *d, double step) {
  return find_x(d, cli_scale_place(&d->steps, step));
}

static double place_y(const drawing *d, double value) {
  return find_y(cli_scale_place(&d->values, value));
}

// ---- Axes ------------------------------------------------------------------
static void draw_axes(const drawing *d) {
  char label[32];
  for (int k = 0; k < cli_scale_count(&d->values); ++k) {
    const double y = find_y(cli_scale_mark(&d->values, k));
    cli_scale_label(&d->values, k, label, sizeof(label));
    fprintf(d->out,
            "<line class=\"grid\" x1=\"%.1f\" x2=\"%d\" y1=\"%.1f\" "
            "y2=\"%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
            "text-anchor=\"end\">%s</text>\n",
            d->left, WIDTH - RIGHT, y, y, d->left - 6, y + 4, label);
  }
  for (int k = 0; k < cli_scale_count(&d->steps); ++k) {
    const double x = find_x(d, cli_scale_mark(&d->steps, k));
    cli_scale_label(&d->steps, k, label, sizeof(label));
    fprintf(d->out,
            "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" "
            "y2=\"%d\"/><text x=\"%.1f\" y=\"%d\" "
            "text-anchor=\"%s\">%s</text>\n",
            x, x, HEIGHT - BOTTOM, HEIGHT - BOTTOM + 4, x, HEIGHT - 5,
            x > WIDTH - 30 ? "end" : "middle", label);
  }
}

// ---- Curves ----------------------------------------------------------------
// A curve in columns of a pixel's width: of each the first, least, largest and
// last point are drawn, which looks the same as all of them.
typedef struct pen {
  bool down;
  int column;
  double first, low, high, last;  // Coordinates in the column.
} pen;

static void flush_column(const drawing *d, pen *p, bool *is_joined) {
  const double ys[] = {p->first, p->low, p->high, p->last};
  if (!p->down) return;
  for (int i = 0; i < 4; ++i) {
    if (i > 0 && ys[i] == ys[i - 1]) continue;
    // A line of no length shows a point that stands alone.
    fprintf(d->out, "%s%d %.1f%s", *is_joined ? "L" : "M", p->column, ys[i],
            *is_joined ? "" : "h0");
    *is_joined = true;
  }
  p->down = false;
}

static void draw_path(const drawing *d, const cli_curve *curve) {
  const cli_series *series = curve->series;
  pen p = {.down = false};
  bool is_joined = false;
  fprintf(d->out, "<path class=\"s%d\" d=\"", curve->color);
  for (size_t i = 0; i < series->count; ++i) {
    if (isnan(series->values[i])) {
      flush_column(d, &p, &is_joined);
      is_joined = false;
      continue;
    }
    const int column = (int)(place_x(d, series->steps[i]) + 0.5);
    const double y = place_y(d, series->values[i]);
    if (p.down && p.column != column) flush_column(d, &p, &is_joined);
    if (!p.down) p = (pen){true, column, y, y, y, y};
    p.low = fmin(p.low, y);
    p.high = fmax(p.high, y);
    p.last = y;
  }
  flush_column(d, &p, &is_joined);
  fputs("\"/>\n", d->out);
}

// Draws a circle for each point of a curve with few, with its value as a hint.
static void draw_points(const drawing *d, const cli_curve *curve) {
  enum { MOST = 60 };
  const cli_series *series = curve->series;
  for (size_t i = 0; i < series->count && series->count <= MOST; ++i) {
    char value[32];
    if (isnan(series->values[i])) continue;
    cli_print_value(series->values[i], value, sizeof(value));
    fprintf(d->out,
            "<circle class=\"f%d\" r=\"2.4\" cx=\"%.1f\" "
            "cy=\"%.1f\"><title>step %.0f: %s</title></circle>\n",
            curve->color, place_x(d, series->steps[i]),
            place_y(d, series->values[i]), series->steps[i], value);
  }
}

// ---- Figures ---------------------------------------------------------------
static void write_legend(FILE *out, const cli_panel *panel, bool compares) {
  size_t missing = 0;
  fputs("<figcaption><b>", out);
  cli_page_text(out, panel->name);
  fputs("</b>", out);
  for (size_t i = 0; i < panel->num_curves; ++i) {
    const cli_curve *curve = &panel->curves[i];
    char last[32];
    missing += curve->series->num_missing;
    cli_print_value(cli_series_last(curve->series), last, sizeof(last));
    fprintf(out, "<span><i class=\"key f%d\"></i>", curve->color);
    if (compares || panel->num_curves > 1) {
      cli_page_text(out, curve->label);
      fputc(' ', out);
    }
    fprintf(out, "%s</span>", last);
  }
  if (missing > 0)
    fprintf(out, "<span>%zu value%s not finite</span>", missing,
            missing == 1 ? " is" : "s are");
  fputs("</figcaption>\n", out);
}

void cli_page_chart(FILE *out, const cli_panels *panels,
                    const cli_panel *panel) {
  cli_range values = {NAN, NAN};
  for (size_t i = 0; i < panel->num_curves; ++i)
    cli_range_add(&values, panel->curves[i].series->values,
                  panel->curves[i].series->count);
  drawing d = {.out = out};
  d.values = cli_scale_values(values.low, values.high, 5, panels->log);
  d.steps = cli_scale_exact(panels->steps.low, panels->steps.high, 5);
  d.left = 10 + 6.3 * cli_scale_widest(&d.values);
  fputs("<figure class=\"chart\">\n", out);
  write_legend(out, panel, panels->compares);
  fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH,
          HEIGHT);
  cli_page_text(out, panel->name);
  fputs(" over steps\">\n", out);
  draw_axes(&d);
  for (size_t i = 0; i < panel->num_curves; ++i) {
    draw_path(&d, &panel->curves[i]);
    draw_points(&d, &panel->curves[i]);
  }
  fputs("</svg>\n</figure>\n", out);
}
