// SPDX-License-Identifier: Apache-2.0
// Sections of a report from the histories of runs.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/look/report.h"
#include "cli/look/table.h"

// Writes the cell with a run's name and color; nothing for a single run.
static void write_run_cell(FILE *out, const cli_report_data *data, size_t run) {
  if (data->runs.count < 2) return;
  fprintf(out, "<td class=\"long\"><i class=\"key f%d\"></i>",
          (int)(run % CLI_NUM_COLORS) + 1);
  cli_page_text(out, data->runs.items[run].folder);
  fputs("</td>", out);
}

static void write_run_head(FILE *out, const cli_report_data *data) {
  if (data->runs.count > 1) fputs("<th>run</th>", out);
}

// ---- Summary ---------------------------------------------------------------
static void write_card(FILE *out, const cli_report_data *data, size_t run) {
  const cli_history *history = &data->runs.items[run];
  char text[1024];
  fputs("<div class=\"card\">\n<h3>", out);
  if (data->runs.count > 1)
    fprintf(out, "<i class=\"key f%d\"></i>", (int)(run % CLI_NUM_COLORS) + 1);
  cli_page_text(out, history->folder);
  fputs("</h3>\n<p>", out);
  cli_history_progress(history, text, sizeof(text));
  cli_page_text(out, text);
  fputs("</p>\n", out);
  if (history->total_steps > 0)
    fprintf(
        out,
        "<div class=\"bar\"><span class=\"f%d\" "
        "style=\"width:%.1f%%\"></span></div>\n",
        (int)(run % CLI_NUM_COLORS) + 1,
        fmin(
            fmax(100 * (double)history->step / (double)history->total_steps, 0),
            100));
  fputs("<p class=\"faint\">", out);
  cli_history_describe(history, text, sizeof(text));
  cli_page_text(out, text);
  fputs("</p>\n</div>\n", out);
}

void cli_report_summary(FILE *out, const cli_report_data *data) {
  fputs("<div class=\"cards\">\n", out);
  for (size_t i = 0; i < data->runs.count; ++i)
    write_card(out, data, i);
  fputs("</div>\n", out);
}

// ---- Curves ----------------------------------------------------------------
ls_status cli_report_curves(FILE *out, const cli_report_data *data) {
  static const cli_words all;
  CLI_OWN(cli_panels, panels) = {0};
  LS_RETURN_IF_ERROR(cli_panels_make(&data->runs, &all, &panels));
  panels.log = data->log;
  fputs("<h2>Curves</h2>\n", out);
  if (panels.count == 0) {
    fputs("<p class=\"faint\">There is no line of metrics yet.</p>\n", out);
    return ls_ok();
  }
  fputs("<div class=\"charts\">\n", out);
  for (size_t i = 0; i < panels.count; ++i)
    cli_page_chart(out, &panels, &panels.items[i]);
  fputs("</div>\n", out);
  return ls_ok();
}

// ---- Metrics ---------------------------------------------------------------
static void write_metric(FILE *out, const cli_report_data *data, size_t run,
                         const cli_series *series) {
  double step = NAN, best = NAN;
  (void)cli_series_best(series, &step, &best);
  fputs("<tr>", out);
  cli_page_cell(out, series->name);
  write_run_cell(out, data, run);
  cli_page_number(out, cli_series_last(series));
  cli_page_number(out, best);
  if (isnan(best))
    cli_page_number(out, best);
  else
    fprintf(out, "<td class=\"n\">%.0f</td>", step);
  fputs("</tr>\n", out);
}

// Returns true if an earlier run has a metric of this name.
static bool is_listed(const cli_histories *runs, size_t run, const char *name) {
  for (size_t r = 0; r < run; ++r)
    if (cli_history_series(&runs->items[r], name) != NULL) return true;
  return false;
}

void cli_report_metrics(FILE *out, const cli_report_data *data) {
  const cli_histories *runs = &data->runs;
  fputs("<h2>Final metrics</h2>\n<div class=\"wide\"><table>\n<tr>"
        "<th>metric</th>",
        out);
  write_run_head(out, data);
  fputs("<th class=\"n\">last</th><th class=\"n\">best</th>"
        "<th class=\"n\">at step</th></tr>\n",
        out);
  for (size_t r = 0; r < runs->count; ++r) {
    for (size_t i = 0; i < runs->items[r].num_series; ++i) {
      const char *name = runs->items[r].series[i].name;
      if (is_listed(runs, r, name)) continue;
      for (size_t k = r; k < runs->count; ++k) {
        const cli_series *series = cli_history_series(&runs->items[k], name);
        if (series != NULL) write_metric(out, data, k, series);
      }
    }
  }
  fputs("</table></div>\n", out);
}

// ---- Times -----------------------------------------------------------------
static void write_budget(FILE *out, const cli_report_data *data, size_t run) {
  const cli_run_budget *budget = &data->runs.items[run].budget;
  cli_time_part parts[CLI_TIME_PARTS];
  cli_list_times(budget, parts);
  if (budget->whole <= 0) return;
  if (data->runs.count > 1) {
    fputs("<h3>", out);
    cli_page_text(out, data->runs.items[run].folder);
    fputs("</h3>\n", out);
  }
  fputs("<div class=\"bar\">", out);
  for (int i = 0; i < CLI_TIME_PARTS; ++i)
    fprintf(out, "<span class=\"f%d\" style=\"width:%.2f%%\"></span>", i + 1,
            fmin(fmax(100 * parts[i].seconds / budget->whole, 0), 100));
  fputs("</div>\n<p class=\"parts\">", out);
  for (int i = 0; i < CLI_TIME_PARTS; ++i)
    fprintf(out, "<span><i class=\"key f%d\"></i>%s %.1f%%</span> ", i + 1,
            parts[i].name, 100 * parts[i].seconds / budget->whole);
  fputs("</p>\n", out);
}

static void write_time_row(FILE *out, const cli_report_data *data, size_t run) {
  const cli_history *history = &data->runs.items[run];
  const cli_run_budget *budget = &history->budget;
  char time[24] = "\u2013";
  const double steps = budget->steps > 0 ? (double)budget->steps : NAN;
  if (history->seconds > 0)
    cli_print_duration(history->seconds, time, sizeof(time));
  fputs("<tr>", out);
  write_run_cell(out, data, run);
  fprintf(out, "<td class=\"n\">%s</td>", time);
  cli_page_number(out, 1e3 * budget->whole / steps);
  cli_page_number(out, 1e3 * budget->input / steps);
  cli_page_number(
      out, cli_series_last(cli_history_series(history, "examples_per_second")));
  fputs("</tr>\n", out);
}

static void write_saves(FILE *out, const cli_report_data *data, size_t run) {
  const cli_saves *saves = &data->saves[run];
  char size[CLI_CELL];
  double bytes = 0;
  for (size_t i = 0; i < saves->count; ++i)
    bytes += saves->bytes[i];
  fputs("<tr>", out);
  write_run_cell(out, data, run);
  fputs("<td class=\"long\">", out);
  if (saves->count == 0) fputs("none", out);
  for (size_t i = 0; i < saves->count; ++i)
    fprintf(out, "%s%lld", i > 0 ? ", " : "", (long long)saves->steps[i]);
  cli_format_bytes(bytes, size);
  fprintf(out, "</td><td class=\"n\">%s</td>",
          saves->count > 0 ? size : "\u2013");
  cli_format_bytes(saves->model_bytes, size);
  fprintf(out, "<td class=\"n\">%s</td></tr>\n",
          saves->model_bytes > 0 ? size : "\u2013");
}

void cli_report_times(FILE *out, const cli_report_data *data) {
  fputs("<h2>Time and checkpoints</h2>\n", out);
  for (size_t i = 0; i < data->runs.count; ++i)
    write_budget(out, data, i);
  fputs("<div class=\"wide\"><table>\n<tr>", out);
  write_run_head(out, data);
  fputs("<th class=\"n\">time</th><th class=\"n\">step, ms</th>"
        "<th class=\"n\">input, ms</th><th class=\"n\">examples/s</th></tr>\n",
        out);
  for (size_t i = 0; i < data->runs.count; ++i)
    write_time_row(out, data, i);
  fputs("</table></div>\n<div class=\"wide\"><table>\n<tr>", out);
  write_run_head(out, data);
  fputs("<th>checkpoints</th><th class=\"n\">their size</th>"
        "<th class=\"n\">model</th></tr>\n",
        out);
  for (size_t i = 0; i < data->runs.count; ++i)
    write_saves(out, data, i);
  fputs("</table></div>\n", out);
}

// ---- Configuration ---------------------------------------------------------
static bool is_in(const char *config, const char *key) {
  cli_member member;
  return config != NULL && cli_json_find(config, key, &member);
}

// Returns an entry, "" if a run lacks it; NULL without memory.
static char *copy_entry(const cli_history *history, const char *key) {
  const char *config = history->config;
  const size_t size = config != NULL ? strlen(config) + 1 : 1;
  char *text = cli_allocate(size);
  if (text != NULL) cli_history_entry(history, key, text, size);
  return text;
}

// Writes the row of an entry that is set in one of the runs.
static void write_entry(FILE *out, const cli_report_data *data,
                        const char *key) {
  const cli_histories *runs = &data->runs;
  CLI_OWN_MEMORY(char, first) = copy_entry(&runs->items[0], key);
  bool differs = false, is_set = first != NULL && first[0] != '\0';
  for (size_t r = 1; r < runs->count; ++r) {
    CLI_OWN_MEMORY(char, text) = copy_entry(&runs->items[r], key);
    if (first == NULL || text == NULL) continue;
    differs |= strcmp(first, text) != 0;
    is_set |= text[0] != '\0';
  }
  if (!is_set) return;
  fprintf(out, "<tr%s><th>", differs ? " class=\"differs\"" : "");
  cli_page_text(out, key);
  fputs("</th>", out);
  for (size_t r = 0; r < runs->count; ++r) {
    CLI_OWN_MEMORY(char, text) = copy_entry(&runs->items[r], key);
    cli_page_cell(out, text != NULL ? text : "");
  }
  fputs("</tr>\n", out);
}

void cli_report_config(FILE *out, const cli_report_data *data) {
  const cli_histories *runs = &data->runs;
  fputs("<h2>Configuration</h2>\n<div class=\"wide\"><table>\n", out);
  if (runs->count > 1) {
    fputs("<tr><th></th>", out);
    for (size_t r = 0; r < runs->count; ++r)
      write_run_cell(out, data, r);
    fputs("</tr>\n", out);
  }
  for (size_t r = 0; r < runs->count; ++r) {
    cli_member member;
    for (const char *at = runs->items[r].config;
         at != NULL && cli_json_next(&at, &member);) {
      CLI_OWN_MEMORY(char, key) = cli_copy_text(member.key, member.key_size);
      bool is_new = key != NULL;
      for (size_t k = 0; k < r; ++k)
        is_new = is_new && !is_in(runs->items[k].config, key);
      if (is_new && strcmp(key, "crc32c") != 0) write_entry(out, data, key);
    }
  }
  fputs("</table></div>\n", out);
}
