// SPDX-License-Identifier: Apache-2.0
// lockstep show: curves and state of runs on the terminal.
#define _GNU_SOURCE
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "cli/look/canvas.h"

static const char command[] = "show";

typedef struct show_flags {
  const char **folders;
  size_t num_folders;
  const char *metric;
  int64_t width;
  bool live, log, json, table;
} show_flags;

typedef struct shower {
  const show_flags *flags;
  const ls_runtime *runtime;
  cli_words only;
  cli_screen screen;
  int rows;        // Rows of the last frame, which the next one replaces.
  int64_t *marks;  // For each run, what was last printed of it.
} shower;

// ---- Other forms -----------------------------------------------------------
static void print_metrics_json(const cli_history *history,
                               const cli_words *only) {
  bool first = true;
  printf(",\"metrics\":{");
  for (size_t i = 0; i < history->num_series; ++i) {
    const cli_series *series = &history->series[i];
    double step = 0, best = NAN;
    if (!cli_words_fit(only, series->name)) continue;
    const bool found = cli_series_best(series, &step, &best);
    if (!first) putchar(',');
    first = false;
    cli_print_json(series->name);
    printf(":{\"last\":");
    cli_print_real(cli_series_last(series), 9);
    cli_print_member(',', "best", best, 9);
    cli_print_member(',', "best_step", found ? step : NAN, 15);
    printf(",\"values\":%zu,\"missing\":%zu}", series->count,
           series->num_missing);
  }
  putchar('}');
}

static void print_json(const cli_history *history, const cli_words *only) {
  const cli_run_budget *budget = &history->budget;
  cli_print_text('{', "run", history->folder);
  printf(",\"state\":\"%s\",\"step\":%lld,\"epoch\":%lld,\"total_steps\":",
         cli_run_state_name(history->state), (long long)history->step,
         (long long)history->epoch);
  cli_print_real(history->total_steps > 0 ? (double)history->total_steps : NAN,
                 15);
  cli_print_member(',', "seconds", history->seconds, 9);
  cli_print_member(',', "seconds_left", history->seconds_left, 9);
  cli_print_member(
      ',', "step_seconds",
      budget->steps > 0 ? budget->whole / (double)budget->steps : NAN, 9);
  printf(",\"garbage_lines\":%lld", (long long)history->num_garbage);
  print_metrics_json(history, only);
  printf("}\n");
}

// Prints a line per value: run, step, metric, value, separated by tabs.
static void print_table(const cli_history *history, const cli_words *only) {
  for (size_t i = 0; i < history->num_series; ++i) {
    const cli_series *series = &history->series[i];
    if (!cli_words_fit(only, series->name)) continue;
    for (size_t k = 0; k < series->count; ++k) {
      cli_print_clean(history->folder);
      printf("\t%.0f\t", series->steps[k]);
      cli_print_clean(series->name);
      printf("\t%.9g\n", series->values[k]);
    }
  }
}

// ---- Frames ----------------------------------------------------------------
static bool is_any_running(const cli_histories *histories) {
  for (size_t i = 0; i < histories->count; ++i)
    if (histories->items[i].state == CLI_RUN_RUNNING) return true;
  return false;
}

static ls_status draw_runs(shower *self, const cli_histories *histories) {
  const bool rewrites = self->flags->live && self->screen.rows > 0;
  const cli_screen screen =
      cli_screen_find(self->runtime, (int)self->flags->width);
  const bool resized =
      screen.width != self->screen.width || screen.rows != self->screen.rows;
  if (rewrites && resized)
    fputs("\x1b[2J\x1b[H", stdout);
  else if (rewrites && self->rows > 0)
    printf("\x1b[%dA\r", self->rows);
  self->screen = screen;
  LS_RETURN_IF_ERROR(cli_frame_draw(histories, &self->only, &screen,
                                    self->flags->log, rewrites, &self->rows));
  if (rewrites) fputs("\x1b[J", stdout);
  return ls_ok();
}

// Prints a line for each run that has changed since its last line.
static void print_changes(const shower *self, const cli_histories *histories) {
  enum { STATES = 4 };
  for (size_t r = 0; r < histories->count; ++r) {
    const cli_history *history = &histories->items[r];
    char text[256];
    const int64_t mark = history->num_lines * STATES + (int)history->state + 1;
    if (self->marks[r] == mark) continue;
    self->marks[r] = mark;
    cli_history_progress(history, text, sizeof(text));
    cli_print_clean(history->folder);
    printf(": %s", text);
    for (size_t i = 0; i < history->num_series; ++i) {
      const char *name = history->series[i].name;
      cli_print_value(cli_series_last(&history->series[i]), text, sizeof(text));
      if (!cli_words_fit(&self->only, name)) continue;
      printf(", ");
      cli_print_clean(name);
      printf(" %s", text);
    }
    putchar('\n');
  }
}

// Shows the runs once.
static ls_status show_runs(shower *self, bool *out_running) {
  const show_flags *flags = self->flags;
  CLI_OWN(cli_histories, histories) = {0};
  LS_RETURN_IF_ERROR(
      cli_histories_read(flags->folders, flags->num_folders, &histories));
  *out_running = is_any_running(&histories);
  // A run that goes on may get a metric later.
  if (!flags->live || !*out_running)
    LS_RETURN_IF_ERROR(cli_panels_check(&histories, &self->only));
  if (flags->table) printf("run\tstep\tmetric\tvalue\n");
  for (size_t i = 0; i < histories.count && flags->json; ++i)
    print_json(&histories.items[i], &self->only);
  for (size_t i = 0; i < histories.count && flags->table; ++i)
    print_table(&histories.items[i], &self->only);
  if (flags->json || flags->table) return ls_ok();
  if (!flags->live || self->screen.rows > 0) return draw_runs(self, &histories);
  print_changes(self, &histories);
  return ls_ok();
}

// Shows the runs until none is running, or a signal requests a stop.
static ls_status show_live(shower *self) {
  enum { PAUSE_MS = 400, MOST_MS = 10000, SHARE = 10 };
  const ls_train_stop *stop = cli_signals_defer(0);
  bool running = true;
  cli_signals_saved();  // There is nothing to save.
  while (!ls_train_stop_requested(stop)) {
    const double began = cli_now();
    LS_RETURN_IF_ERROR(show_runs(self, &running));
    if (fflush(stdout) != 0 || !running) break;
    // Long files take a tenth of a processor at most.
    const double pause = fmin(1e3 * SHARE * (cli_now() - began), MOST_MS);
    (void)poll(NULL, 0, (int)fmax(pause, PAUSE_MS));
  }
  return ls_ok();
}

// ---- The command -----------------------------------------------------------
static ls_status show_all(void *user) {
  shower *self = user;
  bool running = false;
  CLI_OWN_ARRAY_OR_RETURN(int64_t, marks, self->flags->num_folders);
  self->marks = marks;
  self->runtime = ls_runtime_current();
  self->screen = cli_screen_find(self->runtime, (int)self->flags->width);
  if (!self->flags->live) return show_runs(self, &running);
  const bool rewrites = self->screen.rows > 0;
  if (rewrites) fputs("\x1b[?25l", stdout);  // Hides the cursor.
  const ls_status status = show_live(self);
  if (rewrites) fputs("\x1b[?25h", stdout);
  return status;
}

static int run_shower(shower *self) {
  ls_runtime *runtime = NULL;
  ls_status status = cli_runtime_open_input(0, &runtime);
  if (ls_status_is_ok(status)) status = show_all(self);
  const int code = cli_report(command, status);
  const int signal = cli_signals_first();
  return cli_runtime_close(command, runtime,
                           code == CLI_OK && signal != 0 ? CLI_SIGNAL + signal
                                                         : code);
}

enum { LEAST_WIDTH = 24 };

static bool check_flags(const show_flags *flags) {
  if (flags->width > 0 && flags->width < LEAST_WIDTH)
    return cli_refuse(command,
                      "--width is '%lld', expected a whole number from %d on",
                      (long long)flags->width, LEAST_WIDTH);
  if (flags->json + flags->table + flags->live > 1)
    return cli_refuse(command,
                      "--live, --json and --table exclude one another");
  if ((!flags->json && !flags->table) || (!flags->log && flags->width == 0))
    return true;
  return cli_refuse(command, "--%s is for charts, not for --%s",
                    flags->log ? "log" : "width",
                    flags->json ? "json" : "table");
}

int cli_show(int argc, char **argv) {
  show_flags flags = {.folders = (const char **)argv};
  const cli_option options[] = {
      {"metric", CLI_TEXT, &flags.metric, "A,B",
       "only these metrics, by name or pattern: loss,'*accuracy'"},
      {"live", CLI_FLAG, &flags.live, NULL,
       "draw again as the runs go on, until they end or Ctrl-C; into a pipe: a "
       "line for each change"},
      {"log", CLI_FLAG, &flags.log, NULL,
       "logarithmic charts of metrics whose values are above 0"},
      {"width", CLI_COUNT, &flags.width, "N",
       "columns (default: the terminal's; 80 into a pipe)"},
      {"table", CLI_FLAG, &flags.table, NULL,
       "print all values instead, one per line: run, step, metric and value, "
       "separated by tabs"},
      {"json", CLI_FLAG, &flags.json, NULL,
       "print one line of JSON per run: run, state, step, epoch, total_steps, "
       "seconds, seconds_left, step_seconds, garbage_lines, metrics (of each: "
       "last, best, best_step, values, missing)"},
  };
  const cli_syntax syntax = {
      .command = command,
      .about = "Draws the metrics of a run over its steps, with its progress "
               "and configuration, or compares several runs: with braille dots "
               "and colors where the terminal has them (a UTF-8 locale, no "
               "NO_COLOR), else with plain characters.",
      CLI_OPTIONS(options),
      .operand_form = "RUN...",
      .num_operands = &flags.num_folders};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  if (!check_flags(&flags)) return CLI_USAGE;
  shower self = {.flags = &flags};
  if (!cli_words_open(command, "metric", flags.metric, NULL, &self.only))
    return CLI_USAGE;
  int code = run_shower(&self);
  cli_words_close(&self.only);
  return code;
}
